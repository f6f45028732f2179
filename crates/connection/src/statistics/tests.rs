use super::*;
use std::time::Duration;
use weft_io::Time;
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_proto::stream::Tag;

fn name(host: &str) -> ConnectionName {
    ConnectionName {
        protocol: "nvme+tcp",
        host: host.to_owned(),
        peer: "192.0.2.1:1".to_owned(),
        queue: Some(1),
        tls: None,
    }
}

fn namespace(nsid: u32) -> NamespaceName {
    (Nqn::new("nqn.2026-01.example.weft:statistics").unwrap(), Nsid(nsid))
}

fn at(us: u64) -> Time {
    Time::from_epoch(Duration::from_micros(us))
}

/// A read on the first namespace.
fn read(meter: &mut Meter, tag: u16, failed: bool) {
    meter.start(Tag(tag), OperationKind::Other);
    meter.of(Tag(tag), OperationKind::Read, 0, 512);
    meter.end(Tag(tag), failed);
}

#[test]
fn a_command_counts_for_its_connection_its_host_and_its_namespace() {
    let statistics = Arc::<Statistics>::default();
    let mut meter = statistics.enter(name("host"), 2);
    meter.follow([None, Some(namespace(7))].into_iter());
    meter.turn(at(10));
    meter.start(Tag(0), OperationKind::Other);
    meter.of(Tag(0), OperationKind::Write, 1, 4096);
    meter.of(Tag(0), OperationKind::Write, 1, 4096);
    meter.start(Tag(5), OperationKind::Other);
    assert_eq!(
        (
            statistics.connections()[0].counts.in_flight,
            statistics.namespace(&namespace(7)).in_flight
        ),
        (2, 1)
    );
    meter.turn(at(110));
    meter.end(Tag(0), false);
    meter.end(Tag(0), false);
    meter.end(Tag(5), true);
    let expected = |counts: &Counts| {
        (counts.write.operations, counts.write.bytes, counts.write.latency.sum_ns)
    };
    let (connection, host) =
        (statistics.connections().remove(0).counts, statistics.hosts().remove(0));
    for counts in [&connection, &host.counts, &statistics.namespace(&namespace(7))] {
        assert_eq!((expected(counts), counts.in_flight), ((1, 8192, 100_000), 0));
    }
    assert_eq!((connection.other.operations, connection.other.errors, host.connections), (1, 1, 1));
    drop(meter);
    let host = statistics.hosts().remove(0);
    assert_eq!(
        (expected(&host.counts), host.connections, statistics.connections().len()),
        ((1, 8192, 100_000), 0, 0)
    );
}

#[test]
fn what_a_connection_leaves_behind_is_not_in_flight() {
    let statistics = Arc::<Statistics>::default();
    let mut meter = statistics.enter(name("host"), 4);
    meter.follow([Some(namespace(1))].into_iter());
    for tag in 0..3 {
        meter.start(Tag(tag), OperationKind::Read);
        meter.of(Tag(tag), OperationKind::Read, 0, 1);
    }
    // A tag that is used again was given up.
    meter.start(Tag(1), OperationKind::Read);
    assert_eq!(
        (
            statistics.connections()[0].counts.in_flight,
            statistics.namespace(&namespace(1)).in_flight
        ),
        (3, 2)
    );
    // The namespaces are others: those that are under way end on none.
    meter.follow([None, Some(namespace(2))].into_iter());
    assert_eq!(statistics.namespace(&namespace(1)).in_flight, 0);
    meter.end(Tag(0), false);
    drop(meter);
    let host = statistics.hosts().remove(0);
    assert_eq!((host.counts.in_flight, host.counts.read.operations), (0, 1));
}

#[test]
fn hosts_have_places_up_to_a_limit_and_nothing_is_lost() {
    let statistics = Arc::<Statistics>::default();
    let mut meters: Vec<Meter> = (0..HOSTS_COUNTED_MAX + 3)
        .map(|n| statistics.enter(name(&format!("host{n:05}")), 1))
        .collect();
    meters.iter_mut().for_each(|meter| meter.follow([Some(namespace(1))].into_iter()));
    meters.iter_mut().for_each(|meter| read(meter, 0, false));
    let sum =
        |hosts: &[HostCounts]| hosts.iter().map(|host| host.counts.read.operations).sum::<u64>();
    let hosts = statistics.hosts();
    let others = hosts.last().unwrap();
    assert_eq!(
        (hosts.len(), others.name.as_deref(), others.connections),
        (HOSTS_COUNTED_MAX + 1, None, 3)
    );
    assert_eq!((others.counts.read.operations, sum(&hosts)), (3, meters.len() as u64));
    // One that has gone makes room for a new one.
    let all = meters.len() as u64;
    drop(meters.remove(0));
    let mut new = statistics.enter(name("new"), 1);
    read(&mut new, 0, true);
    let hosts = statistics.hosts();
    assert!(
        hosts
            .iter()
            .any(|host| host.name.as_deref() == Some("new") && host.counts.read.errors == 1)
    );
    assert_eq!((hosts.len(), sum(&hosts)), (HOSTS_COUNTED_MAX + 1, all + 1));
}

#[test]
fn a_namespace_that_is_gone_is_forgotten_once_nobody_uses_it() {
    let statistics = Arc::<Statistics>::default();
    let mut meter = statistics.enter(name("host"), 1);
    meter.follow([Some(namespace(1))].into_iter());
    read(&mut meter, 0, false);
    statistics.retain(|_| false);
    assert_eq!(statistics.namespace(&namespace(1)).read.operations, 1);
    drop(meter);
    statistics.retain(|_| false);
    assert_eq!(statistics.namespace(&namespace(1)), Counts::default());
}
