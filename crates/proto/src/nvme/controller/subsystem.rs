//! A subsystem: what its controllers share, and who may connect to it. It is for the cold path:
//! keep it behind a mutex.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    admin::support::ControllerKind,
    ana_states::AnaStates,
    connect::{CONNECT_BYTES, ConnectError, ConnectRefusal, ConnectRequest, assignable},
    control::{ControllerCore, NewController},
    discovery::{DiscoveryLog, DiscoveryRecord},
    identity::{ControllerModel, HostIdentity, Identity, Port, SubsystemConfig},
    instance::{Instance, Instances},
    io::queue::IoQueue,
    link::Link,
    namespace::{Namespace, NamespaceError, NamespaceMap, lists},
    statistics::Health,
};
use crate::nvme::{
    cqe::Cqe,
    deviation::Deviation,
    fabrics::{ConnectResponse, FLOW_CONTROL_OFF},
    sqe::Sqe,
    status::Status,
    types::{Cid, Cntlid, Nqn, Nsid, Qid},
};

/// A queue that has come to be, and the answer to its Connect.
#[derive(Debug)]
pub struct Connected<Q> {
    /// [`ControllerCore`] for an admin queue, [`IoQueue`] for an I/O queue.
    pub queue: Q,
    /// The completion to send.
    pub cqe: Cqe,
}

/// A controller as the subsystem knows it.
#[derive(Debug)]
struct Controller {
    link: Arc<Link>,
    host: HostIdentity,
    queues: Vec<Qid>,
    /// The table of all namespaces of which `shown` is what the host sees.
    seen: HostView,
    shown: Arc<NamespaceMap>,
    /// By which it came.
    listener: Option<SocketAddr>,
    /// Maximum that the subsystem allowed when it was made.
    io_queues_max: u16,
}

/// View of a host of one kind and in one state.
#[derive(Clone, Debug)]
struct HostView {
    full: Arc<NamespaceMap>,
    states: Arc<AnaStates>,
}

impl HostView {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.full, &other.full) && Arc::ptr_eq(&self.states, &other.states)
    }

    /// Returns the view of a host that came by this listener.
    fn shown(&self, host: Option<&Nqn>, listener: Option<SocketAddr>) -> Arc<NamespaceMap> {
        let shown = self.full.shown_to(host).map_or_else(|| Arc::clone(&self.full), Arc::new);
        shown.in_states(&self.states, listener).map_or(shown, Arc::new)
    }
}

impl Controller {
    /// Returns the host's view of all namespaces. Its queues share one table.
    fn look(&mut self, seen: &HostView) -> Arc<NamespaceMap> {
        if !self.seen.is(seen) {
            self.seen = seen.clone();
            self.shown = seen.shown(self.host.nqn.as_ref(), self.listener);
        }
        Arc::clone(&self.shown)
    }
}

/// Shared state of a subsystem, or of the discovery subsystem.
#[derive(Debug)]
pub struct Subsystem {
    config: Arc<SubsystemConfig>,
    hosts: Option<Vec<Nqn>>,
    namespaces: Arc<NamespaceMap>,
    states: Arc<AnaStates>,
    instances: Arc<Instances>,
    start: Arc<AtomicU64>,
    is_alone: bool,
    discovery: Arc<DiscoveryLog>,
    health: Arc<Health>,
    since: Duration,
    controllers: Vec<Controller>,
    last_cntlid: u16,
}

impl Subsystem {
    /// A subsystem without namespaces, made at `now`. Limits out of range are brought into it.
    pub fn new(now: Duration, config: SubsystemConfig) -> Self {
        let config = config.in_range();
        Self {
            hosts: config.hosts.clone(),
            instances: Arc::new(Instances::new(config.seed)),
            config: Arc::new(config),
            namespaces: Arc::default(),
            states: Arc::default(),
            start: Arc::default(),
            is_alone: false,
            discovery: Arc::default(),
            health: Arc::default(),
            since: now,
            controllers: Vec::new(),
            last_cntlid: 0,
        }
    }

    /// Counts in these counters, before there is a controller.
    pub fn count_in(&mut self, health: Arc<Health>) {
        self.health = health;
    }

    /// Returns the configuration of the subsystem.
    pub fn config(&self) -> &SubsystemConfig {
        &self.config
    }

