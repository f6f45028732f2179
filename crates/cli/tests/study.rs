//! `weft study`: its lanes and its suites, with budgets that say nothing about speed.

use crate::support::{Ran, Scratch, run, weft};
use serde_json::Value;
use std::path::Path;

/// Runs a study; gives what it printed, its data and its report.
fn study(dir: &Path, args: &[&str]) -> (Ran, Value, String) {
    let mut command = weft(dir, &["study", "--quick", "--time-budget", "1s"]);
    command.args(args);
    let ran = run(command);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    (ran, serde_json::from_str(&read("results.json")).unwrap(), read("report.html"))
}

pub fn names<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|one| one[field].as_str().unwrap()).collect()
}

#[test]
fn one_device_is_measured_over_every_protocol() {
    let dir = Scratch::new("study-lanes");
    let (ran, data, page) =
        study(dir.path(), &["--lanes", "local,nvme+tcp,iscsi,nbd,iscsi", "--source", "ram:16MiB"]);
    let lanes = ["local", "nvme+tcp", "iscsi", "nbd"];
    assert_eq!(names(&data["lanes"], "name"), lanes);
    let program = data["command"][0].as_str().unwrap();
    assert_eq!((program.trim_end_matches(".exe"), &data["command"][1]), ("weft", &"study".into()));
    assert_eq!(
        (data["workloads"].as_array().unwrap().len(), data["rows"].as_array().unwrap().len()),
        (4, 16),
        "{}",
        data["notes"]
    );
    for row in data["rows"].as_array().unwrap() {
        let remote = row["lane"] != "local";
        assert_eq!(row["target"].is_object() && row["share_of_local"].is_number(), remote, "{row}");
        assert!(row["iops"].as_f64().unwrap() > 0.0 && row["failed"] == 0, "{row}");
    }
    for title in ["NVMe/TCP", "iSCSI", "NBD"] {
        let long = format!("{title} over the loopback");
        assert!(ran.out.contains(title) && page.contains(&long), "{title}: {}", ran.out);
    }
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    let scheme =
        |lane: &Value| lane["url"].as_str().unwrap().split("://").next().unwrap().to_owned();
    assert_eq!(
        data["lanes"].as_array().unwrap()[1..].iter().map(scheme).collect::<Vec<_>>(),
        lanes[1..]
    );
}

#[test]
fn a_modelled_flash_device_stands_beside_the_ram_disk() {
    let dir = Scratch::new("study-flash");
    let (ran, data, _) =
        study(dir.path(), &["--lanes", "local,flash,nvme+tcp", "--source", "ram:16MiB"]);
    assert_eq!(
        names(&data["lanes"], "name"),
        ["local", "flash", "nvme+tcp", "nvme+tcp-flash"],
        "{}",
        data["notes"]
    );
    for row in data["rows"].as_array().unwrap() {
        let remote = row["lane"].as_str().unwrap().starts_with("nvme");
        assert_eq!(row["share_of_local"].is_number(), remote, "{row}");
        // A service takes 20 µs at least, whatever the machine.
        let flash = row["lane"].as_str().unwrap().contains("flash");
        assert!(!flash || row["latency"]["p50_ns"].as_f64().unwrap() >= 19_000.0, "{row}");
        assert!(
            row["seconds"].as_f64().unwrap() > 0.0 && row["rounds"].as_u64().unwrap() > 0,
            "{row}"
        );
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
        assert!(
            row["read_iops"].as_f64() > row["write_iops"].as_f64() && row["failed"] == 0,
            "{row}"
        );
        // Each operation moves its 4 KiB and a command and an answer.
        assert!(
            (4096.0 + 64.0..4096.0 + 256.0).contains(&counts["wire_bytes"].as_f64().unwrap()),
            "{counts}"
        );
        for end in ["initiator", "target"] {
            assert!(
                (0.0001..1.0).contains(&counts[end]["system_calls"].as_f64().unwrap()),
                "256 operations share calls: {counts}"
            );
        }
    }
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "(in Japanese)",
        "reads, 4 KiB random 70:30, 256 jobs",
        "NVMe/TCP : iSCSI: 4.19†; here ",
        "† Not measured here",
    ] {
        assert!(text.contains(words), "{words}: {}", ran.out);
    }
    assert!(
        page.contains("Not measured here: “iSCSI vs NVMe over TCP”") && !page.contains("104000")
    );
}

