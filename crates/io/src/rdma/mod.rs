//! RDMA: queue pairs that are reliable and connected, through which messages and memory move
//! without the system.
//!
//! * [`QueuePair`], [`QueuePairListener`]: the interface.
//!   [`Handle::connect_rdma`](crate::Handle::connect_rdma) and
//!   [`Handle::listen_rdma`](crate::Handle::listen_rdma) make them.
//! * [`work`]: what a queue pair reports.
//! * `verbs` (Linux): queue pairs of rdma-core, whose libraries are loaded when the first one is
//!   asked for.
//!
//! # The life of a queue pair
//! 1. `connect_rdma` finds the device that leads to the other end, and the queue pair reports
//!    [`QueuePairEvent::Resolved`]. One that [`QueuePairListener::accept`] returns is as far
//!    already, and has the request's private data.
//! 2. [`QueuePair::device_limits`] says what may be asked for, [`QueuePair::create`] makes the
//!    queues, receives are posted, and [`QueuePair::open`] asks for the connection or accepts it
//!    ([`QueuePair::reject`] does not).
//! 3. [`QueuePairEvent::Established`] is reported. (On the accepting side messages may be received
//!    before.)
//! 4. [`QueuePair::disconnect`], the other end, or a failure ends it: everything that is posted
//!    ends with an event. [`QueuePair::destroy`], and dropping it, need no such events: afterwards
//!    the device touches nothing.
//!
//! # Memory
//! What is posted belongs to the queue pair until it has ended; so nothing that its user does can
//! be unsound. It has memory under numbers, its *slots*, for data: its own, registered with the
//! device ([`QueuePair::prepare`]), into and out of which the user copies; or, without a copy, the
//! user's, which it lends ([`QueuePair::lend`]) and gets back when nothing touches it.
//!
//! A slot may be *exposed*: the other end then reads or writes it by key and address.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod interface;
mod unavailable;
#[cfg(target_os = "linux")]
mod verbs;
pub mod work;

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use verbs as system;

pub use interface::{
    DeviceLimits, NotLent, QueuePair, QueuePairConfig, QueuePairListener, SlotData,
};
pub use unavailable::Unavailable;
pub use work::{Exposure, QueuePairEvent, RemoteMemory, WorkError, WorkOutcome};

use std::io;
use std::net::SocketAddr;

/// Starts to connect a queue pair of the system's.
pub(crate) fn connect(to: SocketAddr) -> io::Result<Box<dyn QueuePair>> {
    system::connect(to)
}

/// Listens for queue pairs of the system's.
pub(crate) fn listen(at: SocketAddr) -> io::Result<Box<dyn QueuePairListener>> {
    system::listen(at)
}
