//! The NVMe/TCP initiator: [`begin`] to open a namespace as a block device, [`discover`] what an address offers, or hold a
//! [`Session`] for admin commands.

mod opening;
mod transport;

pub use super::ConnectOptions;
pub use transport::TcpLink;

use crate::identity::HostIdentity;
use crate::limits::ADMIN_COMMAND_S;
use crate::nvme::host::admin::{self, Established, Target};
use crate::nvme::host::association::{self, ToAdmin};
use crate::nvme::host::device::NvmeDevice;
use crate::nvme::names::remark;
use crate::source::opening::TimeLimit;
use crate::url::{HostPort, NVME_TCP_PORT, NvmeTcpUrl};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use weft_block::{Device, Error, ErrorKind, Opening, Pending};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::{DiscoveryResult, HostConfig, RemoteController, RemoteNamespace};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Nqn, Nsid};

/// A namespace over NVMe/TCP. Dropping it ends the association in order.
pub type NvmeTcpDevice = NvmeDevice<TcpLink>;

type Association = association::Association<TcpLink>;
type Held = association::Held<TcpLink>;

/// Begins to open a `nvme+tcp://` URL; for the table of schemes.
pub(crate) fn begin_url(url: &str, options: &ConnectOptions) -> Result<Opening, Error> {
    Ok(begin(&NvmeTcpUrl::parse(url, NVME_TCP_PORT)?, options)?.and_then(|device| Ok(device as Device)))
}

/// Begins to open the namespace that the URL names (the first active one without an NSID). Takes at most the connect timeout.
pub fn begin(url: &NvmeTcpUrl, options: &ConnectOptions) -> Result<Pending<Arc<NvmeTcpDevice>>, Error> {
    let url = url.clone();
    Ok(Session::begin(&url, options)?.and_then(move |session| session.device(&url)))
}

/// As [`begin`], and waits: not for threads of event loops.
pub fn open(url: &NvmeTcpUrl, options: &ConnectOptions) -> Result<Arc<NvmeTcpDevice>, Error> {
    begin(url, options)?.wait()
}

/// Reads the discovery log at an address, and waits for it, at most for the connect timeout.
pub fn discover(address: &HostPort, options: &ConnectOptions) -> Result<DiscoveryResult, Error> {
    let host = identity(options)?;
    let association = Arc::new(Association::new(options.clone()));
    let config = HostConfig::discovery(host.nqn, host.id);
    match establish(address.to_string(), address, config, &association)?.wait()? {
        Established::Discovered(result) => {
            association.tell(ToAdmin::Shutdown);
            Ok(result)
        }
        Established::Ready => Err(Error::new(ErrorKind::Protocol, format!("{address} answered discovery as an I/O controller"))),
    }
}

/// Whom a URL means, and as whom.
fn host_config(url: &NvmeTcpUrl, options: &ConnectOptions) -> Result<HostConfig, Error> {
    let subsystem: Nqn = url.subsystem.clone().ok_or_else(|| {
        let text = format!("\"{url}\" names no subsystem; append its NQN, which `weft discover {url}` lists");
        Error::new(ErrorKind::Usage, text)
    })?;
    let host = identity(options)?;
    remark("the subsystem's name", &subsystem);
    remark("this host's name", &host.nqn);
    Ok(HostConfig { namespace: url.nsid, ..HostConfig::new(host.nqn, host.id, subsystem) })
}

fn identity(options: &ConnectOptions) -> Result<HostIdentity, Error> {
    options.host.clone().map_or_else(|| options.control.identities().host(), Ok)
}

/// Begins to connect.
fn establish(
    name: String,
    address: &HostPort,
    host: HostConfig,
    association: &Arc<Association>,
) -> Result<Pending<Established>, Error> {
    let (address, association) = (address.clone(), Arc::clone(association));
    let (control, host) = (association.options.control.clone(), admin::host_config(host, &association.options));
    let names = control.names().clone();
    control.begin(move |on, done| {
        let limit = TimeLimit::new(on, association.options.connect_timeout);
        names.look_up(on, &address, limit.until, move |on, found| match found {
            Err(e) => done(Err(e)),
            Ok(addresses) => admin::establish(on, Target { name, place: addresses, host }, limit, association, done),
        });
    })
}

