//! The contract between sources, filters and exports.
//!
//! * **Ownership.** An operation owns its memory from [`BlockQueue::submit`] until its one
//!   completion is returned by [`BlockQueue::reap`]. So a bridge receives directly into the memory
//!   from which its export sends. A time limit completes an operation that the device still has
//!   without its memory, and gives that back later ([`crate::time_limit`]).
//! * **Exactly once.** Every operation that `submit` accepts completes exactly once, whatever
//!   happens to the device, path or peer, with a truthful outcome ([`crate::Outcome`]).
//! * **Backpressure.** `submit` accepts operations from the front. The rest stays with the caller,
//!   who is woken when a retry is worthwhile. No operation waits for memory while it holds some.
//! * **Cancel** is a request. The operation still completes once, and its memory stays with the
//!   queue until then.
//! * **One queue per loop.** A queue lives on the loop on which it was opened. It wakes one driver
//!   there, its owner, when there are completions, when there is room again, or when the device
//!   changed. If a device grants fewer queues than there are loops, [`crate::sharing`] shares them.
//! * **In place.** A device with its blocks in memory may have an [`InPlace`]
//!   ([`BlockQueue::in_place`]). It lends that memory to send from ([`InPlace::lend`]) and to
//!   receive into ([`InPlace::spare`]), and copies data received elsewhere at once
//!   ([`InPlace::store`]). If it declines, the caller takes memory from the loop's pool and submits
//!   an operation.
//! * **At once.** An operation may already be complete when `submit` returns. Its owner is not
//!   woken for that, so reap after submitting.
//! * **Order.** Operations in flight may execute in any order; a flush covers everything that
//!   *completed* before it was submitted. If operations in flight overlap, each block contains the
//!   data of one of them and is never torn.

use crate::limits::{COMPARE_AND_WRITE_BLOCKS, MAX_TRANSFER_BYTES};
use crate::offload::{Offload, OffloadSource};
use crate::op::{Completion, Op, Outcome};
use crate::outcome::error::Error;
use crate::path::{AccessState, PathStatus};
use crate::stats::Totals;
use crate::url::naming::Passing;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::{DriverId, Handle, Segments};

/// An opened device.
pub type Device = Arc<dyn BlockDevice>;

/// Size and limits. All except `blocks` and `padding_bytes` are constant while the device is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a block: a power of two, at least 512.
    pub block_bytes: u32,
    /// Number of blocks, including a last one of which the device has only the beginning.
    pub blocks: u64,
    /// Bytes of the last block that the device does not have: fewer than a block. They read as
    /// zeroes, and the last block is not written ([`mod@crate::check`]). See [`crate::extent`].
    pub padding_bytes: u32,
    /// Preferred size and alignment of writes, in blocks; at least 1.
    pub optimal_blocks: u32,
    /// Maximum read, write or compare, in bytes; a multiple of the block size.
    pub max_transfer_bytes: u32,
    /// Sizes of atomic operations.
    pub atomic: Atomicity,
}

/// Maximum blocks of atomic operations. Each is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomicity {
    /// A write of up to this many blocks is not interleaved with other operations.
    pub write_blocks: u32,
    /// After a power failure, a write of up to this many blocks is stored entirely or not at all.
    pub power_fail_blocks: u32,
    /// A compare-and-write of up to this many blocks is atomic, if compare is supported
    /// ([`Features::compare`]).
    pub compare_and_write_blocks: u32,
}

impl Atomicity {
    /// One block.
    pub const ONE_BLOCK: Self =
        Self { write_blocks: 1, power_fail_blocks: 1, compare_and_write_blocks: 1 };

    /// That of a local device, which locks all blocks of a compare-and-write and may be used by
    /// this process alone.
    pub(crate) const fn local(block_bytes: u32) -> Self {
        // The old and the new data are one transfer.
        let fits = MAX_TRANSFER_BYTES / block_bytes / 2;
        let most = if fits < COMPARE_AND_WRITE_BLOCKS { fits } else { COMPARE_AND_WRITE_BLOCKS };
        Self { compare_and_write_blocks: if most > 1 { most } else { 1 }, ..Self::ONE_BLOCK }
    }
}

