//! A group of two or three gateways in front of a cluster with one image (`weft_group`): each is a
//! target of weft's that serves the image, with its own part in the group. Hosts have a path to
//! each of them. Gateways are killed, stopped for longer than their lease and let go on, and cut
//! off from the cluster, from hosts, or from both.
//!
//! The oracle is that of all scenes: a write that was acknowledged is read back, whatever a gateway
//! that was taken for dead does later. In addition, no two gateways whose writes the cluster takes
//! are optimized at a time; none leaves the group that can still write; and when everything heals,
//! all are in the group and one is optimized.

mod cluster;
mod cluster_link;
mod cluster_reach;
mod faults;
mod gateway;
mod hosts;
mod image;
mod late_writes;
mod objects;
mod set_up;
mod shared_reservations;

use crate::config::Config;
use crate::every_run::{QUIET, SimReport, TICK, check_store, network, seeded};
use crate::faults::fraction;
use crate::initiator::SimInitiator;
use crate::journal::SimJournal;
use crate::oracle::Oracle;
use crate::scene::Scene;
use crate::store::{Behaviour, BlockStore};
use crate::wanted::{Transport, Wanted};
use cluster::Cluster;
use cluster_reach::LEASE;
use core::cell::RefCell;
use core::time::Duration;
use faults::Fault;
use gateway::SimGateway;
use hosts::Hosts;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_endpoint::paths::Failover;
use weft_group::GroupRecord;
use weft_io::Time;
use weft_io::sim::{HostId, Rng, World};

/// How long a group takes at most until a lost gateway is replaced: patience, turns and fencing.
const REPLACED: Duration = Duration::from_secs(4 * LEASE.as_secs());

/// How often whoever is outside of the loops is looked after where hosts reserve: what happens at
/// different gateways comes in many orders.
const SHORT_TICK: Duration = Duration::from_millis(10);

/// How long hosts that reserve take at most to end.
const VISITS: Duration = Duration::from_secs(300);

/// The longest that the cluster holds an operation back.
const HOLD: Duration = Duration::from_secs(10);

struct Run {
    config: Config,
    world: World,
    cluster: Arc<Lock<Cluster>>,
    store: Arc<BlockStore>,
    oracle: Rc<RefCell<Oracle>>,
    gateways: Vec<SimGateway>,
    initiators: Vec<SimInitiator>,
    /// Hosts that reserve.
    hosts: Option<Hosts>,
    planned: VecDeque<(Time, Fault)>,
    /// Hosts that do not reach each other, and when they do again.
    partitions: Vec<(Time, HostId, HostId)>,
    /// When the cluster is as usual again.
    slow_until: Time,
    rng: Rng,
    journal: SimJournal,
}

/// Runs a seed as a group of gateways.
pub fn run(seed: u64, wanted: Wanted, journal: &SimJournal) -> SimReport {
    let mut run = Run::new(seed, wanted, journal);
    let setup = run.config.to_string();
    journal.tell("run", format_args!("seed {seed}: {setup}"));
    run.whole();
    journal.catch_up(&run.world);
    let workloads = run.initiators.iter().flat_map(|it| &it.workloads);
    let opened = run.initiators.iter().map(|it| it.opened).sum();
    let report = SimReport::of((seed, setup), workloads, opened, (&run.world, journal));
    SimReport { losses: run.gateways.iter().map(|it| it.losses).sum(), ..report }
}

impl Run {
    fn new(seed: u64, wanted: Wanted, journal: &SimJournal) -> Self {
        let mut rng = seeded(seed);
        let (scene, mut choices) = Scene::of(seed, wanted.scene);
        let (transport, _) = Transport::of(seed, wanted.transport);
        let config = Config::of(&mut rng, (scene, &mut choices), transport);
        let planned = faults::drawn(&config, &mut rng);
        let net = network(&mut rng);
        let mut world = World::with_net(rng.bits(), net);
        journal.follow(&mut world);
        let store = BlockStore::new(rng.bits(), &config);
        let cluster = Arc::new(Lock::new(Cluster::new(
            Arc::clone(&store),
            config.failover == Failover::Safe,
        )));
        let units = (config.blocks() * config.units()) as usize;
        let oracle = Rc::new(RefCell::new(Oracle::new(units, config.volatile, config.replay())));
        let gateways = set_up::gateways(&config, &mut world, (&cluster, &store, &oracle), &mut rng);
        let initiators =
            set_up::initiators(&config, &gateways, &mut world, (&oracle, journal), &mut rng);
        let mut start = |rng: Rng| {
            Hosts::start(&mut world, (&config, &gateways, &initiators), &cluster, journal, rng)
        };
        let hosts = config.fences.then(|| start(rng.fork()));
        Self {
            planned: planned.into_iter().map(|(at, fault)| (Time::ZERO + at, fault)).collect(),
            partitions: Vec::new(),
            slow_until: Time::ZERO,
            journal: journal.clone(),
            config,
            world,
            cluster,
            store,
            oracle,
            gateways,
            initiators,
            hosts,
            rng,
        }
    }

