//! A step of a run.

use std::process::Command;

use anyhow::Result;

use super::results::Results;

/// A step: its name, and what is run.
pub struct Step {
    /// Its name, also used for its log.
    pub name: &'static str,
    /// Its work.
    pub work: Work,
    /// Its turn: the kind of steps that run at the same time.
    pub turn: Turn,
}

/// The work of a step.
pub enum Work {
    /// A program whose exit status is the result.
    Command(Command),
    /// Work that reports its own results. It builds the workspace's test programs.
    Own(Own),
}

/// Work that a step does itself.
pub type Own = Box<dyn FnOnce(&Results) -> Result<()> + Send>;

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
    /// As `Builds`, once the test programs that run beside it are built: it uses what they use, and
    /// would only wait for cargo's lock.
    Built,
}

impl Step {
    /// A step that runs a program.
    pub fn command(name: &'static str, turn: Turn, command: Command) -> Self {
        Self { name, work: Work::Command(command), turn }
    }
}
