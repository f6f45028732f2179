//! Parts of the program that a build can leave out, as what they depend on takes long to compile.
//!
//! Packages have all of them. A part that is left out refuses what it is asked for, with a sentence
//! that says how to get it.
#![forbid(unsafe_code)]

pub mod certificate;
mod error;
pub mod generators;
pub mod mdns;

pub use error::Error;
