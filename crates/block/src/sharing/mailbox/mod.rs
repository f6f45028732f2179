//! A queue on one loop that passes its operations to a queue on another loop.
//!
//! The [`client`] is the queue; the [`server`] is a driver on the other loop, which owns the real
//! queue. Operations travel with their memory on loan ([`weft_io::Segment::lend`]): all operations
//! of a `submit` in one message, and all completions of a turn in one reply. A lock is held only
//! while a list is moved.
//!
//! When the server's loop ends, operations that did not reach the device complete as not sent, and
//! those at the device as possibly executed, both with
//! [`StatusKind::Gone`](crate::StatusKind::Gone). The latter complete without their memory, which
//! is leaked, because the system may still write to it.

mod channel;
mod client;
mod message;
mod server;

use crate::device::{BlockQueue, Device};
use weft_io::{DriverId, Handle, RemoteLoop};

/// A queue on the loop of `on` whose operations go to a queue of `device` on the loop `to`. The
/// latter is opened when that loop handles the request; if opening fails, operations end as not
/// sent and the device is reported as gone.
pub(super) fn open(
    device: Device,
    to: &RemoteLoop,
    on: &Handle,
    owner: DriverId,
) -> Box<dyn BlockQueue> {
    let (client, end) = client::Client::start(to, on, owner);
    server::start(device, to, end);
    Box::new(client)
}
