//! The contents of a configuration, checked.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use uuid::Uuid;
use weft_block::limit::Limit;
use weft_block::{AccessState, Error, ErrorKind};
use weft_endpoint::TlsFiles;
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::inventory::{
    Access, Authentication, ControllerRange, DEFAULT_GROUP, ScsiIdentity, Sharing, SubsystemNumbers,
};
use weft_endpoint::loops::LoopsConfig;
use weft_proto::iscsi::chap::Credentials;
use weft_proto::iscsi::target::ChapUser;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::auth::SecureChannel;
use weft_proto::nvme::types::{Id128, Nqn, Nsid};

/// The server that a configuration asks for.
#[derive(Debug)]
pub struct Desired {
    /// Name of the server.
    pub name: Option<String>,
    /// URLs to listen at.
    pub listen: Vec<String>,
    /// Event loops and memory.
    pub loops: LoopsConfig,
    /// End when a source is lost.
    pub exit_on_loss: bool,
    /// Time within which a local source must complete an operation; zero: no limit.
    pub disk_timeout: Duration,
    /// Commands that take this long are logged; `None`: none are.
    pub slow: Option<Duration>,
    /// Connections that each export accepts at most.
    pub connections: usize,
    /// Options of connections to remote sources, as on the command line.
    pub connect: Vec<String>,
    /// The iSCSI target.
    pub iscsi: Settings,
    /// Certificates.
    pub tls: TlsFiles,
    /// Subsystems with their namespaces.
    pub subsystems: Vec<DesiredSubsystem>,
    /// Authentication of hosts for discovery; `None`: none is needed.
    pub discovery: Option<Authentication>,
    /// ANA states of groups of namespaces.
    pub states: Vec<DesiredAnaState>,
    /// Limits of hosts.
    pub limits: Vec<DesiredLimit>,
    /// Identifiers of NVMe hosts.
    pub identifiers: BTreeMap<Nqn, Id128>,
    /// Identifiers of the server's controllers; `None`: all.
    pub cntlids: Option<(u16, u16)>,
    /// Other processes serve the same sources.
    pub shared: bool,
    /// Settings that cannot change while a server runs, as they were written.
    pub fixed: Fixed,
}

/// Settings that take effect when a server starts.
#[derive(Clone, PartialEq)]
pub struct Fixed {
    /// Tables by name, as they were written.
    pub tables: Vec<(&'static str, String)>,
    /// CHAP users of initiators.
    pub users: Vec<ChapUser>,
    /// The CHAP user that the target is.
    pub target: Option<Credentials>,
}

impl Fixed {
    /// The tables that are not as they are in `other`.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let both = self.tables.iter().zip(&other.tables);
        let mut names: Vec<_> = both.filter(|(a, b)| a != b).map(|((name, _), _)| *name).collect();
        if (&self.users, &self.target) != (&other.users, &other.target) && !names.contains(&"iscsi")
        {
            names.push("iscsi");
        }
        names
    }
}

impl fmt::Debug for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tables.iter().map(|(name, _)| name)).finish()
    }
}

/// A subsystem.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredSubsystem {
    /// Name.
    pub nqn: Nqn,
    /// NVMe hosts that may connect.
    pub hosts: Access<Nqn>,
    /// iSCSI initiators that may log in.
    pub initiators: Access<Name>,
    /// Serial and model number, and I/O queues of a controller.
    pub numbers: SubsystemNumbers,
    /// Authentication of NVMe hosts; `None`: none is needed.
    pub authentication: Option<Authentication>,
    /// Namespaces.
    pub namespaces: Vec<DesiredNamespace>,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredNamespace {
    /// Identifier.
    pub nsid: Nsid,
    /// URL of its source, with `readonly:` where it is read-only.
    pub source: String,
    /// URLs of further paths to a remote source.
    pub paths: Vec<String>,
    /// Name for NBD clients.
    pub name: Option<String>,
    /// UUID; `None`: that of the source.
    pub uuid: Option<Uuid>,
    /// NGUID; `None`: the UUID.
    pub nguid: Option<[u8; 16]>,
    /// EUI-64.
    pub eui64: Option<[u8; 8]>,
    /// Names by which iSCSI initiators identify it.
    pub scsi: ScsiIdentity,
    /// Bytes to serve at most; `None`: all.
    pub bytes: Option<u64>,
    /// ANA group.
    pub group: u32,
    /// Hosts can reserve it.
    pub reservations: bool,
    /// NVMe hosts that see it.
    pub hosts: Access<Nqn>,
    /// iSCSI initiators that see it.
    pub initiators: Access<Name>,
}

