//! Operations on blocks, and their outcomes.

use crate::outcome::status::Status;
use crate::reservation::ReserveAction;
use weft_io::Segments;

/// Kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Read the blocks into the data.
    Read,
    /// Write the data. With `fua` it is durable on completion.
    Write {
        /// Force unit access.
        fua: bool,
    },
    /// Makes durable every write that completed before the flush was submitted. Has no blocks.
    Flush,
    /// The blocks are no longer needed; they read as zeroes or as before.
    Discard,
    /// The blocks read as zeroes from now on; with `deallocate` the device may free their space.
    WriteZeroes {
        /// May free the space.
        deallocate: bool,
        /// Force unit access.
        fua: bool,
    },
    /// Compares the blocks with the data; [`crate::StatusKind::CompareFailed`] if they differ.
    Compare,
    /// Atomically compares the blocks with the first half of the data and, if equal, stores the
    /// second half.
    CompareAndWrite {
        /// Force unit access.
        fua: bool,
    },
    /// Changes the reservation. Has no blocks.
    Reserve(ReserveAction),
    /// Reads the state of the reservation into the data, for [`crate::ReservationReport::decode`]:
    /// [`crate::limits::RESERVATION_REPORT_BYTES`], with as many blocks from block 0 as these bytes
    /// would be.
    ReservationReport,
}

impl OpKind {
    /// Bytes of data per byte of blocks: 0, 1 or 2.
    pub const fn data_factor(self) -> usize {
        match self {
            Self::Read | Self::Write { .. } | Self::Compare | Self::ReservationReport => 1,
            Self::CompareAndWrite { .. } => 2,
            Self::Flush | Self::Discard | Self::WriteZeroes { .. } | Self::Reserve(_) => 0,
        }
    }

    /// Returns whether the operation fills its data.
    pub const fn fills(self) -> bool {
        match self {
            Self::Read | Self::ReservationReport => true,
            Self::Write { .. } | Self::Flush | Self::Discard | Self::WriteZeroes { .. } => false,
            Self::Compare | Self::CompareAndWrite { .. } | Self::Reserve(_) => false,
        }
    }

    /// Returns whether the operation may change stored data.
    pub const fn is_write(self) -> bool {
        !matches!(
            self,
            Self::Read | Self::Compare | Self::Flush | Self::Reserve(_) | Self::ReservationReport
        )
    }

    /// Returns whether what the operation writes is durable on its completion.
    pub const fn fua(self) -> bool {
        matches!(
            self,
            Self::Write { fua: true }
                | Self::WriteZeroes { fua: true, .. }
                | Self::CompareAndWrite { fua: true }
        )
    }

    /// Returns whether the operation changes a reservation. It is not sent again once it may have
    /// been executed: others may have changed the reservation in the meantime, so its submitter
    /// asks for a report instead.
    pub const fn is_reserve(self) -> bool {
        matches!(self, Self::Reserve(_))
    }
}

/// An operation. It owns its memory; the [`Completion`] returns all of it.
///
/// The holder of an operation owes its submitter a completion: the operation ends with
/// [`Op::done`], or with [`Op::give_up`] if nobody waits for it. With `debug_assertions`, dropping
/// one without either panics and reports where it was created. Do not submit an operation again
/// after its completion; use its memory for a new one.
#[derive(Debug)]
pub struct Op {
    /// Kind of operation.
    pub kind: OpKind,
    /// First block, in blocks of the device.
    pub lba: u64,
    /// Number of blocks; 0 for a flush.
    pub blocks: u32,
    /// The submitter's identifier of the operation, unique among its operations in flight on the
    /// queue.
    pub user: u64,
    /// `blocks × block size × data_factor` bytes.
    pub data: Segments,
    owed: Owed,
}

impl Op {
    /// An operation on `blocks` blocks from block `lba`, with `blocks × block size × data_factor`
    /// bytes of data.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn new(kind: OpKind, lba: u64, blocks: u32, user: u64, data: Segments) -> Self {
        Self { kind, lba, blocks, user, data, owed: Owed::new() }
    }

    /// An operation without data.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn bare(kind: OpKind, lba: u64, blocks: u32, user: u64) -> Self {
        Self::new(kind, lba, blocks, user, Segments::new())
    }

    /// Completes the operation with an outcome.
    #[inline]
    pub fn done(mut self, outcome: Outcome) -> Completion {
        self.owed.settle();
        Completion { op: self, outcome }
    }

    /// Ends the operation without a completion, because nothing waits for it: the queue to which it
    /// was submitted was dropped, or the submitter went away first. Returns the memory.
    #[inline]
    pub fn give_up(mut self) {
        self.owed.settle();
    }
}

