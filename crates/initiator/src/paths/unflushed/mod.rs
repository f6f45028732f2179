//! Completed writes that no flush covers yet, of a device with a volatile cache: if its target
//! restarts, its data is compared with them, or they are written again before anything else, where
//! nobody else writes. Of each block only the last write is: where nothing was lost after all, no
//! older data comes to light, not even if writing again ends half-way.
//!
//! The log has a fixed size. If it is full, the oldest writes make room: what stays is always the
//! end of the sequence, so that writing it again never brings back older data. What was removed
//! cannot be restored; after a restart the next flush of each queue then fails.

mod pieces;

pub(super) use pieces::UnflushedPiece;
use pieces::{Covered, cut};
use std::collections::VecDeque;
use weft_base::lock::Lock;
use weft_block::{Completion, Op, OpKind, Outcome};
use weft_io::{Segment, uncached};

/// See the module.
pub(super) struct Unflushed(Lock<Log>);

struct Log {
    ring: Box<[u8]>,
    /// Where the oldest byte is, and how many there are.
    start: usize,
    used: usize,
    entries: VecDeque<Entry>,
    /// The number of the next entry.
    next: u64,
    /// Entries before this one were removed, and no flush has covered them.
    lost_before: u64,
    /// Entries before this one are durable.
    flushed: u64,
}

/// A write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    number: u64,
    kind: OpKind,
    lba: u64,
    blocks: u32,
    at: usize,
    /// Bytes of data.
    len: usize,
    /// A device does not have all of it any more, and that was told.
    is_lost: bool,
    /// It may have been executed or not: a device has it, or what is older on its blocks. Neither
    /// can be written again.
    is_doubtful: bool,
}

/// Entries without data count as much, so that there are not too many.
const BARE_BYTES: usize = 64;

