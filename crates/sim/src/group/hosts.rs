//! Hosts that reserve at the gateways of a group, and what the cluster knows of their writes.

use super::cluster::Cluster;
use super::gateway::SimGateway;
use crate::config::{Config, SimProtocol};
use crate::initiator::SimInitiator;
use crate::journal::SimJournal;
use crate::reserving::known_reservations::KnownReservations;
use crate::reserving::{Reserving, ReservingEnvironment, Writes};
use crate::serving::{IQN, NQN};
use core::cell::RefCell;
use core::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_endpoint::identity::Identities;
use weft_io::Time;
use weft_io::sim::{Rng, World};
use weft_proto::nvme::types::Nqn;

/// So many hosts ask at a time.
const AT_A_TIME: u64 = 2;

/// The writes that clients of the cluster have under way.
struct Clients(Arc<Lock<Cluster>>);

impl Writes for Clients {
    fn counts(&self, client: u64) -> bool {
        !self.0.lock().is_kept_out(client)
    }

    fn waiting(&self, blocks: Range<u64>) -> Option<u64> {
        self.0.lock().waiting_write(blocks)
    }
}

/// See the module.
pub(super) struct Hosts {
    known: Rc<RefCell<KnownReservations>>,
    environment: ReservingEnvironment,
    asking: Vec<Reserving>,
    settling: Option<Reserving>,
    /// The life of the group that is known of.
    life: u64,
    rng: Rng,
}

impl Hosts {
    /// Starts them.
    pub fn start(
        world: &mut World,
        (config, gateways, initiators): (&Config, &[SimGateway], &[SimInitiator]),
        cluster: &Arc<Lock<Cluster>>,
        journal: &SimJournal,
        mut rng: Rng,
    ) -> Self {
        let known: Rc<RefCell<KnownReservations>> = Rc::default();
        let by_nvme = config.protocol.is_nvme();
        let names = initiators.iter().filter(|_| by_nvme);
        let hosts: Vec<_> = names.map(|it| it.identities.host().expect("a seeded name")).collect();
        let own = u64::from(config.blocks_per_queue()) * config.queues as u64;
        for (n, initiator) in initiators.iter().enumerate() {
            for workload in &initiator.workloads {
                workload.borrow_mut().reservations =
                    Some((Rc::clone(&known), by_nvme.then_some(n)));
            }
        }
        let door = |it: &SimGateway| {
            (it.server.place_of(SimProtocol::NvmeTcp), it.server.place_of(SimProtocol::Iscsi))
        };
        let environment = ReservingEnvironment {
            doors: gateways.iter().map(door).collect(),
            subsystem: Nqn::new(NQN).expect("a name"),
            target: IQN.into(),
            blocks: (0..hosts.len() as u64).map(|n| (n * own, own)).collect(),
            hosts,
            stranger: Identities::seeded(rng.bits()).host().expect("a seeded name"),
            free: u64::from(config.blocks()),
            store: Arc::clone(&cluster.lock().store),
            cluster: Some(Rc::new(Clients(Arc::clone(cluster)))),
        };
        let start =
            |n| Reserving::start(world, (n, environment.clone()), &known, journal, rng.fork());
        let asking = (0..AT_A_TIME).map(start).collect();
        Self { known, environment, asking, settling: None, life: 0, rng }
    }

    /// Learns what has become of the gateways.
    pub fn look(&mut self, gateways: &[SimGateway], life: u64, now: Time) {
        let mut known = self.known.borrow_mut();
        // Nobody serves what there was before.
        if life != self.life {
            self.life = life;
            known.restarted();
        }
        for (n, gateway) in gateways.iter().enumerate() {
            if gateway.is_busy(now) {
                known.is_busy(n, now);
            }
            known.set_stopped(n, gateway.is_stopped(now));
        }
        known.forget_late(now);
    }

    /// Nothing more is asked for.
    pub fn stop(&self) {
        self.asking.iter().for_each(Reserving::stop);
    }

    /// Returns whether nothing is requested, and no earlier request can be executed.
    pub fn are_quiet(&self, now: Time) -> bool {
        self.asking.iter().all(Reserving::is_over) && self.known.borrow_mut().forget_late(now)
    }

    /// Looks whether all gateways say and do the same, and clears what is reserved.
    pub fn settle(&mut self, world: &mut World, journal: &SimJournal) {
        let rng = self.rng.fork();
        self.settling = Some(Reserving::settle(
            world,
            (AT_A_TIME, self.environment.clone()),
            &self.known,
            journal,
            rng,
        ));
    }

    /// Returns whether nothing is reserved.
    pub fn are_settled(&self) -> bool {
        self.settling.as_ref().is_some_and(Reserving::is_over)
    }
}