impl Geometry {
    /// Size of all blocks in bytes.
    pub const fn bytes(&self) -> u64 {
        self.blocks * self.block_bytes as u64
    }

    /// Bytes that the device has: [`Geometry::bytes`] without the padding.
    pub const fn data_bytes(&self) -> u64 {
        self.bytes().saturating_sub(self.padding_bytes as u64)
    }

    /// Blocks that consist of data alone: all but a last one with padding.
    pub const fn whole_blocks(&self) -> u64 {
        self.data_bytes() / self.block_bytes as u64
    }

    /// Bytes of the blocks that consist of data alone.
    pub const fn whole_bytes(&self) -> u64 {
        self.whole_blocks() * self.block_bytes as u64
    }

    /// The geometry of the first `blocks` blocks.
    pub const fn of_first(self, blocks: u64) -> Self {
        let padding_bytes = if blocks < self.blocks { 0 } else { self.padding_bytes };
        Self { blocks, padding_bytes, ..self }
    }

    /// Bytes of padding at the end of these blocks.
    #[inline]
    pub const fn padding_of(&self, lba: u64, blocks: u32) -> u32 {
        let is_at_end = blocks > 0 && lba.saturating_add(blocks as u64) == self.blocks;
        if is_at_end { self.padding_bytes } else { 0 }
    }
}

/// Supported operations in addition to reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Writes.
    pub write: bool,
    /// A completed write may be lost at a power failure until a flush completes.
    pub volatile_cache: bool,
    /// True if there is such a cache could not be asked, as another host has reserved the device;
    /// then `volatile_cache` is set.
    pub cache_unknown: bool,
    /// Discard frees space (otherwise discard succeeds and does nothing).
    pub discard: bool,
    /// Discarded blocks read as zeroes.
    pub discard_zeroes: bool,
    /// Write zeroes.
    pub write_zeroes: bool,
    /// Compare, and compare-and-write.
    pub compare: bool,
    /// Reservations: [`crate::OpKind::Reserve`] and [`crate::OpKind::ReservationReport`].
    pub reservations: bool,
}

/// Permanent identifiers of a device, if it has any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// A UUID that belongs to the data.
    pub uuid: Option<uuid::Uuid>,
    /// Set if the data has another UUID when another process opens it.
    pub passing: Option<Passing>,
    /// Further names that no other data has: the kind and the digits of each.
    pub names: Vec<(&'static str, String)>,
    /// The target that serves it, with the number that it has there. `None`: targets of this
    /// protocol have no names.
    pub target: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// The serial number is that of the target.
    pub serial_of_target: bool,
    /// Model.
    pub model: Option<String>,
    /// Revision of its firmware, as it was when the device was opened.
    pub firmware: Option<String>,
}

impl Identity {
    /// The UUID, if the data has the same one when another process opens it.
    pub fn lasting_uuid(&self) -> Option<uuid::Uuid> {
        self.uuid.filter(|_| self.passing.is_none())
    }
}

/// A change of an open device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// The number of blocks changed.
    Resized {
        /// The new number.
        blocks: u64,
    },
    /// The device cannot be reached at present: operations end as not sent until
    /// [`DeviceChange::Back`].
    Away,
    /// The device can be reached again, and has the same data. Its size may have changed.
    Back,
    /// The access state of this path changed.
    Access(AccessState),
    /// The device is permanently gone; all further operations fail.
    Gone,
}

impl DeviceChange {
    /// Returns whether this change makes an earlier one obsolete: only the last of several sizes or
    /// access states counts, and otherwise only whether the device can be reached.
    const fn supersedes(self, earlier: Self) -> bool {
        matches!(
            (earlier, self),
            (Self::Resized { .. }, Self::Resized { .. })
                | (Self::Away | Self::Back, Self::Away | Self::Back)
                | (Self::Access(_), Self::Access(_))
                | (Self::Gone, Self::Gone)
        )
    }
}

/// Changes for the owner of a queue, in order. A new one takes the place of those that it makes
/// obsolete, so there are at most four, however rarely the owner takes one.
#[derive(Debug, Default)]
pub struct DeviceChanges(VecDeque<DeviceChange>);

impl DeviceChanges {
    /// Adds a change.
    pub fn add(&mut self, change: DeviceChange) {
        self.0.retain(|earlier| !change.supersedes(*earlier));
        self.0.push_back(change);
    }

