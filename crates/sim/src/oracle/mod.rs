//! Permitted contents of each block: the last acknowledged write, the last one that a flush
//! covered, and all that may still land.
//!
//! * A write that was sent may be read from then on; once it is acknowledged, nothing else may.
//! * A write that ended without an answer (and can no longer be executed, by the contract of a
//!   device) leaves two possibilities; the first read decides between them. Where the initiator
//!   writes again what was not flushed, an older write may come back over one that failed, so that
//!   reads decide nothing until a flush or a write that is acknowledged.
//! * A power failure leaves what was flushed, what was written since, and nothing older. Where the
//!   initiator writes again what it has to ([`Replay`]), it changes nothing that a read may see.
//!
//! A block is a unit of [`UNIT_BYTES`] here, whatever the blocks of the devices are. Writes of one
//! block never overlap: whoever writes it waits for the end of the write before. Where they do, and
//! where several hosts write a block, `several` says what it may hold.

mod late_writes;
mod several;

use crate::stamp::{self, Seen, UNIT_BYTES, Version};
use core::ops::Range;
pub use late_writes::{Landed, units_of};
use several::Several;
use weft_block::Outcome;

/// Marks a write of zeroes.
pub const ZEROES: Version = 1 << 63;

#[derive(Clone, Debug, Default)]
struct Block {
    /// What a read may return.
    current: Vec<Version>,
    /// What may be left after a power failure.
    lasting: Vec<Version>,
    /// The last acknowledged write.
    acknowledged: Version,
    /// The last write that was begun.
    begun: Version,
    /// It has not ended.
    under_way: bool,
    /// The last write failed, and the acknowledged one before it may be written again; or one was
    /// executed late.
    undecided: bool,
    /// Writes that were executed late, and the write that was under way then.
    late: Vec<(Version, Version)>,
}

/// State at the submission of an operation.
#[derive(Clone, Debug)]
pub struct Ticket {
    epoch: u64,
    /// Reads: what each block might be, and the last write that was begun. Flushes: the last
    /// acknowledged write.
    blocks: Vec<(Vec<Version>, Version)>,
    /// Writes: their number.
    pub version: Version,
    /// When it began, where writes overlap.
    at: u64,
    /// Whose it is, where several hosts write.
    host: usize,
}

impl Ticket {
    /// The same, of this host.
    pub fn of(self, host: usize) -> Self {
        Self { host, ..self }
    }
}

/// State of the blocks.
pub struct Oracle {
    blocks: Vec<Block>,
    version: Version,
    /// Power failures so far.
    epoch: u64,
    /// Power has failed since the owner began.
    has_failed: bool,
    /// Completed writes may be lost when the power fails, until a flush.
    volatile: bool,
    replay: Replay,
    /// Where writes of a block overlap, all else is unused.
    several: Option<Several>,
    /// Where writes may be executed late.
    landed: Option<Landed>,
}

/// Repetition of writes by initiators after a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// No: what was not flushed may be gone.
    Never,
    /// Up to a limit: what was not flushed may be gone, and nobody tells.
    Untold,
    /// Up to a limit: what was not flushed may be gone, but then the next flush fails.
    Bounded,
    /// Yes: nobody notices.
    Always,
}

impl Replay {
    /// Returns whether the next flush after a loss fails, or there is no loss.
    fn is_told(self) -> bool {
        matches!(self, Self::Bounded | Self::Always)
    }
}

impl Oracle {
    /// Blocks that were never written.
    pub fn new(blocks: usize, volatile: bool, replay: Replay) -> Self {
        let fresh = Block { current: vec![0], lasting: vec![0], ..Block::default() };
        Self {
            blocks: vec![fresh; blocks],
            version: 0,
            epoch: 0,
            has_failed: false,
            volatile,
            replay,
            several: None,
            landed: None,
        }
    }

    /// Blocks that several hosts write, or one with writes that overlap.
    pub fn of_several(blocks: usize, volatile: bool, replay: Replay) -> Self {
        Self {
            several: Some(Several::new(blocks, volatile, replay == Replay::Always)),
            ..Self::new(0, volatile, replay)
        }
    }

    /// Returns the writes that initiators send again.
    pub fn replay(&self) -> Replay {
        self.replay
    }

