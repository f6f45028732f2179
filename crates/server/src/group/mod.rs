//! This server as a gateway of a group: several servers in front of one Ceph cluster that are one
//! target (`docs/ceph.md`).
//!
//! * `objects`: the store that all gateways reach, which the server is given.
//! * `store`: the objects of the group in it.
//! * `driver`: runs the engine of `weft-group` on a thread of its own, which receives `input`.
//! * `status`: what this gateway knows, for whoever asks.
//! * `watch`: hears of changes that other gateways make.
//! * `reservations`: those of hosts, which all gateways keep.
//! * `configuration`: what the group serves, which all gateways share.
//! * [`verbs`]: what can be asked of a gateway.

mod configuration;
mod driver;
mod input;
pub mod objects;
mod reservations;
mod status;
mod store;
pub(crate) mod threads;
pub mod verbs;
mod watch;

use crate::config::Desired;
use crate::config::check::listen_place;
use crate::config::desired::{DesiredAnaState, concatenate};
pub use configuration::{GroupConfiguration, NewConfiguration};
use driver::Inputs;
use input::Input;
use objects::OpenStore;
use reservations::SharedReservations;
use status::LiveStatus;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use store::GroupObjects;
use weft_base::lock::Lock;
use weft_block::{AccessState, Error, ErrorKind, waiting};
use weft_ceph::CephAccess;
use weft_endpoint::inventory::LiveInventory;
use weft_endpoint::reservations::ReservationTable;
use weft_endpoint::url::{ISCSI, ISCSI_PORT, IscsiUrl, NVME_SCHEMES, NvmeUrl};
use weft_group::limits::{ANA_GROUPS, BEAT_MS, LEASE_MS, LISTENERS_MAX};
use weft_group::placement::Weights;
use weft_group::{Ending, GatewayEvent, GatewaySettings, RecordError, Wish};

/// How long joining may take: a process that had the name before is fenced first.
const JOIN: Duration = Duration::from_secs(60);

/// How long a gateway that ends waits until others have taken what it serves.
const LEAVE: Duration = Duration::from_secs(15);

/// The settings to join a group.
#[derive(Clone)]
pub struct Joining {
    /// Name of the group.
    pub group: weft_group::GatewayName,
    /// Name of this gateway.
    pub gateway: weft_group::GatewayName,
    /// The store of the group's objects. It keeps out a client with all that this does: with its
    /// writes to images, too.
    pub store: Arc<dyn OpenStore>,
    /// As whom images are used.
    pub access: CephAccess,
    /// Addresses at which hosts reach this gateway, where it listens at all of the machine; empty:
    /// the one of the way to the cluster.
    pub advertise: Vec<IpAddr>,
}

/// The part of a running server that belongs to a group.
pub struct GroupMembership {
    /// Name of the group.
    pub name: String,
    /// Name of this gateway.
    pub gateway: weft_group::GatewayName,
    /// The group's configuration.
    pub configuration: Arc<GroupConfiguration>,
    /// URLs at which this gateway listens.
    pub listen: Vec<String>,
    /// As whom images are used.
    pub access: CephAccess,
    /// The first and the last identifier of this gateway's controllers.
    pub cntlids: (u16, u16),
    /// The reservations of its namespaces, which all gateways share.
    pub reservations: ReservationTable,
    inputs: Inputs,
    status: Arc<LiveStatus>,
    ended: Lock<Option<mpsc::Receiver<Ending>>>,
    /// Dropped with this: it ends the watch.
    _watch: Sender<Infallible>,
}

/// All ANA groups, as they are before the group has given this gateway any.
fn inaccessible() -> Vec<DesiredAnaState> {
    let state = |group| DesiredAnaState { group, listener: None, state: AccessState::Inaccessible };
    (1..=ANA_GROUPS).map(state).collect()
}

/// An iSCSI target is that of a subsystem, so it comes with the first one.
fn without_iscsi(desired: &mut Desired) {
    desired.listen.retain(|url| !url.starts_with(ISCSI));
}

/// A server that has joined its group, if it has one, and does not serve yet. It leaves again if it
/// is dropped.
pub struct Joined(Option<Arc<GroupMembership>>);

impl Joined {
    /// Joins the group, if one is named, and puts what it serves into what is desired.
    pub fn join(joining: Option<&Joining>, desired: &mut Desired) -> Result<Self, Error> {
        let Some(joining) = joining else { return Ok(Self(None)) };
        let listeners = advertised(&desired.listen, &joining.advertise)?;
        let group = GroupMembership::join(joining, desired.listen.clone(), listeners)?;
        group.fill(desired);
        desired.cntlids = Some(group.cntlids);
        Ok(Self(Some(group)))
    }

    /// The group.
    pub fn group(&self) -> Option<&Arc<GroupMembership>> {
        self.0.as_ref()
    }

