//! Permitted contents of each block that several hosts write, or one host with several writes of it
//! in flight.
//!
//! A write is executed between its beginning and its end, perhaps more than once; an acknowledged
//! one at least once, and none after its end. So
//!
//! * an acknowledged write takes the place of all that had ended when it began;
//! * a read shows what was there at some time between its beginning and its end: what had ended
//!   when it began, and is something else, does not come back, for whichever reader;
//! * a power failure may bring back what no flush has covered since: a flush covers all that was
//!   executed before it, whoever has sent it. A host whose flush succeeds has got no report of a
//!   loss: all that it was acknowledged before is there, or something newer;
//! * nobody else's compare-and-write has found what a compare-and-write has replaced.

use super::{Ticket, ZEROES, is, names, show};
use crate::stamp::{self, Seen, UNIT_BYTES, Version};
use core::ops::Range;
use weft_block::{Outcome, StatusKind};

/// A write, as one block knows it.
#[derive(Clone, Debug)]
struct Write {
    version: Version,
    begun: u64,
    ended: Option<u64>,
    /// Who was acknowledged it, and has not been told since whether it lasts.
    owed: Option<usize>,
    /// A compare-and-write has replaced it.
    replaced: bool,
}

#[derive(Clone, Debug)]
struct Block {
    /// In the order in which they began.
    writes: Vec<Write>,
    /// What it may hold now.
    current: Vec<Version>,
    /// What it may hold after a power failure.
    lasting: Vec<Version>,
}

/// What is known of the blocks.
#[derive(Debug)]
pub(super) struct Several {
    blocks: Vec<Block>,
    version: Version,
    now: u64,
    /// Power failures so far.
    epoch: u64,
    volatile: bool,
    /// There is one writer, which writes again what a power failure takes.
    is_replayed: bool,
}

impl Several {
    pub(super) fn new(blocks: usize, volatile: bool, is_replayed: bool) -> Self {
        let never = Write { version: 0, begun: 0, ended: Some(0), owed: None, replaced: false };
        let fresh = Block { writes: vec![never], current: vec![0], lasting: vec![0] };
        Self { blocks: vec![fresh; blocks], version: 0, now: 0, epoch: 0, volatile, is_replayed }
    }

    fn range(lba: u64, blocks: u32) -> Range<usize> {
        lba as usize..lba as usize + blocks as usize
    }

    fn ticket(&mut self, known: Vec<Vec<Version>>, version: Version) -> Ticket {
        self.now += 1;
        let blocks = known.into_iter().map(|current| (current, 0)).collect();
        Ticket { epoch: self.epoch, blocks, version, at: self.now, host: 0 }
    }

    pub(super) fn begin_write(&mut self, lba: u64, blocks: u32, zeroes: bool) -> Ticket {
        self.version += 1;
        let version = if zeroes { self.version | ZEROES } else { self.version };
        let known = self.blocks[Self::range(lba, blocks)]
            .iter()
            .map(|block| block.current.clone())
            .collect();
        let ticket = self.ticket(known, version);
        for block in &mut self.blocks[Self::range(lba, blocks)] {
            block.writes.push(Write {
                version,
                begun: ticket.at,
                ended: None,
                owed: None,
                replaced: false,
            });
            block.current.push(version);
            block.lasting.push(version);
        }
        ticket
    }

    /// A read or a flush.
    pub(super) fn begin_look(&mut self, lba: u64, blocks: u32) -> Ticket {
        let known = self.blocks[Self::range(lba, blocks)]
            .iter()
            .map(|block| block.current.clone())
            .collect();
        self.ticket(known, 0)
    }

    pub(super) fn end_write(
        &mut self,
        lba: u64,
        blocks: u32,
        ticket: &Ticket,
        fua: bool,
        outcome: &Outcome,
    ) {
        self.now += 1;
        let now = self.now;
        let cached = self.volatile && !fua;
        let in_doubt = cached && !self.is_replayed && ticket.epoch != self.epoch;
        let was_refused = matches!(outcome, Outcome::NotSent(_))
            || outcome.status().kind == StatusKind::CompareFailed;
        for block in &mut self.blocks[Self::range(lba, blocks)] {
            let Some(write) = block.find_mut(ticket.version) else { continue };
            write.ended = Some(now);
            if was_refused {
                block.forget(ticket.version);
            } else if outcome.is_success() {
                write.owed = cached.then_some(ticket.host);
                if !in_doubt {
                    block.supersede(ticket.version, true, !cached);
                }
            }
        }
    }

