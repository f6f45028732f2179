//! Queue pairs of rdma-core (Linux). Its libraries are loaded when the first queue pair or listener
//! is asked for, so that a build needs nothing of them, and a machine without them everything but
//! RDMA (decision 25).
//!
//! * [`ffi`]: structures; [`library`]: functions; [`errors`]: what their numbers mean.
//! * [`device`], [`memory`]: devices, and memory that is registered with them.
//! * [`cm`], [`completion`]: connection management, and the queue of completions.
//! * [`lent`]: memory of regions that is lent, and its registrations.
//! * [`queues`], [`slots`]: what is posted, and the user's memory; [`traffic`]: what that moves.
//! * [`queue_pair`], [`posting`], [`listener`]: the interface.
//!
//! Each queue pair has two descriptors: the channel of its connection's events, and the one of its
//! completions. Asynchronous events of the device are not read: its completions and the connection
//! manager report the same about a queue pair.

mod cm;
mod completion;
mod device;
mod errors;
mod ffi;
mod lent;
mod library;
mod listener;
mod memory;
mod queue_pair;
mod queues;
mod slots;
mod traffic;

use super::QueuePair;
use super::QueuePairListener;
use std::io;
use std::net::SocketAddr;

/// Starts to connect.
pub(super) fn connect(to: SocketAddr) -> io::Result<Box<dyn QueuePair>> {
    Ok(Box::new(queue_pair::VerbsQueuePair::connect(to)?))
}

/// Listens.
pub(super) fn listen(at: SocketAddr) -> io::Result<Box<dyn QueuePairListener>> {
    Ok(Box::new(listener::VerbsListener::listen(at)?))
}
