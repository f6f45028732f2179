//! The ceiling: the fastest TCP ping-pong of this machine with the message sizes of NVMe/TCP.
//!
//! It transfers the same bytes as the protocol and does nothing else: it has no state machine, no
//! device, and no queue except the socket's. The cost of NVMe/TCP is its loss compared with the
//! ceiling, on the same cores and at the same time.
//!
//! | | to the server | to the client |
//! |---|---|---|
//! | read | 72 B (command capsule) | 24 B + payload (C2HData), 24 B (response capsule) |
//! | write within `in_capsule_bytes` | 72 B + payload | 24 B |
//! | larger write | 72 B; 24 B + payload (H2CData) | 24 B (R2T); 24 B |
//!
//! # Limits
//! The receiver drops payload. The sender sends it from where it is: the server from an address
//! that the client chose, in a region as large as the device, because a server that sends the same
//! few bytes repeatedly sends them from its cache. So the ceiling is an upper bound for anything
//! that also stores what it receives.
//!
//! # Speed
//! Both ends poll. A turn receives once from each connection into one buffer, answers everything in
//! it, and then sends once to each connection: with a deep queue, one system call serves dozens of
//! operations. Small payloads are copied behind their headers, because gathering many pieces costs
//! more than the copy; large ones are gathered. Between two empty turns the CPU pauses, because
//! spinning on the socket's lock without a pause slows down the sender of small messages.
//!
//! With TLS ([`Secure`]) both ends do the same within the stream that weft's own connections have;
//! the rest is unchanged.
//!
//! No setting is the best for all sizes and depths, so [`run_best`] tries some ([`CeilingTuning`])
//! and measures with the best.

mod channel;
mod client;
mod gather;
mod message;
mod search;
mod server;
mod tuning;

pub use channel::Secure;
pub use client::{CeilingReport, CeilingSpec, run};
pub use search::run_best;
pub use server::{CeilingMemory, serve};
pub use tuning::CeilingTuning;

/// Bytes received at once.
const RECEIVE_BYTES: usize = 256 << 10;

/// Pauses between two empty turns, with one operation in flight and with several. With one, each
/// pause adds latency; with several, the sender needs the socket.
const PAUSES: [u32; 2] = [16, 64];

fn pause(several: bool) {
    (0..PAUSES[usize::from(several)]).for_each(|_| core::hint::spin_loop());
}

#[cfg(test)]
mod tests;
