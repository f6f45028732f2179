//! Support of the options of other tools.

use std::fmt::Write as _;

/// Support of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionSupport {
    /// It is honoured.
    Honoured,
    /// A job that has it does not run.
    Refused,
    /// It has no meaning here: it changes neither what is written nor what is measured. It is left
    /// out, and named in the report.
    LeftOut,
}

impl OptionSupport {
    /// The word for it in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::Refused => "refused",
            Self::LeftOut => "meaningless here",
        }
    }
}

/// Options of a tool: their names, their support, and its reason or limits.
pub type Options = [(&'static str, OptionSupport, &'static str)];

/// The options as a table of `docs/bench.md`.
pub(super) fn table(tool: &str, options: &Options) -> String {
    let mut text = format!("| {tool} | | remarks |\n|---|---|---|\n");
    for (names, answer, note) in options {
        let names = names.split(' ').map(|name| format!("`{name}`"));
        let names = names.collect::<Vec<_>>().join(", ");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {names} | {} | {note} |", answer.word());
    }
    text
}
