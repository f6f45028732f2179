//! The host side of an association against a scripted controller, on virtual time.

mod events;
mod fake;
mod faults;
mod identity;
mod recovery;
mod setup;
mod unwanted;
mod world;
