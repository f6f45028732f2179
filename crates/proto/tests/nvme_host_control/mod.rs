//! The host side of an association against a scripted controller, on virtual time.

mod access;
mod cross_reset;
mod events;
mod fake;
mod faults;
mod identity;
mod recovery;
mod setup;
mod unwanted;
mod world;
