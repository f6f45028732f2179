//! A gateway, as `weft connect` and `weft serve` of a remote disk are one: a device of another
//! target, kept by the default options of paths, is exported, by NVMe/TCP or another protocol.
//! Counted on the loop that serves.

use crate::sim::counts::measure::{
    BLOCK_BYTES, Cost, FEW_POINTS, Judge, Limit, Point, READ, costs, like_the_loopback,
};
use crate::sim::fairness::host;
use crate::sim::protocols::{PROTOCOLS, Protocol};
use crate::sim::scene::{NQN, Setup, options};
use std::net::SocketAddr;
use weft_block::OpenOptions;
use weft_endpoint::export::nvme::TargetLimits;
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::{ConnectOptions, PathOptions};
use weft_proto::nvme::types::Nqn;

/// Calls for each batch: a gateway receives and sends at both sides, and sleeps between them.
const CALLS: f64 = 7.0;

/// What an operation costs the gateway's loop.
fn of_gateway(protocol: Protocol, point: Point) -> Cost {
    let disk = format!("ram:32MiB,block={BLOCK_BYTES}");
    let disk = weft_block::open(&disk, &OpenOptions::default()).unwrap();
    let mut scene = Protocol::NvmeTcp.scene(Setup::new(7, disk));
    like_the_loopback(&mut scene);
    let kept = ConnectOptions { paths: PathOptions::default(), ..options() };
    let remote = scene.open_url(&Protocol::NvmeTcp.url(), &kept).unwrap();
    let on = scene.io_loop(0);
    let inventory =
        LiveInventory::of_devices(SubsystemConfig::new(Nqn::new(NQN).unwrap()), vec![remote])
            .unwrap();
    let address: SocketAddr = "10.0.1.1:3260".parse().unwrap();
    let _export =
        protocol.start(&on, inventory, TargetLimits::default(), vec![on.remote()], address);
    let url = protocol.url_at("10.0.1.1", address.port());
    let (device, client) = host(&mut scene, &url, "10.0.2.1", 128);
    let gateway = scene.client_loops[1];
    let [cost] = costs(&mut scene, client, device.as_ref(), point, [gateway]);
    cost
}

#[test]
fn calls_and_copies_of_a_gateway_are_few() {
    let mut judge = Judge::default();
    for protocol in PROTOCOLS {
        for point in FEW_POINTS {
            // The payload comes in at one side only.
            let limit = Limit { calls: point.calls(CALLS), copies: point.copies() };
            judge.judge(
                &format!("gateway to {protocol:?}, {point:?}"),
                of_gateway(protocol, point),
                limit,
            );
        }
    }
    judge.end();
}

#[test]
fn counts_of_a_gateway_do_not_depend_on_the_run() {
    let point = Point::new(READ, 4, 32);
    assert_eq!(of_gateway(Protocol::NvmeTcp, point), of_gateway(Protocol::NvmeTcp, point));
}