    fn whole(&mut self) {
        self.phase(Time::ZERO + self.config.trouble, |_| false);
        self.heal();
        let limit = self.config.patience() * 20 + REPLACED;
        if self.hosts.is_some() && !self.settles() {
            return;
        }
        if !self.goes_on("the operations have not ended", limit, |run| {
            run.initiators.iter().all(SimInitiator::is_over)
        }) {
            return;
        }
        self.initiators.iter_mut().for_each(SimInitiator::begin_sweep);
        if !self.goes_on("what was written cannot be read", limit, |run| {
            run.initiators.iter().all(SimInitiator::is_over)
        }) {
            return;
        }
        if !self.goes_on("the group is not whole", REPLACED, Self::is_whole) {
            return;
        }
        self.oracle.borrow_mut().hear();
        check_store(
            &self.store,
            (&self.config, &self.oracle.borrow()),
            self.world.now(),
            &self.journal,
        );
        self.initiators.iter_mut().for_each(SimInitiator::close);
        self.phase(self.world.now() + QUIET, |run| run.left().is_none());
        if let Some(left) = self.left() {
            self.journal
                .violation(format!("after {QUIET:?} without any device there are still {left}"));
        }
    }

    /// Hosts reserve nothing more; all gateways say and do the same, and then nothing is reserved.
    fn settles(&mut self) -> bool {
        self.hosts.iter().for_each(Hosts::stop);
        let quiet =
            |run: &Self| run.hosts.as_ref().is_none_or(|hosts| hosts.are_quiet(run.world.now()));
        if !self.goes_on("hosts that reserve have not ended", VISITS, quiet)
            || !self.goes_on("the group is not whole", REPLACED, Self::is_whole)
        {
            return false;
        }
        let Self { world, hosts, journal, .. } = self;
        hosts.iter_mut().for_each(|hosts| hosts.settle(world, journal));
        self.goes_on("what is reserved cannot be cleared", VISITS, |run| {
            run.hosts.as_ref().is_none_or(Hosts::are_settled)
        })
    }

    /// Lets time pass until then or until a condition holds; whether it does. Ends as soon as
    /// something is wrong.
    fn phase(&mut self, end: Time, holds: impl Fn(&Self) -> bool) -> bool {
        while self.world.now() < end && !self.journal.is_violated() {
            if holds(self) {
                return true;
            }
            self.world.run_for(if self.hosts.is_some() { SHORT_TICK } else { TICK });
            self.journal.catch_up(&self.world);
            self.apply_due();
            let Self { world, gateways, initiators, journal, .. } = self;
            gateways.iter_mut().for_each(|it| it.look_after(world, journal));
            initiators.iter_mut().for_each(|it| it.look_after(world, journal));
            self.check_owners();
            if let Some(hosts) = &mut self.hosts {
                let life = self.cluster.lock().life;
                hosts.look(&self.gateways, life, self.world.now());
            }
        }
        holds(self)
    }

    fn goes_on(&mut self, what: &str, limit: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let end = self.world.now() + limit;
        if !self.phase(end, holds) && !self.journal.is_violated() {
            self.journal.violation(format!("nothing went wrong for {limit:?}, and {what}"));
        }
        !self.journal.is_violated()
    }

    /// No two gateways are optimized whose writes the cluster takes, and whoever lost its place can
    /// write no more.
    fn check_owners(&self) {
        let optimized: Vec<String> = self
            .gateways
            .iter()
            .filter(|it| it.is_optimized())
            .map(|it| it.name().to_string())
            .collect();
        if optimized.len() > 1 {
            self.journal.violation(format!("{} are optimized at a time", optimized.join(" and ")));
        }
        if let Some(client) = self.cluster.lock().at_large() {
            self.journal.violation(format!(
                "{client} no longer belongs to the group, and nobody keeps it out"
            ));
        }
    }

