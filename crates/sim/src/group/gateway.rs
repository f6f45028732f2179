//! A gateway: a process that serves the image, and its part in the group.

use super::cluster::{Client, Cluster};
use super::image::Image;
use super::late::Late;
use super::sharing::Sharing;
use crate::faults::fraction;
use crate::journal::Journal;
use crate::serving::{Served, Server};
use core::time::Duration;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_block::AccessState;
use weft_group::limits::ANA_GROUPS;
use weft_group::placement::Weights;
use weft_group::{Access, Answer, Ending, Gateway, Name, Output, Request, Role, Settings};
use weft_io::Time;
use weft_io::sim::{Rng, World};

/// The ANA group of the one namespace.
const GROUP: u32 = 1;

/// How often gateways tell that they are alive.
pub const BEAT: Duration = Duration::from_millis(500);

/// How long a gateway may serve after its last beat.
pub const LEASE: Duration = Duration::from_secs(4);

/// Longest way to the cluster or back.
const WAY: Duration = Duration::from_millis(40);

/// The longest that it takes until all of a cluster keeps a client out.
const FENCING: Duration = Duration::from_secs(4);

/// The longest that it takes until hosts know of another role. Less than what others wait beyond
/// the lease.
const TELLING: Duration = Duration::from_millis(300);

/// Something on its way to the cluster, or back.
enum Message {
    /// And when.
    Asked(Request, Time),
    Answered(Request, Answer, Time),
}

/// See the module.
pub struct Member {
    pub server: Server,
    /// A process is there, which may not serve yet.
    is_running: bool,
    /// Its reservations, if the group keeps any.
    sharing: Option<Sharing>,
    /// What it may execute late.
    late: Option<Late>,
    cluster: Arc<Mutex<Cluster>>,
    name: Name,
    /// The process that runs, or ran last.
    pub client: Client,
    starts: u64,
    engine: Option<Gateway>,
    role: Option<Role>,
    /// Another role, and when its hosts have been told of it.
    next_role: Option<(Time, Role)>,
    /// When the last beat was sent that it knows to be confirmed.
    beat_sent: Time,
    /// When it arrives, and of which process it is.
    messages: Vec<(Time, Client, Message)>,
    /// The process does not run until then.
    pub paused_until: Time,
    /// The cluster is not reached until then.
    pub cut_until: Time,
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

pub fn lock(cluster: &Mutex<Cluster>) -> MutexGuard<'_, Cluster> {
    cluster.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a message to the cluster or back takes.
pub fn way(rng: &mut Rng) -> Duration {
    Duration::from_nanos(rng.within(1_000_000, WAY.as_nanos() as u64))
}

impl Member {
    pub fn new(n: usize, server: Server, cluster: &Arc<Mutex<Cluster>>, mut rng: Rng) -> Self {
        Self {
            server,
            is_running: false,
            sharing: None,
            late: None,
            cluster: Arc::clone(cluster),
            name: Name::new(&format!("gateway-{n}")).expect("a name"),
            client: n as u64,
            starts: 0,
            engine: None,
            role: None,
            next_role: None,
            beat_sent: Time::ZERO,
            messages: Vec::new(),
            paused_until: Time::ZERO,
            cut_until: Time::ZERO,
            starts_at: Some(Time::ZERO + Duration::from_nanos(rng.within(0, 3_000_000_000))),
            is_closing: false,
            is_closed: false,
            drift: rng.within(0, 60) as i64 - 30,
            rng,
        }
    }

    pub fn name(&self) -> &Name {
        &self.name
    }

    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// Shares its reservations with the other gateways.
    pub fn share(&mut self, sharing: Sharing) {
        self.sharing = Some(sharing);
    }

    /// Tells the oracle what it executes late and may.
    pub fn tell_late(&mut self, late: Late) {
        self.late = Some(late);
    }

    /// Something that it was asked for may be done later than usual.
    pub fn is_busy(&self, now: Time) -> bool {
        now < self.paused_until.max(self.cut_until)
            || self.sharing.as_ref().is_some_and(Sharing::is_busy)
    }

    /// It stands still, or is kept out and has not noticed that.
    pub fn is_stopped(&self, now: Time) -> bool {
        self.is_running && (now < self.paused_until || lock(&self.cluster).is_kept_out(self.client))
    }

    /// What its own clock shows.
    fn clock(&self, now: Time) -> Duration {
        let ns = now.since_epoch().as_nanos() as i64;
        Duration::from_nanos((ns + ns / 1000 * self.drift) as u64)
    }

