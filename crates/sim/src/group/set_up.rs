//! Participants in a run of a group: gateways, and hosts with a path to each of them.

use super::cluster::Cluster;
use super::gateway::SimGateway;
use super::late_writes::GatewayLateWrites;
use super::shared_reservations::SimReservations;
use crate::config::{Config, SimProtocol};
use crate::every_run::options;
use crate::initiator::SimInitiator;
use crate::journal::SimJournal;
use crate::oracle::Oracle;
use crate::serving::{ServedContents, ServingHost};
use crate::store::BlockStore;
use core::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_block::BlockDevice;
use weft_endpoint::ConnectOptions;
use weft_endpoint::paths::Failover;
use weft_io::sim::{Rng, World};

/// The gateways, which serve the image of a cluster.
pub(super) fn gateways(
    config: &Config,
    world: &mut World,
    (cluster, store, oracle): (&Arc<Lock<Cluster>>, &Arc<BlockStore>, &Rc<RefCell<Oracle>>),
    rng: &mut Rng,
) -> Vec<SimGateway> {
    let gateway = |n: usize| {
        let served = ServedContents::Own(Arc::clone(store) as Arc<dyn BlockDevice>);
        let (name, ip) = (format!("gateway-{n}"), format!("10.0.0.{}", n + 1));
        let mut server =
            ServingHost::new(world, &name, &ip, config.protocol, served, config, rng.bits());
        if config.fences {
            let image = store.identity().uuid.expect("a name");
            server.share_in_group(n as u16);
            server.serve_also(match config.protocol {
                SimProtocol::Iscsi => SimProtocol::NvmeTcp,
                _ => SimProtocol::Iscsi,
            });
            let mut gateway = SimGateway::new(n, server, cluster, rng.fork());
            gateway.share(SimReservations::new(cluster, image, rng.fork()));
            return gateway;
        }
        server.share(n as u16);
        let ip = server.place_of(config.protocol).ip();
        let mut gateway = SimGateway::new(n, server, cluster, rng.fork());
        if config.failover == Failover::Fast {
            gateway.tell_late(GatewayLateWrites {
                view: world.view(),
                gateway: ip,
                block_bytes: config.block_bytes,
                own: u64::from(config.blocks_per_queue()) * config.queues as u64,
                landed: oracle.borrow_mut().expect_late(),
            });
        }
        gateway
    };
    (0..config.targets).map(gateway).collect()
}

/// Hosts with a path to each gateway.
pub(super) fn initiators(
    config: &Config,
    gateways: &[SimGateway],
    world: &mut World,
    (oracle, journal): (&Rc<RefCell<Oracle>>, &SimJournal),
    rng: &mut Rng,
) -> Vec<SimInitiator> {
    let urls: Vec<_> = gateways.iter().map(|it| it.server.url()).collect();
    let options = ConnectOptions {
        paths: config.paths(&urls[1..]),
        ..options(config, config.protocol, config.quiesce)
    };
    let initiator = |n| {
        let mut initiator =
            SimInitiator::new(world, n, config, options.clone(), oracle, journal, rng.fork());
        initiator.set_urls(urls[..1].to_vec());
        initiator.workloads.iter().for_each(|workload| workload.borrow_mut().plan.may_fail = false);
        initiator
    };
    (0..config.initiators).map(initiator).collect()
}