/// Prints a suite of weft's into a directory, with the shortest times for its quick form: one block
/// with slices of 10 ms. Gives the value of `--suite` for it.
pub fn in_one_block(dir: &Path, name: &str) -> String {
    let printed = run(weft(dir, &["study", "--suite", name, "--print"])).out;
    let quick = &printed[printed.find("[quick]").unwrap()..];
    let quick = &quick[..quick.find("\n\n").unwrap_or(quick.len())];
    let short = printed.replacen(quick, "[quick]\neach = \"20ms\"\nrounds = 2", 1);
    std::fs::write(dir.join(format!("{name}.toml")), short).unwrap();
    format!("./{name}.toml")
}

/// A suite in its quick form on real transports, in so little time that only the form of its
/// results says something.
pub fn suite(name: &str, args: &[&str]) -> (Ran, Value) {
    let dir = Scratch::new(&format!("study-suite-{name}"));
    let file = in_one_block(dir.path(), name);
    let mut command = weft(dir.path(), &["study", "--quick", "--suite", &file]);
    command.args(args);
    let ran = run(command);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let data: Value =
        serde_json::from_str(&std::fs::read_to_string(dir.path().join("results.json")).unwrap())
            .unwrap();
    assert_eq!(data["suite"], name);
    for row in data["rows"].as_array().unwrap() {
        assert!(row["iops"].as_f64().unwrap() > 0.0 && row["failed"] == 0, "{row}");
        assert!(row["command"].as_str().unwrap().starts_with("weft bench "), "{row}");
    }
    (ran, data)
}

fn skipped(data: &Value) -> Vec<&str> {
    names(&data["skipped"], "lane")
}

#[test]
fn the_suite_of_initiators_runs_and_says_what_it_skipped() {
    let disk = Scratch::new("study-attached");
    let file = disk.path().join("disk.img");
    std::fs::write(&file, vec![0; 16 << 20]).unwrap();
    let lane = format!("attached=file:{}", file.display());
    let (ran, data) = suite("initiators", &["--source", "ram:16MiB", "--lane", &lane]);
    assert_eq!(
        names(&data["lanes"], "name"),
        ["local", "nvme+tcp", "attached"],
        "{}",
        data["notes"]
    );
    assert_eq!(skipped(&data), ["nvme+rdma", "remote"]);
    assert_eq!(data["rows"].as_array().unwrap().len(), 57, "{}", data["notes"]);
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in
        ["nvme+rdma (the lane nvme+rdma needs --address", "remote (it needs", "Fastest Hand"]
    {
        assert!(text.contains(words), "{words}: {}", ran.out);
    }
}

#[test]
fn the_suite_of_clients_runs() {
    let (_, data) = suite("clients", &["--source", "ram:64MiB"]);
    assert_eq!(names(&data["lanes"], "name"), ["local", "nvme+tcp"], "{}", data["notes"]);
    assert_eq!(
        (data["rows"].as_array().unwrap().len(), skipped(&data)),
        (12, vec!["remote", "attached"]),
        "{}",
        data["notes"]
    );
    let jobs = |row: &Value| row["command"].as_str().unwrap().contains("--numjobs=16");
    assert_eq!(data["rows"].as_array().unwrap().iter().filter(|row| jobs(row)).count(), 2);
}

#[test]
fn the_suite_of_protocols_runs() {
    let (ran, data) = suite("protocols", &["--source", "ram:16MiB"]);
    assert!(!ran.err.contains("WARN"), "targets end after what uses them: {}", ran.err);
    let lanes = ["local", "iscsi", "nvme+tcp", "hypervisor", "two-paths", "round-robin"];
    let left_out = "fc-scsi fc-nvme guest-disk guest-qemu guest-vhost-user guest-nvme-tcp";
    assert_eq!(
        (names(&data["lanes"], "name"), skipped(&data).join(" ")),
        (lanes.into(), left_out.to_owned())
    );
    assert_eq!(data["rows"].as_array().unwrap().len(), 72, "{}", data["notes"]);
    let url = |at: usize| data["lanes"][at]["url"].as_str().unwrap();
    assert!(url(3).starts_with("nbd://") && url(5).starts_with("nvme+tcp://"), "{}", data["lanes"]);
}

