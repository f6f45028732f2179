//! The environment of a server: the things that its process gives it, for as long as it runs.

use crate::config::desired::DesiredLimit;
use crate::config::{NoSourceOptions, SourceOptions};
use crate::group::Joining;
use crate::management::place::ControlSocket;
use crate::metrics::MetricsConfig;
use crate::served::Front;
use crate::service::takeover::Takeover;
use std::path::PathBuf;
use std::sync::Arc;
use weft_endpoint::ConnectOptions;
use weft_endpoint::health::HealthStore;
use weft_endpoint::reservations::ReservationTable;
use weft_group::Ending;
use weft_proto::nvme::controller::TransportAddress;
use weft_proto::nvme::types::Nqn;

/// The environment of a server. A process can run several servers, each with one of its own.
///
/// A server leaves alone what a process has only once: signals, the memory of the process
/// ([`crate::attach::memory`]), the service manager ([`crate::service`]), standard output.
///
/// The default serves what is desired, and nothing else: no control socket, no metrics.
pub struct Environment {
    /// Options for opening sources, and the control loop on which remote ones are connected to.
    /// [`crate::config::Desired`] has more options for local ones, and for lost ones.
    pub connect: ConnectOptions,
    /// The configuration file that [`crate::served::Served::reload`] applies, if there is one.
    pub file: Option<PathBuf>,
    /// The options that `[connect]` of a configuration may have.
    pub source_options: Arc<dyn SourceOptions>,
    /// Limits of hosts in addition to the desired ones: they stay, whatever is applied.
    pub host_limits: Vec<DesiredLimit>,
    /// A filter of this process, put in front of each source when it is opened.
    pub front: Option<Front>,
    /// Other discovery controllers that discovery reports to hosts.
    pub referrals: Vec<TransportAddress>,
    /// Name of the discovery subsystem in addition to the well-known one.
    pub discovery_nqn: Option<Nqn>,
    /// Its control socket; `None`: it has none.
    pub control_socket: Option<ControlSocket>,
    /// Its metrics.
    pub metrics: MetricsConfig,
    /// The server that this one takes over from.
    pub takeover: Takeover,
    /// The process answers [`ServerNotice::ReleaseRequested`] by [`super::Server::hand_over`]: if
    /// another one that takes over fails, it goes on.
    pub goes_on: bool,
    /// The group of gateways that it belongs to.
    pub group: Option<Joining>,
    /// The table of reservations; a gateway of a group keeps them in the cluster.
    pub reservations: ReservationTable,
    /// The store of the counters of SMART logs.
    pub health: HealthStore,
    /// Receives the events of the server, on a thread of the server. It must not wait for anything.
    pub on_event: Arc<dyn Fn(ServerNotice) + Send + Sync>,
}

impl Environment {
    /// The referrals of discovery, and its name.
    pub(crate) fn discovery(&self) -> (&[TransportAddress], Option<&Nqn>) {
        (&self.referrals, self.discovery_nqn.as_ref())
    }
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            connect: ConnectOptions::default(),
            file: None,
            source_options: Arc::new(NoSourceOptions),
            host_limits: Vec::new(),
            front: None,
            referrals: Vec::new(),
            discovery_nqn: None,
            control_socket: None,
            metrics: MetricsConfig::default(),
            takeover: Takeover::default(),
            goes_on: false,
            group: None,
            reservations: ReservationTable::volatile(),
            health: HealthStore::default(),
            on_event: Arc::new(|_| ()),
        }
    }
}

/// Events of a server. It goes on until [`super::Server::stop`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerNotice {
    /// An administrator, or a process that takes over, asks it to end.
    EndRequested,
    /// A process that takes over asks it to release everything ([`Environment::goes_on`]).
    ReleaseRequested,
    /// The source with this URL is lost, and the server was to end then
    /// ([`crate::config::Desired::exit_on_loss`]).
    SourceLost(String),
    /// It no longer belongs to its group. Operations in progress have no effect: it is best for
    /// hosts that connections close at once.
    GroupLost(Ending),
}
