use super::*;
use serde_json::Value;
use weft_bench::workload::{
    Broken, Criterion, JobSpec, LatencyTarget, RunReport, Rw, SteadyReport, SteadyState, Syncs,
    Verify, run,
};
use weft_block::{OpenOptions, open};

/// What fio 3.33 itself writes for `--rw=randrw --bs=4k --iodepth=4 --runtime=1 --time_based`.
const FIO: &str = include_str!("data/fio-3.33.json");

fn report(change: impl FnOnce(&mut JobSpec)) -> RunReport {
    let mut spec =
        JobSpec { rw: Rw::RandRw, iodepth: 4, numjobs: 2, name: "j".into(), ..JobSpec::default() };
    change(&mut spec);
    run(open("ram:8MiB", &OpenOptions::default()).unwrap(), &spec, &mut |_| ()).unwrap()
}

/// Every key of `theirs` is in `ours` with a value of the same type, at any depth.
fn covers(ours: &Value, theirs: &Value, path: &str) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            // Options differ with what was asked for.
            for (key, value) in theirs.iter().filter(|_| !path.ends_with("/job options")) {
                let found = ours.get(key).unwrap_or_else(|| panic!("{path}/{key} is missing"));
                covers(found, value, &format!("{path}/{key}"));
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            if let (Some(ours), Some(theirs)) = (ours.first(), theirs.first()) {
                covers(ours, theirs, &format!("{path}[0]"));
            }
        }
        (Value::Number(ours), Value::Number(theirs)) => {
            assert_eq!(ours.is_f64(), theirs.is_f64(), "{path}: {ours} for {theirs}");
        }
        (Value::String(_), Value::String(_)) => {}
        _ => panic!("{path}: {ours} for {theirs}"),
    }
}

#[test]
fn whatever_fio_says_is_said() {
    let fio: Value = serde_json::from_str(FIO).unwrap();
    let ours = json(&report(|_| ()));
    covers(&ours, &fio, "");
    // And in fio's order, for people who read JSON.
    let keys =
        |value: &Value| value["jobs"][0].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert!(keys(&ours).starts_with(&keys(&fio)));
}