    pub(super) fn end_flush(&mut self, lba: u64, blocks: u32, ticket: &Ticket) {
        let is_undisturbed = ticket.epoch == self.epoch;
        for (block, (known, _)) in
            self.blocks[Self::range(lba, blocks)].iter_mut().zip(&ticket.blocks)
        {
            if is_undisturbed {
                let writes = &block.writes;
                let later = |version: Version| {
                    writes.iter().any(|write| write.version == version && write.begun > ticket.at)
                };
                block.lasting.retain(|version| known.contains(version) || later(*version));
            }
            let covered = |write: &&mut Write| {
                write.owed == Some(ticket.host) && write.ended.is_some_and(|at| at < ticket.at)
            };
            let owed = block.writes.iter_mut().filter(covered).map(|write| {
                write.owed = None;
                write.version
            });
            for version in owed.collect::<Vec<_>>() {
                block.supersede(version, true, true);
            }
        }
    }

    /// What this host was acknowledged may be lost, and it knows that.
    pub(super) fn fail_flush(&mut self, lba: u64, blocks: u32, host: usize) {
        let writes =
            self.blocks[Self::range(lba, blocks)].iter_mut().flat_map(|block| &mut block.writes);
        writes.filter(|write| write.owed == Some(host)).for_each(|write| write.owed = None);
    }

    pub(super) fn end_read(
        &mut self,
        lba: u64,
        bytes: &[u8],
        ticket: &Ticket,
    ) -> Result<(), String> {
        self.now += 1;
        for (n, content) in bytes.chunks(UNIT_BYTES).enumerate() {
            let at = lba + n as u64;
            let seen = stamp::read(content, at);
            let block = &mut self.blocks[at as usize];
            block
                .check(seen, &ticket.blocks[n].0, ticket.at)
                .map_err(|text| format!("block {at} {text}"))?;
            if ticket.epoch == self.epoch || !self.volatile || self.is_replayed {
                let writes = &block.writes;
                let stays =
                    |version: Version| is(seen, version) || may_follow(writes, version, ticket.at);
                block.current.retain(|version| stays(*version));
            }
        }
        Ok(())
    }

    /// A compare-and-write has found this, and written.
    pub(super) fn swapped(
        &mut self,
        lba: u64,
        found: &[u8],
        ticket: &Ticket,
    ) -> Result<(), String> {
        for (n, content) in found.chunks(UNIT_BYTES).enumerate() {
            let at = lba + n as u64;
            let seen = stamp::read(content, at);
            let block = &mut self.blocks[at as usize];
            block
                .check(seen, &ticket.blocks[n].0, ticket.at)
                .map_err(|text| format!("block {at} {text}"))?;
            let Seen::Written(version) = seen else { continue };
            let Some(write) = block
                .find_mut(version)
                .filter(|write| write.ended.is_some_and(|end| end < ticket.at))
            else {
                continue;
            };
            if core::mem::replace(&mut write.replaced, true) {
                return Err(format!("block {at} held write {version} for two compare-and-writes"));
            }
        }
        Ok(())
    }

    pub(super) fn check_stored(&self, lba: u64, content: &[u8]) -> Result<(), String> {
        let (seen, block) = (stamp::read(content, lba), &self.blocks[lba as usize]);
        match block.current.iter().any(|version| is(seen, *version)) {
            true => Ok(()),
            false => Err(format!(
                "block {lba} is stored as {}; it may be {}",
                show(seen),
                names(&block.current)
            )),
        }
    }

    pub(super) fn power_failed(&mut self) {
        self.epoch += 1;
        if !self.volatile || self.is_replayed {
            return;
        }
        for block in &mut self.blocks {
            block.current.clone_from(&block.lasting);
            block.writes.iter_mut().for_each(|write| write.replaced = false);
        }
    }
}

/// Returns whether a write may be executed after this moment.
fn may_follow(writes: &[Write], version: Version, at: u64) -> bool {
    writes.iter().any(|write| write.version == version && write.ended.is_none_or(|end| end > at))
}

impl Block {
    fn find_mut(&mut self, version: Version) -> Option<&mut Write> {
        self.writes.iter_mut().rev().find(|write| write.version == version)
    }

    fn forget(&mut self, version: Version) {
        self.current.retain(|other| *other != version);
        self.lasting.retain(|other| *other != version);
    }

