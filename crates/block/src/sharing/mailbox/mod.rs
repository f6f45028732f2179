//! A queue on one loop that hands its operations to a queue on another.
//!
//! The [`client`] is the queue; the [`server`] is a driver on the other loop, which owns the real one. Operations travel with their
//! memory on loan ([`weft_io::Segment::lend`]), all of a `submit` in one message; all that completed in one turn is answered
//! together. Nobody waits for a lock longer than it takes to move a list.
//!
//! When the server's loop ends, what did not reach the device completes as not sent, and what is with the device as possibly
//! executed, both with [`StatusKind::Gone`](crate::StatusKind::Gone); the latter without its memory, which the system may still
//! write to and which is leaked.

mod channel;
mod client;
mod message;
mod server;

use crate::device::BlockQueue;
use crate::registry::Device;
use weft_io::{DriverId, Handle, Remote};

/// A queue on the loop of `on`, whose operations go to a queue of `device` on the loop `to`. That is opened there as soon as
/// that loop gets to it; if it cannot be, operations end as not sent and the device is told to be gone.
pub(super) fn open(device: Device, to: &Remote, on: &Handle, owner: DriverId) -> Box<dyn BlockQueue> {
    let (client, end) = client::Client::start(to, on, owner);
    server::start(device, to, end);
    Box::new(client)
}
