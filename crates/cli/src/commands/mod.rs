//! One file per command.

pub mod discover;
pub mod identify;
pub mod limits;
pub mod serve;
