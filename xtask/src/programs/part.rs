//! The parts into which the tests of the programs are divided.

use crate::sh;

/// A part of the tests. `xtask/apart.txt` names those of all parts but the first and the
/// last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Tests that run beside others, in `cargo xtask test`.
    Together,
    /// Tests that look at the clock or at their own process: one program at a time, at the end of
    /// `cargo xtask test`.
    Alone,
    /// The same, but only once everything is built: they start cargo, which would wait.
    Built,
    /// Tests of `cargo xtask test --all`.
    Rest,
    /// Ignored tests that need the lab's virtual machine.
    Lab,
    /// All tests of the lab's tools, which are a workspace of their own.
    Tools,
}

impl Part {
    pub(super) const ALL: [(&'static str, Self); 4] =
        [("built", Self::Built), ("alone", Self::Alone), ("rest", Self::Rest), ("lab", Self::Lab)];

    /// Its name in `xtask/apart.txt`.
    pub(super) fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(_, part)| *part == self);
        known.map_or("together", |(name, _)| name)
    }

    /// Programs that run at the same time. One more than processors, as tests wait for much of
    /// their time.
    pub(super) fn width(self) -> usize {
        match self {
            Self::Together => sh::cores() + 1,
            _ => 1,
        }
    }
}
