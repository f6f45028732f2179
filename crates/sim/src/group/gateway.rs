//! A gateway: a process that serves the image, and its part in the group.

use super::cluster::Cluster;
use super::cluster_link::{ClusterLink, way};
use super::cluster_reach::{ClusterReach, LEASE, SILENCE};
use super::image::SimImage;
use super::late_writes::GatewayLateWrites;
use super::objects::Client;
use super::shared_reservations::SimReservations;
use crate::faults::fraction;
use crate::journal::SimJournal;
use crate::serving::{ServedContents, ServingHost};
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use weft_base::lock::Lock;
use weft_block::AccessState;
use weft_group::placement::Weights;
use weft_group::{
    AnaAccess, Ending, GatewayEvent, GatewayName, GatewayOrder, GatewayProcess, GatewayRole,
    GatewaySettings, GroupAnswer, GroupRequest, Member,
};
use weft_io::Time;
use weft_io::sim::{Rng, World};

/// The ANA group of the one namespace.
const GROUP: u32 = 1;

/// Interval of the gateways' signs of life.
pub const BEAT: Duration = Duration::from_millis(500);

/// The longest that it takes until all of a cluster keeps a client out.
const FENCING: Duration = Duration::from_secs(4);

/// The longest that it takes until hosts know of another role. Less than what others wait beyond
/// the lease.
const TELLING: Duration = Duration::from_millis(300);

/// See the module.
pub struct SimGateway {
    pub server: ServingHost,
    /// A process is there, which may not serve yet.
    is_running: bool,
    /// Its reservations, if the group keeps any.
    reservations: Option<SimReservations>,
    /// What it may execute late.
    late: Option<GatewayLateWrites>,
    cluster: Arc<Lock<Cluster>>,
    name: GatewayName,
    /// The process that runs, or ran last.
    pub client: Client,
    starts: u64,
    engine: Option<GatewayProcess>,
    /// The role that its hosts know.
    role: Option<GatewayRole>,
    /// Another role, and when its hosts have been told of it.
    next_role: Option<(Time, GatewayRole)>,
    /// When the last beat was sent that it knows to be confirmed.
    beat_sent: Time,
    pub link: ClusterLink,
    /// The process does not run until then.
    pub paused_until: Time,
    /// The process has had hosts served.
    has_served: bool,
    /// What it reaches of the cluster.
    reach: ClusterReach,
    /// Number of processes that have ended because they had lost the cluster.
    pub losses: u64,
    /// It starts again then, unless something runs.
    pub starts_at: Option<Time>,
    /// Others have what it served, and it ends when nothing is under way.
    is_closing: bool,
    /// Nothing is under way any more, and it leaves the group.
    is_closed: bool,
    /// Its clock runs so many thousandths fast or slow.
    drift: i64,
    rng: Rng,
}

impl SimGateway {
    pub fn new(n: usize, server: ServingHost, cluster: &Arc<Lock<Cluster>>, mut rng: Rng) -> Self {
        let name = GatewayName::new(&format!("gateway-{n}")).expect("a name");
        // What is asked of the monitors does not change the rest of the history.
        let own = Rng::new(rng.clone().bits());
        Self {
            server,
            is_running: false,
            reservations: None,
            late: None,
            cluster: Arc::clone(cluster),
            link: ClusterLink::new(cluster, name.clone(), own),
            name,
            client: n as u64,
            starts: 0,
            engine: None,
            role: None,
            next_role: None,
            beat_sent: Time::ZERO,
            paused_until: Time::ZERO,
            has_served: false,
            reach: ClusterReach::default(),
            losses: 0,
            starts_at: Some(Time::ZERO + Duration::from_nanos(rng.within(0, 3_000_000_000))),
            is_closing: false,
            is_closed: false,
            drift: rng.within(0, 60) as i64 - 30,
            rng,
        }
    }

    pub fn name(&self) -> &GatewayName {
        &self.name
    }

    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// Shares its reservations with the other gateways.
    pub fn share(&mut self, reservations: SimReservations) {
        self.reservations = Some(reservations);
    }

    /// Tells the oracle what it executes late and may.
    pub fn tell_late(&mut self, late: GatewayLateWrites) {
        self.late = Some(late);
    }

    /// Something that it was asked for may be done later than usual.
    pub fn is_busy(&self, now: Time) -> bool {
        now < self.paused_until
            || self.link.is_cut(now)
            || self.reservations.as_ref().is_some_and(SimReservations::is_busy)
    }

    /// It stands still, or is kept out and has not noticed that.
    pub fn is_stopped(&self, now: Time) -> bool {
        self.is_running && (now < self.paused_until || self.cluster.lock().is_kept_out(self.client))
    }

    /// What its own clock shows.
    fn clock(&self, now: Time) -> Duration {
        let ns = now.since_epoch().as_nanos() as i64;
        Duration::from_nanos((ns + ns / 1000 * self.drift) as u64)
    }

