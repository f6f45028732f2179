use super::*;
use crate::results::{Lane, Metric};
use crate::workload::{Direction, Rw};
use core::time::Duration;

fn shipped(name: &str) -> Suite {
    Suite::named(name).unwrap()
}

/// A correct suite, with something in it replaced.
fn with(from: &str, to: &str) -> Result<Suite, String> {
    let text = shipped("null").text;
    assert!(text.contains(from), "{from}");
    Suite::parse("mine.toml", &text.replacen(from, to, 1)).map_err(|error| error.to_string())
}

#[test]
fn shipped_suites_are_correct_and_named_as_their_files() {
    let names: Vec<String> = Suite::shipped().into_iter().map(|suite| suite.name).collect();
    assert_eq!(names, SHIPPED.map(|(name, _)| name));
    for suite in Suite::shipped() {
        assert!(!suite.title.is_empty() && !suite.about.is_empty(), "{}", suite.name);
        let [quick, usual, _] = suite.times;
        // Load generators of other projects measure for a second at least.
        let most = Duration::from_secs(if suite.peers == SuitePeers::All { 240 } else { 45 });
        assert!(quick.budget.unwrap() <= most && quick.budget < usual.budget, "{}", suite.name);
        for workload in &suite.workloads {
            let rw: Rw = workload.rw.parse().unwrap();
            assert_eq!(rw.has(Direction::Read), workload.read_percent > 0, "{}", workload.name);
            assert_eq!(rw.has(Direction::Write), workload.read_percent < 100, "{}", workload.name);
        }
    }
}

#[test]
fn thirteen_patterns_and_a_latency_table() {
    for name in ["patterns", "initiators"] {
        let all = shipped(name).workloads;
        let (open, closed): (Vec<_>, Vec<_>) = all.iter().partition(|w| w.open.is_some());
        assert_eq!(
            (
                closed.iter().filter(|w| !w.latency).count(),
                closed.iter().filter(|w| w.latency).count()
            ),
            (13, 4)
        );
        assert_eq!((all[0].name.as_str(), all[12].name.as_str()), ("4k-randrw50", "8k-randrw30"));
        assert_eq!(
            (closed[12].title.as_str(), closed[13].name.as_str()),
            ("8 KiB random 70 % write", "qd1-4k-randread")
        );
        let names: Vec<(&str, &str)> =
            open.iter().map(|w| (w.name.as_str(), w.title.as_str())).collect();
        let expected = [
            ("load50-4k-randread", "4 KiB random read at 50 % load"),
            ("load50-4k-randwrite", "4 KiB random write at 50 % load"),
        ];
        assert_eq!(names, expected);
    }
}

#[test]
fn workloads_are_those_of_the_publications() {
    let of = |name: &str| {
        let of = |w: &Workload| (w.bs_bytes >> 10, w.rw.clone(), w.read_percent, w.jobs, w.iodepth);
        shipped(name).workloads.iter().map(of).collect::<Vec<_>>()
    };
    let clients = of("clients");
    assert_eq!(clients[0], (4, "randread".into(), 100, 16, 32));
    assert_eq!(clients[1], (4, "randwrite".into(), 0, 8, 4));
    assert_eq!(clients[4..], [(1024, "read".into(), 100, 2, 8), (1024, "write".into(), 0, 1, 8)]);
    assert_eq!(of("mirror"), [(4, "randrw".into(), 70, 10, 4)]);
    assert_eq!(shipped("mirror").workloads[0].job_bytes, Some(10 << 30));
    assert_eq!(of("null"), [(4, "randrw".into(), 70, 256, 1)]);
    let protocols = of("protocols");
    assert_eq!((protocols.len(), protocols[11].clone()), (12, (64, "randrw".into(), 50, 8, 1)));
    assert_eq!(shipped("clients").workloads[0].title, "4 KiB random read, 16 jobs × 32");
    assert_eq!(shipped("clients").workloads[4].name, "1m-seqread-2jobs");
    assert_eq!(shipped("null").workloads[0].title, "4 KiB random 30 % write, 256 jobs");
}

/// Reads are compared with reads and writes with writes, and figures are ratios of one source.
#[test]
fn published_figures_are_relations() {
    let ratio = |suite: &str, metric: Metric, name: &str| {
        let published = shipped(suite).published;
        let of = published.iter().filter(|p| p.metric == metric).flat_map(|p| &p.figures);
        let found =
            of.filter(|figure| figure.name == name).map(|figure| figure.ratio).collect::<Vec<_>>();
        found.into_iter().find(|ratio| *ratio != (1.0, 1.0)).unwrap()
    };
    let near =
        |(low, high): (f64, f64), value: f64| low == high && (low / value - 1.0).abs() < 0.005;
    assert!(near(ratio("null", Metric::ReadIops, "NVMe/TCP"), 104.0 / 24.8));
    assert!(near(ratio("null", Metric::WriteMean, "NVMe/TCP"), 1.73 / 4.86));
    assert!(near(ratio("initiators", Metric::Iops, "loopback"), 1.27));
    assert!(near(ratio("initiators", Metric::Mean, "Linux, RDMA"), 1.64));
    assert!(near(ratio("mirror", Metric::Iops, "RDMA"), 1.275));
    assert!(near(ratio("clients", Metric::Iops, "Windows"), 0.753));
    assert_eq!(ratio("clients", Metric::CpuPerIo, "Windows"), (2.7, 3.7));
    assert_eq!(ratio("protocols", Metric::CpuPerIo, "NVMe"), (0.62, 0.74));
    let latency = &shipped("initiators").published[1];
    assert_eq!(
        (latency.figures[0].value, latency.figures[0].lane.as_deref()),
        (Some(5600.0), Some(Lane::LOCAL))
    );
}

