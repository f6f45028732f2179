//! The NBD client: [`begin`] to open an export as a block device.

mod device;
mod extents;
mod handshake;
mod table;

pub use device::NbdDevice;

use super::ConnectOptions;
use crate::source::opening::{self, OpeningPlan, Then, TimeLimit, side_by_side};
use handshake::{Negotiation, place};
use std::sync::Arc;
use weft_block::{Device, Error, Opening, Pending};
use weft_connection::pump::StreamPump;
use weft_connection::url::nbd::NbdUrl;
use weft_io::Handle;
use weft_proto::nbd::NbdClient;
use weft_proto::nbd::code::TransmissionFlags;

/// Begins to open a URL of NBD; for the table of schemes.
#[doc(hidden)]
pub fn begin_url(url: &str, options: &ConnectOptions) -> Result<Opening, Error> {
    Ok(begin(&NbdUrl::parse(url)?, options)?.and_then(|device| Ok(device as Device)))
}

/// Begins to open the export that the URL names, with one connection per queue asked for if the
/// server says that it can serve several, else with one. Takes at most the connect timeout.
pub fn begin(url: &NbdUrl, options: &ConnectOptions) -> Result<Pending<Arc<NbdDevice>>, Error> {
    let (negotiation, url, kept) = (Negotiation::new(url, options)?, url.clone(), options.clone());
    options.control.begin(move |on, done| open_device(on, url, kept, negotiation, done))
}

/// What comes of one connection.
type Connected = Result<StreamPump<NbdClient>, Error>;

/// Opens a device; `then` gets it on this loop.
fn open_device(
    on: &Handle,
    url: NbdUrl,
    options: ConnectOptions,
    negotiation: Negotiation,
    then: impl FnOnce(Result<Arc<NbdDevice>, Error>) + 'static,
) {
    let plan = OpeningPlan {
        name: url.to_string(),
        place: place(&url),
        limit: TimeLimit::new(on, options.connect_timeout),
        capture: options.control.capture(),
    };
    let names = options.control.names().clone();
    let connect = move |on: &Handle, _: usize, done: Then<Connected>| {
        opening::open(on, &names, plan.clone(), negotiation.clone(), |on, opened| {
            done(on, opened.map(|(pump, ())| pump))
        });
    };
    let again = connect.clone();
    connect(
        on,
        0,
        Box::new(move |on, first| {
            let first = match first {
                Ok(first) => first,
                Err(e) => return then(Err(e)),
            };
            let several = first.engine.export().flags.has(TransmissionFlags::CAN_MULTI_CONN);
            let further = if several { usize::from(options.nr_io_queues.max(1)) - 1 } else { 0 };
            side_by_side(on, further, again, move |_, further| {
                let connections = alike(first, further);
                then(NbdDevice::new(connections, &url, &options).map(Arc::new));
            });
        }),
    );
}

/// The first connection, and those of the others that stand and have the same export.
fn alike(first: StreamPump<NbdClient>, further: Vec<Connected>) -> Vec<StreamPump<NbdClient>> {
    let mut connections = vec![first];
    for connected in further {
        match connected {
            Ok(connection) if connection.engine.export() == connections[0].engine.export() => {
                connections.push(connection)
            }
            Ok(connection) => {
                let peer = connection.peer();
                tracing::warn!(
                    "{peer}: the export has changed since the first connection; going on without another"
                );
            }
            Err(e) => tracing::warn!("{e}; going on with fewer connections"),
        }
    }
    connections
}
