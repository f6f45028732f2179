//! The host side of an association against a scripted controller, on virtual time.

mod access;
mod cross_reset;
mod discovery;
mod events;
mod fake;
mod faults;
mod identity;
mod other_targets;
mod recovery;
mod setup;
mod unwanted;
mod world;