    fn start(&mut self, world: &mut World, journal: &Journal) {
        self.starts += 1;
        self.client = self.starts * 100 + self.client % 100;
        self.starts_at = None;
        let (cluster, store) = (Arc::clone(&self.cluster), Arc::clone(&lock(&self.cluster).store));
        let image = Image {
            cluster,
            store,
            client: self.client,
            queues: AtomicU64::new(0),
            late: self.late.clone(),
        };
        self.server.serve_instead(Served::Own(Arc::new(image)));
        self.is_running = true;
        let mut engine = Gateway::new(Settings {
            name: self.name.clone(),
            instance: self.client,
            client: self.client.to_string(),
            listeners: vec![self.server.url()],
            beat: BEAT,
            lease: LEASE,
        });
        engine.set_weights(Weights::from([(GROUP, 1)]));
        (self.engine, self.role, self.next_role) = (Some(engine), None, None);
        (self.is_closing, self.is_closed) = (false, false);
        if self.sharing.is_none() {
            self.begin_serving(world, journal);
        }
        lock(&self.cluster).set_cut(self.client, world.now() < self.cut_until);
    }

    /// Lets hosts in, as the group says.
    fn begin_serving(&mut self, world: &mut World, journal: &Journal) {
        world.power_on(self.server.host);
        self.server.start(world, journal);
        self.set_access(self.role.as_ref().map_or(AccessState::Inaccessible, access));
        if let Some(engine) = &mut self.engine {
            engine.set_ready();
        }
    }