    fn start(&mut self, world: &mut World, journal: &SimJournal) {
        self.starts += 1;
        self.client = self.starts * 100 + self.client % 100;
        self.starts_at = None;
        let (cluster, store) = (Arc::clone(&self.cluster), Arc::clone(&self.cluster.lock().store));
        let image = SimImage {
            cluster,
            store,
            client: self.client,
            queues: AtomicU64::new(0),
            late: self.late.clone(),
        };
        self.server.serve_instead(ServedContents::Own(Arc::new(image)));
        self.is_running = true;
        let settings = GatewaySettings {
            name: self.name.clone(),
            instance: self.client,
            client: self.client.to_string(),
            listeners: vec![self.server.url()],
            beat: BEAT,
            lease: LEASE,
        };
        let engine = GatewayProcess::new(settings, SILENCE);
        (self.engine, self.role, self.next_role) = (Some(engine), None, None);
        (self.is_closing, self.is_closed, self.has_served) = (false, false, false);
        self.tell(world.now(), GatewayEvent::Weights(Weights::from([(GROUP, 1)])));
        if self.reservations.is_none() {
            self.begin_serving(world, journal);
        }
        self.cluster.lock().set_cut(self.client, self.link.is_cut(world.now()));
    }

    /// Lets hosts in, as the group says.
    fn begin_serving(&mut self, world: &mut World, journal: &SimJournal) {
        world.power_on(self.server.host);
        self.server.start(world, journal);
        self.set_access(self.role.as_ref().map_or(AccessState::Inaccessible, access));
        self.tell(world.now(), GatewayEvent::Ready);
    }

    /// Tells the engine what has happened.
    fn tell(&mut self, now: Time, event: GatewayEvent) {
        let clock = self.clock(now);
        if let Some(engine) = &mut self.engine {
            engine.take(clock, event);
        }
    }

    /// What hosts reserve is read before they are served.
    fn look_after_reservations(&mut self, world: &mut World, journal: &SimJournal) {
        let now = world.now();
        let Some(reservations) = &mut self.reservations else { return };
        reservations.go_on(now, self.link.is_cut(now));
        if self.is_closed || self.server.is_running() {
            return;
        }
        if reservations.has_failed() {
            journal.tell(&self.server.name, format_args!("cannot read the reservations"));
            return self.kill(world, journal, Duration::from_secs(1));
        }
        if let Some(table) = reservations.loaded() {
            self.server.reserve_in(table);
            self.begin_serving(world, journal);
        }
    }

    fn set_access(&self, state: AccessState) {
        if let Some(inventory) = self.server.inventory() {
            inventory.set_access_state(GROUP, None, state).expect("the group that there is");
        }
    }

    /// The process ends without ceremony, and starts again after a while.
    pub fn kill(&mut self, world: &mut World, journal: &SimJournal, again: Duration) {
        if self.server.is_running() {
            self.server.kill(world, journal);
        }
        if let Some(reservations) = &mut self.reservations {
            reservations.end();
        }
        self.is_running = false;
        self.cluster.lock().set_silent(self.client, true);
        (self.engine, self.role, self.next_role) = (None, None, None);
        self.paused_until = Time::ZERO;
        self.starts_at = Some(world.now() + again);
    }

    /// The process gives away what it has, and ends.
    pub fn leave(&mut self, now: Time) {
        self.tell(now, GatewayEvent::Leave);
    }

    /// Returns whether it serves as the gateway that is optimized, and the cluster takes its
    /// writes.
    pub fn is_optimized(&self) -> bool {
        let is = |role: &GatewayRole| role.access[&GROUP] == AnaAccess::Optimized;
        self.is_running()
            && self.role.as_ref().is_some_and(is)
            && !self.cluster.lock().is_kept_out(self.client)
    }

    /// Lets the process go on with its part in the group.
    pub fn look_after(&mut self, world: &mut World, journal: &SimJournal) {
        let now = world.now();
        {
            let mut cluster = self.cluster.lock();
            cluster.set_cut(self.client, self.link.is_cut(now));
            cluster.set_silent(self.client, now < self.paused_until || !self.is_running);
        }
        if self.starts_at.is_some_and(|at| at <= now) && !self.is_running() {
            self.start(world, journal);
        }
        self.link.carry(now, &mut self.rng);
        if let Some(reservations) = &mut self.reservations {
            reservations.carry(now, self.link.is_cut(now));
        }
        self.reach.note(now, self.is_running && now >= self.paused_until, &self.link);
        if now < self.paused_until || self.engine.is_none() {
            return;
        }
        if self.cluster.lock().is_kept_out(self.client) && !self.cluster.lock().is_cut(self.client)
        {
            journal.tell(&self.server.name, format_args!("finds itself kept out"));
            return self.kill(world, journal, Duration::from_secs(1));
        }
        self.hear(now);
        self.act(world, journal);
        if let Some((_, role)) = self.next_role.take_if(|(at, _)| *at <= now) {
            self.serve(role, now, journal);
            self.act(world, journal);
        }
        self.look_after_reservations(world, journal);
        self.check_lease(now, journal);
        if self.has_served && self.has_company() {
            self.reach.check_life(now, &self.name, journal);
        }
        if self.is_closing && !self.is_closed && self.cluster.lock().close(self.client, now) {
            self.close(world, journal);
        }
    }

