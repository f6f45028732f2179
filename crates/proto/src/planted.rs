//! Real bugs, which the simulator asks for by name to prove that it finds them. No shipped build
//! has them: they exist only with the feature `planted-bugs`.

use core::cell::Cell;

/// What the names of all bugs begin with in the program, so that a test can look for it in shipped
/// programs.
pub const MARK: &str = "planted-bug:";

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// An initiator acknowledges a write whose connection was lost, without an answer.
    EarlyAcknowledgement,
    /// A target answers a flush without flushing.
    LostFlush,
    /// A lost write ends, and is sent again, while the old target may still execute it.
    NoStaleWriteRule,
    /// A target gives the tag of a read to the next command while the data of the read is still
    /// being sent.
    TagReusedTooSoon,
    /// A data digest is not compared.
    UncheckedDigest,
    /// A queue goes on with what its host was allowed before a reservation changed.
    ForgottenReservation,
    /// An initiator does not notice that a path became optimized again.
    MissedAccessChange,
    /// An operation that was sent twice completes twice.
    SecondCompletion,
    /// A target executes what it reads from a connection that its host has closed.
    LateExecution,
    /// A gateway of a group answers a change of reservations before the others have it in force.
    ReservationAnsweredEarly,
    /// A gateway of a group refuses a reservation by a state that the others do not have in force
    /// yet.
    ReservationRefusedEarly,
    /// Unflushed data is written again although others may have written to the same blocks since.
    ReplayOverOthers,
    /// Overlapping writes over a volatile cache are in flight at once, so the order of their
    /// execution is not known.
    OverlappingWritesAtOnce,
    /// An initiator waits for half as long as a target may go on with what it has lost.
    BoundTooShort,
}

impl Bug {
    /// All of them, with their names.
    pub const ALL: [(Self, &str); 14] = [
        (Self::EarlyAcknowledgement, "planted-bug:early-acknowledgement"),
        (Self::LostFlush, "planted-bug:lost-flush"),
        (Self::NoStaleWriteRule, "planted-bug:no-stale-write-rule"),
        (Self::TagReusedTooSoon, "planted-bug:tag-reused-too-soon"),
        (Self::UncheckedDigest, "planted-bug:unchecked-digest"),
        (Self::ForgottenReservation, "planted-bug:forgotten-reservation"),
        (Self::MissedAccessChange, "planted-bug:missed-access-change"),
        (Self::SecondCompletion, "planted-bug:second-completion"),
        (Self::LateExecution, "planted-bug:late-execution"),
        (Self::ReservationAnsweredEarly, "planted-bug:reservation-answered-early"),
        (Self::ReservationRefusedEarly, "planted-bug:reservation-refused-early"),
        (Self::ReplayOverOthers, "planted-bug:replay-over-others"),
        (Self::OverlappingWritesAtOnce, "planted-bug:overlapping-writes-at-once"),
        (Self::BoundTooShort, "planted-bug:bound-too-short"),
    ];

    /// The bug of a name, which may lack the mark.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix(MARK).unwrap_or(name);
        Self::ALL
            .iter()
            .find(|(_, known)| known.strip_prefix(MARK) == Some(name))
            .map(|(bug, _)| *bug)
    }
}

thread_local! {
    static PRESENT: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Has this thread's code have this bug from now on, and no other.
pub fn plant(bug: Option<Bug>) {
    PRESENT.set(bug);
}

/// The bug that this thread's code has, for another thread to have, too.
pub fn planted() -> Option<Bug> {
    PRESENT.get()
}

/// Whether this thread's code has this bug.
///
/// The names are nowhere used by a program that only has the bugs, so a linker would leave them
/// out; here they are used.
pub fn has(bug: Bug) -> bool {
    core::hint::black_box(&Bug::ALL);
    PRESENT.get() == Some(bug)
}
