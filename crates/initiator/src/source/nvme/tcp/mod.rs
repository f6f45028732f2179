//! The NVMe/TCP initiator: [`begin`] to open a namespace as a block device, or a [`Session`] for
//! admin commands. Its parent has what does not depend on the transport.

mod opening;
mod transport;

use crate::source::ConnectOptions;
pub use transport::TcpLink;

use crate::source::nvme;
use crate::source::nvme::device::NvmeDevice;
use crate::source::nvme::session;
use std::sync::Arc;
use weft_block::{Error, Pending};
use weft_connection::url::{HostPort, NvmeTransport, NvmeUrl};
use weft_proto::nvme::host::DiscoveryResult;

/// A namespace over NVMe/TCP. Dropping it ends the association in order.
pub type NvmeTcpDevice = NvmeDevice<TcpLink>;

/// An association over NVMe/TCP.
pub type Session = session::Session<TcpLink>;

impl Session {
    /// Begins to connect to the subsystem that the URL names. Takes at most the connect timeout.
    pub fn begin(url: &NvmeUrl, options: &ConnectOptions) -> Result<Pending<Self>, Error> {
        nvme::begin_session(url, options)
    }

    /// As [`Session::begin`], and waits: not for threads of event loops.
    pub fn connect(url: &NvmeUrl, options: &ConnectOptions) -> Result<Self, Error> {
        Self::begin(url, options)?.wait()
    }
}

/// Begins to open the namespace that the URL names (the first active one without an NSID). Takes at
/// most the connect timeout.
pub fn begin(
    url: &NvmeUrl,
    options: &ConnectOptions,
) -> Result<Pending<Arc<NvmeTcpDevice>>, Error> {
    nvme::begin(url, options)
}

/// Reads the discovery log at an address, and waits for it, at most for the connect timeout.
pub fn discover(address: &HostPort, options: &ConnectOptions) -> Result<DiscoveryResult, Error> {
    nvme::discover(NvmeTransport::Tcp, address, options)
}
