//! An operation on blocks, and how it comes back.

use crate::status::Status;
use weft_io::Segments;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Fill the data with the blocks.
    Read,
    /// Store the data. With `fua` it is durable when the operation is done.
    Write {
        /// Force unit access.
        fua: bool,
    },
    /// Make durable everything whose write was done before this was submitted. Names no blocks.
    Flush,
    /// The blocks are not needed; they read as zeroes or as before.
    Discard,
    /// The blocks read as zeroes from now on; with `deallocate` the device may free their space.
    WriteZeroes {
        /// May free.
        deallocate: bool,
        /// Force unit access.
        fua: bool,
    },
    /// Compare the blocks with the data; [`crate::StatusKind::CompareFailed`] when they differ.
    Compare,
    /// Atomically: compare the blocks with the first half of the data and, when they are equal, store the second half.
    CompareAndWrite {
        /// Force unit access.
        fua: bool,
    },
}

impl OpKind {
    /// Bytes of data that the operation carries for one byte of blocks: 0, 1 or 2.
    pub const fn data_factor(self) -> usize {
        match self {
            Self::Read | Self::Write { .. } | Self::Compare => 1,
            Self::CompareAndWrite { .. } => 2,
            Self::Flush | Self::Discard | Self::WriteZeroes { .. } => 0,
        }
    }

    /// Whether the operation may change what is stored.
    pub const fn is_write(self) -> bool {
        !matches!(self, Self::Read | Self::Compare | Self::Flush)
    }
}

/// An operation. It owns its memory; the [`Completion`] gives it back whole.
///
/// Whoever holds one owes its submitter an answer: it ends by [`Op::done`], or by [`Op::give_up`] where giving up is right. With
/// `debug_assertions`, one that is dropped unanswered panics, and tells where it was made. One that was answered is not to be
/// submitted again; its memory goes into a new one.
#[derive(Debug)]
pub struct Op {
    /// What.
    pub kind: OpKind,
    /// First block, in blocks of the device.
    pub lba: u64,
    /// Blocks; 0 for a flush.
    pub blocks: u32,
    /// The submitter's own name for the operation; unique among those it has in flight on the queue.
    pub user: u64,
    /// `blocks × block size × data_factor` bytes.
    pub data: Segments,
    owed: Owed,
}

impl Op {
    /// An operation of this kind on `blocks` blocks from block `lba` on, with `blocks × block size × data_factor` bytes of data.
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

    /// Completes with an outcome.
    #[inline]
    pub fn done(mut self, outcome: Outcome) -> Completion {
        self.owed.settle();
        Completion { op: self, outcome }
    }

    /// Ends without an answer, as nobody waits for one any more: the queue that it was submitted to has been dropped, or whoever wanted it
    /// has left before it was submitted. Gives the memory back.
    #[inline]
    pub fn give_up(mut self) {
        self.owed.settle();
    }
}

/// The answer that is owed for an operation: nothing at all unless `debug_assertions` are on, and then where it was made.
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
                "an operation made at {place} was dropped without an answer: complete it, or `give_up` where nobody waits any more"
            );
        }
    }
}

/// What is known of an operation that ended. Reconnect and multipath decide by this and by nothing else:
///
/// | | may it be submitted again? |
/// |---|---|
/// | `Done` | as its status says: the device has decided |
/// | `NotSent` | yes, at once and anywhere |
/// | `MayHaveExecuted`, settled | yes where doing it twice is as good as once; not a compare-and-write, which may now fail on its own data |
/// | `MayHaveExecuted`, not settled | what changes nothing ([`OpKind::is_write`]) yes; a write not before it is certain that the peer is dead: it could still execute, and undo what was written later |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The device answered.
    Done(Status),
    /// It never reached the device: it may be sent again anywhere.
    NotSent(Status),
    /// The device may have executed it, or may not have: nobody knows.
    MayHaveExecuted {
        /// Why nobody knows.
        status: Status,
        /// Whether it is certain that it will not be executed any more. Otherwise it may be on its way still, or under way.
        settled: bool,
    },
}

impl Outcome {
    /// Done with success.
    pub const SUCCESS: Self = Self::Done(Status::SUCCESS);

    /// It may have been executed, and will not be any more.
    pub const fn settled(status: Status) -> Self {
        Self::MayHaveExecuted { status, settled: true }
    }

    /// It may have been executed, and may still be.
    pub const fn unsettled(status: Status) -> Self {
        Self::MayHaveExecuted { status, settled: false }
    }

    /// The status, whatever is known.
    pub const fn status(&self) -> Status {
        match self {
            Self::Done(status) | Self::NotSent(status) | Self::MayHaveExecuted { status, .. } => *status,
        }
    }

    /// Whether it was done with success.
    #[inline]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Done(status) if status.is_success())
    }
}

/// An operation that ended.
#[derive(Debug)]
pub struct Completion {
    /// The operation as it was submitted; the data of a successful read is filled.
    pub op: Op,
    /// How it ended.
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
        assert!(panics(|| drop(flush().data)).is_some(), "its memory alone is no answer");
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