/// The ANA state of a group of namespaces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DesiredAnaState {
    /// The group.
    pub group: u32,
    /// For hosts that come by this listener; `None`: for all.
    pub listener: Option<SocketAddr>,
    /// The state.
    pub state: AccessState,
}

/// Limit of a host over all sources together.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredLimit {
    /// The host: a host NQN, an iSCSI initiator name, or the address of an NBD client.
    pub host: String,
    /// Its limit.
    pub limit: Limit,
}

impl DesiredNamespace {
    /// A namespace of a source with nothing special.
    pub fn new(nsid: Nsid, source: String) -> Self {
        let (name, uuid, nguid, eui64, bytes, group) =
            (None, None, None, None, None, DEFAULT_GROUP);
        let (paths, hosts, initiators) = (Vec::new(), Access::Any, Access::Any);
        Self {
            nsid,
            source,
            paths,
            name,
            uuid,
            nguid,
            eui64,
            scsi: ScsiIdentity::default(),
            bytes,
            group,
            reservations: true,
            hosts,
            initiators,
        }
    }

    /// The URLs by which its device is opened.
    pub fn origin(&self) -> (String, Vec<String>) {
        (self.source.clone(), self.paths.clone())
    }
}

impl Desired {
    /// All namespaces with their subsystems.
    pub fn namespaces(
        &self,
    ) -> impl Iterator<Item = (&DesiredSubsystem, &DesiredNamespace)> + Clone {
        self.subsystems.iter().flat_map(|subsystem| {
            subsystem.namespaces.iter().map(move |namespace| (subsystem, namespace))
        })
    }

    /// The identifiers that controllers get, and who else gives some for the same subsystems.
    pub fn controllers(&self) -> ControllerRange {
        ControllerRange {
            cntlids: self.cntlids.unwrap_or(ControllerRange::default().cntlids),
            sharing: if self.shared { Sharing::Blind } else { Sharing::Alone },
        }
    }

    /// Refuses sources that are shared without identifiers of controllers that are not.
    pub fn check_cntlids(&self) -> Result<(), Error> {
        if self.shared && self.cntlids.is_none() {
            let text = "--shared needs --cntlid-range, another one for each process: 1-1000 and 1001-2000, for example";
            return Err(Error::new(ErrorKind::Usage, text));
        }
        Ok(())
    }
}

/// A path of a file that is named in a configuration in `directory`.
pub fn beside(directory: &std::path::Path, path: &std::path::Path) -> PathBuf {
    directory.join(path)
}

/// Sets whether hosts of all subsystems that authenticate must connect with TLS and a key that
/// comes from the authentication (secure channel concatenation). For discovery it is optional.
pub fn concatenate(
    subsystems: &mut [DesiredSubsystem],
    discovery: &mut Option<Authentication>,
    concat: bool,
) {
    let channel = |of| if concat { of } else { SecureChannel::None };
    let demanded = subsystems.iter_mut().filter_map(|subsystem| subsystem.authentication.as_mut());
    demanded.for_each(|demanded| demanded.channel = channel(SecureChannel::Required));
    discovery.iter_mut().for_each(|demanded| demanded.channel = channel(SecureChannel::Allowed));
}
