//! Connecting: the first address of a host that answers, or one sentence about why none does.

use std::io::ErrorKind as Io;
use std::net::SocketAddr;
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_io::connect::connect;
use weft_io::{DriverId, Handle, Stream};

/// Connects to the first of `addresses` that answers within `limit`; `then` gets the stream,
/// registered with no loop, on this loop. `peer` is what should listen there, for the message: "a
/// target". As with [`connect`], removing the driver gives up.
pub(crate) fn dial(
    on: &Handle,
    addresses: &[SocketAddr],
    limit: Duration,
    peer: &'static str,
    then: impl FnOnce(&Handle, Result<Box<dyn Stream>, Error>) + 'static,
) -> DriverId {
    connect(on, addresses, limit, move |on, result| {
        then(
            on,
            result.map_err(|e| {
                let (kind, hint) = hint(e.kind(), peer);
                Error::new(kind, format!("{e}; {hint}"))
            }),
        );
    })
}

/// What kind of problem it is when connecting fails like this, and what to do.
fn hint(kind: Io, peer: &str) -> (ErrorKind, String) {
    match kind {
        Io::TimedOut => (ErrorKind::TimedOut, "check the address and the firewall".into()),
        Io::ConnectionRefused => (ErrorKind::Refused, format!("check that {peer} listens there")),
        Io::PermissionDenied => {
            (ErrorKind::PermissionDenied, "the system does not allow it".into())
        }
        _ => (ErrorKind::Io, "check the address".into()),
    }
}
