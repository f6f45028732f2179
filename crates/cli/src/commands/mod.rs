//! One file per command.

pub mod bench;
pub mod ceiling;
mod child;
pub mod completions;
pub mod connect;
pub mod disconnect;
pub mod discover;
pub mod hosts;
pub mod identify;
pub mod limits;
pub mod list;
pub mod list_subsys;
mod orders;
pub mod serve;
pub mod study;
