//! libweft: block devices and targets of weft for programs in C, and for all that can call C.
//!
//! `include/weft.h` documents every function, and `docs/libweft.md` the rules that all of them
//! share: who owns memory, threads, fork, signals, and unloading.
//!
//! * `ffi`: the functions, each a call of what is below.
//! * `guard`: what all functions do: no panic leaves them, and none works in a forked child.
//! * `failure`: errors, as a code and a sentence.
//! * `disk`: an open device with its event loops, and blocking calls; `options`, `properties`.
//! * `queue`: operations in flight, by the caller; `worker`: the same, on the event loop;
//!   `line`: between both; `outbox`: what has completed; `caller_loop`: an event loop in a thread of
//!   the caller.
//! * `memory`: memory of the caller.
//! * `target`: a target in this process.
//! * `fork`, `signals`: what a process has only once.
//! * `order`: what Helgrind has to know.
#![deny(unsafe_code)]
#![cfg(target_os = "linux")]

mod caller_loop;
mod disk;
mod failure;
pub mod ffi;
mod fork;
mod guard;
mod limits;
mod line;
mod memory;
mod options;
mod order;
mod outbox;
mod properties;
mod queue;
mod signals;
mod target;
mod worker;
