//! Participants in a run of a group: gateways, and hosts with a path to each of them.

use super::cluster::Cluster;
use super::gateway::Gateway;
use super::late_writes::LateWrites;
use super::shared_reservations::SharedReservations;
use crate::config::{Config, Protocol};
use crate::every_run::options;
use crate::initiator::Initiator;
use crate::journal::Journal;
use crate::oracle::Oracle;
use crate::serving::{Served, Server};
use crate::store::Store;
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
    (cluster, store, oracle): (&Arc<Lock<Cluster>>, &Arc<Store>, &Rc<RefCell<Oracle>>),
    rng: &mut Rng,
) -> Vec<Gateway> {
    let gateway = |n: usize| {
        let served = Served::Own(Arc::clone(store) as Arc<dyn BlockDevice>);
        let (name, ip) = (format!("gateway-{n}"), format!("10.0.0.{}", n + 1));
        let mut server =
            Server::new(world, &name, &ip, config.protocol, served, config, rng.bits());
        if config.fences {
            let image = store.identity().uuid.expect("a name");
            server.share_in_group(n as u16);
            server.serve_also(match config.protocol {
                Protocol::Iscsi => Protocol::NvmeTcp,
                _ => Protocol::Iscsi,
            });
            let mut gateway = Gateway::new(n, server, cluster, rng.fork());
            gateway.share(SharedReservations::new(cluster, image, rng.fork()));
            return gateway;
        }
        server.share(n as u16);
        let ip = server.place_of(config.protocol).ip();
        let mut gateway = Gateway::new(n, server, cluster, rng.fork());
        if config.failover == Failover::Fast {
            gateway.tell_late(LateWrites {
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
    gateways: &[Gateway],
    world: &mut World,
    (oracle, journal): (&Rc<RefCell<Oracle>>, &Journal),
    rng: &mut Rng,
) -> Vec<Initiator> {
    let urls: Vec<_> = gateways.iter().map(|it| it.server.url()).collect();
    let options = ConnectOptions {
        paths: config.paths(&urls[1..]),
        ..options(config, config.protocol, config.quiesce)
    };
    let initiator = |n| {
        let mut initiator =
            Initiator::new(world, n, config, options.clone(), oracle, journal, rng.fork());
        initiator.set_urls(urls[..1].to_vec());
        initiator.workloads.iter().for_each(|workload| workload.borrow_mut().plan.may_fail = false);
        initiator
    };
    (0..config.initiators).map(initiator).collect()
}