    /// Sets serial and model number, and how many I/O queues a controller may have. Existing
    /// controllers keep the previous ones: hosts do not expect them to change.
    pub fn set_numbers(&mut self, serial: String, model: String, io_queues_max: u16) {
        let config = SubsystemConfig::clone(&self.config);
        let config = SubsystemConfig { serial, model, io_queues_max, ..config };
        self.config = Arc::new(config.in_range());
    }

    /// All namespaces at present.
    pub fn namespaces(&self) -> Arc<NamespaceMap> {
        Arc::clone(&self.namespaces)
    }

    /// The namespaces that the host of a controller sees at present, for
    /// [`ControllerCore::namespaces_changed`] and [`IoQueue::set_namespaces`].
    pub fn namespaces_of(&mut self, cntlid: Cntlid) -> Option<Arc<NamespaceMap>> {
        let seen = self.seen();
        let controller =
            self.controllers.iter_mut().find(|controller| controller.link.cntlid == cntlid)?;
        Some(controller.look(&seen))
    }

    fn seen(&self) -> HostView {
        HostView { full: self.namespaces(), states: Arc::clone(&self.states) }
    }

    /// Sets the number of the target's start, which is another one whenever what was written and
    /// not flushed may have been lost.
    pub fn set_start_number(&mut self, start: u64) {
        self.start.store(start, Relaxed);
    }

    /// Sets whether only this process can write to the served devices: no other process now, and
    /// nothing left of an earlier one. Only then is a controller of another process known to have
    /// ended.
    pub fn set_alone(&mut self, is_alone: bool) {
        self.is_alone = is_alone;
    }

    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// The host of a controller, and what names the controller.
    pub(super) fn instance(&self, cntlid: Cntlid) -> Option<(&HostIdentity, Instance)> {
        self.find(cntlid).map(|controller| (&controller.host, controller.link.instance()))
    }

    /// Returns whether this process made an instance with this number.
    pub(super) fn made_instance(&self, cirn: u64) -> bool {
        self.instances.made(cirn)
    }

    /// Replaces the states of the ANA groups. Each controller must get [`Self::namespaces_of`].
    pub fn set_ana_states(&mut self, states: AnaStates) {
        if *self.states != states {
            self.states = Arc::new(states);
        }
    }

    /// Adds or replaces a namespace; returns the new table of all. Each controller must get
    /// [`Self::namespaces_of`].
    pub fn set_namespace(
        &mut self,
        namespace: Namespace,
    ) -> Result<Arc<NamespaceMap>, NamespaceError> {
        Arc::make_mut(&mut self.namespaces).insert(namespace)?;
        Ok(self.namespaces())
    }

    /// Takes a namespace away; returns the new table of all. Controllers and queues must get it, as
    /// above; requests that devices have already are finished as they are.
    pub fn remove_namespace(&mut self, nsid: Nsid) -> Arc<NamespaceMap> {
        Arc::make_mut(&mut self.namespaces).remove(nsid);
        self.namespaces()
    }

    /// The discovery log at present.
    pub fn discovery(&self) -> Arc<DiscoveryLog> {
        Arc::clone(&self.discovery)
    }

    /// Replaces the records of the discovery log. The new log is for
    /// [`ControllerCore::discovery_changed`] of all controllers; it is the previous one if the
    /// contents are equal.
    pub fn set_discovery(&mut self, records: Vec<DiscoveryRecord>) -> Arc<DiscoveryLog> {
        if self.discovery.records() != records {
            self.discovery = Arc::new(self.discovery.next(records));
        }
        self.discovery()
    }

    /// Replaces the list of hosts that may connect; `None` means all. Associations of others are
    /// for the owner to end: see [`Self::denied`].
    pub fn set_hosts(&mut self, hosts: Option<Vec<Nqn>>) {
        self.hosts = hosts;
    }

    /// The hosts that may connect; `None`: all.
    pub fn hosts(&self) -> Option<&[Nqn]> {
        self.hosts.as_deref()
    }

    /// Returns whether this host may connect; one without a name may where all may.
    pub fn allows(&self, host: Option<&Nqn>) -> bool {
        lists(self.hosts.as_deref(), host)
    }

    /// Controllers whose hosts may no longer connect.
    pub fn denied(&self) -> impl Iterator<Item = Cntlid> {
        self.controllers()
            .filter(|(_, host)| !self.allows(host.nqn.as_ref()))
            .map(|(cntlid, _)| cntlid)
    }

