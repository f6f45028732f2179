//! Whole studies of small devices.

mod blocks;
mod generators;

use super::*;
use crate::ceiling::{CeilingMemory, serve};
use crate::results::Lane as Facts;
use crate::suite::Suite;
use core::time::Duration;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_block::{BlockDevice, OpenOptions, open};
use weft_io::counters::Snapshot;

fn lane(name: &str, url: &str) -> StudyLane {
    StudyLane {
        name: name.into(),
        title: format!("{name} device"),
        url: url.into(),
        device: open(url, &OpenOptions::default()).unwrap(),
        target_pids: (name != Facts::LOCAL).then(std::process::id).into_iter().collect(),
        target_counters: None,
        home_counters: None,
        initiator_cpus: Vec::new(),
        target_cpus: Vec::new(),
        base: None,
        real: false,
        generator: None,
        prepared_by: None,
        peer: LanePeer::default(),
    }
}

fn spec(lanes: Vec<StudyLane>, ceiling: Option<SocketAddr>) -> StudySpec<'static> {
    StudySpec {
        suite: short("patterns"),
        mode: SuiteMode::Quick,
        budget: Some(Duration::from_secs(1)),
        seed: 7,
        commit: Some("0123456789ab".into()),
        command: vec!["weft".into(), "study".into()],
        stage: LaneSet {
            lanes,
            ceiling: ceiling.map(|address| CeilingServer {
                address,
                pid: None,
                process: Box::new(()),
            }),
            missing: Vec::new(),
        },
        set_up: None,
        skipped: Vec::new(),
        ceiling_cpu: None,
        in_capsule_bytes: 8192,
        stop: Arc::default(),
    }
}

/// A suite in two rounds, with some of its workloads only: two that mix, write or read at depth,
/// and one of the latencies.
fn short(name: &str) -> Suite {
    let mut suite = Suite::named(name).unwrap();
    let chosen = ["4k-randrw50", "64k-seqread", "qd1-4k-randwrite", "4k-randrw70-256jobs"];
    suite.workloads.retain(|workload| chosen.contains(&&*workload.name));
    suite.times.iter_mut().for_each(|times| times.rounds = Some(2));
    suite
}

#[test]
fn a_study_has_a_row_for_each_lane_and_workload() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let server = std::thread::spawn(move || {
        serve(listener, &CeilingMemory::new(16 << 20).unwrap(), None, &seen).unwrap()
    });
    let mut heard = Vec::new();
    let lanes = vec![lane(Facts::LOCAL, "ram:16MiB"), lane("other", "ram:24MiB")];
    let results =
        run(spec(lanes, Some(at)), &mut |p| heard.push((p.what.to_owned(), p.fraction))).unwrap();
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
        assert_eq!(
            (local.share_of_local, local.share_of_ceiling, local.target),
            (None, None, None)
        );
        assert!(other.share_of_local.is_some() && other.target.is_some());
        // With one processor nothing can be a share of bare TCP.
        assert_eq!(other.share_of_ceiling.is_some(), results.machine.cores > 1);
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

/// All lanes get the rate of the slowest in the closed loop, and one that cannot do it says so.
#[test]
fn in_the_open_loop_all_lanes_have_the_same_rate() {
    let mut suite = Suite::named("patterns").unwrap();
    suite
        .workloads
        .retain(|workload| ["4k-randread", "load50-4k-randread"].contains(&&*workload.name));
    suite.times.iter_mut().for_each(|times| times.rounds = Some(2));
    let slow = lane("slow", "limit:iops=2000,ram:16MiB");
    let all = vec![lane(Facts::LOCAL, "ram:16MiB"), slow];
    let results = run(StudySpec { suite, ..spec(all, None) }, &mut |_| ()).unwrap();
    let row = |lane: &str| {
        results.row(lane, "load50-4k-randread").unwrap_or_else(|| panic!("{:?}", results.notes))
    };
    let offered = [row(Facts::LOCAL), row("slow")].map(|row| row.offered_iops.unwrap());
    assert_eq!(offered[0], offered[1], "the rate is the same");
    assert!(
        offered[0] >= 1.0 && offered[0] <= 1500.0,
        "half of 2000, whatever the burst: {}",
        offered[0]
    );
    assert!(row("slow").command.contains("--rate="), "{}", row("slow").command);
    assert!(results.row("slow", "4k-randread").unwrap().offered_iops.is_none());
    for row in [row(Facts::LOCAL), row("slow")] {
        let kept_up = row.iops >= 0.98 * row.offered_iops.unwrap();
        assert!(
            !(kept_up && row.generator_limited),
            "it polled until operations were due, and began them all: {row:?}"
        );
    }
}

