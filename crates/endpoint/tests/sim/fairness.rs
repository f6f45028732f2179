//! Two hosts on one loop of a target: one writes 1 MiB at depth 128, the other reads 4 KiB at
//! depth 1. Counted in operations on virtual time.

use crate::devices::Testing;
use crate::sim::host_limits::{options_of, start};
use crate::sim::protocols::{PROTOCOLS, Protocol};
use crate::sim::scene::{Connections, Scene, Setup, port};
use std::time::Duration;
use weft_block::{Device, OpKind};
use weft_endpoint::identity::Identities;
use weft_endpoint::limits::STAGING_BYTES;
use weft_endpoint::{ConnectOptions, Control, Names};
use weft_io::sim::{LoopId, NetConfig};
use weft_io::{LoopConfig, limits};

const WRITE_BYTES: u32 = 1 << 20;
const DEPTH: u16 = 128;

/// How long operations are counted, once both hosts are at work.
const COUNTED: Duration = Duration::from_millis(10);

/// Bytes that the loop may receive in a turn, on average: the largest share of a connection, and
/// that of the other one. A reader waits for what the loop does in a turn, so this bounds what the
/// writer costs it where bytes take time; in virtual time only turns do.
const BYTES_OF_TURN_MAX: u64 = 2 * STAGING_BYTES as u64;

/// A device that a host opens, and its loop.
type Opened = (Device, LoopId);

/// Another host, with an address and a name of its own, which opens a device.
pub fn host<T: Connections>(
    scene: &mut Scene<T>,
    url: &str,
    address: &str,
    queue_size: u16,
) -> Opened {
    let host = scene.world.host(address);
    let pool_bytes = 2 * usize::from(DEPTH) * WRITE_BYTES as usize;
    let config = LoopConfig { spin: Duration::from_micros(2), pool_bytes, ..LoopConfig::default() };
    let [control, io] = [0, 1].map(|_| scene.world.add_loop(host, &config));
    let names = Names::Table([("target".to_owned(), vec![port().ip()])].into());
    let control = Control::on(
        scene.world.handle(control).remote(),
        names,
        Identities::seeded(queue_size.into()),
    );
    let options = ConnectOptions { control, ..options_of(address, queue_size) };
    let pending = weft_endpoint::begin(url, &options).unwrap();
    (scene.await_opened(pending, &options).unwrap(), io)
}

/// Operations of a window.
#[derive(Debug)]
struct Counted {
    reads: u64,
    writes: u64,
    bytes_of_turn: u64,
}

fn counted(protocol: Protocol, with_writer: bool, device_takes: Duration) -> Counted {
    let device = Testing::new("ram:64MiB");
    device.knobs.set_delay(device_takes);
    let mut scene = protocol
        .scene(Setup { target_pool_bytes: limits::POOL_BYTES_DEFAULT, ..Setup::new(1, device) });
    // As the loopback is: quick, even, and of large pieces.
    scene.world.set_net(|net| {
        *net = NetConfig {
            send_buffer_bytes: 2 << 20,
            recv_buffer_bytes: 2 << 20,
            ..NetConfig::default()
        }
    });
    let (remote, on) = host(&mut scene, &protocol.url(), "10.0.2.1", 32);
    let reads = start(&scene.world.handle(on), &remote, OpKind::Read, 4096, 1);
    let writer = with_writer.then(|| host(&mut scene, &protocol.url(), "10.0.3.1", DEPTH));
    let writes = writer.as_ref().map(|(remote, on)| {
        let depth = u64::from(DEPTH) - 1;
        start(&scene.world.handle(*on), remote, OpKind::Write { fua: false }, WRITE_BYTES, depth)
    });
    scene.world.run_for(COUNTED / 4);
    let of_writer = || writes.as_ref().map_or(0, |count| count.get());
    let target = scene.world.handle(scene.target_loops[0]);
    let before = (reads.get(), of_writer(), target.counters().snapshot());
    scene.world.run_for(COUNTED);
    let spent = target.counters().snapshot().since(&before.2);
    Counted {
        reads: reads.get() - before.0,
        writes: of_writer() - before.1,
        bytes_of_turn: spent.recv_bytes / spent.turns_busy.max(1),
    }
}

#[test]
fn a_writer_of_large_blocks_does_not_starve_a_reader_of_small_ones() {
    for (protocol, takes_us) in
        PROTOCOLS.into_iter().flat_map(|protocol| [0, 100].map(|takes_us| (protocol, takes_us)))
    {
        let takes = Duration::from_micros(takes_us);
        let [alone, beside] =
            [false, true].map(|with_writer| counted(protocol, with_writer, takes));
        let what = format!(
            "{protocol:?}, a device of {takes_us} µs: alone {alone:?}, beside the writer {beside:?}"
        );
        println!("{what}");
        assert!(beside.writes > 0, "both are at work: {what}");
        assert!(beside.reads * 10 >= alone.reads * 9, "{what}");
        assert!(beside.bytes_of_turn <= BYTES_OF_TURN_MAX, "{what}");
    }
}