    /// The controllers at present, and their hosts.
    pub fn controllers(&self) -> impl Iterator<Item = (Cntlid, &HostIdentity)> {
        self.controllers.iter().map(|controller| (controller.link.cntlid, &controller.host))
    }

    /// The I/O queues of a controller that were connected and not released yet.
    pub fn io_queues(&self, cntlid: Cntlid) -> &[Qid] {
        self.find(cntlid).map_or(&[], |controller| &controller.queues)
    }

    /// A Connect for an admin queue: makes a controller. `sqe` has passed
    /// [`super::before_connect`].
    pub fn connect(
        &mut self,
        now: Duration,
        sqe: &Sqe,
        data: &[u8; CONNECT_BYTES],
        port: Port,
    ) -> Result<Connected<ControllerCore>, ConnectRefusal> {
        let admitted = self.admit(sqe, data);
        let (asked, cntlid) = admitted.map_err(|reason| ConnectRefusal::new(sqe.cid(), reason))?;
        let (health, instances) = (Arc::clone(&self.health), Arc::clone(&self.instances));
        let link = Arc::new(Link::new(cntlid, asked.host.id, port.host_memory, health, instances));
        let (seen, listener) = (self.seen(), port.listener);
        let shown = seen.shown(asked.host.nqn.as_ref(), listener);
        let namespaces = Arc::clone(&shown);
        let host = asked.host.clone();
        self.controllers.push(Controller {
            link: Arc::clone(&link),
            host,
            queues: Vec::new(),
            seen,
            shown,
            listener,
            io_queues_max: self.config.io_queues_max,
        });
        let cqe = accepted(sqe.cid(), cntlid, &asked);
        let new = NewController {
            link,
            identity: Identity {
                start: Arc::clone(&self.start),
                config: Arc::clone(&self.config),
                cntlid,
                port,
                host: asked.host,
            },
            namespaces,
            discovery: self.discovery(),
            since: self.since,
            entries: asked.entries,
            flow_control: asked.flow_control,
            keep_alive_ms: asked.connect.keep_alive_ms,
            deviations: asked.deviations,
        };
        Ok(Connected { queue: ControllerCore::new(now, new), cqe })
    }

    /// A Connect for an I/O queue of a controller that exists. `sqe` has passed
    /// [`super::before_connect`].
    pub fn connect_io(
        &mut self,
        sqe: &Sqe,
        data: &[u8; CONNECT_BYTES],
    ) -> Result<Connected<IoQueue>, ConnectRefusal> {
        let seen = self.seen();
        let joined = self.join(sqe, data);
        let (mut asked, controller) =
            joined.map_err(|reason| ConnectRefusal::new(sqe.cid(), reason))?;
        asked
            .deviations
            .note_if(asked.host.id != controller.host.id, Deviation::OtherHostIdentifier);
        let qid = asked.connect.qid;
        controller.queues.push(qid);
        controller.link.set_io_queues(controller.queues.len() as u32);
        let link = Arc::clone(&controller.link);
        let cqe = accepted(sqe.cid(), link.cntlid, &asked);
        let namespaces = controller.look(&seen);
        let transfer_bytes_max = self.config.transfer_bytes_max;
        let mut queue = IoQueue::new(
            qid,
            link,
            namespaces,
            transfer_bytes_max,
            asked.entries,
            asked.flow_control,
        );
        queue.deviations = asked.deviations;
        Ok(Connected { queue, cqe })
    }

    /// The connection of an I/O queue has ended, and no device holds a request of it.
    pub fn release_io(&mut self, cntlid: Cntlid, qid: Qid) {
        if let Some(controller) =
            self.controllers.iter_mut().find(|controller| controller.link.cntlid == cntlid)
        {
            controller.queues.retain(|queue| *queue != qid);
            controller.link.set_io_queues(controller.queues.len() as u32);
        }
    }

    /// The association of a controller has ended: its identifier may be given out again.
    pub fn release(&mut self, cntlid: Cntlid) {
        self.controllers.retain(|controller| controller.link.cntlid != cntlid);
    }

    fn find(&self, cntlid: Cntlid) -> Option<&Controller> {
        self.controllers.iter().find(|controller| controller.link.cntlid == cntlid)
    }

