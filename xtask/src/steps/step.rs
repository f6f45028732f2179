//! What a step is.

use std::{process::Command, time::Duration};

/// A step: a program whose exit status is the result.
pub struct Step {
    /// Its name, also used for its log.
    pub name: &'static str,
    /// The program.
    pub command: Command,
    /// When it is ended and counted as failed.
    pub limit: Duration,
    /// What runs at the same time.
    pub turn: Turn,
}

/// When a step runs. Each begins when those of its kind before it have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// When all before it have ended, and before all behind it.
    Alone,
    /// Beside builds, and before them at the processors: it has tests, which wait for time to pass
    /// and for each other's answers.
    Tests,
    /// Beside tests, to which it gives way: it keeps the processors busy, and nothing in it waits
    /// for time to pass.
    Builds,
}
