//! State of a driver in its loop: its ID, and whether it did something.

/// ID of a driver on one loop; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DriverId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The result of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Activity {
    /// Nothing to do. If all phases of a driver are idle for the loop's spin time, it is not called
    /// again until it is woken.
    Idle,
    /// Something was done, and there is nothing more to do until the driver is woken: its socket is
    /// empty, or full.
    Settled,
    /// Something was done, and more may follow soon.
    Busy,
}

impl Activity {
    /// Busy if the condition holds.
    pub fn busy_if(condition: bool) -> Self {
        if condition { Self::Busy } else { Self::Idle }
    }

    /// Like `busy_if`, but settled instead of busy if the condition holds.
    pub fn or_settled_if(self, condition: bool) -> Self {
        if condition && self == Self::Busy { Self::Settled } else { self }
    }

    /// The same, but busy instead of settled unless the condition holds.
    pub fn or_busy_unless(self, condition: bool) -> Self {
        if !condition && self == Self::Settled { Self::Busy } else { self }
    }

    /// Returns whether something was done.
    pub fn is_some(self) -> bool {
        self != Self::Idle
    }
}
