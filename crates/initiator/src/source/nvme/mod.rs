//! The NVMe initiator: `begin_url` to open a namespace as a block device, [`discover`] what an
//! address offers, or [`connect`] for admin commands. [`tcp`] and [`rdma`] hold its transports; all
//! else is the same for both: the host's end of an association with its state machine, its I/O
//! queues and its devices, and what its user holds.

pub(crate) mod admin;
mod admin_command;
pub(crate) mod association;
mod authenticating;
mod command_data;
pub(crate) mod connect_exchange;
mod copying;
pub mod device;
mod fault;
mod learned;
mod passthrough;
mod queue;
pub mod rdma;
mod reserve;
pub mod session;
mod table;
pub mod tcp;
#[doc(hidden)]
pub mod transport;

pub use self::command_data::CommandData;

use self::device::NvmeDevice;
use self::rdma::RdmaLink;
use self::session::{Found, Session};
use self::tcp::TcpLink;
use self::transport::ControllerLink;
use super::ConnectOptions;
use crate::names::Names;
use std::net::SocketAddr;
use std::sync::Arc;
use weft_block::{Device, Error, ErrorKind, Opening, Pending, waiting};
use weft_connection::url::{HostPort, NvmeTransport, NvmeUrl};
use weft_io::{Handle, Time};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::{DiscoveryResult, RemoteController, RemoteNamespace};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Nsid;

/// Begins to open a URL of NVMe; for the table of schemes.
#[doc(hidden)]
pub fn begin_url(url: &str, options: &ConnectOptions) -> Result<Opening, Error> {
    let url = NvmeUrl::parse(url)?;
    match url.transport {
        NvmeTransport::Tcp => {
            Ok(begin::<TcpLink>(&url, options)?.and_then(|device| Ok(device as Device)))
        }
        NvmeTransport::Rdma => {
            check_rdma(options)?;
            Ok(begin::<RdmaLink>(&url, options)?.and_then(|device| Ok(device as Device)))
        }
    }
}

/// Begins to open the namespace that the URL names (the first active one without an NSID). Takes at
/// most the connect timeout.
pub(crate) fn begin<L: ControllerLink<Place = Vec<SocketAddr>>>(
    url: &NvmeUrl,
    options: &ConnectOptions,
) -> Result<Pending<Arc<NvmeDevice<L>>>, Error> {
    let url = url.clone();
    Ok(begin_session::<L>(&url, options)?.and_then(move |session| {
        session.device(url.nsid, |nsid| NvmeUrl { nsid: Some(nsid), ..url }.to_string())
    }))
}

/// Reads the discovery log at an address, and waits for it, at most for the connect timeout.
pub fn discover(
    transport: NvmeTransport,
    address: &HostPort,
    options: &ConnectOptions,
) -> Result<DiscoveryResult, Error> {
    let (name, found) = (address.to_string(), find(address, options));
    match transport {
        NvmeTransport::Tcp => session::discover::<TcpLink>(name, options, found),
        NvmeTransport::Rdma => {
            check_rdma(options)?;
            session::discover::<RdmaLink>(name, options, found)
        }
    }
}

/// Options that make no sense over RDMA.
fn check_rdma(options: &ConnectOptions) -> Result<(), Error> {
    let what = if options.tls.is_some() {
        "TLS"
    } else if options.hdr_digest || options.data_digest {
        "digests"
    } else {
        return Ok(());
    };
    let text =
        format!("NVMe over RDMA has no {what}: leave these options out, or connect by nvme+tcp://");
    Err(Error::new(ErrorKind::Usage, text))
}

/// Looks up an address.
fn find(
    address: &HostPort,
    options: &ConnectOptions,
) -> impl FnOnce(&Handle, Time, Found<Vec<SocketAddr>>) + Send + use<> {
    let (address, names): (_, Names) = (address.clone(), options.control.names().clone());
    move |on, until, found| names.look_up(on, &address, until, found)
}

/// Begins to connect to the subsystem that the URL names. Takes at most the connect timeout.
pub(crate) fn begin_session<L: ControllerLink<Place = Vec<SocketAddr>>>(
    url: &NvmeUrl,
    options: &ConnectOptions,
) -> Result<Pending<Session<L>>, Error> {
    let subsystem = url.subsystem.clone().ok_or_else(|| {
        let text = format!(
            "\"{url}\" names no subsystem; append its NQN, which `weft discover {url}` lists"
        );
        Error::new(ErrorKind::Usage, text)
    })?;
    session::begin(url.to_string(), subsystem, url.nsid, options, find(&url.address, options))
}

/// An association for admin commands, over whatever transport. Dropping it ends the association in
/// order.
pub trait AdminSession {
    /// What Identify Controller and the properties said.
    fn controller(&self) -> RemoteController;

    /// The active namespaces that can be used.
    fn namespaces(&self) -> Vec<RemoteNamespace>;

    /// Runs an admin command with at most 128 KiB of data; gives its completion and the data that
    /// came.
    fn admin(&self, sqe: Sqe, data: CommandData) -> Result<(Cqe, Vec<u8>), Error>;

    /// Runs an I/O command with at most 1 MiB of data on a queue that no device uses; gives its
    /// completion and the data that came.
    fn io(&self, sqe: Sqe, data: CommandData) -> Result<(Cqe, Vec<u8>), Error>;

    /// Identify (Base §5.17): the structure `cns` of a namespace or of the controller, 4,096 bytes.
    fn identify(&self, cns: u8, nsid: Nsid) -> Result<Vec<u8>, Error>;
}

impl<L: ControllerLink> AdminSession for Session<L> {
    fn controller(&self) -> RemoteController {
        Self::controller(self)
    }

    fn namespaces(&self) -> Vec<RemoteNamespace> {
        Self::namespaces(self)
    }

    fn admin(&self, sqe: Sqe, data: CommandData) -> Result<(Cqe, Vec<u8>), Error> {
        Self::admin(self, sqe, data)
    }

    fn io(&self, sqe: Sqe, data: CommandData) -> Result<(Cqe, Vec<u8>), Error> {
        passthrough::run(self.association(), self.name(), sqe, data)
    }

    fn identify(&self, cns: u8, nsid: Nsid) -> Result<Vec<u8>, Error> {
        Self::identify(self, cns, nsid)
    }
}

/// Connects to the subsystem that the URL names, and waits for that, at most for the connect
/// timeout.
pub fn connect(url: &NvmeUrl, options: &ConnectOptions) -> Result<Box<dyn AdminSession>, Error> {
    let _waiting = waiting::begin(|| format!("{url} to answer"));
    Ok(match url.transport {
        NvmeTransport::Tcp => Box::new(begin_session::<TcpLink>(url, options)?.wait()?),
        NvmeTransport::Rdma => {
            check_rdma(options)?;
            Box::new(begin_session::<RdmaLink>(url, options)?.wait()?)
        }
    })
}
