//! An association as its user has it: admin commands, its namespaces as devices, and what a
//! discovery controller tells.

use super::admin::{self, ControllerTarget, Established};
use super::admin_command;
use super::association::{Association, HeldAssociation, ToAdmin};
use super::command_data::CommandData;
use super::device::NvmeDevice;
use super::transport::ControllerLink;
use crate::source::ConnectOptions;
use crate::source::opening::TimeLimit;
use std::sync::Arc;
use weft_block::{Error, ErrorKind, Pending, waiting};
use weft_connection::identity::HostIdentity;
use weft_connection::nvme::names::remark;
use weft_connection::tls::TlsFiles;
use weft_io::{Handle, Time};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::{DiscoveryResult, HostConfig, RemoteController, RemoteNamespace};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Nqn, Nsid};

/// Takes the place to connect to.
#[doc(hidden)]
pub type Found<P> = Box<dyn FnOnce(&Handle, Result<P, Error>)>;

/// An association whose admin queue takes commands. Dropping it ends the association in order.
pub struct Session<L> {
    association: HeldAssociation<L>,
    name: String,
}

/// Reads the discovery log of the discovery controller that `find` finds, and waits for it, at most
/// for the connect timeout.
pub(crate) fn discover<L: ControllerLink>(
    name: String,
    options: &ConnectOptions,
    find: impl FnOnce(&Handle, Time, Found<L::Place>) + Send + 'static,
) -> Result<DiscoveryResult, Error> {
    let host = identity(options)?;
    let association = Arc::new(Association::<L>::new(secured(options, &host, &Nqn::discovery())?));
    let config = HostConfig::discovery(host.nqn, host.id);
    let _waiting = waiting::begin(|| format!("{name} to answer"));
    match establish(name.clone(), config, &association, find)?.wait()? {
        Established::Discovered(result) => {
            association.tell(ToAdmin::Shutdown);
            Ok(result)
        }
        Established::Ready => Err(Error::new(
            ErrorKind::Protocol,
            format!("{name} answered discovery as an I/O controller"),
        )),
    }
}

/// The options of an association: its secrets are read anew, and with TLS its key is chosen.
fn secured(
    options: &ConnectOptions,
    host: &HostIdentity,
    subsystem: &Nqn,
) -> Result<ConnectOptions, Error> {
    let psk = options.tls.psk.as_ref().map(|psk| psk.bound(&host.nqn, subsystem)).transpose()?;
    let secrets = options.secrets.now();
    Ok(ConnectOptions { tls: TlsFiles { psk, ..options.tls.clone() }, secrets, ..options.clone() })
}

fn identity(options: &ConnectOptions) -> Result<HostIdentity, Error> {
    let host = options.host.clone().map_or_else(|| options.control.identities().host(), Ok)?;
    Ok(match options.opener {
        Some(opener) => host.for_opener(opener),
        None => host,
    })
}

/// Begins to connect. `find` runs on the control loop and tells the place by the given time.
fn establish<L: ControllerLink>(
    name: String,
    host: HostConfig,
    association: &Arc<Association<L>>,
    find: impl FnOnce(&Handle, Time, Found<L::Place>) + Send + 'static,
) -> Result<Pending<Established>, Error> {
    let association = Arc::clone(association);
    let (control, host) =
        (association.options.control.clone(), admin::host_config(host, &association.options));
    control.begin(move |on, done| {
        let limit = TimeLimit::new(on, association.options.connect_timeout);
        let found = move |on: &Handle, found| match found {
            Err(e) => done(Err(e)),
            Ok(place) => admin::establish(
                on,
                ControllerTarget { name, place, host },
                limit,
                association,
                done,
            ),
        };
        find(on, limit.until, Box::new(found));
    })
}