    /// All gateways are in the group, and one is optimized.
    fn is_whole(&self) -> bool {
        let cluster = self.cluster.lock();
        let Some(record) = cluster.record().and_then(|text| GroupRecord::parse(text).ok()) else {
            return false;
        };
        drop(cluster);
        let is_in = |it: &SimGateway| {
            record.member(it.name()).is_some_and(|member| {
                member.ready && !member.condemned && member.instance == it.client
            })
        };
        self.gateways.iter().all(is_in) && self.gateways.iter().any(SimGateway::is_optimized)
    }

    fn apply_due(&mut self) {
        let now = self.world.now();
        let ended: Vec<_> = self.partitions.extract_if(.., |(until, ..)| *until <= now).collect();
        ended.into_iter().for_each(|(_, a, b)| self.world.heal(a, b));
        if self.slow_until <= now {
            self.store.behave(Behaviour::SOUND);
        }
        while let Some((_, fault)) = self.planned.pop_front_if(|(at, _)| *at <= now) {
            self.journal.tell("fault", format_args!("{fault:?}"));
            self.apply(&fault);
        }
    }

    fn apply(&mut self, fault: &Fault) {
        let now = self.world.now();
        let gateway = |which: u64| which as usize % self.gateways.len();
        match *fault {
            Fault::Cut(how, which) => {
                let open: Vec<_> = self
                    .world
                    .connections()
                    .into_iter()
                    .filter(|it| it.open)
                    .map(|it| it.id)
                    .collect();
                if !open.is_empty() {
                    self.world.cut(open[which as usize % open.len()], how);
                }
            }
            Fault::Partition(which, span) => {
                let host = self.initiators[which as usize / 8 % self.initiators.len()].host;
                let other = self.gateways[gateway(which)].server.host;
                self.world.partition(host, other);
                self.partitions.push((now + span, host, other));
            }
            Fault::Pause(which, span) => {
                let member = &mut self.gateways[which as usize % self.config.targets];
                member.paused_until = now + span;
                member.server.loops.iter().for_each(|id| self.world.pause(*id, span));
            }
            Fault::Kill(which, again) => {
                let Self { world, gateways, journal, config, .. } = self;
                let member = &mut gateways[which as usize % config.targets];
                if member.is_running() {
                    member.kill(world, journal, again);
                }
            }
            Fault::ClusterCut(which, span) => {
                self.gateways[which as usize % self.config.targets].link.cut(now + span)
            }
            Fault::StorageCut(which, span) => {
                self.gateways[which as usize % self.config.targets].link.cut_storage(now + span)
            }
            Fault::Leave(which) => self.gateways[which as usize % self.config.targets].leave(now),
            Fault::Slow(span) => {
                let rng = &mut self.rng;
                let behaviour = Behaviour {
                    delay: (
                        Duration::from_micros(rng.magnitude(1000)),
                        Duration::from_micros(1000 + rng.magnitude(50_000)),
                    ),
                    hold_one_in: *rng.pick(&[2, 8]),
                    hold: fraction(HOLD, rng),
                    cancel_one_in: *rng.pick(&[0, 2]),
                    ..Behaviour::SOUND
                };
                self.store.behave(behaviour);
                self.slow_until = now + span;
            }
        }
    }

    /// Ends everything.
    fn heal(&mut self) {
        self.journal.tell("run", format_args!("everything heals"));
        self.planned.clear();
        self.slow_until = self.world.now();
        self.partitions.iter_mut().for_each(|(until, ..)| *until = Time::ZERO);
        self.apply_due();
        for member in &mut self.gateways {
            member.link.heal(self.world.now());
            member.starts_at = member.starts_at.map(|at| at.min(self.world.now()));
        }
    }

    /// What is left of connections, tasks and buffers, in words.
    fn left(&self) -> Option<String> {
        let of_hosts = || self.initiators.iter().find_map(|it| it.remains(&self.world));
        self.gateways.iter().find_map(|it| it.server.remains(&self.world, true)).or_else(of_hosts)
    }
}