#[test]
fn the_suite_of_mirrors_runs() {
    let (_, data) = suite("mirror", &["--source", "ram:32MiB"]);
    let lanes = ["local", "nvme+tcp", "mirror-tcp", "mirror-iscsi"];
    assert_eq!(
        (names(&data["lanes"], "name"), skipped(&data)),
        (lanes.into(), vec!["mirror-rdma", "md-raid1"]),
        "{}",
        data["notes"]
    );
    let target = |at: usize| &data["rows"][at]["target"];
    assert!(
        target(2)["user_ns"].as_f64().unwrap() + target(2)["system_ns"].as_f64().unwrap() > 0.0,
        "all three count: {}",
        data["rows"]
    );
    assert!(data["lanes"][2]["url"].as_str().unwrap().starts_with("mirror:"), "{}", data["lanes"]);
    let jobs = data["rows"][0]["command"].as_str().unwrap();
    assert!(jobs.contains("--numjobs=10 ") && jobs.contains("--offset_increment="), "{jobs}");
    assert!(
        data["rows"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["reads"]["p90_ns"].as_f64().unwrap() > 0.0)
    );
}

#[test]
fn a_suite_can_be_printed_and_changed() {
    let dir = Scratch::new("study-mine");
    let list = run(weft(dir.path(), &["study", "--list-suites"]));
    for name in
        ["network", "patterns", "distance", "initiators", "clients", "mirror", "protocols", "null"]
    {
        assert!(list.out.lines().any(|line| line.starts_with(name)), "{name}: {}", list.out);
    }
    let text = run(weft(dir.path(), &["study", "--suite", "null", "--print"])).out;
    let mine = text.replacen("name = \"null\"", "name = \"mine\"", 1).replacen(
        "jobs = 256",
        "jobs = 3",
        1,
    );
    let mine = mine.replace("4k-randrw70-256jobs", "4k-randrw70-3jobs");
    std::fs::write(dir.path().join("mine.toml"), &mine).unwrap();
    let (_, data, _) =
        study(dir.path(), &["--suite", "./mine.toml", "--lanes", "nvme+tcp,iscsi", "--seed", "5"]);
    assert_eq!(
        (&data["suite"], &data["workloads"][0]["jobs"], &data["seed"]),
        (&"mine".into(), &3.into(), &5.into())
    );
    std::fs::write(dir.path().join("mine.toml"), mine.replace("[quick]", "[quick]\nruonds = 6"))
        .unwrap();
    let ran = run(weft(dir.path(), &["study", "--suite", "./mine.toml"]));
    assert_eq!(ran.code(), Some(2), "{ran:?}");
    assert!(
        ran.err.contains("./mine.toml:") && ran.err.contains("unknown field `ruonds`"),
        "{ran:?}"
    );
}

#[test]
fn lanes_that_do_not_exist_are_refused() {
    let dir = Scratch::new("study-wrong");
    for args in [
        &["--lanes", "fibre"][..],
        &["--lanes", "local", "--target", "nbd://127.0.0.1:1/x"],
        &["--target", "ram:1MiB"],
        &["--suite", "none"],
        &["--lane", "x"],
    ] {
        let mut command = weft(dir.path(), &["study"]);
        command.args(args);
        let ran = run(command);
        assert_eq!(ran.code(), Some(2), "{args:?}: {ran:?}");
    }
}

#[test]
fn studies_are_compared_and_written_in_other_formats() {
    let dir = Scratch::new("study-compare");
    let has_font = weft_bench::report::Letters::of_the_system().is_ok();
    let args = [
        "--suite",
        "mirror",
        "--lanes",
        "local,nvme+tcp",
        "--source",
        "ram:32MiB",
        "--also",
        if has_font { "markdown,csv,svg,png" } else { "markdown,csv,svg" },
    ];
    let (_, data, page) = study(dir.path(), &args);
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(
        read("report.md").contains("| 4k-randrw70-10jobs | nvme+tcp")
            && read("results.csv").lines().count() == 3
    );
    assert!(read("iops-small.svg").starts_with("<svg xmlns="));
    if has_font {
        let png = std::fs::read(dir.path().join("iops-small.png")).unwrap();
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    } else {
        weft_testing::skip("the package fonts-dejavu-core is missing");
    }
    assert!(
        !data["curves"].as_array().unwrap().is_empty()
            && page.contains("IOPS and latency over the depth")
    );
    let same = run(weft(dir.path(), &["study", "compare", "results.json", "results.json"]));
    assert_eq!(same.code(), Some(0), "{same:?}");
    assert!(
        same.out.contains("Both files hold the same study")
            && same.out.contains(" 0 are more, 0 less, "),
        "{}",
        same.out
    );
    compared_with_another_run(&dir, &data);
    others_are_refused(&dir, data);
}