#[test]
fn the_figures_agree_with_the_report() {
    let report = report(|_| ());
    let ours = json(&report);
    let jobs = ours["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2);
    let sum = |key: &str, field: &str| {
        jobs.iter().map(|job| job[key][field].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(sum("read", "total_ios") + sum("write", "total_ios"), 4096);
    assert_eq!(sum("read", "io_bytes"), report.total(Direction::Read).bytes);
    let read = &jobs[1]["read"];
    assert!(read["iops"].as_f64().unwrap() > 0.0 && read["bw_bytes"].as_u64().unwrap() > 0);
    let percentile = |p: &str| read["clat_ns"]["percentile"][p].as_u64().unwrap();
    assert!(percentile("99.000000") >= percentile("1.000000"));
    assert!(read["lat_ns"]["mean"].as_f64().unwrap() >= read["clat_ns"]["mean"].as_f64().unwrap());
    for group in ["iodepth_level", "iodepth_submit"] {
        let sum: f64 =
            jobs[0][group].as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum();
        assert!((sum - 100.0).abs() < 1e-6, "{group}: {sum}");
    }
    let classes = ["latency_ns", "latency_us", "latency_ms"].map(|key| &jobs[0][key]);
    let sum: f64 = classes
        .iter()
        .flat_map(|c| c.as_object().unwrap().values())
        .map(|v| v.as_f64().unwrap())
        .sum();
    assert!((sum - 100.0).abs() < 1e-6, "{sum}");
    assert_eq!(jobs[0]["trim"]["clat_ns"].get("percentile"), None);
}

#[test]
fn a_group_is_the_sum_of_its_jobs() {
    let each = report(|s| s.numjobs = 3);
    let mut grouped = each.clone();
    grouped.spec.group_reporting = Some(true);
    let (each, group) = (json(&each), json(&grouped));
    let jobs = group["jobs"].as_array().unwrap();
    assert_eq!((each["jobs"].as_array().unwrap().len(), jobs.len()), (3, 1));
    for which in ["read", "write"] {
        for key in ["total_ios", "io_bytes"] {
            let sum: u64 = (0..3).map(|job| each["jobs"][job][which][key].as_u64().unwrap()).sum();
            assert_eq!(jobs[0][which][key], sum, "{which} {key}");
        }
        assert_eq!(jobs[0][which]["clat_ns"]["N"], jobs[0][which]["total_ios"]);
    }
    covers(&group, &serde_json::from_str(FIO).unwrap(), "");
    let text = normal(&grouped);
    assert!(
        text.contains("j: (groupid=0, jobs=3): err= 0") && text.matches("groupid=0").count() == 1,
        "{text}"
    );
}

#[test]
fn the_text_groups_above_a_few_jobs() {
    let shown = |change: fn(&mut JobSpec)| normal(&report(change)).matches("groupid=0").count();
    assert_eq!((shown(|s| s.numjobs = 4), shown(|s| s.numjobs = 5)), (4, 1));
    assert_eq!(shown(|s| (s.numjobs, s.group_reporting) = (5, Some(false))), 5);
}

#[test]
fn bins_hold_every_operation() {
    let report = report(|_| ());
    assert_eq!(json(&report)["jobs"][0]["read"]["clat_ns"].get("bins"), None);
    let plus = json_plus(&report);
    let latency = &plus["jobs"][0]["read"]["clat_ns"];
    let bins = latency["bins"].as_object().unwrap();
    assert_eq!(
        bins.values().map(|n| n.as_u64().unwrap()).sum::<u64>(),
        latency["N"].as_u64().unwrap()
    );
    assert!(bins.keys().all(|ns| ns.parse::<u64>().is_ok()));
    assert_eq!(plus["jobs"][0]["trim"]["clat_ns"].get("bins"), None);
}

#[test]
fn an_end_before_time_is_said() {
    let mut early = report(|_| ());
    assert!(!normal(&early).contains("interrupted"));
    early.stopped = true;
    assert!(normal(&early).contains("interrupted: these are the results of the time until then"));
}

#[test]
fn checking_counts_as_reads() {
    let report = report(|s| (s.rw, s.verify, s.numjobs) = (Rw::Write, Verify::Crc32c, 1));
    let ours = json(&report);
    assert_eq!(ours["jobs"][0]["read"]["total_ios"], ours["jobs"][0]["write"]["total_ios"]);
    assert_eq!(ours["jobs"][0]["weft"]["verify"]["blocks"], 16_384);
    assert_eq!(ours["jobs"][0]["error"], 0);
    assert!(normal(&report).contains("verify       : blocks=16384, wrong=0, stale=0, misplaced=0"));
}

#[test]
fn classes_are_fios() {
    let class = |ns| {
        let index = latency_class(ns);
        (["ns", "us", "ms", "s"][index / 10], index % 10)
    };
    assert_eq!(
        [class(0), class(1), class(2), class(999)],
        [("ns", 0), ("ns", 0), ("ns", 1), ("ns", 9)]
    );
    assert_eq!(
        [class(1000), class(1999), class(2000), class(999_999)],
        [("us", 0), ("us", 0), ("us", 1), ("us", 9)]
    );
    assert_eq!(
        [class(1_000_000), class(1_000_000_000), class(2_000_000_000)],
        [("ms", 0), ("s", 0), ("s", 1)]
    );
}

#[test]
fn the_text_has_fios_lines() {
    let text = normal(&report(|_| ()));
    for line in [
        "j: (g=0): rw=randrw, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=weft, iodepth=4",
        "j: (groupid=0, jobs=1): err= 0: ",
        "  read: IOPS=",
        " write: IOPS=",
        "    clat percentiles (",
        "     |  1.00th=[",
        "  cpu          : usr=",
        "  IO depths    : 1=",
        "     issued rwts: total=",
        "Run status group 0 (all jobs):",
        "   READ: bw=",
        "  WRITE: bw=",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert!(text.lines().all(|line| line.len() <= 160), "{text}");
}

#[test]
fn flushes_have_their_percentiles() {
    let syncs = Syncs { fdatasync: 1, ..Syncs::default() };
    let report = report(|s| (s.rw, s.syncs, s.numjobs) = (Rw::Write, syncs, 1));
    let sync = &json(&report)["jobs"][0]["sync"];
    assert_eq!(
        (sync["total_ios"].as_u64(), sync["lat_ns"]["N"].as_u64()),
        (Some(2047), Some(2047))
    );
    assert!(sync["lat_ns"]["percentile"]["99.000000"].is_u64(), "{sync}");
    let text = normal(&report);
    for line in ["  fsync/fdatasync/sync_file_range:", "    sync (", "    sync percentiles ("] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.contains("issued rwts: total=0,2048,0,2047"), "{text}");
}

#[test]
fn percentiles_are_those_that_were_asked_for() {
    let report = report(|s| {
        s.percentiles.list = vec![50.0, 99.9];
        (s.percentiles.submission, s.percentiles.total) = (true, false);
    });
    let read = &json(&report)["jobs"][0]["read"];
    let keys = |of: &str| {
        let percentiles = read[of]["percentile"].as_object();
        percentiles.map(|of| of.keys().cloned().collect::<Vec<_>>())
    };
    let expected = Some(vec!["50.000000".to_owned(), "99.900000".to_owned()]);
    assert_eq!(
        (keys("clat_ns"), keys("slat_ns"), keys("lat_ns")),
        (expected.clone(), expected, None)
    );
    assert!(normal(&report).contains("| 50.00th=["));
}

#[test]
fn what_a_job_looked_for_is_said() {
    let (most, window) = (Duration::from_millis(2), Duration::from_secs(5));
    let target = LatencyTarget { most, window, percent: 99.9, runs_on: false };
    let criterion: Criterion = "iops_slope:0.3%".parse().unwrap();
    let mut report = report(|s| {
        s.latency_target = Some(target);
        s.steady = Some(SteadyState { criterion, window, ramp: Duration::ZERO });
    });
    let found =
        SteadyReport { attained: true, value: 0.25, iops: vec![10.0, 30.0], bytes: vec![4096.0] };
    (report.jobs[0].depth, report.jobs[0].steady) = (Some(7), Some(found));
    report.jobs[0].broken = Some(Broken::Target);
    let job = &json(&report)["jobs"][0];
    assert_eq!(
        (job["latency_depth"].as_u64(), job["latency_target"].as_u64()),
        (Some(7), Some(2_000_000))
    );
    assert_eq!((job["latency_window"].as_u64(), &job["error"]), (Some(5_000_000), &110.into()));
    let steady = &job["steadystate"];
    assert_eq!((&steady["ss"], &steady["attained"]), (&"iops_slope:0.3%".into(), &1.into()));
    assert_eq!((&steady["duration"], &steady["slope"]), (&5.into(), &0.25.into()));
    assert_eq!(steady["data"]["iops_mean"], 20);
    assert_eq!(job["weft"]["ended_early"]["option"], "latency_target");
    let text = normal(&report);
    for line in [
        "latency   : target=2000000, window=5000000, percentile=99.90%, depth=7",
        "steadystate  : attained=yes, bw=4096B/s (4096B/s), iops=20, iops slope=0.250%",
        "not even one operation at a time",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn what_was_left_out_and_what_ended_a_job_is_said() {
    let mut report = report(|s| {
        (s.left_out, s.description) = (vec!["unlink=1 (files stay)".into()], "nightly".into());
    });
    let broken = Broken::Latency { direction: Direction::Read, took: Duration::from_micros(7) };
    report.jobs[0].broken = Some(broken);
    let job = &json(&report)["jobs"][0];
    assert_eq!(job["weft"]["left_out"][0], "unlink=1 (files stay)");
    assert_eq!(job["desc"], "nightly");
    assert_eq!(job["error"], 110);
    assert_eq!(job["weft"]["ended_early"]["value"], 7000);
    let text = normal(&report);
    for line in [
        "left out  : unlink=1 (files stay)",
        "Description  : [nightly]",
        "a read took 7 usec, longer than max_latency",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
