//! Queue pairs of systems without rdma-core: none.

use super::{QueuePair, QueuePairListener, Unavailable};
use std::io;
use std::net::SocketAddr;

pub(super) fn connect(_: SocketAddr) -> io::Result<Box<dyn QueuePair>> {
    Err(Unavailable::NotLinux.into())
}

pub(super) fn listen(_: SocketAddr) -> io::Result<Box<dyn QueuePairListener>> {
    Err(Unavailable::NotLinux.into())
}
