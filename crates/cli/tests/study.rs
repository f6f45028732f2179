//! `weft study`: its lanes and its suites, with budgets that say nothing about speed.

mod support;

use serde_json::Value;
use std::path::Path;
use support::{Ran, Scratch, run, weft};

/// Runs a study; gives what it printed, its data and its report.
fn study(dir: &Path, args: &[&str]) -> (Ran, Value, String) {
    let mut command = weft(dir, &["study", "--quick", "--budget", "1s"]);
    command.args(args);
    let ran = run(command);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    (ran, serde_json::from_str(&read("results.json")).unwrap(), read("report.html"))
}

fn names<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|one| one[field].as_str().unwrap()).collect()
}

#[test]
fn one_device_is_measured_over_every_protocol() {
    let dir = Scratch::new("study-lanes");
    let (ran, data, page) = study(dir.path(), &["--lanes", "local,nvme+tcp,iscsi,nbd,iscsi", "--source", "ram:16MiB"]);
    let lanes = ["local", "nvme+tcp", "iscsi", "nbd"];
    assert_eq!(names(&data["lanes"], "name"), lanes);
    assert_eq!(
        (data["workloads"].as_array().unwrap().len(), data["rows"].as_array().unwrap().len()),
        (17, 68),
        "{}",
        data["notes"]
    );
    for row in data["rows"].as_array().unwrap() {
        let remote = row["lane"] != "local";
        assert_eq!(row["target"].is_object() && row["share_of_local"].is_number(), remote, "{row}");
        assert!(row["iops"].as_f64().unwrap() > 0.0 && row["failed"] == 0, "{row}");
    }
    for title in ["NVMe/TCP over the loopback", "iSCSI over the loopback", "NBD over the loopback"] {
        assert!(ran.out.contains(title) && page.contains(title), "{title}");
    }
    let scheme = |lane: &Value| lane["url"].as_str().unwrap().split("://").next().unwrap().to_owned();
    assert_eq!(data["lanes"].as_array().unwrap()[1..].iter().map(scheme).collect::<Vec<_>>(), lanes[1..]);
}

#[test]
fn a_modelled_flash_device_stands_beside_the_ram_disk() {
    let dir = Scratch::new("study-flash");
    let (ran, data, _) = study(dir.path(), &["--lanes", "local,flash,nvme+tcp", "--source", "ram:16MiB"]);
    assert_eq!(names(&data["lanes"], "name"), ["local", "flash", "nvme+tcp", "nvme+tcp-flash"], "{}", data["notes"]);
    for row in data["rows"].as_array().unwrap() {
        let remote = row["lane"].as_str().unwrap().starts_with("nvme");
        assert_eq!(row["share_of_local"].is_number(), remote, "{row}");
        // A service takes 20 µs at least, whatever the machine.
        let flash = row["lane"].as_str().unwrap().contains("flash");
        assert!(!flash || row["latency"]["p50_ns"].as_f64().unwrap() >= 19_000.0, "{row}");
        assert!(row["seconds"].as_f64().unwrap() > 0.0 && row["rounds"].as_u64().unwrap() > 0, "{row}");
    }
    assert!(ran.out.contains("NVMe/TCP to the modelled flash device"), "{}", ran.out);
    let (_, data, _) = study(dir.path(), &["--lanes", "nvme+tcp,flash", "--source", "ram:16MiB"]);
    assert_eq!(names(&data["lanes"], "name"), ["flash", "nvme+tcp-flash"]);
}

#[test]
fn the_null_suite_compares_what_it_counted() {
    let dir = Scratch::new("study-null");
    let (ran, data, page) = study(dir.path(), &["--suite", "null"]);
    assert_eq!(
        (data["suite"].as_str(), names(&data["rows"], "lane")),
        (Some("null"), vec!["iscsi", "nvme+tcp"]),
        "{}",
        data["notes"]
    );
    for row in data["rows"].as_array().unwrap() {
        let counts = &row["counts"];
        assert!(row["read_iops"].as_f64() > row["write_iops"].as_f64() && row["failed"] == 0, "{row}");
        // Each operation moves its 4 KiB and a command and an answer.
        assert!((4096.0 + 64.0..4096.0 + 256.0).contains(&counts["wire_bytes"].as_f64().unwrap()), "{counts}");
        for end in ["initiator", "target"] {
            assert!(
                (0.0001..1.0).contains(&counts[end]["system_calls"].as_f64().unwrap()),
                "256 operations share calls: {counts}"
            );
        }
    }
    assert_eq!(names(&data["published"], "lane"), ["iscsi", "nvme+tcp"]);
    for words in
        ["(in Japanese)", "random 4K 70:30, 256 jobs", "reads a second at 8.17 ms and 10.7k writes at 4.86 ms", "4.2 times", "† "]
    {
        let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{words}: {}", ran.out);
    }
    assert!(page.contains("Not measured here: a published comparison") && page.contains("iscsi†"));
}

#[test]
fn lanes_that_do_not_exist_are_refused() {
    let dir = Scratch::new("study-wrong");
    for args in [&["--lanes", "fibre"][..], &["--lanes", "local", "--target", "nbd://127.0.0.1:1/x"], &["--target", "ram:1MiB"]] {
        let mut command = weft(dir.path(), &["study"]);
        command.args(args);
        let ran = run(command);
        assert_eq!(ran.code(), Some(2), "{args:?}: {ran:?}");
    }
}