/// The owed completion: empty unless `debug_assertions` are on; then it records where the operation
/// was created.
#[derive(Debug)]
struct Owed {
    #[cfg(debug_assertions)]
    since: Option<&'static core::panic::Location<'static>>,
}

#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Owed>() == 0 && !core::mem::needs_drop::<Owed>());

impl Owed {
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    fn new() -> Self {
        Self {
            #[cfg(debug_assertions)]
            since: Some(core::panic::Location::caller()),
        }
    }

    #[inline]
    fn settle(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.since = None;
        }
    }
}

#[cfg(debug_assertions)]
impl Drop for Owed {
    fn drop(&mut self) {
        if let Some(place) = self.since
            && !std::thread::panicking()
        {
            panic!(
                "an operation created at {place} was dropped without a completion: complete it, or call `give_up` if nothing waits for it"
            );
        }
    }
}

/// The outcome of an operation. Reconnect and multipath use only this to decide:
///
/// | | may it be submitted again? |
/// |---|---|
/// | `Done` | depends on the status: the device has decided |
/// | `NotSent` | yes, at once and anywhere |
/// | `MayHaveExecuted`, settled | yes, if executing it twice has the same effect as once; not a compare-and-write, which may now fail on its own data, nor a change of a reservation ([`OpKind::is_reserve`]) |
/// | `MayHaveExecuted`, not settled | yes, if it changes nothing ([`OpKind::is_write`], [`OpKind::is_reserve`]); a write only when it is certain that the peer is dead: it could still execute and overwrite later data |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The device has answered.
    Done(Status),
    /// It did not reach the device and may be sent again, also elsewhere.
    NotSent(Status),
    /// The device may or may not have executed it.
    MayHaveExecuted {
        /// Why this is unknown.
        status: Status,
        /// True if it can certainly no longer be executed. Otherwise it may still be in transit or
        /// executing.
        settled: bool,
    },
}

impl Outcome {
    /// Success.
    pub const SUCCESS: Self = Self::Done(Status::SUCCESS);

    /// It may have been executed, but can no longer be executed.
    pub const fn settled(status: Status) -> Self {
        Self::MayHaveExecuted { status, settled: true }
    }

    /// It may have been executed, and may still be executed.
    pub const fn unsettled(status: Status) -> Self {
        Self::MayHaveExecuted { status, settled: false }
    }

    /// The status of any outcome.
    pub const fn status(&self) -> Status {
        match self {
            Self::Done(status) | Self::NotSent(status) | Self::MayHaveExecuted { status, .. } => {
                *status
            }
        }
    }

    /// Returns whether the operation succeeded.
    #[inline]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Done(status) if status.is_success())
    }
}

/// A completed operation.
#[derive(Debug)]
pub struct Completion {
    /// The operation as submitted; a successful read has filled its data.
    pub op: Op,
    /// The outcome.
    pub outcome: Outcome,
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    fn panics(drops: impl FnOnce() + std::panic::UnwindSafe) -> Option<String> {
        let payload = std::panic::catch_unwind(drops).err()?;
        payload.downcast_ref::<String>().cloned()
    }

    fn flush() -> Op {
        Op::bare(OpKind::Flush, 0, 0, 0)
    }

    #[test]
    fn an_operation_that_is_dropped_unanswered_panics_and_tells_where_it_was_made() {
        let told = panics(|| drop(flush())).expect("it was not answered");
        assert!(told.contains(file!()), "{told}");
        assert!(panics(|| drop(flush().data)).is_some(), "its memory alone is not an answer");
    }

    #[test]
    fn one_that_was_answered_or_given_up_does_not() {
        assert_eq!(panics(|| drop(flush().done(Outcome::SUCCESS))), None);
        assert_eq!(panics(|| drop(flush().done(Outcome::SUCCESS).op)), None);
        assert_eq!(panics(|| flush().give_up()), None);
    }

    #[test]
    fn a_panic_that_is_under_way_is_not_made_worse() {
        let told = panics(|| {
            let _held = flush();
            panic!("{}", "the first one");
        });
        assert_eq!(told.as_deref(), Some("the first one"));
    }
}