    /// The server serves: from now on it leaves the group by [`GroupMembership::leave`] and
    /// [`GroupMembership::closed`].
    pub fn stays(mut self) {
        self.0 = None;
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if let Some(group) = &self.0 {
            group.closed();
        }
    }
}

impl GroupMembership {
    /// Joins a group, whose hosts reach this gateway at `listeners`; waits until it belongs to it.
    fn join(
        args: &Joining,
        listen: Vec<String>,
        listeners: Vec<String>,
    ) -> Result<Arc<Self>, Error> {
        let store = Arc::new(GroupObjects::new(args.store.open()?, &args.group, &args.gateway));
        let settings = GatewaySettings {
            name: args.gateway.clone(),
            instance: store.instance,
            client: store.client()?,
            listeners,
            beat: Duration::from_millis(BEAT_MS),
            lease: Duration::from_millis(LEASE_MS),
        };
        let status = Arc::<LiveStatus>::default();
        let configuration = GroupConfiguration::new(Arc::clone(&store));
        let started = driver::start(settings, &store, Arc::clone(&status))?;
        let waiting = waiting::begin(|| format!("the group \"{}\" to answer", args.group));
        let joined = started.joined.recv_timeout(JOIN);
        drop(waiting);
        let cntlids = match joined {
            Ok(cntlids) => cntlids,
            Err(RecvTimeoutError::Timeout) => {
                let why = status.now().trouble;
                let why = why.unwrap_or_else(|| {
                    "the cluster does not answer; check `ceph status`".to_owned()
                });
                let text = format!("the gateway cannot join the group \"{}\": {why}", args.group);
                return Err(Error::new(ErrorKind::TimedOut, text));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let why = started.ended.try_recv().map_or_else(
                    |_| "its driver has ended".to_owned(),
                    |ending| ending.to_string(),
                );
                return Err(Error::new(
                    ErrorKind::Refused,
                    format!("the gateway cannot join the group \"{}\": {why}", args.group),
                ));
            }
        };
        let reservations =
            ReservationTable::shared(Arc::new(SharedReservations::new(Arc::clone(&store))?));
        let watch =
            watch::start(&store, started.inputs.sender(), &configuration, reservations.clone())?;
        Ok(Arc::new(Self {
            name: args.group.to_string(),
            gateway: args.gateway.clone(),
            configuration,
            listen,
            access: args.access.clone(),
            cntlids,
            reservations,
            inputs: started.inputs,
            status,
            ended: Lock::new(Some(started.ended)),
            _watch: watch,
        }))
    }

    /// Puts what the group serves into what this server is to serve.
    fn fill(&self, desired: &mut Desired) {
        desired.states = inaccessible();
        match self.configuration.read() {
            Ok(shared) => {
                (desired.subsystems, desired.discovery, desired.limits) =
                    (shared.subsystems, shared.discovery, shared.limits);
                desired.identifiers = shared.identifiers;
                concatenate(&mut desired.subsystems, &mut desired.discovery, desired.tls.concat);
            }
            Err(e) => return self.serve_nothing(desired, &e),
        }
        if desired.subsystems.is_empty() {
            without_iscsi(desired);
        }
    }

    /// Serves nothing until the group's configuration can be served here, which `why` prevents.
    pub fn serve_nothing(&self, desired: &mut Desired, why: &Error) {
        tracing::error!(
            "this gateway cannot serve what the group has, so it serves nothing, and tries again: {why}"
        );
        self.configuration.fell_behind(&why.to_string());
        desired.subsystems.clear();
        (desired.discovery, desired.limits) = (None, Vec::new());
        without_iscsi(desired);
    }

    /// From now on hosts are served as the group says; `end` is called when this gateway no longer
    /// belongs to it.
    pub fn serve(
        &self,
        inventory: &Arc<LiveInventory>,
        end: impl FnOnce(Ending) + Send + 'static,
    ) -> Result<(), Error> {
        self.inputs.send(Input::Serve(Arc::clone(inventory)));
        let Some(ended) = self.ended.lock().take() else { return Ok(()) };
        threads::start("end", move || {
            if let Ok(ending) = ended.recv() {
                end(ending);
            }
        })
    }

    /// Gives what this gateway serves to the others, and waits until they have it, for a bounded
    /// time. It still belongs to the group.
    pub fn leave(&self) {
        self.wait_for(Input::Leave);
    }

    /// Leaves the group, as nothing of this gateway can be executed from now on, and waits for that
    /// for a bounded time. Without this call the others keep its client out of the cluster when
    /// they no longer hear from it.
    pub fn closed(&self) {
        self.wait_for(Input::Closed);
    }