/// An association whose admin queue takes commands. Dropping it ends the association in order.
pub struct Session {
    association: Held,
    name: String,
}

impl Session {
    /// Begins to connect to the subsystem that the URL names. Takes at most the connect timeout.
    pub fn begin(url: &NvmeTcpUrl, options: &ConnectOptions) -> Result<Pending<Self>, Error> {
        let config = host_config(url, options)?;
        let association = Arc::new(Association::new(options.clone()));
        let (name, held) = (url.to_string(), association::Held(Arc::clone(&association)));
        Ok(establish(name.clone(), &url.address, config, &association)?.and_then(move |established| match established {
            Established::Ready => Ok(Self { association: held, name }),
            Established::Discovered(_) => Err(Error::new(ErrorKind::Unsupported, format!("{name} is a discovery subsystem"))),
        }))
    }

    /// As [`Session::begin`], and waits: not for threads of event loops.
    pub fn connect(url: &NvmeTcpUrl, options: &ConnectOptions) -> Result<Self, Error> {
        Self::begin(url, options)?.wait()
    }

    /// The namespace that the URL means, as a device that holds the association.
    fn device(self, url: &NvmeTcpUrl) -> Result<Arc<NvmeTcpDevice>, Error> {
        let namespace = self.pick(url)?;
        let url = NvmeTcpUrl { nsid: Some(namespace.nsid), ..url.clone() };
        Ok(Arc::new(NvmeTcpDevice::new(self.association, namespace, url.to_string())))
    }

    /// What Identify Controller and the properties said.
    pub fn controller(&self) -> RemoteController {
        self.association.0.learned().controller.clone()
    }

    /// The active namespaces that can be used.
    pub fn namespaces(&self) -> Vec<RemoteNamespace> {
        self.association.0.learned().namespaces.clone()
    }

    /// The namespace that a URL means.
    fn pick(&self, url: &NvmeTcpUrl) -> Result<RemoteNamespace, Error> {
        let learned = self.association.0.learned();
        let found = learned.namespaces.iter().find(|ns| url.nsid.is_none_or(|nsid| nsid == ns.nsid));
        if let Some(found) = found {
            return Ok(found.clone());
        }
        let unusable = learned.unusable.iter().find(|(nsid, _)| url.nsid.is_none_or(|wanted| wanted == *nsid));
        let text = match (unusable, url.nsid) {
            (Some((nsid, why)), _) => format!("{}: namespace {nsid} cannot be used: {why}", self.name),
            (None, Some(nsid)) => {
                format!("{}: there is no namespace {nsid}; `weft list-ns` shows those that there are", self.name)
            }
            (None, None) => format!("{}: the subsystem has no active namespace", self.name),
        };
        Err(Error::new(if unusable.is_some() { ErrorKind::Unsupported } else { ErrorKind::NotFound }, text))
    }

    /// Runs an admin command that reads `len` bytes (at most 128 KiB); gives its completion and the data that came.
    pub fn admin(&self, sqe: Sqe, len: u32) -> Result<(Cqe, Vec<u8>), Error> {
        let (give, take) = mpsc::channel();
        let reply = Box::new(move |result| drop(give.send(result)));
        self.association.0.tell(ToAdmin::Command { sqe, len, reply });
        match take.recv_timeout(Duration::from_secs(ADMIN_COMMAND_S)) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(why)) => Err(Error::new(ErrorKind::Refused, why)),
            Err(_) => Err(Error::new(ErrorKind::TimedOut, format!("{}: no answer to an admin command", self.name))),
        }
    }

    /// Identify (Base §5.17): the structure `cns` of a namespace or of the controller, 4,096 bytes.
    pub fn identify(&self, cns: u8, nsid: Nsid) -> Result<Vec<u8>, Error> {
        let mut sqe = Sqe::new(weft_proto::nvme::opcode::AdminOpcode::IDENTIFY.0, nsid);
        sqe.set_dword(10, cns.into());
        let (cqe, data) = self.admin(sqe, 4096)?;
        if cqe.status.is_success() {
            return Ok(data);
        }
        Err(Error::new(ErrorKind::NotFound, format!("{}: Identify of namespace {nsid} was refused: {}", self.name, cqe.status)))
    }
}
