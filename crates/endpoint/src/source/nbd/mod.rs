//! The NBD client: [`open`] an export as a block device.

mod device;
mod opening;
mod table;

pub use device::NbdDevice;

use super::ConnectOptions;
use crate::control::control_loop;
use crate::pump::StreamPump;
use crate::url::nbd::NbdUrl;
use opening::Plan;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use weft_block::{BlockDevice, Error, ErrorKind};
use weft_proto::nbd::Client;
use weft_proto::nbd::code::TransmissionFlags;

/// How long beyond its own time limits the control loop may take to answer.
const GRACE: Duration = Duration::from_secs(3);

/// Opens a URL of NBD.
pub(crate) fn open_url(url: &str, options: &ConnectOptions) -> Result<Arc<dyn BlockDevice>, Error> {
    let device = open(&NbdUrl::parse(url)?, options)?;
    Ok(device)
}

/// Opens the export that the URL names, with one connection per queue asked for if the server says that it can serve several, else
/// with one. Takes twice the connect timeout at most, and the system's time to look up the host's name.
pub fn open(url: &NbdUrl, options: &ConnectOptions) -> Result<Arc<NbdDevice>, Error> {
    let plan = Plan::new(url, options)?;
    let first = connect(&plan, 1, options)?.pop().ok_or_else(|| nobody(&plan))??;
    let mut connections = vec![first];
    if connections[0].engine.export().flags.has(TransmissionFlags::CAN_MULTI_CONN) {
        for further in connect(&plan, usize::from(options.nr_io_queues.max(1)) - 1, options)? {
            match further {
                Ok(connection) if connection.engine.export() == connections[0].engine.export() => connections.push(connection),
                Ok(_) => tracing::warn!("{url}: the export has changed since the first connection; going on without another"),
                Err(e) => tracing::warn!("{e}; going on with fewer connections"),
            }
        }
    }
    Ok(Arc::new(NbdDevice::new(connections, url, options)?))
}

fn nobody(plan: &Plan) -> Error {
    Error::new(ErrorKind::TimedOut, format!("{}: no answer", plan.name))
}

/// What comes of one connection.
type Opened = Result<StreamPump<Client>, Error>;

/// Makes connections, all at once, and waits.
fn connect(plan: &Plan, count: usize, options: &ConnectOptions) -> Result<Vec<Opened>, Error> {
    let (give, take) = mpsc::channel();
    for _ in 0..count {
        let (plan, give) = (plan.clone(), give.clone());
        control_loop()?.post(move |on| {
            // Nobody listens any more when the time limit has passed.
            opening::open(on, plan, move |_, result| drop(give.send(result)));
        });
    }
    let limit = options.connect_timeout + GRACE;
    Ok((0..count).map(|_| take.recv_timeout(limit).unwrap_or_else(|_| Err(nobody(plan)))).collect())
}
