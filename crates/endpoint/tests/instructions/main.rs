//! The cost of counting a command in an export, and nothing else, in a function whose instructions
//! can be counted: `cargo xtask race --gates` runs this program under callgrind, which collects
//! inside of `measured_…` only. The plain test pass runs it so that it cannot rot. Also devices
//! that consist of others.

mod composites;

use std::hint::black_box;
use std::sync::Arc;
use weft_endpoint::statistics::{ConnectionName, Meter, OperationKind, Statistics};
use weft_io::Time;
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_proto::stream::Tag;

/// Commands that are in flight together.
const DEPTH: u16 = 16;

/// Commands that are counted.
const COUNTED: u64 = 4000;

const BYTES: u64 = 4096;

fn meter(statistics: &Arc<Statistics>) -> Meter {
    let host = "nqn.2026-01.example.host:counting".to_owned();
    let name = ConnectionName {
        protocol: "nvme+tcp",
        host,
        peer: "192.0.2.1:4420".to_owned(),
        queue: Some(1),
        tls: None,
    };
    let mut meter = statistics.enter(name, DEPTH.into());
    meter.follow(
        [Some((Nqn::new("nqn.2026-01.example.weft:counting").unwrap(), Nsid(1)))].into_iter(),
    );
    meter
}

/// Counted: commands in batches, each of which arrives in one turn of the loop and is answered in
/// the next.
#[inline(never)]
fn measured_counting(meter: &mut Meter, commands: u64) {
    for turn in 0..commands / u64::from(DEPTH) {
        meter.turn(Time::from_nanos(turn * 20_000));
        for tag in (0..DEPTH).map(Tag) {
            meter.start(tag, black_box(OperationKind::Read));
            meter.of(tag, black_box(OperationKind::Read), black_box(0), black_box(BYTES));
        }
        meter.turn(Time::from_nanos(turn * 20_000 + 10_000));
        (0..DEPTH).for_each(|tag| meter.end(Tag(tag), black_box(false)));
    }
}

#[test]
fn counting() {
    let statistics = Arc::<Statistics>::default();
    let mut meter = meter(&statistics);
    measured_counting(&mut meter, COUNTED);
    let counts = &statistics.connections()[0].counts;
    assert_eq!(
        (counts.read.operations, counts.read.bytes, counts.in_flight),
        (COUNTED, COUNTED * BYTES, 0)
    );
    println!("commands {COUNTED}");
}