    fn admit(
        &mut self,
        sqe: &Sqe,
        data: &[u8; CONNECT_BYTES],
    ) -> Result<(ConnectRequest, Cntlid), ConnectError> {
        let asked =
            ConnectRequest::parse(sqe, data, &self.config, self.config.admin_queue_entries)?;
        if asked.connect.qid != Qid(0) {
            return Err(ConnectError::QueueIdentifier(asked.connect.qid));
        }
        if !self.allows(asked.host.nqn.as_ref()) {
            return Err(ConnectError::HostNotAllowed(asked.host));
        }
        let cntlid = match self.config.controllers {
            ControllerModel::Dynamic => self.make_controller(asked.cntlid)?,
            ControllerModel::Static(count) => self.pick_controller(asked.cntlid, count)?,
        };
        Ok((asked, cntlid))
    }

    /// Dynamic model: an identifier that is free. Those that were given out last come up again
    /// last, as hosts of before may still try to use them.
    fn make_controller(&mut self, asked: Cntlid) -> Result<Cntlid, ConnectError> {
        if asked != Cntlid::DYNAMIC {
            return Err(ConnectError::ControllerIdentifier(asked.0));
        }
        let (first, highest) = self.config.cntlids;
        let most = self.config.controllers_max.min(highest - first + 1);
        if self.controllers.len() >= usize::from(most) {
            return Err(ConnectError::ControllersExhausted(most));
        }
        let next = |last: u16| if (first..highest).contains(&last) { last + 1 } else { first };
        self.last_cntlid = next(self.last_cntlid);
        while self.find(Cntlid(self.last_cntlid)).is_some() {
            self.last_cntlid = next(self.last_cntlid);
        }
        Ok(Cntlid(self.last_cntlid))
    }

    /// Static model: the controller that was asked for, or any that is free.
    fn pick_controller(&self, asked: Cntlid, count: u16) -> Result<Cntlid, ConnectError> {
        if asked == Cntlid::STATIC {
            let free = (1..=count).map(Cntlid).find(|&cntlid| self.find(cntlid).is_none());
            return free.ok_or(ConnectError::ControllersExhausted(count));
        }
        if !assignable(asked) || asked.0 > count {
            return Err(ConnectError::ControllerIdentifier(asked.0));
        }
        if self.find(asked).is_some() {
            Err(ConnectError::ControllerTaken(asked))
        } else {
            Ok(asked)
        }
    }

    /// The controller that an I/O queue goes to.
    fn join(
        &mut self,
        sqe: &Sqe,
        data: &[u8; CONNECT_BYTES],
    ) -> Result<(ConnectRequest, &mut Controller), ConnectError> {
        let asked = ConnectRequest::parse(sqe, data, &self.config, self.config.queue_entries)?;
        let qid = asked.connect.qid;
        if qid == Qid(0) || self.config.kind == ControllerKind::Discovery {
            return Err(ConnectError::QueueIdentifier(qid));
        }
        let found =
            self.controllers.iter_mut().find(|controller| controller.link.cntlid == asked.cntlid);
        let controller = found.ok_or(ConnectError::ControllerIdentifier(asked.cntlid.0))?;
        if qid.0 > controller.io_queues_max {
            return Err(ConnectError::QueueIdentifier(qid));
        }
        // HOSTID is not looked at: some hosts give another one for each queue. The one of the admin
        // queue counts.
        if asked.host.nqn != controller.host.nqn {
            return Err(ConnectError::OtherHostName);
        }
        if !controller.link.accepts_queues() {
            return Err(ConnectError::NotReady);
        }
        if controller.queues.contains(&qid) {
            return Err(ConnectError::QueueExists(qid));
        }
        Ok((asked, controller))
    }
}

/// The completion of a Connect. Its own entry of the submission queue counts as used up; a host
/// that asked not to use flow control need not.
fn accepted(cid: Cid, cntlid: Cntlid, asked: &ConnectRequest) -> Cqe {
    let response = ConnectResponse { cntlid, authentication: 0 };
    let sq_head = if asked.flow_control { 1 % asked.entries as u16 } else { FLOW_CONTROL_OFF };
    Cqe { result: u64::from(response.encode()), sq_head, ..Cqe::new(cid, Status::SUCCESS) }
}
