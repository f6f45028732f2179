//! Real bugs of mirrors, which the simulator asks for by name to prove that it finds them. No
//! shipped build has them: they exist only with the feature `planted-bugs`.

use core::cell::Cell;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The bits of the regions of a write are set when the legs have executed it.
    BitAfterWrite,
    /// After an unclean end, reads are balanced over legs that were not made equal.
    BalancedTooSoon,
    /// A leg that comes back is in sync without what it missed.
    NothingCopied,
    /// Whoever opens a mirror does not look who has it open.
    ClaimIgnored,
    /// A leg that is copied to gets no writes meanwhile.
    CopyOvertaken,
    /// A mirror that was not closed is opened at once, whatever its last process has left behind at
    /// targets.
    LateWritesIgnored,
    /// A write that a lost leg has missed is acknowledged before the loss is durable.
    LossNotDurable,
    /// Blocks that no leg can be read from count as copied, and nobody remembers them.
    UnreadableForgotten,
    /// A leg that was lost and opened again counts as settled, though nothing of before was reset.
    SettledUnasked,
    /// A leg or a state file of an earlier run is taken for current.
    OldCopyCurrent,
    /// A leg with data that the others lack is copied over.
    DivergenceIgnored,
    /// Who opens a mirror that was not closed waits by its own options, whatever the one before has
    /// told.
    OwnBound,
    /// A leg whose target has started again is copied from, whatever its cache has lost.
    LostCacheTrusted,
    /// Whoever opens a mirror does not reserve its legs.
    ClaimUnreserved,
}

impl Bug {
    /// All of them, with their names.
    pub const ALL: [(Self, &str); 14] = [
        (Self::BitAfterWrite, "planted-bug:mirror-bit-after-write"),
        (Self::BalancedTooSoon, "planted-bug:mirror-balanced-too-soon"),
        (Self::NothingCopied, "planted-bug:mirror-nothing-copied"),
        (Self::ClaimIgnored, "planted-bug:mirror-claim-ignored"),
        (Self::CopyOvertaken, "planted-bug:mirror-copy-overtaken"),
        (Self::LateWritesIgnored, "planted-bug:mirror-late-writes-ignored"),
        (Self::LossNotDurable, "planted-bug:mirror-loss-not-durable"),
        (Self::UnreadableForgotten, "planted-bug:mirror-unreadable-forgotten"),
        (Self::SettledUnasked, "planted-bug:mirror-settled-unasked"),
        (Self::OldCopyCurrent, "planted-bug:mirror-old-copy-current"),
        (Self::DivergenceIgnored, "planted-bug:mirror-divergence-ignored"),
        (Self::OwnBound, "planted-bug:mirror-own-bound"),
        (Self::LostCacheTrusted, "planted-bug:mirror-lost-cache-trusted"),
        (Self::ClaimUnreserved, "planted-bug:mirror-claim-unreserved"),
    ];
}

thread_local! {
    static PRESENT: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Has this thread's mirrors have this bug from now on, and no other.
pub fn plant(bug: Option<Bug>) {
    PRESENT.set(bug);
}

/// Whether this thread's mirrors have this bug.
///
/// The names are nowhere used by a program that only has the bugs, so a linker would leave them
/// out; here they are used.
pub fn has(bug: Bug) -> bool {
    core::hint::black_box(&Bug::ALL);
    PRESENT.get() == Some(bug)
}
