//! Why a part did not do what it was asked for.

use std::fmt;

/// A failure.
#[derive(Debug)]
pub enum Error {
    /// The program was built without this part.
    LeftOut(&'static str),
    /// The part failed.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::LeftOut(part) => {
                write!(f, "this weft was built without {part}; build it with --features full")
            }
            Error::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}