    fn wait_for(&self, input: impl FnOnce(mpsc::Sender<()>) -> Input) {
        let (done, ended) = mpsc::channel();
        if self.inputs.send(input(done)) {
            let _waiting = waiting::begin(|| "the group to note the end of this gateway".into());
            // The other end goes when it is done.
            let _ = ended.recv_timeout(LEAVE);
        }
    }

    /// Carries out an administrator's order; returns when it is in the record.
    pub fn wish(&self, wish: Wish) -> Result<(), String> {
        let (done, carried) = mpsc::channel();
        self.inputs.send(Input::Wish(wish, done));
        match carried.recv_timeout(Duration::from_secs(10)) {
            Ok(()) => Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                Err("the cluster does not answer; the order is carried out when it does".into())
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err("this gateway no longer belongs to its group".into())
            }
        }
    }

    /// The namespaces of each ANA group have changed.
    pub fn weigh(&self, weights: Weights) {
        self.inputs.send(Input::Event(GatewayEvent::Weights(weights)));
    }
}

// Addresses at which others reach a gateway: the group reports them to hosts.

fn usage(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, text)
}

/// The URLs at which others reach what listens at `listen`. Where that names all addresses of the
/// machine, hosts use those of `advertise`.
fn advertised(listen: &[String], advertise: &[IpAddr]) -> Result<Vec<String>, Error> {
    let each = listen.iter().map(|url| of_url(url, advertise)).collect::<Result<Vec<_>, _>>()?;
    let listeners = each.concat();
    if listeners.len() > LISTENERS_MAX {
        return Err(usage(RecordError::Listeners.to_string()));
    }
    Ok(listeners)
}

fn of_url(url: &str, advertise: &[IpAddr]) -> Result<Vec<String>, Error> {
    let Some(at) = place(url)? else { return Ok(Vec::new()) };
    if at.port() == 0 {
        return Err(usage(format!(
            "{url}: a gateway of a group has a port that stays the same, so that hosts find it again"
        )));
    }
    let scheme = url.split("://").next().unwrap_or_default();
    if !at.ip().is_unspecified() {
        return Ok(vec![format!("{scheme}://{at}")]);
    }
    if url.starts_with(ISCSI) && advertise.len() > 1 {
        return Err(usage(format!(
            "{url}: SendTargets reports one address for each iSCSI port: give one --advertise, or each address a --listen of its own"
        )));
    }
    let all = if advertise.is_empty() { vec![outward(at)?] } else { advertise.to_vec() };
    Ok(all.into_iter().map(|ip| format!("{scheme}://{}", SocketAddr::new(ip, at.port()))).collect())
}

/// Where a URL has this server listen, with the port that it means and the address that a name
/// stands for. `None`: nowhere in the network.
fn place(url: &str) -> Result<Option<SocketAddr>, Error> {
    let address = if NVME_SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        NvmeUrl::parse(url)?.address
    } else if url.starts_with(ISCSI) {
        IscsiUrl::parse(url, ISCSI_PORT)?.address
    } else {
        return Ok(listen_place(url));
    };
    Ok(Some(address.resolve_first()?))
}

/// The address from which this machine reaches others. Nothing is sent.
fn outward(like: SocketAddr) -> Result<IpAddr, Error> {
    let (any, far) =
        if like.is_ipv4() { ("0.0.0.0:0", "192.0.2.1:9") } else { ("[::]:0", "[2001:db8::1]:9") };
    let own = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(far)?;
        socket.local_addr()
    });
    own.map(|own| own.ip()).map_err(|_| {
        usage(format!(
            "{like} is every address of this machine; say which one hosts use with --advertise"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_told_addresses_that_they_can_use() {
        let two = ["192.0.2.7", "192.0.2.8"].map(|ip| ip.parse().unwrap());
        let advertised =
            |url: &str, count: usize| advertised(&[url.to_owned()], &two[..count]).ok();
        let is = |url: &str, told: &str| advertised(url, 1).unwrap() == [told.to_owned()];
        assert!(is("nvme+tcp://0.0.0.0:4420", "nvme+tcp://192.0.2.7:4420"));
        assert!(is("iscsi://192.0.2.1:3260", "iscsi://192.0.2.1:3260"));
        assert!(is("nvme+rdma://192.0.2.1", "nvme+rdma://192.0.2.1:4420"));
        assert!(is("iscsi://[2001:db8::1]", "iscsi://[2001:db8::1]:3260"));
        assert_eq!(advertised("nvme+tcp://0.0.0.0", 2).unwrap().len(), 2);
        assert!(
            advertised("iscsi://0.0.0.0", 2).is_none(),
            "its portal group would be another one than it says itself"
        );
        assert!(advertised("nvme+tcp://192.0.2.1:0", 1).is_none());
        assert!(advertised("nbd+unix:///?socket=/run/x", 1).unwrap().is_empty());
    }
}
