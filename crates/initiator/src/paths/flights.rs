//! The operations of one queue, by the names under which the queues of the paths know them.

use weft_block::slots::Slots;
use weft_block::{Op, OpKind};
use weft_io::Time;

/// Where an operation is: on the path of this number, or
pub(super) type Place = u16;
/// not sent at present,
pub(super) const WAITING: Place = u16::MAX;
/// with the queue of a path that was lost.
pub(super) const LEAVING: Place = u16::MAX - 1;

/// What has to be known of an operation that its path was given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// The submitter's name of it.
    pub(super) user: u64,
    pub(super) kind: OpKind,
    pub(super) lba: u64,
    pub(super) blocks: u32,
    pub(super) place: Place,
    /// How often it was sent again because of what a device answered.
    pub(super) repeats: u8,
    /// When it was sent.
    pub(super) at: Time,
    /// Of a flush: the mark of the log of unflushed writes when it was sent.
    pub(super) mark: u64,
    /// The losses of completed writes that its submitter could know of.
    pub(super) losses: u64,
    /// A path that had it was lost, and it changes data: it may have been executed.
    pub(super) may_have_executed: bool,
    /// It is among the unresolved writes of the device.
    pub(super) unresolved: bool,
    /// It is a write that others on its blocks wait for.
    pub(super) went_out: bool,
    /// Its submitter wants it to end.
    pub(super) cancelled: bool,
}

impl Flight {
    #[inline]
    pub(super) fn of(op: &Op, place: Place, at: Time) -> Self {
        Self {
            user: op.user,
            kind: op.kind,
            lba: op.lba,
            blocks: op.blocks,
            place,
            repeats: 0,
            at,
            mark: 0,
            losses: 0,
            may_have_executed: false,
            unresolved: false,
            went_out: false,
            cancelled: false,
        }
    }
}

/// The operations of a queue.
pub(super) type Flights = Slots<Flight>;