    /// A write was executed: what had ended when it began is gone, now or also after a power
    /// failure.
    fn supersede(&mut self, by: Version, now: bool, for_good: bool) {
        let Some(begun) = self.find_mut(by).map(|write| write.begun) else { return };
        let writes = &self.writes;
        let stays = |version: &Version| *version == by || may_follow(writes, *version, begun);
        if now {
            self.current.retain(stays);
        }
        if for_good {
            self.lasting.retain(stays);
        }
    }

    /// Whether this may be read by whoever began to look then, and knew what there was.
    fn check(&self, seen: Seen, before: &[Version], at: u64) -> Result<(), String> {
        let later = self.writes.iter().filter(|write| write.begun > at).map(|write| &write.version);
        match self.current.iter().chain(before).chain(later).any(|version| is(seen, *version)) {
            true => Ok(()),
            false => Err(format!("holds {}; it may hold {}", show(seen), names(&self.current))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::Status;

    const LOST: Outcome = Outcome::settled(Status::new(StatusKind::Gone));

    fn held(version: Version) -> [u8; UNIT_BYTES] {
        let mut block = [0; UNIT_BYTES];
        if version != 0 {
            stamp::write(&mut block, 0, version);
        }
        block
    }

    fn holds(of: &mut Several, version: Version) -> bool {
        let ticket = of.begin_look(0, 1);
        of.end_read(0, &held(version), &ticket).is_ok()
    }

    fn begin(of: &mut Several, host: usize) -> Ticket {
        Ticket { host, ..of.begin_write(0, 1, false) }
    }

    fn write(of: &mut Several, host: usize) -> Version {
        let ticket = begin(of, host);
        of.end_write(0, 1, &ticket, false, &Outcome::SUCCESS);
        ticket.version
    }

    fn flush(of: &mut Several, host: usize) {
        let ticket = Ticket { host, ..of.begin_look(0, 1) };
        of.end_flush(0, 1, &ticket);
    }

    #[test]
    fn the_first_read_orders_writes_that_overlap() {
        let mut of = Several::new(1, false, false);
        let (a, b) = (begin(&mut of, 0), begin(&mut of, 1));
        of.end_write(0, 1, &b, false, &Outcome::SUCCESS);
        of.end_write(0, 1, &a, false, &Outcome::SUCCESS);
        assert!(!holds(&mut of, 0));
        assert!(holds(&mut of, b.version));
        assert!(!holds(&mut of, a.version), "it would go back in time");
    }

    #[test]
    fn what_had_ended_does_not_come_back_over_a_later_write() {
        let mut of = Several::new(1, true, false);
        let a = write(&mut of, 0);
        let b = write(&mut of, 1);
        flush(&mut of, 1);
        assert!(!holds(&mut of, a) && holds(&mut of, b));
        of.power_failed();
        assert!(!holds(&mut of, a), "a flush has covered what replaced it");
        assert!(holds(&mut of, b));
    }

    #[test]
    fn a_flush_that_succeeds_tells_that_nothing_was_lost() {
        let mut of = Several::new(1, true, false);
        let a = write(&mut of, 0);
        of.power_failed();
        flush(&mut of, 1);
        assert!(holds(&mut of, a) || holds(&mut of, 0));
        let mut of = Several::new(1, true, false);
        let a = write(&mut of, 0);
        of.power_failed();
        flush(&mut of, 0);
        assert!(!holds(&mut of, 0) && holds(&mut of, a));
        let mut of = Several::new(1, true, false);
        write(&mut of, 0);
        of.power_failed();
        of.fail_flush(0, 1, 0);
        flush(&mut of, 0);
        assert!(holds(&mut of, 0), "it was told");
    }

    #[test]
    fn a_lost_write_is_decided_by_a_read() {
        let mut of = Several::new(1, false, false);
        let a = write(&mut of, 0);
        let lost = begin(&mut of, 1);
        of.end_write(0, 1, &lost, false, &LOST);
        assert!(holds(&mut of, a));
        assert!(!holds(&mut of, lost.version));
    }

    #[test]
    fn one_compare_and_write_replaces_a_write() {
        let mut of = Several::new(1, false, false);
        let a = write(&mut of, 0);
        let (first, second) = (begin(&mut of, 0), begin(&mut of, 1));
        assert!(of.swapped(0, &held(a), &first).is_ok());
        of.end_write(0, 1, &first, false, &Outcome::SUCCESS);
        assert!(of.swapped(0, &held(a), &second).unwrap_err().contains("two compare-and-writes"));
    }
}
