//! Errors that prevent a measurement.

use std::io;
use weft_block::ErrorKind;

/// An error that prevents a measurement: one sentence that says what is wrong and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option is invalid, by itself or for this device.
    #[error("{option}: {problem}")]
    Option {
        /// The option, with fio's name.
        option: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A mistake in a suite.
    #[error("the suite {place}: {problem}")]
    Suite {
        /// Its name or path, with line and column where it is known.
        place: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A file of results that cannot be read.
    #[error("the results {place}: {problem}")]
    Results {
        /// Its path.
        place: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The device.
    #[error(transparent)]
    Device(#[from] weft_block::Error),
    /// A failed system call.
    #[error("{what}: {cause}")]
    Io {
        /// What failed.
        what: String,
        /// The cause.
        cause: io::Error,
    },
    /// The server of the ceiling uses another protocol.
    #[error("{0} is not a weft ceiling server: start one there with `weft ceiling`")]
    NotACeiling(String),
    /// A thread ended before its work was done.
    #[error("a thread of the bench ended early: {0}")]
    Thread(String),
}

impl Error {
    /// An invalid option.
    pub fn option(option: &'static str, problem: impl Into<String>) -> Self {
        Self::Option { option, problem: problem.into() }
    }

    /// A failed system call.
    pub fn io(what: impl Into<String>, cause: io::Error) -> Self {
        Self::Io { what: what.into(), cause }
    }

    /// The kind, which determines the exit status.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Option { .. } | Self::Suite { .. } | Self::Results { .. } => ErrorKind::Usage,
            Self::Device(error) => error.kind(),
            Self::Io { what, cause } => {
                weft_block::Error::io(what.as_str(), io::Error::from(cause.kind())).kind()
            }
            Self::NotACeiling(_) => ErrorKind::Protocol,
            Self::Thread(_) => ErrorKind::Io,
        }
    }
}
