//! Choices of a seed before its run begins, and the hosts and disks of the run.

use super::disks::Disks;
use super::owner::{Owner, Stranger, What};
use super::{Memory, Run, faults, late_writes, lost_leg, power, sectors};
use crate::config::{Config, SimProtocol};
use crate::every_run::{network, options, seeded};
use crate::holds;
use crate::journal::SimJournal;
use crate::oracle::Oracle;
use crate::scene::Scene;
use crate::serving::{ServedContents, ServingHost};
use crate::wanted::{Transport, Wanted};
use core::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use weft_block::BlockDevice;
use weft_io::Time;
use weft_io::sim::{Rng, World};

impl Run {
    pub(super) fn new(seed: u64, wanted: Wanted, journal: &SimJournal) -> Self {
        let mut rng = seeded(seed);
        let (_, mut choices) = Scene::of(seed, wanted.scene);
        let (transport, _) = Transport::of(seed, wanted.transport);
        let mut config = Config::of(&mut rng, (Scene::Mirror, &mut choices), transport);
        holds::shape(seed, &mut config);
        let mut planned = faults::drawn(&config, &mut rng);
        planned.extend(lost_leg::drawn(seed, &config));
        planned.extend(late_writes::drawn(seed, &config));
        planned.extend(power::drawn(seed, &config));
        planned.sort_by_key(|(at, _)| *at);
        let net = network(&mut rng);
        let mut world = World::with_net(rng.bits(), net);
        journal.follow(&mut world);
        let disks = Disks::new(&config, &mut rng);
        let units = (config.blocks() * config.units()) as usize;
        let oracle = Rc::new(RefCell::new(Oracle::new(units, config.volatile, config.replay())));
        let targets = targets(&config, &disks, &mut world, journal, &mut rng);
        let what = What {
            legs: targets.iter().map(ServingHost::url).collect(),
            state: disks.state.clone(),
            options: options(&config, config.protocol, config.quiesce),
        };
        let mut owner = Owner::new(&mut world, &config, what.clone(), &oracle, journal, rng.fork());
        owner.start(&mut world, journal);
        Self {
            stranger: Stranger::new(&mut world),
            memory: Memory::new(config.targets),
            planned: planned.into_iter().map(|(at, fault)| (Time::ZERO + at, fault)).collect(),
            sectors: sectors::drawn(seed, &config),
            ending: Vec::new(),
            loses_state: false,
            journal: journal.clone(),
            config,
            world,
            disks,
            oracle,
            targets,
            owner,
            what,
            rng,
        }
    }

    pub(super) fn setup(&self) -> String {
        let state = if self.disks.state.is_some() { "with" } else { "without" };
        let legs: Vec<&str> =
            self.what.legs.iter().filter_map(|url| url.split(':').next()).collect();
        format!(
            "{}; legs by {}, {} needed, {state} a state file",
            self.config,
            legs.join(", "),
            self.disks.min_legs
        )
    }
}

/// Targets with a disk each, by protocols that may differ.
fn targets(
    config: &Config,
    disks: &Disks,
    world: &mut World,
    journal: &SimJournal,
    rng: &mut Rng,
) -> Vec<ServingHost> {
    let start = |(n, store): (usize, &Arc<crate::store::BlockStore>)| {
        let protocol = if rng.one_in(4) { SimProtocol::Iscsi } else { config.protocol };
        let served = ServedContents::Own(Arc::clone(store) as Arc<dyn BlockDevice>);
        let (name, ip) = (format!("target-{n}"), format!("10.0.0.{}", n + 1));
        let mut target = ServingHost::new(world, &name, &ip, protocol, served, config, rng.bits());
        target.start(world, journal);
        target
    };
    disks.stores.iter().enumerate().map(start).collect()
}
