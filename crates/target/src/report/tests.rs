use super::*;
use crate::inventory::SubsystemConfig;
use weft_block::OpenOptions;
use weft_connection::statistics::{ConnectionName, OperationKind};
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_proto::stream::Tag;

fn inventory() -> std::sync::Arc<LiveInventory> {
    let device = weft_block::open("ram:1MiB", &OpenOptions::default()).unwrap();
    LiveInventory::of_devices(SubsystemConfig::new(nqn()), vec![device]).unwrap()
}

fn nqn() -> Nqn {
    Nqn::new("nqn.2026-01.example.weft:report").unwrap()
}

#[test]
fn a_report_survives_its_json() {
    let inventory = inventory();
    let name = ConnectionName {
        protocol: "iscsi",
        host: "h".to_owned(),
        peer: "192.0.2.1:9".to_owned(),
        queue: None,
        tls: None,
    };
    let mut meter = inventory.statistics().enter(name, 1);
    meter.follow([Some((nqn(), Nsid(1)))].into_iter());
    for failed in [false, true] {
        meter.start(Tag(0), OperationKind::Other);
        meter.of(Tag(0), OperationKind::Read, 0, 4096);
        meter.end(Tag(0), failed);
    }
    let report = Report::of(&inventory, &[]);
    let read: Report = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(read, report);
    let namespace = &report.subsystems[0].namespaces[0];
    assert_eq!((namespace.nsid, namespace.blocks, namespace.presence.as_str()), (1, 2048, "here"));
    for counts in [
        &namespace.counts,
        &report.subsystems[0].counts,
        &report.hosts[0].counts,
        &report.connections[0].counts,
    ] {
        assert_eq!((counts.read.operations, counts.read.bytes, counts.read.errors), (2, 4096, 1));
    }
    assert_eq!((report.total().operations, report.hosts[0].connections), (2, 1));
}

#[test]
fn rates_are_differences_over_time() {
    let inventory = inventory();
    let mut before = Report::of(&inventory, &[]);
    before.uptime_ns = 1_000_000_000;
    let name = ConnectionName {
        protocol: "nbd",
        host: "h".to_owned(),
        peer: String::new(),
        queue: None,
        tls: None,
    };
    let mut meter = inventory.statistics().enter(name, 1);
    meter.follow([Some((nqn(), Nsid(1)))].into_iter());
    for _ in 0..100 {
        meter.start(Tag(0), OperationKind::Write);
        meter.of(Tag(0), OperationKind::Write, 0, 512);
        meter.end(Tag(0), false);
    }
    let mut after = Report::of(&inventory, &[]);
    after.uptime_ns = 3_000_000_000;
    after.loops.push(LoopReport {
        cpu: CpuReport { user_ns: 30_000, system_ns: 20_000 },
        ..LoopReport::default()
    });
    let seconds = after.seconds_since(&before).unwrap();
    let rates = Rates::between(&before.subsystems[0].counts, &after.subsystems[0].counts, seconds);
    assert_eq!(
        (rates.iops, rates.bytes_per_second, rates.errors_per_second),
        (50.0, 25_600.0, 0.0)
    );
    assert_eq!(after.cpu_ns_per_operation(&before), Some(500));
    assert_eq!((before.seconds_since(&after), before.cpu_ns_per_operation(&before)), (None, None));
}

#[test]
fn a_loop_that_does_not_answer_is_not_waited_for() {
    let (give, take) = mpsc::channel::<()>();
    let ((), remote, thread) =
        weft_io::event_loop::spawn(weft_io::LoopConfig::default(), |_| ()).unwrap();
    remote.post(move |_| _ = take.recv());
    let report = Report::of(&inventory(), std::slice::from_ref(&remote));
    assert!(!report.loops[0].answered);
    drop(give);
    weft_testing::wait::until("the loop answers", || {
        let report = Report::of(&inventory(), std::slice::from_ref(&remote));
        report.loops[0].answered && report.loops[0].counters.contains_key("recv_calls")
    });
    remote.post(|on| on.stop());
    thread.join().unwrap().unwrap();
}