/// A text of a suite, a mistake in its place, and words of the message.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("read = 70", "raed = 70", "unknown field `raed`"),
    ("through = \"iscsi\"", "through = \"fibre\"", "unknown variant `fibre`"),
    ("metric = \"read-iops\"", "metric = \"speed\"", "unknown variant `speed`"),
    ("rw = \"randrw\"", "rw = \"trim\"", "workload 1: rw: a suite reads and writes"),
    ("block = \"4k\"", "block = \"four\"", "workload 1: block: "),
    ("jobs = 256", "jobs = 0", "workload 1: jobs: it is 1 to"),
    ("jobs = 256", "depth = 100000", "workload 1: depth: it is 1 to"),
    ("jobs = 256", "load = 50", "workload 1: load: `of` has to name"),
    ("jobs = 256", "of = \"4k\"", "workload 1: of: it goes with `load`"),
    ("jobs = 256", "load = 0, of = \"4k\"", "workload 1: load: it is 1 to 100"),
    ("jobs = 256", "load = 50, of = \"4k\", latency = true", "workload 1: latency: "),
    ("jobs = 256", "load = 50, of = \"4k\"", "there is no workload \"4k\""),
    (
        "jobs = 256",
        "load = 50, of = \"itself\", name = \"itself\"",
        "itself: `of` names a workload without `load`",
    ),
    ("budget = \"8s\"", "", "[quick] has either `budget`"),
    ("budget = \"8s\"", "budget = \"8s\"\nrounds = 0", "[quick] rounds: it is 1 to"),
    ("budget = \"8s\"", "each = \"8s\"", "[quick] `each`, the time of a row, takes `rounds`"),
    (
        "reference = \"iscsi\"",
        "reference = \"fc\"",
        "there is no lane \"fc\": the suite has iscsi, nvme+tcp",
    ),
    ("workload = \"4k-randrw70-256jobs\"", "workload = \"4k\"", "there is no workload \"4k\""),
    (
        "{ name = \"nvme+tcp\",",
        "{ name = \"iscsi\",",
        "there are two lanes with the name \"iscsi\"",
    ),
    ("{ name = \"nvme+tcp\",", "{ name = \"nvme tcp\",", "a name has no space"),
    ("through = \"nvme+tcp\"", "through = \"nvme+tcp\", targets = 9", "`targets` is 1 to 3"),
    ("through = \"nvme+tcp\"", "through = \"local\", paths = 2", "only a lane through a protocol"),
    (
        "through = \"nvme+tcp\"",
        "through = \"local\", source = \"ram:1MiB\"",
        "only a lane through a protocol",
    ),
    (
        "through = \"nvme+tcp\"",
        "through = \"nvme+tcp\", source = \"ram:1MiB\", paths = 2",
        "has no `targets`",
    ),
    ("through = \"nvme+tcp\"", "through = \"given\"", "`needs` says what"),
    ("value = 104000", "ratio = [2.0, 1.0]", "[[published]] 1: NVMe/TCP: give `ratio`"),
    ("value = 24800", "ratio = 2.0", "the first figure is the reference"),
    ("value = 104000", "value = -1.0", "greater than zero"),
];

#[test]
fn mistakes_are_told_with_their_line() {
    let message = with("budget = \"8s\"", "budget = \"8s\"\nbugdet = \"1s\"").unwrap_err();
    assert!(
        message.starts_with("the suite mine.toml:") && message.contains("unknown field `bugdet`"),
        "{message}"
    );
    let line: usize = message.split(':').nth(1).unwrap().parse().unwrap();
    let text = shipped("null").text;
    assert_eq!(text.lines().nth(line - 2), Some("budget = \"8s\""), "{message}");
    for (from, to, words) in MISTAKES {
        let message = with(from, to).expect_err(to);
        assert!(message.contains(words), "{to}: {message}");
    }
    assert!(with("figures", "figures").is_ok());
}

#[test]
fn names_are_suites_and_paths_are_files() {
    let message = Suite::named("nul").unwrap_err().to_string();
    assert!(
        message.contains("there is no suite \"nul\"") && message.contains("initiators"),
        "{message}"
    );
    assert!(
        Suite::named("./no-such.toml")
            .unwrap_err()
            .to_string()
            .contains("cannot read the suite ./no-such.toml")
    );
}

#[test]
fn a_relay_passes_tcp_to_one_target() {
    let lane = r#"{ name = "iscsi", through = "iscsi" }"#;
    let far = |more: &str| with(lane, &lane.replace(" }", &format!(", {more} }}")));
    assert!(far("round_trip_us = 100, mbit = 1000").is_ok());
    for (wrong, said) in [
        ("mbit = 1000", "`mbit` belongs to a lane with `round_trip_us`"),
        ("round_trip_us = 100, targets = 2", "a relay passes TCP to one target"),
        ("round_trip_us = 2000000", "at most 1000000"),
        (r#"round_trip_us = 100, source = "ram:1MiB""#, "a lane with `source` has no"),
    ] {
        let error = far(wrong).unwrap_err();
        assert!(error.contains(said), "{wrong}: {error}");
    }
}
