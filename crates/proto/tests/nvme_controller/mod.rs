//! Subsystems, controllers and queues of a target, command for command.

mod admin;
mod ana;
mod connect;
mod copying;
mod cross_reset;
mod discovery;
mod fused;
mod invalid_io;
mod inventory;
mod io;
mod life;
mod mandatory;
mod random;
mod reservations;