    /// What hosts reserve is read before they are served.
    fn look_after_reservations(&mut self, world: &mut World, journal: &Journal) {
        let now = world.now();
        let Some(sharing) = &mut self.sharing else { return };
        sharing.go_on(now, now < self.cut_until);
        if self.is_closed || self.server.is_running() {
            return;
        }
        if sharing.has_failed() {
            journal.tell(&self.server.name, format_args!("cannot read the reservations"));
            return self.kill(world, journal, Duration::from_secs(1));
        }
        if let Some(table) = sharing.loaded() {
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
    pub fn kill(&mut self, world: &mut World, journal: &Journal, again: Duration) {
        if self.server.is_running() {
            self.server.kill(world, journal);
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.end();
        }
        self.is_running = false;
        lock(&self.cluster).set_silent(self.client, true);
        (self.engine, self.role, self.next_role) = (None, None, None);
        self.paused_until = Time::ZERO;
        self.starts_at = Some(world.now() + again);
    }

    /// The process gives away what it has, and ends.
    pub fn leave(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.leave();
        }
    }

    /// Whether it serves as the gateway that is optimized, and the cluster takes its writes.
    pub fn is_optimized(&self) -> bool {
        let is = |role: &Role| role.access[&GROUP] == Access::Optimized;
        self.is_running()
            && self.role.as_ref().is_some_and(is)
            && !lock(&self.cluster).is_kept_out(self.client)
    }

    /// Lets the process go on with its part in the group.
    pub fn look_after(&mut self, world: &mut World, journal: &Journal) {
        let now = world.now();
        {
            let mut cluster = lock(&self.cluster);
            cluster.set_cut(self.client, now < self.cut_until);
            cluster.set_silent(self.client, now < self.paused_until || !self.is_running);
        }
        if self.starts_at.is_some_and(|at| at <= now) && !self.is_running() {
            self.start(world, journal);
        }
        self.carry(now);
        if let Some(sharing) = &mut self.sharing {
            sharing.carry(now, now < self.cut_until);
        }
        if now < self.paused_until || self.engine.is_none() {
            return;
        }
        if lock(&self.cluster).is_kept_out(self.client) && !lock(&self.cluster).is_cut(self.client)
        {
            journal.tell(&self.server.name, format_args!("finds itself kept out"));
            return self.kill(world, journal, Duration::from_secs(1));
        }
        self.hear(now);
        self.act(world, journal);
        if let Some((_, role)) = self.next_role.take_if(|(at, _)| *at <= now) {
            self.serve(role, journal);
            self.act(world, journal);
        }
        self.look_after_reservations(world, journal);
        self.check_lease(now, journal);
        if self.is_closing && !self.is_closed && lock(&self.cluster).close(self.client, now) {
            self.close(world, journal);
        }
    }

    /// Serves nobody any more, and leaves the group.
    fn close(&mut self, world: &mut World, journal: &Journal) {
        self.is_closed = true;
        if self.server.is_running() {
            self.server.kill(world, journal);
        }
        if let Some(engine) = &mut self.engine {
            engine.closed();
        }
        self.act(world, journal);
    }

    /// Carries messages to the cluster. What a partition holds back arrives behind it, also of a
    /// process that is dead.
    fn carry(&mut self, now: Time) {
        let (due, later) =
            core::mem::take(&mut self.messages).into_iter().partition(|(at, _, message)| {
                *at <= now && now >= self.cut_until && matches!(message, Message::Asked(..))
            });
        self.messages = later;
        for (_, client, message) in Vec::into_iter(due) {
            let Message::Asked(asked, sent) = message else { continue };
            let answer = lock(&self.cluster).execute((&self.name, client), &asked);
            let at = now + way(&mut self.rng);
            self.messages.push((at, client, Message::Answered(asked, answer, sent)));
        }
    }

    /// Hears the answers that have arrived.
    fn hear(&mut self, now: Time) {
        let clock = self.clock(now);
        let Self { messages, engine: Some(engine), client, cut_until, beat_sent, .. } = self else {
            return;
        };
        let is_due = |(at, _, message): &mut (Time, Client, Message)| {
            *at <= now && now >= *cut_until && matches!(message, Message::Answered(..))
        };
        for (_, of, message) in messages.extract_if(.., is_due) {
            let Message::Answered(asked, answer, sent) = message else { continue };
            match asked {
                _ if of != *client => {}
                Request::Read | Request::Write { .. } => engine.record_answered(clock, answer),
                Request::Beat(_) => {
                    if matches!(answer, Answer::Beats(..)) {
                        *beat_sent = sent;
                    }
                    engine.beat_answered(clock, answer);
                }
                Request::Fence(_) => engine.fence_answered(clock, answer),
            }
        }
    }

    /// Does what the engine wants.
    fn act(&mut self, world: &mut World, journal: &Journal) {
        let now = world.now();
        let clock = self.clock(now);
        while let Some(output) = self.engine.as_mut().and_then(|engine| engine.next(clock)) {
            match output {
                Output::Request(request) => {
                    let mut at = now + way(&mut self.rng);
                    if let Request::Fence(client) = &request {
                        journal.tell(&self.server.name, format_args!("fences {client}"));
                        // Whoever stands still may go on before that is done, where hosts do not
                        // wait for it.
                        if self.late.is_some() && self.rng.one_in(2) {
                            at = at + fraction(FENCING, &mut self.rng);
                        }
                    }
                    self.messages.push((at, self.client, Message::Asked(request, now)));
                }
                Output::Joined { .. } => {
                    journal.tell(&self.server.name, format_args!("joins as {}", self.client));
                    let life = self
                        .engine
                        .as_ref()
                        .and_then(Gateway::record)
                        .map_or(0, |record| record.life);
                    if let Some(sharing) = &mut self.sharing {
                        sharing.start(self.client, life, now);
                    }
                }
                Output::Serve(role) => {
                    // Hosts are told one after the other; what is ordered meanwhile is told behind
                    // that.
                    let begins = self.next_role.as_ref().map_or(now, |(at, _)| *at);
                    let at = begins
                        + Duration::from_nanos(self.rng.within(0, TELLING.as_nanos() as u64));
                    self.next_role = Some((at, role));
                }
                Output::Resigned => self.is_closing = true,
                Output::End(Ending::Left) => {
                    return self.kill(world, journal, Duration::from_secs(2));
                }
                Output::End(why) => {
                    journal.tell(&self.server.name, format_args!("ends: {why}"));
                    return self.kill(world, journal, Duration::from_secs(1));
                }
            }
        }
    }

    /// A gateway that does not reach the cluster stops serving when its lease is over, by its
    /// clock.
    fn check_lease(&self, now: Time, journal: &Journal) {
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

    fn serve(&mut self, role: Role, journal: &Journal) {
        let state = access(&role);
        journal.tell(&self.server.name, format_args!("is {state:?}"));
        self.set_access(state);
        if let Some(engine) = &mut self.engine {
            let is_not = |group: &u32| role.access[group] != Access::Optimized;
            (1..=ANA_GROUPS).filter(is_not).for_each(|group| engine.released(group));
        }
        self.role = Some(role);
    }
}

/// What hosts are told of a role.
fn access(role: &Role) -> AccessState {
    match role.access[&GROUP] {
        Access::Optimized => AccessState::Optimized,
        Access::NonOptimized => AccessState::NonOptimized,
        Access::Inaccessible => AccessState::Inaccessible,
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.server.ended();
    }
}
