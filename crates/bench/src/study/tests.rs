use super::*;
use crate::ceiling::{Memory, serve};
use crate::results::Lane as Facts;
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use weft_block::{OpenOptions, open};

fn lane(name: &str, url: &str) -> Lane {
    Lane {
        name: name.into(),
        title: format!("{name} device"),
        url: url.into(),
        device: open(url, &OpenOptions::default()).unwrap(),
        target_pid: (name != Facts::LOCAL).then(std::process::id),
        target_counters: None,
        initiator_cpu: None,
        target_cpu: None,
        base: None,
    }
}

fn spec(lanes: Vec<Lane>, ceiling: Option<SocketAddr>) -> StudySpec {
    StudySpec {
        suite: Suite::Patterns,
        quick: true,
        budget: Some(Duration::from_secs(1)),
        lanes,
        ceiling,
        ceiling_pid: None,
        ceiling_cpu: None,
        in_capsule_bytes: 8192,
        stop: Arc::default(),
    }
}

/// A study of some of the workloads: two that mix, write or read at depth, and one of the latencies.
fn short(spec: StudySpec, progress: &mut dyn FnMut(StudyProgress<'_>)) -> Result<Results, Error> {
    let chosen = workloads().into_iter().filter(|w| ["4k-randrw50", "64k-seqread", "qd1-4k-randwrite"].contains(&&*w.name));
    measure(spec, Duration::from_secs(1), 2, chosen.collect(), progress)
}

#[test]
fn a_study_has_a_row_for_each_lane_and_workload() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let server = std::thread::spawn(move || serve(listener, &Memory::new(16 << 20).unwrap(), &seen).unwrap());
    let mut heard = Vec::new();
    let lanes = vec![lane(Facts::LOCAL, "ram:16MiB"), lane("other", "ram:24MiB")];
    let results = short(spec(lanes, Some(at)), &mut |p| heard.push((p.what.to_owned(), p.fraction))).unwrap();
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap();
    assert_eq!(
        (results.workloads.len(), results.rows.len(), results.ceiling.len()),
        (3, 6, if results.machine.cores > 1 { 3 } else { 0 }),
        "{:?}",
        results.notes
    );
    for workload in &results.workloads {
        let local = results.row(Facts::LOCAL, &workload.name).unwrap();
        let other = results.row("other", &workload.name).unwrap();
        assert!(local.iops > 0.0 && local.latency.p50_ns > 0.0 && local.failed == 0);
        assert_eq!((local.share_of_local, local.share_of_ceiling, local.target), (None, None, None));
        assert!(other.share_of_local.is_some() && other.target.is_some());
        // With one processor nothing can be a share of bare TCP, nor of one that is unstable.
        let steady = results.ceiling(&workload.name).is_some_and(|ceiling| !ceiling.is_unstable());
        assert_eq!(other.share_of_ceiling.is_some(), steady);
        assert!(
            other.rounds >= 1
                && other.iops_of_rounds.len() == other.rounds as usize
                && other.spread.0 <= other.iops
                && other.iops <= other.spread.1
        );
    }
    assert_eq!(heard.iter().any(|(what, _)| what == "bare TCP"), results.machine.cores > 1);
    assert!(heard.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    // What is written can be read again.
    let text = serde_json::to_string(&results).unwrap();
    assert_eq!(serde_json::from_str::<Results>(&text).unwrap().rows.len(), 6);
}

#[test]
fn a_lane_that_fails_is_told_and_the_others_go_on() {
    let broken = lane("broken", "error:rate=1,ram:16MiB");
    let results = short(spec(vec![lane(Facts::LOCAL, "ram:16MiB"), broken], None), &mut |_| ()).unwrap();
    assert!(results.rows.iter().all(|row| row.lane == Facts::LOCAL));
    assert_eq!(results.rows.len(), 3);
    assert!(results.notes.iter().any(|note| note.contains("broken") && note.contains("given up")), "{:?}", results.notes);
    let only = short(spec(vec![lane("broken", "error:rate=1,ram:16MiB")], None), &mut |_| ());
    assert!(only.is_err());
}

#[test]
fn a_device_that_cannot_be_written_is_read() {
    struct ReadOnly(Arc<dyn BlockDevice>);
    impl BlockDevice for ReadOnly {
        fn url(&self) -> &str {
            self.0.url()
        }
        fn geometry(&self) -> weft_block::Geometry {
            self.0.geometry()
        }
        fn features(&self) -> weft_block::Features {
            weft_block::Features { write: false, ..self.0.features() }
        }
        fn open_queue(
            &self,
            on: &weft_io::Handle,
            owner: weft_io::DriverId,
        ) -> Result<Box<dyn weft_block::BlockQueue>, weft_block::Error> {
            self.0.open_queue(on, owner)
        }
    }
    let mut one = lane("local", "ram:16MiB");
    one.device = Arc::new(ReadOnly(one.device));
    let results = short(spec(vec![one], None), &mut |_| ()).unwrap();
    assert_eq!(results.rows.len(), 1);
    assert!(results.notes.iter().any(|note| note.contains("cannot be written")));
}

/// An operation takes longer than a measurement of a study that has so little time.
#[test]
fn what_is_too_slow_for_its_measurement_gets_a_longer_one() {
    let slow = Lane { base: Some(Facts::LOCAL.into()), ..lane("slow", "delay:read=200ms,write=200ms,null:16MiB") };
    let results = short(spec(vec![lane(Facts::LOCAL, "ram:16MiB"), slow], None), &mut |_| ()).unwrap();
    assert_eq!(results.rows.len(), 6, "{:?}", results.notes);
    let remote = || results.rows.iter().filter(|row| row.lane == "slow");
    assert!(remote().all(|row| row.share_of_local.is_some() && row.is_unstable()), "measured beside what it is a share of");
}

#[test]
fn a_study_can_be_stopped() {
    let spec = StudySpec { budget: Some(Duration::from_secs(600)), ..spec(vec![lane("local", "ram:16MiB")], None) };
    let stop = spec.stop.clone();
    let mut heard = 0;
    let results = short(spec, &mut |_| {
        heard += 1;
        stop.store(heard > 1, Ordering::Relaxed);
    })
    .unwrap();
    assert!(results.rows.len() < 3);
    assert!(results.notes.iter().any(|note| note.contains("early")));
}

#[test]
fn the_null_suite_measures_its_jobs_and_counts() {
    let mut lanes = vec![lane("iscsi", "null:1GiB"), lane("nvme+tcp", "null:1GiB")];
    // A target that has made another 512 system calls and copied nothing whenever it is asked.
    let asked = std::cell::Cell::new(0);
    lanes[0].target_counters = Some(Box::new(move || {
        asked.set(asked.get() + 1);
        Some(Snapshot { recv_calls: 512 * asked.get(), polls: 7, ..Snapshot::default() })
    }));
    let spec = StudySpec { suite: Suite::Null, ..spec(lanes, None) };
    let results = measure(spec, Duration::from_secs(1), 2, vec![null::workload()], &mut |_| ()).unwrap();
    assert_eq!((results.suite, results.workloads[0].jobs, results.rows.len()), (Suite::Null, 256, 2), "{:?}", results.notes);
    for row in &results.rows {
        assert!(row.read_iops > row.write_iops && row.write_iops > 0.0 && row.failed == 0, "{row:?}");
        assert!(row.counts.is_some_and(|counts| counts.ios > 0 && counts.initiator.system_calls >= 0.0));
    }
    let counts = results.rows[0].counts.unwrap();
    let target = counts.target.unwrap();
    assert_eq!(target.system_calls, 512.0 / (counts.ios + 256) as f64);
    assert_eq!((target.copied_bytes, results.rows[1].counts.unwrap().target), (0.0, None));
    assert_eq!(results.published.iter().map(|p| p.lane.as_str()).collect::<Vec<_>>(), ["iscsi", "nvme+tcp"]);
}

/// Ten operations are to lie above the 99.9th percentile of a round, and it is told only where each round has it.
#[test]
fn a_percentile_takes_enough_operations() {
    let round = |round: u32, ios: u64| {
        let mut latency = crate::stats::Latency::new();
        latency.record_n(1000, ios);
        let report = crate::ceiling::CeilingReport {
            ios: [ios, 0, 0],
            runtime: Duration::from_secs(1),
            latency,
            thread: weft_io::cpu_usage::Usage::default(),
            system_calls: 0,
            server_system_calls: 0,
            server: None,
            tuning: crate::ceiling::Tuning::default(),
        };
        sample::Sample::of_ceiling(round, 4096, &report)
    };
    let told = |samples: &[sample::Sample]| sample::ceiling("w", samples).latency.p999_ns;
    let (few, enough) = (crate::limits::P999_IOS_MIN - 1, crate::limits::P999_IOS_MIN);
    assert_eq!(told(&[round(0, few)]), None);
    assert!(told(&[round(0, enough), round(1, enough)]).is_some_and(|ns| (990.0..1010.0).contains(&ns)));
    assert_eq!(told(&[round(0, enough), round(1, few)]), None);
}

/// Reads stand beside reads and writes beside writes, and nobody is named whom the source does not name.
#[test]
fn published_figures_are_those_of_their_source() {
    let [iscsi, nvme] = null::published();
    let of = |p: &crate::results::Published| (p.read_iops, p.write_iops, p.read_mean_ns, p.write_mean_ns);
    assert_eq!(of(&iscsi), (24_800.0, 10_700.0, 8_170_000.0, 4_860_000.0));
    assert_eq!(of(&nvme), (104_000.0, 44_700.0, 1_710_000.0, 1_730_000.0));
    for published in [&iscsi, &nvme] {
        assert_eq!(
            published.source,
            "a published comparison of iSCSI and NVMe/TCP on a null device (in Japanese), random 4K 70:30, 256 jobs"
        );
    }
}
