//! The NVMe over RDMA initiator: its connections. [`super::nvme`] has what does not depend on the transport.

mod opening;
mod transport;

pub use transport::RdmaLink;

use std::io;
use std::net::SocketAddr;
use weft_io::Handle;
use weft_io::rdma::QueuePair;

/// What makes queue pairs to controllers.
pub trait Dial: 'static {
    /// Where a controller is.
    type Place: Clone + Send + 'static;

    /// Starts to connect to the `nth` address of the place; `None`: it has no more.
    fn dial(on: &Handle, place: &Self::Place, nth: usize) -> Option<io::Result<Box<dyn QueuePair>>>;
}

/// The devices of the system.
pub struct Verbs;

impl Dial for Verbs {
    type Place = Vec<SocketAddr>;

    fn dial(on: &Handle, place: &Vec<SocketAddr>, nth: usize) -> Option<io::Result<Box<dyn QueuePair>>> {
        place.get(nth).map(|at| on.connect_rdma(*at))
    }
}