    /// Serves nobody any more, and leaves the group.
    fn close(&mut self, world: &mut World, journal: &SimJournal) {
        self.is_closed = true;
        if self.server.is_running() {
            self.server.kill(world, journal);
        }
        self.tell(world.now(), GatewayEvent::Closed);
        self.act(world, journal);
    }

    /// Hears the answers that have arrived.
    fn hear(&mut self, now: Time) {
        for (event, asked_at) in self.link.arrived(self.client, now) {
            if matches!(event, GatewayEvent::Beats(GroupAnswer::Beats(..))) {
                self.beat_sent = asked_at;
            }
            self.tell(now, event);
        }
    }

    /// Does what the engine orders.
    fn act(&mut self, world: &mut World, journal: &SimJournal) {
        let now = world.now();
        let clock = self.clock(now);
        while let Some(order) = self.engine.as_mut().and_then(|engine| engine.next(clock)) {
            match order {
                GatewayOrder::Ask(request) => self.ask(request, now, journal),
                GatewayOrder::AskMonitors => self.link.ask_monitors(self.client, now),
                GatewayOrder::Joined { .. } => self.join(now, journal),
                GatewayOrder::Serve(role) => {
                    // Hosts are told one after the other; what is ordered meanwhile is told behind
                    // that.
                    let begins = self.next_role.as_ref().map_or(now, |(at, _)| *at);
                    self.next_role = Some((begins + fraction(TELLING, &mut self.rng), role));
                }
                GatewayOrder::CarriedOut(_) | GatewayOrder::Unreadable(_) => {}
                GatewayOrder::Resigned => self.is_closing = true,
                GatewayOrder::End(Ending::Left) => {
                    return self.kill(world, journal, Duration::from_secs(2));
                }
                GatewayOrder::End(why) => {
                    journal.tell(&self.server.name, format_args!("ends: {why}"));
                    if why == Ending::Lost {
                        self.losses += 1;
                        self.reach.check_end(now, &self.name, journal);
                    }
                    return self.kill(world, journal, Duration::from_secs(1));
                }
            }
        }
    }

    fn ask(&mut self, request: GroupRequest, now: Time, journal: &SimJournal) {
        let mut at = now + way(&mut self.rng);
        if let GroupRequest::Fence(client) = &request {
            journal.tell(&self.server.name, format_args!("fences {client}"));
            // Whoever stands still may go on before that is done, where hosts do not wait for it.
            if self.late.is_some() && self.rng.one_in(2) {
                at = at + fraction(FENCING, &mut self.rng);
            }
        }
        self.link.ask(self.client, request, (now, at));
    }

    /// The process belongs to the group.
    fn join(&mut self, now: Time, journal: &SimJournal) {
        journal.tell(&self.server.name, format_args!("joins as {}", self.client));
        let record = self.engine.as_ref().and_then(GatewayProcess::record);
        let life = record.map_or(0, |record| record.life);
        if let Some(reservations) = &mut self.reservations {
            reservations.start(self.client, life, now);
        }
    }

    /// A gateway that does not reach the cluster stops serving when its lease is over, by its
    /// clock.
    fn check_lease(&self, now: Time, journal: &SimJournal) {
        // One that stood still finds that out when it goes on.
        let over = (self.beat_sent + LEASE).max(self.paused_until);
        if self.is_optimized() && now > over + TELLING * 2 + Duration::from_millis(50) {
            let since = now - self.beat_sent;
            journal.violation(format!(
                "{} is optimized, and its last beat was sent {since:?} ago",
                self.name
            ));
        }
    }

    /// Returns whether it knows of others to which its hosts can turn.
    fn has_company(&self) -> bool {
        let is_other = |(name, member): (&GatewayName, &Member)| *name != self.name && member.ready;
        let record = self.engine.as_ref().and_then(GatewayProcess::record);
        record.is_some_and(|record| record.members().any(is_other))
    }

    /// Its hosts know this role now.
    fn serve(&mut self, role: GatewayRole, now: Time, journal: &SimJournal) {
        let state = access(&role);
        journal.tell(&self.server.name, format_args!("is {state:?}"));
        self.set_access(state);
        self.has_served |= state != AccessState::Inaccessible;
        self.tell(now, GatewayEvent::Served);
        self.role = Some(role);
    }
}

/// What hosts are told of a role.
fn access(role: &GatewayRole) -> AccessState {
    match role.access[&GROUP] {
        AnaAccess::Optimized => AccessState::Optimized,
        AnaAccess::NonOptimized => AccessState::NonOptimized,
        AnaAccess::Inaccessible => AccessState::Inaccessible,
    }
}

impl Drop for SimGateway {
    fn drop(&mut self) {
        self.server.ended();
    }
}
