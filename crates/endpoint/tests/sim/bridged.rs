//! System calls of a bridge, as `weft connect` is one: a device of another target, kept by the
//! default options of paths, is exported by another protocol. Counted on virtual time, on the loop
//! that serves.

use crate::sim::fairness::host;
use crate::sim::host_limits::start;
use crate::sim::protocols::Protocol;
use crate::sim::scene::{NQN, Scene, Setup, options};
use std::net::SocketAddr;
use std::time::Duration;
use weft_block::{OpKind, OpenOptions};
use weft_endpoint::export::nvme::TargetLimits;
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::{ConnectOptions, PathOptions};
use weft_io::sim::NetConfig;
use weft_proto::nvme::types::Nqn;

/// Operations that are counted; a quarter as many go before.
const COUNTED: u64 = 1000;

/// Operations that a call has to serve at least, on average, where that many are under way.
const BATCH: u32 = 16;

/// Calls for each batch: a bridge receives and sends at both sides, and sleeps between them.
const CALLS: f64 = 7.0;

/// Calls that an operation may cost: large ones need some for each 64 KiB, as a socket's buffer
/// bounds what a call moves.
fn limit(bytes: u32, depth: u64) -> f64 {
    CALLS * (1.0 / depth.min(BATCH.into()) as f64).max(f64::from(bytes) / f64::from(64 << 10))
}

/// System calls of the bridge for an operation.
fn calls(protocol: Protocol, kind: OpKind, bytes: u32, depth: u64) -> f64 {
    let disk = weft_block::open("ram:32MiB", &OpenOptions::default()).unwrap();
    let mut scene = Scene::new(Setup::new(7, disk));
    // As the loopback is: quick, even, and of large pieces.
    scene.world.set_net(|net| {
        *net = NetConfig {
            send_buffer_bytes: 2 << 20,
            recv_buffer_bytes: 2 << 20,
            ..NetConfig::default()
        }
    });
    let kept = ConnectOptions { paths: PathOptions::default(), ..options() };
    let remote = scene.open_url(&Protocol::NvmeTcp.url(), &kept).unwrap();
    let on = scene.io_loop(0);
    let inventory =
        LiveInventory::of_devices(SubsystemConfig::new(Nqn::new(NQN).unwrap()), vec![remote])
            .unwrap();
    let address: SocketAddr = "10.0.1.1:3260".parse().unwrap();
    let _export =
        protocol.start(&on, inventory, TargetLimits::default(), vec![on.remote()], address);
    let (device, client) =
        host(&mut scene, &protocol.url_at("10.0.1.1", address.port()), "10.0.2.1", 128);
    let count = start(&scene.world.handle(client), &device, kind, bytes, depth);
    let mut until = |operations: u64| {
        assert!(
            scene.world.run_until(|_| count.get() >= operations, Duration::from_secs(600)),
            "it goes on"
        );
        (count.get(), on.counters().snapshot())
    };
    let (first, before) = until(COUNTED / 4);
    let (last, after) = until(first + COUNTED);
    let spent = after.since(&before);
    let calls = spent.recv_calls + spent.send_calls + spent.send_blocked + spent.sleeps;
    calls as f64 / (last - first) as f64
}

#[test]
fn calls_of_a_bridge_are_few() {
    let mut faults = Vec::new();
    for protocol in [Protocol::Iscsi, Protocol::Nbd] {
        for kind in [OpKind::Read, OpKind::Write { fua: false }] {
            for (bytes, depth) in [(4096, 1), (4096, 32), (65_536, 16)] {
                let calls = calls(protocol, kind, bytes, depth);
                let found = format!(
                    "{protocol:?}, {kind:?}, {bytes} bytes, depth {depth}: {calls:.3} calls of {:.3}",
                    limit(bytes, depth)
                );
                println!("{found}");
                if calls > limit(bytes, depth) {
                    faults.push(found);
                }
            }
        }
    }
    assert!(faults.is_empty(), "more for each operation than may be:\n{}", faults.join("\n"));
}