    /// Takes the first one.
    #[inline]
    pub fn take(&mut self) -> Option<DeviceChange> {
        self.0.pop_front()
    }

    /// Returns whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reachability of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// The device can be reached, as far as is known.
    #[default]
    Here,
    /// The device cannot be reached at present; it may come back.
    Away,
    /// The device is permanently gone.
    Gone,
}

/// The answer of a device that is asked for its size. The greatest answer of several members is
/// that of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SizeAnswer {
    /// It keeps the size with which it was made, whatever is behind it.
    Fixed,
    /// The source was asked: [`BlockDevice::geometry`] is what it says now.
    Now,
    /// The source says it only when it is opened: it has to be opened again.
    WhenOpened,
}

/// A block device. One in front of another one implements [`crate::filter::Filter`] in place of
/// this: the defaults here are those of a device that has nothing behind it.
pub trait BlockDevice: Send + Sync {
    /// The URL with which it was opened, for messages and logs; without secrets.
    fn url(&self) -> &str;

    /// Current size and limits.
    fn geometry(&self) -> Geometry;

    /// Asks the source for its size, which [`BlockDevice::geometry`] then returns; queues report
    /// another one ([`DeviceChange::Resized`]). It may wait for the source: not for an event loop.
    ///
    /// # Errors
    /// The source could not be asked, or its size is not one of a device.
    fn renew_size(&self) -> Result<SizeAnswer, Error>;

    /// Supported operations.
    fn features(&self) -> Features;

    /// The devices that hold its data by turns, if it is a stripe.
    fn members(&self) -> Vec<Device> {
        Vec::new()
    }

    /// Permanent identifiers.
    fn identity(&self) -> Identity {
        Identity::default()
    }

    /// Blocks that were in use when the device was opened, if its peer tells.
    fn used_blocks(&self) -> Option<u64> {
        None
    }

    /// Returns the present reachability of the device.
    fn presence(&self) -> Presence {
        Presence::Here
    }

    /// Returns the access of this path to the data.
    fn access_state(&self) -> AccessState {
        AccessState::Optimized
    }

    /// A value that differs whenever the device may have lost completed writes that no flush
    /// covered since it was last opened: the peer started again, say. `None`: the device cannot
    /// tell.
    fn cache_epoch(&self) -> Option<u64> {
        None
    }

    /// Returns the time for which a peer of this device may go on executing commands after their
    /// process has ended, from the peer's statement and the agreement with it. `None`: nothing is
    /// executed later, or the peer states nothing.
    fn late_writes_bound(&self) -> Option<Duration> {
        self.members().iter().filter_map(|member| member.late_writes_bound()).max()
    }

    /// Why a part of it cannot be used until it is opened again, as a sentence without its end, for
    /// users.
    fn trouble(&self) -> Option<String> {
        self.members().iter().find_map(|member| member.trouble())
    }

    /// Returns the number of times that it has lost completed, unflushed writes since it was
    /// opened, without writing them again. [`crate::losses`] reports it to users.
    fn losses(&self) -> u64 {
        self.members().iter().map(|member| member.losses()).sum()
    }

    /// The state of its paths, for a device that has several or that reconnects.
    fn paths(&self) -> Vec<PathStatus> {
        Vec::new()
    }

    /// Returns the counts of each `stats:` in it since it was opened, with its URL; the outer ones
    /// first.
    fn counted(&self) -> Vec<(String, Totals)> {
        Vec::new()
    }

    /// The first run of blocks from `lba` on that may hold anything but zeroes, as far as the
    /// system tells without a read; an empty run at the end of the device if there is none. `None`:
    /// it is not told. A system call may be made: not for what is done with each operation.
    fn next_data(&self, _lba: u64) -> Option<core::ops::Range<u64>> {
        None
    }

    /// All runs of blocks that may hold anything but zeroes, in order, as a server reports them
    /// now; neighbours may touch. `None`: there is no server, or it does not report them. It waits
    /// for the server: not for an event loop, nor while queues of the device are open.
    fn data_runs(&self) -> Option<Vec<core::ops::Range<u64>>> {
        None
    }

