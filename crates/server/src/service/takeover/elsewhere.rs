//! Systems without Unix sockets: nothing is passed on.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Never there.
pub enum Waiting {}

/// Never there.
pub enum Receiver {}

/// Never there.
pub enum Gone {}

fn none<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no Unix sockets"))
}

/// Not supported.
pub fn give(_: &Path, _: &[(SocketAddr, Arc<TcpListener>)]) -> io::Result<Waiting> {
    none()
}

/// Never called.
pub fn is_there(waiting: &Waiting) -> bool {
    match *waiting {}
}

/// Never called.
pub fn release(waiting: &Waiting, _: &dyn Fn() -> bool) -> bool {
    match *waiting {}
}

impl Receiver {
    /// Not supported.
    pub fn new(_: &Path) -> io::Result<Self> {
        none()
    }

    /// Never called.
    pub fn path(&self) -> &Path {
        match *self {}
    }

    /// Never called.
    pub fn receive(self) -> io::Result<(Vec<(SocketAddr, TcpListener)>, Gone)> {
        match self {}
    }
}

impl Gone {
    /// Never called.
    pub fn wait(&mut self, _: Duration) -> io::Result<()> {
        match *self {}
    }

    /// Never called.
    pub fn serves(self) {
        match self {}
    }
}