#[test]
fn a_lane_that_fails_is_told_and_the_others_go_on() {
    let broken = lane("broken", "error:rate=1,ram:16MiB");
    let results =
        run(spec(vec![lane(Facts::LOCAL, "ram:16MiB"), broken], None), &mut |_| ()).unwrap();
    assert!(results.rows.iter().all(|row| row.lane == Facts::LOCAL));
    assert_eq!(results.rows.len(), 3);
    assert!(
        results.notes.iter().any(|note| note.contains("broken") && note.contains("given up")),
        "{:?}",
        results.notes
    );
    let only = run(spec(vec![lane("broken", "error:rate=1,ram:16MiB")], None), &mut |_| ());
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
        fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
            self.0.renew_size()
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
    let results = run(spec(vec![one], None), &mut |_| ()).unwrap();
    assert_eq!(results.rows.len(), 1);
    assert!(results.notes.iter().any(|note| note.contains("cannot be written")));
}

/// An operation takes longer than a measurement of a study that has so little time.
#[test]
fn what_is_too_slow_for_its_measurement_gets_a_longer_one() {
    let slow = StudyLane {
        base: Some(Facts::LOCAL.into()),
        ..lane("slow", "delay:read=200ms,write=200ms,null:16MiB")
    };
    let results =
        run(spec(vec![lane(Facts::LOCAL, "ram:16MiB"), slow], None), &mut |_| ()).unwrap();
    assert_eq!(results.rows.len(), 6, "{:?}", results.notes);
    let remote = || results.rows.iter().filter(|row| row.lane == "slow");
    assert!(
        remote().all(|row| row.share_of_local.is_some() && row.is_unstable()),
        "measured beside what it is a share of"
    );
}

