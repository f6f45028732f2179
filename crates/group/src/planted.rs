//! Real bugs of groups of gateways, which the simulator asks for by name to prove that it finds
//! them. No shipped build has them: they exist only with the feature `planted-bugs`.

use core::cell::Cell;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A gateway that is taken for dead is replaced before the store has confirmed that it is kept
    /// out.
    FenceUnconfirmed,
    /// A gateway serves on when its lease is over.
    LeaseIgnored,
    /// A gateway gives an ANA group to another one before its hosts know that it is not optimized
    /// any more.
    NotReleased,
    /// A gateway that starts again takes the place of the process before without having it kept
    /// out.
    StartedUnfenced,
    /// A gateway that leaves belongs to the group no more when others have its ANA groups, whatever
    /// it has under way.
    LeftOpen,
}

impl Bug {
    /// All of them, with their names.
    pub const ALL: [(Self, &str); 5] = [
        (Self::FenceUnconfirmed, "planted-bug:group-fence-unconfirmed"),
        (Self::LeaseIgnored, "planted-bug:group-lease-ignored"),
        (Self::NotReleased, "planted-bug:group-not-released"),
        (Self::StartedUnfenced, "planted-bug:group-started-unfenced"),
        (Self::LeftOpen, "planted-bug:group-left-open"),
    ];
}

thread_local! {
    static PRESENT: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Has this thread's gateways have this bug from now on, and no other.
pub fn plant(bug: Option<Bug>) {
    PRESENT.set(bug);
}

/// The bug that this thread's code has, for another thread to have, too.
pub fn planted() -> Option<Bug> {
    PRESENT.get()
}

/// Whether this thread's gateways have this bug.
///
/// The names are nowhere used by a program that only has the bugs, so a linker would leave them
/// out; here they are used.
pub fn has(bug: Bug) -> bool {
    core::hint::black_box(&Bug::ALL);
    PRESENT.get() == Some(bug)
}
