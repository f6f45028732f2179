//! libweft: block devices and targets of weft for programs in C, and for all that can call C.
//!
//! `include/weft.h` documents every function, and `docs/libweft.md` the rules that all of them
//! share: who owns memory, threads, fork, signals, and unloading.
//!
//! * `ffi`: the functions, each a call of what is below.
//! * `guard`: what all functions do: no panic leaves them, and none works in a forked child.
//! * `failure`: errors, as a code and a sentence; `reported`: statuses of devices in words.
//! * `disk`: an open device with its event loops, and blocking calls; `options`, `properties`.
//! * `queue`: operations in flight, by the caller; `worker`: the same, on the event loop;
//!   `line`: between both; `outbox`: what has completed; `caller_loop`: an event loop in a thread of
//!   the caller.
//! * `log`: what weft notes, for a function of the program.
//! * `memory`: memory of the caller.
//! * `target`: a target in this process.
//! * `fork`, `signals`: what a process has only once.
//! * `order`: what Helgrind has to know.
//!
//! Bindings of other languages that are written in Rust use the modules below the functions.
#![deny(unsafe_code)]
#![cfg(target_os = "linux")]

mod caller_loop;
pub mod disk;
pub mod failure;
pub mod ffi;
pub mod fork;
pub mod guard;
mod limits;
mod line;
mod log;
pub mod memory;
pub mod options;
mod order;
mod outbox;
pub mod properties;
pub mod queue;
mod reported;
mod signals;
pub mod target;
pub mod worker;
