//! The messages of a service in the event log. Their numbers stay, so that filters and alarms can
//! go by them; docs/windows.md lists them.

/// A message, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ServiceMessage {
    /// The service serves.
    Started = 1,
    /// The service has ended in order, as it was asked to.
    Ended = 2,
    /// The service has ended because something failed; the text says what.
    Failed = 3,
    /// A line of the log with the level `error`.
    Error = 10,
    /// A line of the log with the level `warn`, or a remark of the program.
    Warning = 11,
    /// A line of the log with any other level.
    Information = 12,
}
