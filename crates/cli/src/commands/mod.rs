//! One file per command.

pub mod bench;
pub mod ceiling;
mod child;
pub mod discover;
pub mod hosts;
pub mod identify;
pub mod limits;
pub mod serve;
pub mod study;