    fn range(lba: u64, blocks: u32) -> Range<usize> {
        lba as usize..lba as usize + blocks as usize
    }

    /// A write is about to be submitted.
    pub fn begin_write(&mut self, lba: u64, blocks: u32, zeroes: bool) -> Ticket {
        self.hear();
        if let Some(several) = &mut self.several {
            return several.begin_write(lba, blocks, zeroes);
        }
        self.version += 1;
        let version = if zeroes { self.version | ZEROES } else { self.version };
        for block in &mut self.blocks[Self::range(lba, blocks)] {
            debug_assert!(!block.under_way, "writes of one block do not overlap");
            block.current.push(version);
            block.lasting.push(version);
            (block.begun, block.under_way) = (version, true);
        }
        Ticket { epoch: self.epoch, blocks: Vec::new(), version, at: 0, host: 0 }
    }

    /// A read is about to be submitted.
    pub fn begin_read(&mut self, lba: u64, blocks: u32) -> Ticket {
        self.hear();
        if let Some(several) = &mut self.several {
            return several.begin_look(lba, blocks);
        }
        let known = self.blocks[Self::range(lba, blocks)]
            .iter()
            .map(|block| (block.current.clone(), block.begun));
        Ticket { epoch: self.epoch, blocks: known.collect(), version: 0, at: 0, host: 0 }
    }

    /// A flush is about to be submitted, by whoever owns these blocks.
    pub fn begin_flush(&mut self, lba: u64, blocks: u32) -> Ticket {
        if let Some(several) = &mut self.several {
            return several.begin_look(lba, blocks);
        }
        let known = self.blocks[Self::range(lba, blocks)]
            .iter()
            .map(|block| (Vec::new(), block.acknowledged));
        Ticket { epoch: self.epoch, blocks: known.collect(), version: 0, at: 0, host: 0 }
    }

    /// A write has ended.
    pub fn end_write(
        &mut self,
        lba: u64,
        blocks: u32,
        ticket: &Ticket,
        fua: bool,
        outcome: &Outcome,
    ) {
        self.hear();
        if let Some(several) = &mut self.several {
            return several.end_write(lba, blocks, ticket, fua, outcome);
        }
        // Written to a cache that may have lost it before the answer arrived.
        let in_doubt =
            self.volatile && !fua && self.replay != Replay::Always && ticket.epoch != self.epoch;
        let remembered = self.replay == Replay::Bounded;
        let is_success = matches!(outcome, Outcome::Done(status) if status.is_success());
        for block in &mut self.blocks[Self::range(lba, blocks)] {
            block.under_way = false;
            if is_success {
                block.outlive(ticket.version);
            }
            if !matches!(outcome, Outcome::NotSent(_)) {
                block.undecided =
                    !is_success && self.replay != Replay::Never || !block.late.is_empty();
            }
            match outcome {
                Outcome::Done(status) if status.is_success() && !in_doubt => {
                    block.current = core::iter::once(ticket.version).chain(block.late()).collect();
                    block.acknowledged = ticket.version;
                    if fua || !self.volatile {
                        block.lasting.clone_from(&block.current);
                    }
                }
                Outcome::Done(status) if status.is_success() && remembered => {
                    block.acknowledged = ticket.version
                }
                Outcome::NotSent(_) => {
                    block.current.retain(|version| *version != ticket.version);
                    block.lasting.retain(|version| *version != ticket.version);
                }
                Outcome::Done(_) | Outcome::MayHaveExecuted { .. } => {}
            }
        }
    }

    /// A flush of whoever owns these blocks has succeeded. Without reports of losses, it proves
    /// nothing about writes before a power failure that happened in the meantime.
    pub fn end_flush(&mut self, lba: u64, blocks: u32, ticket: &Ticket) {
        self.hear();
        if let Some(several) = &mut self.several {
            return several.end_flush(lba, blocks, ticket);
        }
        if !self.replay.is_told() && ticket.epoch != self.epoch {
            return;
        }
        let order = |version: &Version| version & !ZEROES;
        for (block, (_, covered)) in
            self.blocks[Self::range(lba, blocks)].iter_mut().zip(&ticket.blocks)
        {
            let Block { lasting, current, late, .. } = &mut *block;
            let is_left = |version: &Version| {
                order(version) >= order(covered) || late.iter().any(|(late, _)| late == version)
            };
            lasting.retain(is_left);
            current.retain(is_left);
            block.undecided &=
                order(covered) < order(&block.acknowledged) || !block.late.is_empty();
        }
    }

