//! The contract between sources, filters and exports.
//!
//! * **Ownership.** An operation owns its memory from [`BlockQueue::submit`] to the one completion that [`BlockQueue::reap`]
//!   gives back; so a bridge receives straight into the memory that its export sends from.
//! * **Exactly once.** Every operation that `submit` took completes once, whatever happens to device, path or peer, with an
//!   outcome that is true ([`crate::Outcome`]).
//! * **Backpressure.** `submit` takes a prefix of what it is given. What it leaves stays with the caller, who is woken when it is
//!   worth trying again. No operation waits for memory while it holds some.
//! * **Cancel** is a request. The operation still completes once, and its memory stays with the queue until then.
//! * **One queue per loop.** A queue lives on the loop that it was opened on and wakes one driver there, its owner, whenever
//!   completions wait, room was made, or the device changed. Where a device grants fewer queues than there are loops,
//!   [`crate::sharing`] shares them.
//! * **In place.** A device whose blocks lie in memory may have an [`InPlace`] ([`BlockQueue::in_place`]): it lends that memory, to
//!   send from ([`InPlace::lend`]) and to receive into ([`InPlace::spare`]); what has been received elsewhere it copies at once
//!   ([`InPlace::store`]). Whoever is refused takes memory of the loop's pool and submits an operation.
//! * **At once.** An operation may have completed when `submit` returns, and its owner is not woken for that: reap after submitting.
//! * **Order.** Operations in flight together may be done in any order; a flush covers what was *completed* before it was
//!   submitted. Overlapping operations in flight leave each block as one of them wrote it, never torn.

use crate::error::Error;
use crate::op::{Completion, Op, Outcome};
use std::collections::VecDeque;
use weft_io::{DriverId, Handle, Segments};

/// Size and limits. All but `blocks` stay as they are while the device is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a block: a power of two from 512 on.
    pub block_bytes: u32,
    /// Blocks.
    pub blocks: u64,
    /// Preferred size and alignment of writes, in blocks; at least 1.
    pub optimal_blocks: u32,
    /// Longest read, write or compare, in bytes; a multiple of the block size.
    pub max_transfer_bytes: u32,
    /// What is done whole or not at all.
    pub atomic: Atomicity,
}

/// How many blocks are dealt with in one piece. Each is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomicity {
    /// A write of so many never mixes with other operations.
    pub write_blocks: u32,
    /// A write of so many is stored whole or not at all when the power fails.
    pub power_fail_blocks: u32,
    /// A compare-and-write of so many is atomic, where there is compare ([`Features::compare`]).
    pub compare_and_write_blocks: u32,
}

impl Atomicity {
    /// One block.
    pub const ONE_BLOCK: Self = Self { write_blocks: 1, power_fail_blocks: 1, compare_and_write_blocks: 1 };
}

impl Geometry {
    /// Bytes in all.
    pub const fn bytes(&self) -> u64 {
        self.blocks * self.block_bytes as u64
    }
}

/// What a device does beyond reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Writes.
    pub write: bool,
    /// A write that was done may still be lost with the power until a flush is done.
    pub volatile_cache: bool,
    /// Discard frees space (without it, discard succeeds and does nothing).
    pub discard: bool,
    /// Discarded blocks read as zeroes.
    pub discard_zeroes: bool,
    /// Write zeroes.
    pub write_zeroes: bool,
    /// Compare, and compare-and-write.
    pub compare: bool,
}

/// What the device is called, where it has a name that lasts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// A UUID that stays with the data.
    pub uuid: Option<uuid::Uuid>,
    /// Serial number.
    pub serial: Option<String>,
    /// Model.
    pub model: Option<String>,
}

/// Something that changed on an open device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has this many blocks now.
    Resized {
        /// Blocks.
        blocks: u64,
    },
    /// It cannot be reached for now: operations end as not sent until [`Change::Back`].
    Away,
    /// It can be reached again, and is the device that it was. Its size may have changed meanwhile.
    Back,
    /// It is gone for good; operations fail from now on.
    Gone,
}

impl Change {
    /// Whether nobody needs to hear of an earlier change any more: of sizes the last one is what counts, and of the rest whether the device
    /// can be reached.
    pub const fn supersedes(self, earlier: Self) -> bool {
        matches!(
            (earlier, self),
            (Self::Resized { .. }, Self::Resized { .. }) | (Self::Away | Self::Back, Self::Away | Self::Back)
        )
    }
}

/// Whether a device can be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// It is there, as far as anybody knows.
    #[default]
    Here,
    /// Not for now; it may come back.
    Away,
    /// It is gone for good.
    Gone,
}

/// Something that holds blocks.
pub trait BlockDevice: Send + Sync {
    /// The URL it was opened by, for people and logs; holds no secrets.
    fn url(&self) -> &str;

    /// Size and limits, now.
    fn geometry(&self) -> Geometry;

    /// What it can do.
    fn features(&self) -> Features;

    /// Its lasting names.
    fn identity(&self) -> Identity {
        Identity::default()
    }

    /// Whether it can be reached now.
    fn presence(&self) -> Presence {
        Presence::Here
    }

    /// Queues that may be open at once; a device that shares nothing between queues has no limit.
    fn max_queues(&self) -> usize {
        usize::MAX
    }

    /// Opens a queue on the loop of `on`, which will wake `owner`.
    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error>;
}

/// The way to a device from one loop. Dropping it gives up what is in flight (its memory is kept until the system is done with it).
pub trait BlockQueue {
    /// Takes operations from the front of `ops` until they are all taken or the queue is full. The operations are valid: in
    /// range (when submitted), no longer than `max_transfer_bytes`, with the right amount of data.
    fn submit(&mut self, ops: &mut VecDeque<Op>);

    /// Appends what has completed to `done`.
    fn reap(&mut self, done: &mut Vec<Completion>);

    /// Asks for the operation with this `user` to end early. It may have ended, or may end as if nothing had been asked.
    fn cancel(&mut self, user: u64);

    /// What the device does with memory of its own, if it has any; the answer stays the same while the queue is open. A filter
    /// passes on what the device under it has. A queue whose device lives on another loop has nothing to pass on: it could not
    /// answer within the call.
    #[inline]
    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        None
    }

    /// Operations taken and not yet reaped.
    fn in_flight(&self) -> usize;

    /// The next change of the device that this queue has not told yet.
    fn change(&mut self) -> Option<Change> {
        None
    }
}

/// What a device whose blocks lie in memory does with that memory: operations without a copy, or with one only. Whatever is
/// refused here is submitted as an operation.
pub trait InPlace {
    /// Appends to `into` what the blocks hold now, in the device's own memory, to be sent from there; `false`, and nothing appended,
    /// when the device cannot, or a copy would be cheaper: then a read does it. It counts as a read that has been done. The memory
    /// stays as it is until it is dropped, whatever is written to the device meanwhile.
    fn lend(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool;

    /// Appends to `into` memory of the device's own for the data of a write of these blocks, which is then not copied; `false`, and
    /// nothing appended, when the device has none to give. A write of other blocks may be submitted with it, too.
    fn spare(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool;

    /// Whether the next write may go by [`InPlace::store`], and is then copied once only.
    fn stores(&mut self) -> bool;

    /// Writes `data`, which is not the queue's to keep, to these blocks at once, and durably where the device has no volatile
    /// cache. `NotSent` when the device cannot, and nothing has been written.
    fn store(&mut self, lba: u64, blocks: u32, data: &[u8]) -> Outcome;
}
