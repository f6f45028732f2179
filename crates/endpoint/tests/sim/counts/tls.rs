//! Both ends of NVMe/TCP with TLS, its records in user space: simulated sockets have no kernel below
//! them. Counted are the calls of the pump, each of which is one call of the stream; what the stream
//! calls below is counted by a test of `tls`.

use crate::sim::counts::measure::{
    BLOCK_BYTES, Cost, FEW_POINTS, Judge, Limit, Point, READ, costs, like_the_loopback,
};
use crate::sim::counts::protocols::CALLS;
use crate::sim::scene::{Scene, Setup, options, port};
use weft_block::OpenOptions;
use weft_endpoint::export::nvme::{Target, TargetConfig};
use weft_endpoint::identity::Identities;
use weft_endpoint::{ConnectOptions, TlsFiles, TlsPsk};
use weft_proto::nvme::auth::{Hash, InterchangeKey, PskKeys};

fn psk() -> TlsFiles {
    let key = InterchangeKey::of_key(&[7; 32], Some(Hash::Sha256)).unwrap().text().to_string();
    TlsFiles {
        psk: Some(TlsPsk::new(PskKeys::parse(&key).unwrap()).unwrap()),
        ..TlsFiles::default()
    }
}

/// What each end, the initiator first, spends on an operation.
fn of_ends(point: Point) -> [Cost; 2] {
    let disk = format!("ram:32MiB,block={BLOCK_BYTES}");
    let device = weft_block::open(&disk, &OpenOptions::default()).unwrap();
    let mut scene = Scene::with(Setup::new(7, device), |on, inventory, limits, loops| {
        let identities = Identities::seeded(1);
        let config = TargetConfig { inventory, listen: vec![port()], identities, tls: psk() };
        Target::start_on(on, config, limits, loops).unwrap()
    });
    like_the_loopback(&mut scene);
    let remote = scene.open(&ConnectOptions { tls: psk(), ..options() }).unwrap();
    let (from, target) = (scene.client_loops[1], scene.target_loops[0]);
    costs(&mut scene, from, remote.as_ref(), point, [from, target])
}

/// Whether this machine has no TLS.
fn is_skipped() -> bool {
    weft_tls::available().map_err(weft_testing::skip).is_err()
}

#[test]
fn calls_and_copies_of_tls_are_few() {
    if is_skipped() {
        return;
    }
    let mut judge = Judge::default();
    for point in FEW_POINTS {
        let limit = Limit { calls: point.calls(CALLS), copies: point.copies() };
        for (end, found) in ["initiator", "target"].into_iter().zip(of_ends(point)) {
            judge.judge(&format!("TLS, {point:?}, {end}"), found, limit);
        }
    }
    judge.end();
}

#[test]
fn counts_of_tls_do_not_depend_on_the_run() {
    if !is_skipped() {
        let point = Point::new(READ, 4, 32);
        assert_eq!(of_ends(point), of_ends(point));
    }
}