    /// A flush of whoever owns these blocks has failed: what was not flushed may be gone.
    pub fn fail_flush(&mut self, lba: u64, blocks: u32, host: usize) {
        if let Some(several) = &mut self.several {
            return several.fail_flush(lba, blocks, host);
        }
        let range = Self::range(lba, blocks);
        self.blocks[range].iter_mut().for_each(Block::forget_unflushed);
    }

    /// The owner of the blocks has ended: if power has failed, nobody else gets a report of
    /// unflushed writes.
    pub fn owner_ended(&mut self) {
        if core::mem::take(&mut self.has_failed) {
            self.blocks.iter_mut().for_each(Block::forget_unflushed);
        }
    }

    /// A read has succeeded with these bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn end_read(&mut self, lba: u64, bytes: &[u8], ticket: &Ticket) -> Result<(), String> {
        self.hear();
        if let Some(several) = &mut self.several {
            return several.end_read(lba, bytes, ticket);
        }
        for (n, content) in bytes.chunks(UNIT_BYTES).enumerate() {
            let at = lba as usize + n;
            let (before, begun) = &ticket.blocks[n];
            let block = &self.blocks[at];
            let seen = stamp::read(content, at as u64);
            if !block.current.iter().chain(before).any(|version| is(seen, *version)) {
                return Err(format!(
                    "block {at} holds {}; it may hold {}",
                    show(seen),
                    names(&block.current)
                ));
            }
            let decided = ticket.epoch == self.epoch
                && !block.under_way
                && !block.undecided
                && block.begun == *begun;
            // Zeroes may be of several writes.
            if decided && block.current.iter().any(|version| is(seen, *version)) {
                self.blocks[at].current.retain(|version| is(seen, *version));
            }
        }
        Ok(())
    }

    /// A compare-and-write has found this content.
    ///
    /// # Errors
    /// It cannot have been there.
    pub fn swapped(&mut self, lba: u64, found: &[u8], ticket: &Ticket) -> Result<(), String> {
        self.several.as_mut().map_or(Ok(()), |several| several.swapped(lba, found, ticket))
    }

    /// Checks that blocks with this content are those written, no matter when they are read: the
    /// check of the store at the end.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_stored(&self, lba: u64, content: &[u8]) -> Result<(), String> {
        if let Some(several) = &self.several {
            return several.check_stored(lba, content);
        }
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

    /// The power of what stores the blocks has failed.
    pub fn power_failed(&mut self) {
        if let Some(several) = &mut self.several {
            return several.power_failed();
        }
        self.epoch += 1;
        self.has_failed = true;
        if !self.volatile || self.replay == Replay::Always {
            return;
        }
        for block in &mut self.blocks {
            block.current.clone_from(&block.lasting);
            if !self.replay.is_told() {
                block.forget_unflushed();
            }
        }
    }
}

impl Block {
    /// No flush covers what was acknowledged since the last one that succeeded.
    fn forget_unflushed(&mut self) {
        self.acknowledged = self.lasting.first().copied().unwrap_or(0);
    }
}

fn is(seen: Seen, version: Version) -> bool {
    match seen {
        Seen::Zeroes => version == 0 || version & ZEROES != 0,
        Seen::Written(number) => number == version,
        Seen::Misplaced { .. } | Seen::Damaged => false,
    }
}

fn show(seen: Seen) -> String {
    match seen {
        Seen::Zeroes => "zeroes".into(),
        Seen::Written(version) => format!("write {version}"),
        Seen::Misplaced { lba, version } => format!("write {version} to block {lba}"),
        Seen::Damaged => "the data of no write".into(),
    }
}

fn names(versions: &[Version]) -> String {
    let name = |version: &Version| match version {
        0 => "nothing".to_owned(),
        version if version & ZEROES != 0 => format!("write {} (zeroes)", version & !ZEROES),
        version => format!("write {version}"),
    };
    versions.iter().map(name).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests;
