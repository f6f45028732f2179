//! Information for a transport with a command, and reasons for a refusal.

/// The data of a command, from the start of its tag's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostData {
    /// None.
    None,
    /// This many bytes from the controller.
    In(u32),
    /// This many bytes to the controller.
    Out(u32),
}

/// Why a command was not submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many commands are outstanding as the queue holds.
    #[error("the queue is full")]
    Full,
    /// The connection is closed.
    #[error("the connection is closed")]
    Closed,
}