impl Unflushed {
    /// A log of so many bytes. The system provides the memory when it is used.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Lock::new(Log {
            ring: vec![0; bytes].into_boxed_slice(),
            start: 0,
            used: 0,
            entries: VecDeque::new(),
            next: 1,
            lost_before: 0,
            flushed: 1,
        }))
    }

    /// An operation has ended; a flush had this mark.
    #[inline]
    pub(super) fn ended(&self, completion: &Completion, mark: u64) {
        let (op, outcome) = (&completion.op, &completion.outcome);
        match op.kind {
            OpKind::Flush if outcome.is_success() => self.flushed(mark),
            kind if !kind.is_write() => {}
            _ if outcome.is_success() => self.add(op),
            _ if matches!(outcome, Outcome::MayHaveExecuted { .. }) => self.doubt(op),
            _ => {}
        }
    }

    /// A write has ended that may have been executed.
    #[cold]
    pub(super) fn doubt(&self, op: &Op) {
        let log = &mut *self.0.lock();
        // It covers nothing.
        if log.entries.is_empty() {
            return;
        }
        let (kind, skip) = logged(op);
        let is_short = total(&op.data) - skip <= log.ring.len();
        // Without its data, nothing on its blocks is known to be right.
        let (data, skip): (&[Segment], _) = if is_short { (&op.data, skip) } else { (&[], 0) };
        log.add(kind, op.lba, op.blocks, data, skip);
        log.entries.back_mut().into_iter().for_each(|entry| entry.is_doubtful = true);
    }

    /// An operation that changed data has completed.
    fn add(&self, op: &Op) {
        let (kind, skip) = logged(op);
        self.0.lock().add(kind, op.lba, op.blocks, &op.data, skip);
    }

    /// The mark for a flush that is submitted now.
    pub(super) fn mark(&self) -> u64 {
        self.0.lock().next
    }

    /// A flush with this mark has succeeded: what was completed before it was submitted is durable.
    fn flushed(&self, mark: u64) {
        let log = &mut *self.0.lock();
        log.flushed = log.flushed.max(mark);
        while log.entries.front().is_some_and(|entry| entry.number < mark) {
            log.drop_oldest();
        }
    }

    /// Whether writes were removed that no flush covers.
    pub(super) fn is_incomplete(&self) -> bool {
        let log = self.0.lock();
        log.lost_before > log.flushed
    }

    /// What was lost is told: it is not told again.
    pub(super) fn forget_loss(&self) {
        self.0.lock().lost_before = 0;
    }

    /// All that is not flushed is lost, and that is told: none of it is written again or looked
    /// for.
    pub(super) fn give_up(&self) {
        let log = &mut *self.0.lock();
        while !log.entries.is_empty() {
            log.drop_oldest();
        }
        log.lost_before = 0;
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().entries.len()
    }

    /// What has to be written again, in any order: of each block the last write. What was told to
    /// be lost stays so.
    pub(super) fn pieces(&self) -> VecDeque<UnflushedPiece> {
        self.pieces_of(|_| true, |entry| !entry.is_doubtful && !entry.is_lost)
    }

    /// What a device has to have still: of each block the last write. What was durable at once
    /// cannot have been lost, what a discard leaves is not defined, and what was told is not told
    /// again. Pieces lie below one of these unresolved writes (the first block, and the one behind
    /// the last) as a whole, or not at all.
    pub(super) fn pieces_to_look_at(&self, unresolved: &[(u64, u64)]) -> VecDeque<UnflushedPiece> {
        let whole = self.pieces_of(|entry| !entry.is_doubtful, Entry::counts);
        cut(whole, unresolved)
    }

    /// What is neither written again nor certain to be there: pieces below writes of which nobody
    /// knows whether they were executed.
    pub(super) fn pieces_in_doubt(&self) -> VecDeque<UnflushedPiece> {
        let whole = self.pieces_of(|entry| !entry.is_doubtful, Entry::counts);
        let doubtful: Vec<_> = self
            .0
            .lock()
            .entries
            .iter()
            .filter(|it| it.is_doubtful)
            .map(|it| (it.number, it.range()))
            .collect();
        let below = |piece: UnflushedPiece| {
            let over: Vec<_> = doubtful
                .iter()
                .filter(|(number, _)| *number > piece.number)
                .map(|(_, range)| *range)
                .collect();
            cut([piece].into(), &over)
                .into_iter()
                .filter(|piece| piece.is_under)
                .map(|piece| UnflushedPiece { is_under: false, ..piece })
        };
        whole.into_iter().flat_map(below).collect()
    }

    /// The device does not have a piece any more.
    pub(super) fn lose(&self, piece: &UnflushedPiece) {
        let log = &mut *self.0.lock();
        let Some(first) = log.entries.front().filter(|first| first.number <= piece.number) else {
            return;
        };
        let at = (piece.number - first.number) as usize;
        if let Some(entry) = log.entries.get_mut(at) {
            entry.is_lost = true;
        }
    }

    /// The parts of entries that no later one that covers has changed.
    fn pieces_of(
        &self,
        covers: impl Fn(&Entry) -> bool,
        wanted: impl Fn(&Entry) -> bool,
    ) -> VecDeque<UnflushedPiece> {
        let log = self.0.lock();
        let (mut pieces, mut later) = (VecDeque::new(), Covered::default());
        for entry in log.entries.iter().rev().filter(|entry| covers(entry)) {
            let block_bytes = entry.len / (entry.blocks as usize).max(1);
            for (lba, end) in later.cover(entry.lba, entry.lba + u64::from(entry.blocks)) {
                let (blocks, skip) = ((end - lba) as u32, (lba - entry.lba) as usize * block_bytes);
                let (kind, number, len) = (entry.kind, entry.number, blocks as usize * block_bytes);
                if wanted(entry) {
                    pieces.push_front(UnflushedPiece {
                        kind,
                        lba,
                        blocks,
                        len,
                        is_under: false,
                        number,
                        skip,
                    });
                }
            }
        }
        pieces
    }

    /// Copies the data of a piece; `false` if its write has been removed.
    pub(super) fn copy(&self, piece: &UnflushedPiece, into: &mut [u8]) -> bool {
        let log = self.0.lock();
        let Some(first) = log.entries.front().filter(|first| first.number <= piece.number) else {
            return false;
        };
        let Some(entry) = log.entries.get((piece.number - first.number) as usize) else {
            return false;
        };
        let (first, second) = log.parts((entry.at + piece.skip) % log.ring.len(), piece.len);
        into[..first.len()].copy_from_slice(first);
        into[first.len()..piece.len].copy_from_slice(second);
        true
    }

    /// Whether a device that has read these bytes where a piece lies has its data, or that of a
    /// later write that may have been executed. So does what is not in the log any more.
    pub(super) fn agrees(&self, piece: &UnflushedPiece, read: &[u8]) -> bool {
        let log = self.0.lock();
        let Some(first) = log.entries.front().filter(|first| first.number <= piece.number) else {
            return true;
        };
        let at = (piece.number - first.number) as usize;
        let Some(entry) = log.entries.get(at) else { return true };
        let later = || log.entries.range(at + 1..).filter(|entry| entry.is_doubtful);
        let block_bytes = read.len() / (piece.blocks as usize).max(1);
        let blocks = (piece.lba..).zip(read.chunks(block_bytes.max(1)));
        blocks.into_iter().all(|(lba, block)| {
            log.holds(entry, lba, block) || later().any(|entry| log.holds(entry, lba, block))
        })
    }
}

