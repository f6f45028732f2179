//! System calls and copies of all ends, on a fixed schedule: in virtual time they depend on the
//! code and on nothing else.
//!
//! Limits are formulas where the layers say what has to be, with the calls of a batch as their only
//! number. `--nocapture` shows what was found.

mod bridged;
mod composites;
mod measure;
mod protocols;
mod tls;
