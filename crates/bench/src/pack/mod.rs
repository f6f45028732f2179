//! Results without what says whose they are: names of hosts and users, addresses, serial numbers,
//! paths and secrets.
//!
//! Whatever is not known to be harmless goes. Each text of `results.json` has a rule (`fields`),
//! and one without a rule is removed. A rule lets pass what it knows, and replaces the rest, the
//! same text by the same replacement, so that rows can still be told apart.

mod aliases;
mod fields;
mod known;
mod packed;
mod parts;
#[cfg(test)]
mod tests;
mod url;
mod words;

pub use packed::{Packed, RemovedTexts, pack};
