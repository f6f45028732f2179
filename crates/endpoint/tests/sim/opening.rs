//! Opening, by every protocol: queues side by side, devices side by side, and peers that do not
//! answer.

use crate::devices::Testing;
use crate::sim::protocols::{PROTOCOLS, Protocol};
use crate::sim::scene::{Setup, options, port};
use crate::sim::seeds;
use std::time::Duration;
use weft_block::ErrorKind;
use weft_endpoint::ConnectOptions;
use weft_io::sim::{Cut, CutAt, NetConfig, PortAnswer, Rng, Side};

const LIMIT: Duration = Duration::from_secs(600);

/// One way, on a network where nothing else takes time to speak of.
const DELAY: Duration = Duration::from_millis(10);

fn slow_network(net: &mut NetConfig) {
    *net = NetConfig { latency: DELAY, jitter: Duration::ZERO, ..NetConfig::default() };
}

/// How long opening takes with so many queues.
fn time_to_open(protocol: Protocol, queues: u16) -> Duration {
    let mut scene = protocol.scene(Setup::new(1, Testing::new("ram:16MiB")));
    scene.world.set_net(slow_network);
    let start = scene.world.now();
    let device = scene
        .open_url(&protocol.url(), &ConnectOptions { nr_io_queues: queues, ..options() })
        .unwrap();
    assert_eq!(device.max_queues(), usize::from(queues), "{protocol:?}");
    let took = scene.world.now() - start;
    drop(device);
    scene.settle(LIMIT);
    took
}

#[test]
fn queues_open_side_by_side() {
    for protocol in [Protocol::Iscsi, Protocol::Nbd] {
        let [two, eight] = [2, 8].map(|queues| time_to_open(protocol, queues));
        assert!(two > DELAY * 4, "{protocol:?}: {two:?}");
        assert!(eight < two + DELAY, "{protocol:?}: two connections take {two:?}, eight {eight:?}");
    }
}

#[test]
fn devices_open_side_by_side() {
    for protocol in PROTOCOLS {
        let one = time_to_open(protocol, 1);
        let mut scene = protocol.scene(Setup::new(1, Testing::new("ram:16MiB")));
        scene.world.set_net(slow_network);
        let (start, options) = (scene.world.now(), scene.on_client(&options()));
        let filtered = format!("error:rate=0,{}", protocol.url());
        let openings: Vec<_> = [&protocol.url(), &filtered, &protocol.url()]
            .map(|url| weft_endpoint::begin(url, &options).unwrap())
            .into_iter()
            .collect();
        let devices: Vec<_> = openings
            .into_iter()
            .map(|opening| scene.await_opened(opening, &options).unwrap())
            .collect();
        let took = scene.world.now() - start;
        assert!(took < one + DELAY, "{protocol:?}: one device takes {one:?}, three {took:?}");
        drop(devices);
        scene.settle(LIMIT);
    }
}

#[test]
fn whatever_happens_while_it_opens_it_ends_in_time() {
    for protocol in PROTOCOLS {
        eprintln!("{protocol:?}");
        let mut failed = 0;
        for seed in seeds(40) {
            let mut rng = Rng::new(seed);
            let mut scene = protocol.scene(Setup::new(seed, Testing::new("ram:16MiB")));
            let cuts = [
                Cut::Reset,
                Cut::Close,
                Cut::Silence,
                Cut::HalfOpen(Side::Client),
                Cut::HalfOpen(Side::Server),
            ];
            let (how, side) = (*rng.pick(&cuts), *rng.pick(&[Side::Client, Side::Server]));
            let cut = CutAt { from: side, after_bytes: rng.magnitude(1500), how };
            scene.world.plan(port(), Some(cut));
            // Within the time that is allowed, or the scene says so.
            if let Err(e) = scene.open_url(&protocol.url(), &options()) {
                let told =
                    [ErrorKind::TimedOut, ErrorKind::Refused, ErrorKind::Io, ErrorKind::Protocol];
                assert!(
                    told.contains(&e.kind()) && e.to_string().contains("target"),
                    "{:?}: {e}",
                    e.kind()
                );
                failed += 1;
            }
            scene.settle(LIMIT);
        }
        assert!(std::env::var_os("WEFT_SEED").is_some() || failed > 10, "{protocol:?}: {failed}");
    }
}

#[test]
fn nobody_is_there() {
    for protocol in PROTOCOLS {
        for (answer, kind) in
            [(PortAnswer::Refuse, ErrorKind::Refused), (PortAnswer::Never, ErrorKind::TimedOut)]
        {
            let mut scene = protocol.scene(Setup::new(1, Testing::new("ram:16MiB")));
            scene.world.set_answer(port(), answer);
            let error = scene.open_url(&protocol.url(), &options()).err().expect("nobody is there");
            assert_eq!(error.kind(), kind, "{protocol:?}: {error}");
            let error = scene
                .open_url(&protocol.url().replace("target", "nowhere"), &options())
                .err()
                .unwrap();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{protocol:?}: {error}");
            scene.settle(LIMIT);
        }
    }
}