impl Entry {
    /// Its blocks: the first, and the one behind the last.
    fn range(&self) -> (u64, u64) {
        (self.lba, self.lba + u64::from(self.blocks))
    }

    /// Whether a device that does not have it any more has lost something that nobody was told of.
    fn counts(&self) -> bool {
        !self.is_lost && !self.is_doubtful && !is_durable(self.kind) && self.kind != OpKind::Discard
    }
}

/// What a write leaves, and where in its data that begins.
fn logged(op: &Op) -> (OpKind, usize) {
    match op.kind {
        OpKind::CompareAndWrite { fua } => (OpKind::Write { fua }, total(&op.data) / 2),
        kind => (kind, 0),
    }
}

fn is_durable(kind: OpKind) -> bool {
    matches!(kind, OpKind::Write { fua: true } | OpKind::WriteZeroes { fua: true, .. })
}

fn total(data: &[Segment]) -> usize {
    data.iter().map(|segment| segment.len()).sum()
}

impl Log {
    fn add(&mut self, kind: OpKind, lba: u64, blocks: u32, data: &[Segment], skip: usize) {
        // What is durable counts only where it covers something older that is not.
        if is_durable(kind) && self.entries.is_empty() {
            return;
        }
        let len = total(data) - skip;
        let charge = len.max(BARE_BYTES);
        let number = self.next;
        self.next += 1;
        if charge > self.ring.len() {
            // Nothing older may be written over it.
            while !self.entries.is_empty() {
                self.drop_oldest();
            }
            self.lost_before = number + 1;
            return;
        }
        while self.used + charge > self.ring.len() {
            self.lost_before =
                self.entries.front().map_or(self.lost_before, |oldest| oldest.number + 1);
            self.drop_oldest();
        }
        let at = (self.start + self.used) % self.ring.len();
        self.used += charge;
        self.store(at, data, skip);
        self.entries.push_back(Entry {
            number,
            kind,
            lba,
            blocks,
            at,
            len,
            is_lost: false,
            is_doubtful: false,
        });
    }

    fn store(&mut self, mut at: usize, data: &[Segment], mut skip: usize) {
        for segment in data {
            let mut piece = &segment[skip.min(segment.len())..];
            skip -= skip.min(segment.len());
            while !piece.is_empty() {
                let count = piece.len().min(self.ring.len() - at);
                uncached::copy(&mut self.ring[at..at + count], &piece[..count]);
                piece = &piece[count..];
                at = (at + count) % self.ring.len();
            }
        }
    }

    /// Whether a block with these bytes may be what a write has left.
    fn holds(&self, entry: &Entry, lba: u64, block: &[u8]) -> bool {
        if lba < entry.lba || lba >= entry.lba + u64::from(entry.blocks) {
            return false;
        }
        match entry.kind {
            // Not defined.
            OpKind::Discard => true,
            OpKind::WriteZeroes { .. } => block.iter().all(|byte| *byte == 0),
            _ if entry.len == 0 => false,
            _ => {
                let at = entry.at + (lba - entry.lba) as usize * block.len();
                let (first, second) = self.parts(at % self.ring.len(), block.len());
                block[..first.len()] == *first && block[first.len()..] == *second
            }
        }
    }

    fn parts(&self, at: usize, len: usize) -> (&[u8], &[u8]) {
        let first = len.min(self.ring.len() - at);
        (&self.ring[at..at + first], &self.ring[..len - first])
    }

    fn drop_oldest(&mut self) {
        let Some(entry) = self.entries.pop_front() else { return };
        let charge = entry.len.max(BARE_BYTES);
        self.used -= charge;
        self.start =
            if self.entries.is_empty() { 0 } else { (self.start + charge) % self.ring.len() };
    }
}

#[cfg(test)]
mod tests;
