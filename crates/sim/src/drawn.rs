//! The set-up that a seed chooses, by chance, and as its scene needs it.

use crate::config::{Config, SimProtocol};
use crate::scene::Scene;
use crate::wanted::Transport;
use core::time::Duration;
use weft_endpoint::paths::{Failover, IoPolicy};
use weft_io::sim::Rng;

impl SimProtocol {
    fn drawn(rng: &mut Rng) -> Self {
        *rng.pick(&[Self::NvmeTcp, Self::NvmeTcp, Self::Iscsi, Self::Nbd])
    }
}

impl Config {
    /// The set-up that a seed has, whose scene has choices of its own.
    pub fn of(rng: &mut Rng, (scene, choices): (Scene, &mut Rng), transport: Transport) -> Self {
        let mut config = Self::drawn(rng);
        scene.shape(&mut config, choices);
        // RDMA has checksums of its own: nothing is damaged there.
        if transport == Transport::Rdma && scene != Scene::Damage {
            let both = [&mut config.protocol].into_iter().chain(&mut config.behind_gateway);
            both.filter(|protocol| protocol.is_nvme())
                .for_each(|protocol| *protocol = SimProtocol::NvmeRdma);
        }
        config
    }

    fn drawn(rng: &mut Rng) -> Self {
        let protocol = SimProtocol::drawn(rng);
        let behind_gateway = rng.one_in(4).then(|| SimProtocol::drawn(rng));
        let queues = rng.within(1, 2) as usize;
        let trouble = Duration::from_secs(rng.within(8, 30));
        let operations = rng.within(60, 200) as u32;
        let slots = rng.within(1, 8) as u32;
        Self {
            scene: Scene::Any,
            protocol,
            behind_gateway,
            targets: rng.within(1, 2) as usize,
            fences: false,
            locked: false,
            initiators: if rng.one_in(3) { 2 } else { 1 },
            serving_loops: rng.within(1, 2) as usize,
            queues,
            pool_bytes: *rng.pick(&[1 << 20, 16 << 20]),
            header_digest: rng.one_in(2),
            data_digest: rng.one_in(2),
            queue_size: rng.within(2, 32) as u16,
            keep_alive_ms: *rng.pick(&[1000, 2000, 5000]),
            quiesce: Duration::from_secs(rng.within(4, 8)),
            at_bound: false,
            io_timeout: Duration::from_secs(rng.within(4, 12)),
            volatile: rng.one_in(2),
            compare: rng.one_in(2),
            block_bytes: if rng.one_in(4) { 4096 } else { 512 },
            slots,
            slot_blocks: rng.within(1, 8) as u32,
            overlap: false,
            operations,
            // So that the operations last about as long as the trouble.
            think: trouble * 2 * slots / operations,
            trouble,
            reconnects: !rng.one_in(4),
            policy: *rng.pick(&[
                IoPolicy::Numa,
                IoPolicy::RoundRobin,
                IoPolicy::QueueDepth,
                IoPolicy::Latency,
            ]),
            failover: Failover::Safe,
            reconnect_delay: Duration::from_millis(100 + rng.magnitude(5000)),
            unflushed_bytes: rng.one_in(5).then(|| rng.magnitude(64 << 10) as usize),
        }
    }
}

impl Scene {
    /// Changes the set-up of a run to what the scene needs.
    fn shape(self, config: &mut Config, rng: &mut Rng) {
        config.scene = self;
        match self {
            Self::Any => {}
            Self::LateWrites => shape_late_writes(config, rng),
            Self::Shared => shape_shared(config, rng),
            Self::Restarts => shape_restarts(config, rng),
            Self::Reservations => shape_reservations(config, rng),
            Self::Damage => shape_damage(config, rng),
            Self::Writers => shape_writers(config, rng),
            Self::Mirror => shape_mirror(config, rng),
            Self::Group => shape_group(config, rng),
            Self::Stops => shape_stops(config, rng),
            Self::TakenOver => shape_taken_over(config, rng),
        }
        config.locked = config.targets == 1 && rng.one_in(2);
        config.think = config.trouble * 2 * config.slots / config.operations;
    }
}

/// Few blocks, so that writes follow each other on the same ones, and paths that are there again at
/// once.
fn shape_late_writes(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    config.protocol = *rng.pick(&[SimProtocol::NvmeTcp, SimProtocol::NvmeTcp, SimProtocol::Iscsi]);
    (config.targets, config.initiators, config.reconnects) = (rng.within(1, 2) as usize, 1, true);
    (config.slots, config.slot_blocks) = (rng.within(2, 4) as u32, 1);
    (config.operations, config.trouble) = (200, Duration::from_secs(10));
    config.unflushed_bytes = None;
    config.keep_alive_ms = 1000;
    config.reconnect_delay = Duration::from_millis(100);
}

