//! The NVMe/TCP initiator: [`begin`] to open a namespace as a block device, [`discover`] what an address offers, or hold a
//! [`Session`] for admin commands.

mod opening;
mod transport;

pub use super::ConnectOptions;
pub use transport::TcpLink;

use crate::names::Names;
use crate::nvme::host::device::NvmeDevice;
use crate::nvme::host::session::{self, Found};
use crate::url::{HostPort, NVME_TCP_PORT, NvmeTcpUrl};
use std::net::SocketAddr;
use std::sync::Arc;
use weft_block::{Device, Error, ErrorKind, Opening, Pending};
use weft_io::{Handle, Time};
use weft_proto::nvme::host::DiscoveryResult;

/// A namespace over NVMe/TCP. Dropping it ends the association in order.
pub type NvmeTcpDevice = NvmeDevice<TcpLink>;

/// An association over NVMe/TCP.
pub type Session = session::Session<TcpLink>;

/// Begins to open a `nvme+tcp://` URL; for the table of schemes.
pub(crate) fn begin_url(url: &str, options: &ConnectOptions) -> Result<Opening, Error> {
    Ok(begin(&NvmeTcpUrl::parse(url, NVME_TCP_PORT)?, options)?.and_then(|device| Ok(device as Device)))
}

/// Begins to open the namespace that the URL names (the first active one without an NSID). Takes at most the connect timeout.
pub fn begin(url: &NvmeTcpUrl, options: &ConnectOptions) -> Result<Pending<Arc<NvmeTcpDevice>>, Error> {
    let url = url.clone();
    Ok(Session::begin(&url, options)?
        .and_then(move |session| session.device(url.nsid, |nsid| NvmeTcpUrl { nsid: Some(nsid), ..url }.to_string())))
}

/// As [`begin`], and waits: not for threads of event loops.
pub fn open(url: &NvmeTcpUrl, options: &ConnectOptions) -> Result<Arc<NvmeTcpDevice>, Error> {
    begin(url, options)?.wait()
}

/// Reads the discovery log at an address, and waits for it, at most for the connect timeout.
pub fn discover(address: &HostPort, options: &ConnectOptions) -> Result<DiscoveryResult, Error> {
    session::discover::<TcpLink>(address.to_string(), options, find(address, options))
}

/// Looks up an address.
fn find(address: &HostPort, options: &ConnectOptions) -> impl FnOnce(&Handle, Time, Found<Vec<SocketAddr>>) + Send + use<> {
    let (address, names): (_, Names) = (address.clone(), options.control.names().clone());
    move |on, until, found| names.look_up(on, &address, until, found)
}

impl Session {
    /// Begins to connect to the subsystem that the URL names. Takes at most the connect timeout.
    pub fn begin(url: &NvmeTcpUrl, options: &ConnectOptions) -> Result<Pending<Self>, Error> {
        let subsystem = url.subsystem.clone().ok_or_else(|| {
            let text = format!("\"{url}\" names no subsystem; append its NQN, which `weft discover {url}` lists");
            Error::new(ErrorKind::Usage, text)
        })?;
        session::begin(url.to_string(), subsystem, url.nsid, options, find(&url.address, options))
    }

    /// As [`Session::begin`], and waits: not for threads of event loops.
    pub fn connect(url: &NvmeTcpUrl, options: &ConnectOptions) -> Result<Self, Error> {
        Self::begin(url, options)?.wait()
    }
}
