//! The NVMe/TCP initiator: [`open`] a namespace as a block device, [`discover`] what an address offers, or hold a
//! [`Session`] for admin commands.

mod admin;
mod association;
mod device;
mod fault;
mod opening;
mod queue;
mod table;

pub use super::ConnectOptions;
pub use device::NvmeTcpDevice;

use crate::control::control_loop;
use crate::identity::HostIdentity;
use crate::url::{HostPort, NVME_TCP_PORT, NvmeTcpUrl};
use admin::{Established, Target};
use association::{Association, Held, ToAdmin};
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use weft_block::{BlockDevice, Error, ErrorKind};
use weft_io::Handle;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::{DiscoveryResult, HostConfig, RemoteController, RemoteNamespace};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Nqn, Nsid};

/// How long beyond its own time limits the control loop may take to answer.
const GRACE: Duration = Duration::from_secs(3);

/// How long an admin command of a caller may take.
const COMMAND: Duration = Duration::from_secs(30);

/// Opens the namespace that the URL names (the first active one without an NSID). Takes at most the connect timeout, and the
/// system's time to look up the host's name.
pub fn open(url: &NvmeTcpUrl, options: &ConnectOptions) -> Result<Arc<NvmeTcpDevice>, Error> {
    Session::connect(url, options)?.device(url)
}

/// Opens a `nvme+tcp://` URL.
pub(crate) fn open_url(url: &str, options: &ConnectOptions) -> Result<Arc<dyn BlockDevice>, Error> {
    let device = open(&NvmeTcpUrl::parse(url, NVME_TCP_PORT)?, options)?;
    Ok(device)
}

/// As [`open`], on a loop of the caller's instead of the process's control loop, and without waiting: `then` gets the device on that
/// loop, within the connect timeout. The admin connection lives on the loop from then on. `addresses` are those of the URL's host.
pub fn open_on(
    on: &Handle,
    addresses: Vec<SocketAddr>,
    url: &NvmeTcpUrl,
    options: &ConnectOptions,
    then: impl FnOnce(Result<Arc<NvmeTcpDevice>, Error>) + 'static,
) {
    let (url, association) = (url.clone(), Arc::new(Association::new(options.clone())));
    let host = match host_config(&url, options) {
        Ok(host) => admin::host_config(host, options),
        Err(e) => return then(Err(e)),
    };
    let (name, held) = (url.to_string(), Arc::clone(&association));
    let target = Target { name: name.clone(), addresses, host };
    admin::establish(
        on,
        target,
        association,
        Box::new(move |result| then(Session::of(result, held, name).and_then(|s| s.device(&url)))),
    );
}

/// Reads the discovery log at an address.
pub fn discover(address: &HostPort, options: &ConnectOptions) -> Result<DiscoveryResult, Error> {
    let host = identity(options)?;
    let association = Arc::new(Association::new(options.clone()));
    match establish(&address.to_string(), address, HostConfig::discovery(host.nqn, host.id), &association)? {
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
    Ok(HostConfig { namespace: url.nsid, ..HostConfig::new(host.nqn, host.id, subsystem) })
}

fn identity(options: &ConnectOptions) -> Result<HostIdentity, Error> {
    options.host.clone().map_or_else(HostIdentity::of_this_host, Ok)
}

/// Connects and waits.
fn establish(name: &str, address: &HostPort, host: HostConfig, association: &Arc<Association>) -> Result<Established, Error> {
    let target =
        Target { name: name.to_owned(), addresses: address.resolve()?, host: admin::host_config(host, &association.options) };
    let (give, take) = mpsc::channel();
    let shared = Arc::clone(association);
    control_loop()?.post(move |on| {
        // Nobody listens any more when the time limit has passed.
        admin::establish(on, target, shared, Box::new(move |result| drop(give.send(result))));
    });
    let limit = association.options.connect_timeout * 2 + GRACE;
    take.recv_timeout(limit)
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::TimedOut, format!("{name}: no answer within {} s", limit.as_secs_f32()))))
}

/// An association whose admin queue takes commands. Dropping it ends the association in order.
pub struct Session {
    association: Held,
    name: String,
}

impl Session {
    /// Connects to the subsystem that the URL names.
    pub fn connect(url: &NvmeTcpUrl, options: &ConnectOptions) -> Result<Self, Error> {
        let config = host_config(url, options)?;
        let association = Arc::new(Association::new(options.clone()));
        let name = url.to_string();
        Self::of(establish(&name, &url.address, config, &association), association, name)
    }

    fn of(established: Result<Established, Error>, association: Arc<Association>, name: String) -> Result<Self, Error> {
        match established? {
            Established::Ready => Ok(Self { association: Held(association), name }),
            Established::Discovered(_) => Err(Error::new(ErrorKind::Unsupported, format!("{name} is a discovery subsystem"))),
        }
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
        match take.recv_timeout(COMMAND) {
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