/// As with late writes. What a process has not flushed, the next one cannot write again, so there
/// is no cache.
fn shape_taken_over(config: &mut Config, rng: &mut Rng) {
    shape_late_writes(config, rng);
    let protocols =
        [SimProtocol::NvmeTcp, SimProtocol::NvmeTcp, SimProtocol::Iscsi, SimProtocol::Nbd];
    (config.protocol, config.volatile) = (*rng.pick(&protocols), false);
    config.reconnects = rng.one_in(2);
}

/// Both processes have the same subsystem, and controllers of their own.
fn shape_shared(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    config.protocol = *rng.pick(&[SimProtocol::NvmeTcp, SimProtocol::NvmeTcp, SimProtocol::Iscsi]);
    (config.targets, config.reconnects) = (2, true);
}

/// Little that is kept until a flush, and a cache to lose.
fn shape_restarts(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    (config.volatile, config.reconnects) = (true, true);
    config.unflushed_bytes = Some(rng.magnitude(16 << 10) as usize);
}

/// One process, which serves by NVMe and iSCSI, to two hosts.
fn shape_reservations(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    config.protocol = *rng.pick(&[
        SimProtocol::NvmeTcp,
        SimProtocol::NvmeTcp,
        SimProtocol::NvmeTcp,
        SimProtocol::Iscsi,
    ]);
    (config.targets, config.initiators, config.reconnects) = (1, 2, true);
    config.block_bytes = crate::reserving::BLOCK as u32;
    config.unflushed_bytes = None;
}

/// Digests of all that has them.
fn shape_damage(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    config.protocol = *rng.pick(&[SimProtocol::NvmeTcp, SimProtocol::NvmeTcp, SimProtocol::Iscsi]);
    (config.header_digest, config.data_digest) = (true, true);
}

/// A few blocks that all write, two or three operations of each host at a time; or one host alone
/// whose own writes overlap.
fn shape_writers(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = config.behind_gateway.filter(|_| rng.one_in(2));
    (config.targets, config.reconnects, config.overlap) = (1, true, true);
    config.initiators = *rng.pick(&[1, 2, 2, 2, 3]);
    (config.slots, config.slot_blocks) = (rng.within(1, 3) as u32, rng.within(1, 4) as u32);
    (config.volatile, config.unflushed_bytes) = (!rng.one_in(4), None);
    // Whoever is alone writes again what was lost, also over what a lost compare-and-write has
    // written.
    config.compare &= config.initiators > 1;
    config.reconnect_delay = Duration::from_millis(100 + rng.magnitude(1000));
}

/// Two or three targets, and blocks in several regions of a mirror.
fn shape_mirror(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    config.protocol = *rng.pick(&[SimProtocol::NvmeTcp, SimProtocol::NvmeTcp, SimProtocol::Iscsi]);
    (config.targets, config.initiators, config.reconnects) = (rng.within(2, 3) as usize, 1, false);
    config.slot_blocks = 24 * 1024 / config.block_bytes;
    config.unflushed_bytes = None;
    config.keep_alive_ms = 1000;
    config.quiesce = Duration::from_secs(4);
    // So few operations that regions are quiet in between, and their bits are cleared.
    if rng.one_in(2) {
        (config.operations, config.trouble) = (config.operations / 4, Duration::from_secs(60));
    }
}

/// Two or three gateways, and hosts with a path to each.
fn shape_group(config: &mut Config, rng: &mut Rng) {
    config.behind_gateway = None;
    config.protocol = *rng.pick(&[SimProtocol::NvmeTcp, SimProtocol::Iscsi]);
    (config.targets, config.reconnects) = (rng.within(2, 3) as usize, true);
    (config.volatile, config.compare, config.unflushed_bytes) = (false, false, None);
    config.trouble = Duration::from_secs(rng.within(20, 60));
    config.reconnect_delay = Duration::from_millis(200);
    // Longer than it takes until a gateway that stands still is kept out: what is in its sockets is
    // executed before that, or never.
    config.quiesce = Duration::from_secs(10);
    config.keep_alive_ms = *rng.pick(&[1000, 2000]);
    config.fences = rng.one_in(2);
    if config.fences {
        (config.initiators, config.block_bytes) = (2, crate::reserving::BLOCK as u32);
        // The initiators of iSCSI have no part in what is reserved, but that they are kept out.
        config.protocol = *rng.pick(&[
            SimProtocol::NvmeTcp,
            SimProtocol::NvmeTcp,
            SimProtocol::NvmeTcp,
            SimProtocol::Iscsi,
        ]);
    }
}

/// Writes that follow each other on the same blocks, of hosts that notice soon that nothing
/// answers, and do not wait.
fn shape_stops(config: &mut Config, rng: &mut Rng) {
    shape_group(config, rng);
    config.fences = false;
    config.failover = Failover::Fast;
    (config.slots, config.slot_blocks, config.keep_alive_ms) = (rng.within(1, 3) as u32, 1, 1000);
    config.operations = 200;
}