/// Begins to connect to a subsystem, for one of its namespaces or all. `find` runs on the control
/// loop and passes the place of the subsystem on, by the time that it is given. Takes at most the
/// connect timeout.
#[doc(hidden)]
pub fn begin<L: ControllerLink>(
    name: String,
    subsystem: Nqn,
    namespace: Option<Nsid>,
    options: &ConnectOptions,
    find: impl FnOnce(&Handle, Time, Found<L::Place>) + Send + 'static,
) -> Result<Pending<Session<L>>, Error> {
    let host = identity(options)?;
    remark("the subsystem's name", &subsystem);
    remark("this host's name", &host.nqn);
    let association = Arc::new(Association::new(secured(options, &host, &subsystem)?));
    let config = HostConfig { namespace, ..HostConfig::new(host.nqn, host.id, subsystem) };
    let held = HeldAssociation(Arc::clone(&association));
    Ok(establish(name.clone(), config, &association, find)?.and_then(move |established| {
        match established {
            Established::Ready => Ok(Session { association: held, name }),
            Established::Discovered(_) => {
                Err(Error::new(ErrorKind::Unsupported, format!("{name} is a discovery subsystem")))
            }
        }
    }))
}

impl<L> Session<L> {
    /// A namespace, the first usable one if none is named, as a device that holds the association;
    /// `url` makes its name.
    #[doc(hidden)]
    pub fn device(
        self,
        wanted: Option<Nsid>,
        url: impl FnOnce(Nsid) -> String,
    ) -> Result<Arc<NvmeDevice<L>>, Error> {
        let namespace = self.pick(wanted)?;
        let url = url(namespace.nsid);
        if !namespace.has_name() {
            tracing::warn!(
                "{url}: the namespace has no UUID, NGUID or EUI-64; if another one takes its place, that is not noticed"
            );
        }
        Ok(Arc::new(NvmeDevice::new(self.association, namespace, url)))
    }

    pub(super) fn association(&self) -> &Arc<Association<L>> {
        &self.association.0
    }

    /// Its URL or address, for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the controller reported in Identify Controller and in its properties.
    pub fn controller(&self) -> RemoteController {
        self.association.0.learned().controller.clone()
    }

    /// The active namespaces that can be used.
    pub fn namespaces(&self) -> Vec<RemoteNamespace> {
        self.association.0.learned().namespaces.clone()
    }

    /// The namespace to use. From now on another one under its identifier is noticed.
    fn pick(&self, wanted: Option<Nsid>) -> Result<RemoteNamespace, Error> {
        let mut learned = self.association.0.learned();
        let found =
            learned.namespaces.iter().find(|ns| wanted.is_none_or(|nsid| nsid == ns.nsid)).cloned();
        if let Some(found) = found {
            learned.used = Some(found.clone());
            self.association.0.set_access(learned.access_of(found.nsid).unwrap_or_default());
            drop(learned);
            self.association.0.tell(ToAdmin::Use(found.nsid));
            return Ok(found);
        }
        let unusable =
            learned.unusable.iter().find(|(nsid, _)| wanted.is_none_or(|wanted| wanted == *nsid));
        let text = match (unusable, wanted) {
            (Some((nsid, why)), _) => {
                format!("{}: namespace {nsid} cannot be used: {why}", self.name)
            }
            (None, Some(nsid)) => {
                format!(
                    "{}: there is no namespace {nsid}; `weft list-ns` shows those that there are",
                    self.name
                )
            }
            (None, None) => format!("{}: the subsystem has no active namespace", self.name),
        };
        Err(Error::new(
            if unusable.is_some() { ErrorKind::Unsupported } else { ErrorKind::NotFound },
            text,
        ))
    }

    /// Runs an admin command with at most 128 KiB of data; gives its completion and the data that
    /// came.
    pub fn admin(&self, sqe: Sqe, data: CommandData) -> Result<(Cqe, Vec<u8>), Error> {
        admin_command::run(&self.association.0, &self.name, sqe, data)
    }

    /// Identify (Base §5.17): the structure `cns` of a namespace or of the controller, 4,096 bytes.
    pub fn identify(&self, cns: u8, nsid: Nsid) -> Result<Vec<u8>, Error> {
        admin_command::identify(&self.association.0, &self.name, cns, nsid)
    }
}
