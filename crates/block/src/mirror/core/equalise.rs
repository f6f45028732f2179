//! Makes blocks of a leg equal to a copy: they are read and compared first, and only what differs is
//! written. So a crash costs reads, and legs that are sparse stay so.

use super::port::{ActionPurpose, memory};
use super::{Core, Equalising};
use crate::op::{Completion, OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};
use std::collections::VecDeque;
use weft_io::{Segment, Segments};

/// Bytes that are equal between two that differ, up to which they are written in one piece.
const GAP_BYTES: usize = 16 << 10;

/// The parts of `ours` that differ from `theirs`, in blocks: the first one of each, and how many.
fn differences(ours: &[Segment], theirs: &[Segment], block: usize) -> VecDeque<(u32, u32)> {
    let bytes = |data: &[Segment]| data.iter().flat_map(|it| it.iter().copied()).collect();
    let (ours, theirs): (Vec<u8>, Vec<u8>) = (bytes(ours), bytes(theirs));
    let mut parts = VecDeque::<(u32, u32)>::new();
    let blocks = ours.chunks(block).zip(theirs.chunks(block));
    for (at, _) in (0..).zip(blocks).filter(|(_, (ours, theirs))| ours != theirs) {
        let near = |(first, count): &&mut (u32, u32)| {
            ((at - *first - *count) as usize) * block <= GAP_BYTES
        };
        match parts.back_mut().filter(near) {
            Some((first, count)) => *count = at - *first + 1,
            None => parts.push_back((at, 1)),
        }
    }
    parts
}

impl Core {
    /// Begins to make blocks of the leg at this place equal to a copy.
    pub(super) fn equalise(
        &mut self,
        place: usize,
        name: u64,
        (copy, lba, blocks): (u64, u64, u32),
    ) {
        let (run, pool) = (self.run, self.pool.clone());
        let Some(port) = self.port_at(place, 0) else { return };
        let data = memory(&pool, blocks as usize * port.block_bytes as usize);
        let it = Equalising { run, name, copy, lba, blocks, parts: VecDeque::new() };
        port.send(OpKind::Read, lba, blocks, data, ActionPurpose::Compared(Box::new(it)));
    }

    /// The blocks of a leg were read.
    pub(super) fn compared(
        &mut self,
        (place, index): (usize, usize),
        mut it: Box<Equalising>,
        completion: &Completion,
    ) {
        let outcome = completion.outcome;
        let is_unreadable =
            matches!(outcome, Outcome::Done(Status { kind: StatusKind::Media, .. }));
        if !outcome.is_success() && !is_unreadable {
            return self.engine_done(it.run, it.name, outcome);
        }
        let Some(copy) = self.copies.get_mut(&it.copy).filter(|_| it.run == self.run) else {
            return self.engine_done(it.run, it.name, outcome);
        };
        let Some(block) = self.geometry.map(|(geometry, _)| geometry.block_bytes as usize) else {
            return;
        };
        it.parts = if is_unreadable {
            // Writing mends them, or shows that they cannot be mended.
            VecDeque::from([(0, it.blocks)])
        } else {
            let mut ours = Segments::new();
            copy.share(0, it.blocks as usize * block, &mut ours);
            differences(&ours, &completion.op.data, block)
        };
        self.mend_on((place, index), it, Outcome::SUCCESS);
    }

    /// Writes the next part that differs, after one that ended so.
    pub(super) fn mend_on(
        &mut self,
        (place, index): (usize, usize),
        mut it: Box<Equalising>,
        outcome: Outcome,
    ) {
        let next = it.parts.pop_front().filter(|_| outcome.is_success() && it.run == self.run);
        let Some((first, blocks)) = next else {
            return self.engine_done(it.run, it.name, outcome);
        };
        let gone = Outcome::NotSent(Status::new(StatusKind::Gone));
        let (mut data, lba) = (Segments::new(), it.lba + u64::from(first));
        let copy = it.copy;
        let block = self.port_at(place, index).map(|port| port.block_bytes as usize);
        let (Some(block), Some(copy)) = (block, self.copies.get_mut(&copy)) else {
            return self.engine_done(it.run, it.name, gone);
        };
        copy.share(first as usize * block, blocks as usize * block, &mut data);
        match self.port_at(place, index).filter(|_| index == 0) {
            Some(port) => {
                let kind = OpKind::Write { fua: false };
                port.send(kind, lba, blocks, data, ActionPurpose::Mended(it));
            }
            None => self.engine_done(it.run, it.name, gone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_io::Pool;

    #[test]
    fn what_differs_is_written_and_short_gaps_with_it() {
        let data = |changed: &[usize]| {
            let mut data = memory(&Pool::new(1 << 20), 128 * 512);
            data[0].fill(0);
            changed.iter().for_each(|block| data[0][block * 512 + 7] = 1);
            data
        };
        let parts = |changed: &[usize]| Vec::from(differences(&data(changed), &data(&[]), 512));
        assert_eq!(parts(&[]), []);
        assert_eq!(parts(&[0, 1, 127]), [(0, 2), (127, 1)]);
        assert_eq!(parts(&[5, 5 + 33]), [(5, 34)], "16 KiB between them");
        assert_eq!(parts(&[5, 5 + 34]), [(5, 1), (39, 1)]);
    }
}