#[test]
fn a_study_can_be_stopped() {
    let spec = StudySpec {
        budget: Some(Duration::from_secs(600)),
        ..spec(vec![lane("local", "ram:16MiB")], None)
    };
    let stop = spec.stop.clone();
    let mut heard = 0;
    let results = run(spec, &mut |_| {
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
    let spec = StudySpec { suite: short("null"), ..spec(lanes, None) };
    let results = run(spec, &mut |_| ()).unwrap();
    assert_eq!(
        (results.suite.as_str(), results.workloads[0].jobs, results.rows.len()),
        ("null", 256, 2),
        "{:?}",
        results.notes
    );
    for row in &results.rows {
        assert!(
            row.read_iops > row.write_iops && row.write_iops > 0.0 && row.failed == 0,
            "{row:?}"
        );
        assert!(
            row.counts.is_some_and(|counts| counts.ios > 0 && counts.initiator.system_calls >= 0.0)
        );
    }
    let counts = results.rows[0].counts.unwrap();
    let target = counts.target.unwrap();
    assert_eq!(target.system_calls, 512.0 / (counts.ios + 256) as f64);
    assert_eq!((target.copied_bytes, results.rows[1].counts.unwrap().target), (0.0, None));
    let here = |published: &results::Published| published.here(&published.figures[1], &results);
    assert!(
        results.published.iter().all(|published| here(published).is_some_and(|ratio| ratio > 0.0))
    );
}

/// Ten operations are to lie above the 99.9th percentile of a round, and it is told only where each
/// round has it.
#[test]
fn a_percentile_takes_enough_operations() {
    let round = |round: u32, ios: u64| {
        let mut latency = crate::stats::Latencies::new();
        latency.record_n(1000, ios);
        let report = crate::ceiling::CeilingReport {
            ios: [ios, 0, 0],
            runtime: Duration::from_secs(1),
            latency,
            thread: weft_io::cpu_usage::Usage::default(),
            system_calls: 0,
            server_system_calls: 0,
            server: None,
            tuning: crate::ceiling::CeilingTuning::default(),
        };
        sample::Sample::of_ceiling(round, 4096, &report)
    };
    let told = |samples: &[sample::Sample]| sample::ceiling("w", samples).latency.p999_ns;
    let (few, enough) = (crate::limits::P999_IOS_MIN - 1, crate::limits::P999_IOS_MIN);
    assert_eq!(told(&[round(0, few)]), None);
    assert!(
        told(&[round(0, enough), round(1, enough)]).is_some_and(|ns| (990.0..1010.0).contains(&ns))
    );
    assert_eq!(told(&[round(0, enough), round(1, few)]), None);
}

/// What a row says of itself must be enough to measure it again.
#[test]
fn a_row_names_its_command_its_times_and_its_processors() {
    let results = run(spec(vec![lane(Facts::LOCAL, "ram:16MiB")], None), &mut |_| ()).unwrap();
    let row = results.row(Facts::LOCAL, "4k-randrw50").unwrap();
    let options: Vec<&str> = row.command.split(' ').collect();
    assert_eq!(options[..3], ["weft", "bench", "ram:16MiB"]);
    for option in ["--rw=randrw", "--bs=4096", "--iodepth=32", "--rwmixread=50", "--time_based=1"] {
        assert!(options.contains(&option), "{option}: {}", row.command);
    }
    assert_eq!(
        (row.at_s.len(), row.iops_of_rounds.len()),
        (row.rounds as usize, row.rounds as usize)
    );
    assert!(row.at_s.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(
        row.reads.p90_ns >= row.reads.p50_ns
            && row.writes.max_ns >= row.writes.p99_ns
            && row.reads.mean_ns > 0.0
    );
    assert_eq!((results.seed, results.command.len(), results.title.is_empty()), (7, 2, false));
    assert_eq!(results.commit.as_deref(), Some("0123456789ab"));
}

/// The warm-up of a workload is run and does not count.
#[test]
fn rounds_of_warm_up_do_not_count() {
    let mut suite = short("patterns");
    suite.workloads.retain(|workload| workload.name == "4k-randrw50");
    suite.workloads[0].warm_up_rounds = 3;
    let mut measurements = 0;
    let spec = StudySpec { suite, ..spec(vec![lane(Facts::LOCAL, "ram:16MiB")], None) };
    let results =
        run(spec, &mut |progress| measurements += u32::from(progress.what == "local device"))
            .unwrap();
    let row = &results.rows[0];
    assert!(measurements >= row.rounds + 3, "{measurements} of {}", row.rounds);
}

/// Jobs with regions of their own share a device that is too small for them.
#[test]
fn regions_of_jobs_shrink_until_they_fit() {
    let mut suite = short("patterns");
    suite.workloads.retain(|workload| workload.name == "4k-randrw50");
    (suite.workloads[0].jobs, suite.workloads[0].job_bytes) = (4, Some(1 << 30));
    let spec = StudySpec { suite, ..spec(vec![lane(Facts::LOCAL, "ram:16MiB")], None) };
    let results = run(spec, &mut |_| ()).unwrap();
    let command = &results.rows[0].command;
    assert!(
        command.contains("--size=4194304") && command.contains("--offset_increment=4194304"),
        "{command}"
    );
}

/// A modelled device that serves four operations at a time is saturated by four, whatever the
/// machine.
#[test]
fn a_lane_is_driven_until_it_no_longer_grows() {
    let mut suite = Suite::named("initiators").unwrap();
    suite.workloads.retain(|workload| workload.name == "4k-randread");
    suite.times.iter_mut().for_each(|times| times.rounds = Some(2));
    suite.published.clear();
    suite.saturation.as_mut().unwrap().time_percent = 60.0;
    let slow = lane(Facts::LOCAL, "delay:read=5ms,write=5ms,depth=4,null:16MiB");
    let spec = StudySpec { suite, budget: Some(Duration::from_secs(6)), ..spec(vec![slow], None) };
    let results = run(spec, &mut |_| ()).unwrap();
    let curve = results.curve(Facts::LOCAL, "4k-randread").unwrap();
    assert_eq!(
        curve.points.iter().map(|point| point.in_flight).take(4).collect::<Vec<_>>(),
        [1, 2, 4, 8],
        "{curve:?}"
    );
    assert!(curve.best().unwrap().in_flight >= 4, "{curve:?}");
    // A machine that is too busy may end it early; it never calls the device faster than it is.
    assert!(
        curve.points.iter().all(|point| point.iops <= 900.0)
            && curve.end != results::CurveEnd::Generator,
        "{curve:?}"
    );
}

/// A file is real: it is written again, and at random, before the rounds.
#[test]
fn real_devices_are_brought_to_their_steady_state() {
    let mut suite = short("patterns");
    suite.workloads.retain(|workload| workload.name == "64k-seqread");
    let real = StudyLane { real: true, ..lane(Facts::LOCAL, "ram:16MiB") };
    let also =
        StudyLane { real: true, base: Some(Facts::LOCAL.into()), ..lane("other", "ram:16MiB") };
    let results = run(StudySpec { suite, ..spec(vec![real, also], None) }, &mut |_| ()).unwrap();
    let [device] = results.preconditioned.as_slice() else {
        panic!("{:?}", results.preconditioned)
    };
    assert!(
        device.lane == Facts::LOCAL
            && (1..=2).contains(&device.passes)
            && !device.rounds.is_empty(),
        "{device:?}"
    );
    assert!(
        results.notes.iter().any(|note| note.starts_with("local: written")),
        "{:?}",
        results.notes
    );
}
