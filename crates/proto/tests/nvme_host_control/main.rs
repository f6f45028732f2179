//! The host side of an association against a scripted controller, on virtual time.

mod events;
mod fake;
mod faults;
mod recovery;
mod setup;
mod world;
