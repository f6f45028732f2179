//! The ceiling: the best TCP ping-pong that this machine can do with the message sizes of NVMe/TCP.
//!
//! It moves the same bytes back and forth as the protocol, and does nothing else: no state machine, no device, no queue but the
//! socket's. What NVMe/TCP costs is what it loses against this, on the same cores and in the same minutes.
//!
//! | | to the server | to the client |
//! |---|---|---|
//! | read | 72 B (command capsule) | 24 B + payload (C2HData), 24 B (response capsule) |
//! | write within `in_capsule_bytes` | 72 B + payload | 24 B |
//! | larger write | 72 B; 24 B + payload (H2CData) | 24 B (R2T); 24 B |
//!
//! # What it does not do
//! Whoever receives payload drops it; whoever sends it takes it from where it lies: the server from a place that the client
//! chose in a region as large as the device, since a server that sends the same few bytes again and again sends them from its
//! cache. So it is an upper bound for anything that also stores what it receives.
//!
//! # How it is fast
//! Both ends poll. A turn receives once from each connection into one buffer, answers everything that was in it, and then
//! sends once to each: at depth a system call serves dozens of operations. Small payloads are copied behind their headers, as a
//! gather of many pieces costs more than the copy; large ones are gathered from where they lie. Between two empty turns the
//! processor pauses, because bare spinning on the socket's lock slows the sender of small messages down.
//!
//! No setting is the best for all sizes and depths, so [`run_best`] tries some ([`Tuning`]) and measures with the one that did best.

mod client;
mod gather;
mod message;
mod server;
mod tuning;

pub use client::{CeilingReport, CeilingSpec, run};
pub use server::{Memory, serve};
pub use tuning::{Tuning, run_best};

/// Bytes received at once.
const RECEIVE_BYTES: usize = 256 << 10;

/// Pauses between two empty turns while one operation at a time is under way, and while there are several: with one each
/// pause is latency, with several the sender needs the socket.
const PAUSES: [u32; 2] = [16, 64];

fn pause(several: bool) {
    (0..PAUSES[usize::from(several)]).for_each(|_| core::hint::spin_loop());
}

#[cfg(test)]
mod tests;