/// The study of `data`, compared with one of another seed.
fn compared_with_another_run(dir: &Scratch, data: &Value) {
    let again = Scratch::new("study-compare-again");
    let (_, other, _) = study(
        again.path(),
        &["--suite", "mirror", "--lanes", "local,nvme+tcp", "--source", "ram:32MiB", "--seed", "9"],
    );
    let later = again.path().join("results.json");
    let ran = run(weft(dir.path(), &["study", "compare", "results.json", later.to_str().unwrap()]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    for (of, quantity, what) in [
        (data, "rate", "rate"),
        (&other, "latency", "median latency"),
        (&other, "cycles", "cycles of both ends"),
    ] {
        let relations = of["relations"].as_array().unwrap();
        assert!(
            relations.iter().any(|it| it["quantity"] == quantity) && ran.out.contains(what),
            "{quantity}: {}",
            ran.out
        );
    }
    // The device without a network has no relation: its rates stand for themselves.
    assert!(
        ran.out.contains("By relations") && ran.out.contains("1 rows have no relation in common"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains('~') && !ran.out.contains("Both files"), "{}", ran.out);
}

/// Results of another version, and what are no results.
fn others_are_refused(dir: &Scratch, mut old: Value) {
    old["schema"] = 3.into();
    std::fs::write(dir.path().join("old.json"), old.to_string()).unwrap();
    let ran = run(weft(dir.path(), &["study", "render", "old.json"]));
    assert!(
        ran.code() == Some(2)
            && ran.err.contains("old.json: its schema is 3, and this weft reads 4"),
        "{ran:?}"
    );
    std::fs::write(dir.path().join("other.json"), "{}").unwrap();
    let ran = run(weft(dir.path(), &["study", "compare", "results.json", "other.json"]));
    assert!(
        ran.code() == Some(2) && ran.err.contains("other.json: this is not a results.json"),
        "{ran:?}"
    );
}

#[test]
fn the_schema_of_results_is_shown() {
    let dir = Scratch::new("study-schema");
    let schema: Value =
        serde_json::from_str(&run(weft(dir.path(), &["study", "schema"])).out).unwrap();
    assert!(schema["properties"]["rows"].is_object());
}

#[test]
fn results_of_other_tools_are_lanes() {
    let dir = Scratch::new("study-import");
    let measured = |name: &str| {
        let args = [
            "bench",
            "ram:16MiB",
            "--rw=randread",
            "--iodepth=32",
            "--runtime=0.2",
            "--output-format=json",
            "--output",
            name,
        ];
        assert_eq!(run(weft(dir.path(), &args)).code(), Some(0));
    };
    ["a.json", "b.json"].into_iter().for_each(measured);
    let odd = [
        "bench",
        "ram:16MiB",
        "--rw=read",
        "--bs=512",
        "--size=64k",
        "--output-format=json",
        "--output=odd.json",
    ];
    assert_eq!(run(weft(dir.path(), &odd)).code(), Some(0));
    let imports =
        ["--import", "other=a.json", "--import", "other=b.json", "--import", "other=odd.json"];
    let (ran, data, page) =
        study(dir.path(), &[&["--lanes", "local", "--source", "ram:16MiB"], &imports[..]].concat());
    assert_eq!(names(&data["lanes"], "name"), ["local", "other"]);
    let rows: Vec<&Value> =
        data["rows"].as_array().unwrap().iter().filter(|row| row["lane"] == "other").collect();
    assert_eq!(
        (rows.len(), rows[0]["rounds"].as_u64(), rows[0]["workload"].as_str()),
        (1, Some(2), Some("4k-randread"))
    );
    assert!(rows[0]["remarks"][0].as_str().unwrap().contains("not interleaved"), "{}", rows[0]);
    assert!(
        data["notes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|note| note.as_str().unwrap().contains("odd.json were left out"))
    );
    assert!(
        ran.out.contains("other (1 of 4 workloads") && page.contains("Measured by fio-3"),
        "{ran:?}"
    );
    for (import, text) in [
        ("other=none.json", "cannot read none.json"),
        ("=a.json", "NAME=FILE"),
        ("x=results.json", "not a result of fio"),
    ] {
        let ran = run(weft(dir.path(), &["study", "--quick", "--import", import]));
        assert!(ran.code() != Some(0) && ran.err.contains(text), "{import}: {ran:?}");
    }
}
