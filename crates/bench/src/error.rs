//! Why a measurement could not be made.

use std::io;
use weft_block::ErrorKind;

/// A measurement that could not be made: one sentence that says what is wrong and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option is wrong, alone or for this device.
    #[error("{option}: {problem}")]
    Option {
        /// The option, as fio calls it.
        option: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The device.
    #[error(transparent)]
    Device(#[from] weft_block::Error),
    /// A failed system call.
    #[error("{what}: {cause}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        cause: io::Error,
    },
    /// The other end of the ceiling speaks something else.
    #[error("{0} is not a weft ceiling server: start one there with `weft ceiling`")]
    NotACeiling(String),
    /// A thread of the bench ended before its work was done.
    #[error("a thread of the bench ended early: {0}")]
    Thread(String),
}

impl Error {
    /// A wrong option.
    pub(crate) fn option(option: &'static str, problem: impl Into<String>) -> Self {
        Self::Option { option, problem: problem.into() }
    }

    /// A failed system call.
    pub(crate) fn io(what: impl Into<String>, cause: io::Error) -> Self {
        Self::Io { what: what.into(), cause }
    }

    /// The kind, from which the exit status follows.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Option { .. } => ErrorKind::Usage,
            Self::Device(error) => error.kind(),
            Self::Io { what, cause } => weft_block::Error::io(what.as_str(), io::Error::from(cause.kind())).kind(),
            Self::NotACeiling(_) => ErrorKind::Protocol,
            Self::Thread(_) => ErrorKind::Io,
        }
    }
}