    /// Returns its name for another device of the same server, which may copy from it; `None`: it
    /// has none.
    fn served(&self) -> Option<OffloadSource> {
        None
    }

    /// A way to have blocks of `from` copied to this device by the server of both, if that does it.
    /// It may ask the server, and wait for it: not for an event loop.
    fn offload(&self, _from: &OffloadSource) -> Option<Arc<dyn Offload>> {
        None
    }

    /// Maximum number of open queues; unlimited for a device that shares nothing between queues.
    fn max_queues(&self) -> usize {
        usize::MAX
    }

    /// Opens a queue on the loop of `on`. The queue wakes `owner`.
    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error>;
}

/// Access to a device from one loop. Dropping it gives up operations in flight; their memory is
/// kept until the system no longer uses it. A queue in front of another one implements
/// [`crate::filter::QueueFilter`] in place of this.
pub trait BlockQueue {
    /// Accepts operations from the front of `ops` until the queue is full. The operations are
    /// valid: in range (at submission), no longer than `max_transfer_bytes`, with the right amount
    /// of data.
    fn submit(&mut self, ops: &mut VecDeque<Op>);

    /// Appends completed operations to `done`.
    fn reap(&mut self, done: &mut Vec<Completion>);

    /// Requests an early end of the operation with this `user`. It may already have ended, or may
    /// still end normally.
    fn cancel(&mut self, user: u64);

    /// Access to the device's own memory, if it has any; the result is constant while the queue is
    /// open. A filter passes on the result of the device below it. A queue of a device on another
    /// loop has none, because that loop could not answer within the call.
    #[inline]
    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        None
    }

    /// Accepted operations that are not yet reaped, and overdue ones.
    fn in_flight(&self) -> usize;

    /// Operations that were completed without their memory because the device did not answer in
    /// time ([`crate::time_limit`]), and that the device still has. Appends the memory of those
    /// that it has completed since the last call.
    fn overdue(&mut self, _given_back: &mut Vec<Segments>) -> usize {
        0
    }

    /// Returns whether accepted operations wait for a rate that the user has limited: what they
    /// take says nothing about the device.
    fn holds_back(&self) -> bool {
        false
    }

    /// The next change of the device that this queue has not yet reported.
    fn change(&mut self) -> Option<DeviceChange> {
        None
    }
}

/// Operations on the memory of a device that avoid copies, or need only one. What it declines is
/// submitted as an operation.
pub trait InPlace {
    /// Appends the current contents of the blocks, in the device's own memory, to `into`, to be
    /// sent from there. Returns `false` and appends nothing if the device cannot do this or a copy
    /// would be cheaper; submit a read then. A successful call counts as a completed read. The
    /// memory does not change until it is dropped, whatever is written to the device.
    fn lend(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool;

    /// Appends memory of the device to `into`, for the data of a write of these blocks, which is
    /// then not copied. Returns `false` and appends nothing if the device has none. The memory may
    /// also be submitted with a write of other blocks.
    fn spare(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool;

    /// Returns whether the next write may use [`InPlace::store`], with a single copy.
    fn stores(&mut self) -> bool;

    /// Writes the borrowed `data` to these blocks at once, and durably if the device has no
    /// volatile cache. Returns `NotSent` if the device cannot do this; nothing has been written
    /// then.
    fn store(&mut self, lba: u64, blocks: u32, data: &[u8]) -> Outcome;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_changes_that_are_not_taken_only_the_last_of_each_kind_is_left() {
        let access = |state| DeviceChange::Access(state);
        let told = [
            DeviceChange::Away,
            DeviceChange::Resized { blocks: 1 },
            access(AccessState::Inaccessible),
            DeviceChange::Back,
            DeviceChange::Gone,
            access(AccessState::Optimized),
            DeviceChange::Away,
            DeviceChange::Resized { blocks: 2 },
            DeviceChange::Gone,
        ];
        let mut changes = DeviceChanges::default();
        assert!(changes.is_empty() && changes.take().is_none());
        told.into_iter().cycle().take(900).for_each(|change| changes.add(change));
        let taken: Vec<_> = core::iter::from_fn(|| changes.take()).collect();
        assert_eq!(taken, told[5..]);
        assert!(changes.is_empty());
    }
}
