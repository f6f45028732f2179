//! A report in the text format of OpenMetrics, which Prometheus reads.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use weft_endpoint::report::{CpuReport, FilterCounts, PathReport, Report};
use weft_endpoint::statistics::{Counts, Histogram, Kind};

/// Upper bounds of the buckets of latencies: these powers of two of nanoseconds, 4 µs to 17 s.
const BOUNDS: [u32; 16] = [12, 14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 30, 32, 34];

type Labels = Vec<(&'static str, String)>;

/// The metrics of a report.
pub fn text(report: &Report) -> String {
    let (mut registry, mut text) = (Registry::default(), String::new());
    registry.register_collector(Box::new(Scrape(report.clone())));
    // A string takes everything.
    let _ = text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Scrape(Report);

impl Collector for Scrape {
    fn encode(&self, mut to: DescriptorEncoder) -> fmt::Result {
        let report = &self.0;
        let version = vec![(vec![("version", report.version.clone())], 1)];
        gauges(
            &mut to,
            "weft_build",
            "Version of the program",
            Some(Unit::Other("info".into())),
            version,
        )?;
        let mut uptime = to.encode_descriptor(
            "weft_uptime",
            "Time since the start",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        uptime.encode_gauge(&(report.uptime_ns as f64 / 1e9))?;
        let mut open = to.encode_descriptor(
            "weft_connections",
            "Open connections of any kind",
            None,
            MetricType::Gauge,
        )?;
        open.encode_gauge(&(report.open_connections as i64))?;
        cpu(&mut to, report)?;
        loops(&mut to, report)?;
        namespaces(&mut to, report)?;
        paths(&mut to, report)?;
        filters(&mut to, report)?;
        hosts(&mut to, report)
    }
}

fn gauges(
    to: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    values: Vec<(Labels, u64)>,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
    for (labels, value) in values {
        ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
            .encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn counters(
    to: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    values: Vec<(Labels, u64)>,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
    for (labels, value) in values {
        ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn seconds(
    to: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    values: Vec<(Labels, u64)>,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Counter)?;
    for (labels, ns) in values {
        ConstCounter::new(ns as f64 / 1e9).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn cpu(to: &mut DescriptorEncoder, report: &Report) -> fmt::Result {
    let modes = |cpu: &CpuReport, labels: Labels| {
        let mode =
            |mode: &str, ns| ([labels.clone(), vec![("mode", mode.to_owned())]].concat(), ns);
        [mode("user", cpu.user_ns), mode("system", cpu.system_ns)]
    };
    seconds(to, "weft_cpu", "CPU time of the process", modes(&report.cpu, Labels::new()).into())?;
    let each = report.loops.iter().filter(|each| each.answered);
    let of_loops =
        each.flat_map(|each| modes(&each.cpu, vec![("loop", each.number.to_string())])).collect();
    seconds(to, "weft_loop_cpu", "CPU time of an event loop", of_loops)
}

fn loops(to: &mut DescriptorEncoder, report: &Report) -> fmt::Result {
    let of = |is_bytes: bool| {
        let each = report.loops.iter().filter(|each| each.answered);
        let values = each.flat_map(move |each| {
            let chosen =
                each.counters.iter().filter(move |(name, _)| name.ends_with("_bytes") == is_bytes);
            chosen.map(|(name, value)| {
                let name = name.strip_suffix("_bytes").unwrap_or(name).to_owned();
                (vec![("loop", each.number.to_string()), ("event", name)], *value)
            })
        });
        values.collect::<Vec<_>>()
    };
    counters(
        to,
        "weft_loop_events",
        "Work of an event loop, such as system calls",
        None,
        of(false),
    )?;
    counters(
        to,
        "weft_loop_transferred",
        "Bytes received, sent or copied by an event loop",
        Some(Unit::Bytes),
        of(true),
    )
}

/// Things with labels, and their counts.
type Counted<'a> = Vec<(Labels, &'a Counts)>;

/// The metrics of counts, whose names begin with `weft_` and `what`.
fn counted(to: &mut DescriptorEncoder, what: &str, all: &Counted) -> fmt::Result {
    let of = |value: &dyn Fn(&Counts, Kind) -> u64| {
        let each = all.iter().flat_map(|(labels, counts)| {
            Kind::ALL.map(|kind| {
                (
                    [labels.clone(), vec![("operation", word(kind).to_owned())]].concat(),
                    value(counts, kind),
                )
            })
        });
        each.collect::<Vec<_>>()
    };
    let name = |end: &str| format!("weft_{what}_{end}");
    let operations = of(&|counts, kind| counts.of(kind).operations);
    counters(to, &name("operations"), "Answered commands", None, operations)?;
    let bytes = of(&|counts, kind| counts.of(kind).bytes);
    counters(to, &name("transferred"), "Data of successful commands", Some(Unit::Bytes), bytes)?;
    counters(
        to,
        &name("errors"),
        "Commands that failed",
        None,
        of(&|counts, kind| counts.of(kind).errors),
    )?;
    let flying = all.iter().map(|(labels, counts)| (labels.clone(), counts.in_flight)).collect();
    gauges(to, &name("in_flight"), "Commands that are not answered yet", None, flying)?;
    let (full, help) = (name("latency"), "Time from receiving a command to its answer");
    let mut family =
        to.encode_descriptor(&full, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for (labels, counts) in all {
        for kind in Kind::ALL {
            let labels = [labels.clone(), vec![("operation", word(kind).to_owned())]].concat();
            let latency = &counts.of(kind).latency;
            let (sum, count, buckets) =
                (latency.sum_ns as f64 / 1e9, latency.count(), buckets(latency));
            family
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
    }
    Ok(())
}

/// Bounds in seconds, with the number of times between each and the one before.
fn buckets(latency: &Histogram) -> Vec<(f64, u64)> {
    let mut before = 0;
    let bounded =
        BOUNDS.iter().map(|bits| ((1_u64 << bits) as f64 / 1e9, latency.below_power(*bits)));
    let all = bounded.chain([(f64::INFINITY, latency.count())]);
    all.map(|(bound, below)| (bound, below - std::mem::replace(&mut before, below))).collect()
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Other => "other",
    }
}

fn namespaces(to: &mut DescriptorEncoder, report: &Report) -> fmt::Result {
    let each = report.subsystems.iter().flat_map(|subsystem| {
        let labels =
            |nsid: u32| vec![("subsystem", subsystem.nqn.clone()), ("nsid", nsid.to_string())];
        subsystem.namespaces.iter().map(move |namespace| (labels(namespace.nsid), namespace))
    });
    let each: Vec<_> = each.collect();
    let sizes = each
        .iter()
        .map(|(labels, it)| (labels.clone(), it.blocks * u64::from(it.block_bytes)))
        .collect();
    gauges(to, "weft_namespace_size", "Size of a namespace", Some(Unit::Bytes), sizes)?;
    let present = each
        .iter()
        .map(|(labels, it)| (labels.clone(), u64::from(it.presence == "here")))
        .collect();
    gauges(
        to,
        "weft_namespace_up",
        "Whether the device of a namespace can be reached",
        None,
        present,
    )?;
    counted(
        to,
        "namespace",
        &each.iter().map(|(labels, it)| (labels.clone(), &it.counts)).collect(),
    )
}

fn paths(to: &mut DescriptorEncoder, report: &Report) -> fmt::Result {
    let each = report.subsystems.iter().flat_map(|subsystem| {
        subsystem.namespaces.iter().flat_map(move |namespace| {
            let nsid = namespace.nsid.to_string();
            let labels = move |path: &PathReport| {
                vec![
                    ("subsystem", subsystem.nqn.clone()),
                    ("nsid", nsid.clone()),
                    ("path", path.url.clone()),
                ]
            };
            namespace.paths.iter().map(move |path| (labels(path), path))
        })
    });
    let each: Vec<(Labels, &PathReport)> = each.collect();
    let of = |value: fn(&PathReport) -> u64| {
        each.iter().map(|(labels, path)| (labels.clone(), value(path))).collect()
    };
    let usable = |path: &PathReport| u64::from(path.open && path.access.ends_with("optimized"));
    gauges(to, "weft_path_up", "Whether a path is open and reaches the data", None, of(usable))?;
    counters(
        to,
        "weft_path_operations",
        "Operations that ended on a path",
        None,
        of(|path| path.operations),
    )?;
    let moved = of(|path| path.bytes);
    counters(
        to,
        "weft_path_transferred",
        "Data of operations that ended on a path",
        Some(Unit::Bytes),
        moved,
    )?;
    counters(
        to,
        "weft_path_errors",
        "Operations that a path ended with an error",
        None,
        of(|path| path.errors),
    )?;
    counters(
        to,
        "weft_path_retries",
        "Operations that were sent again because of a path",
        None,
        of(|path| path.retries),
    )?;
    counters(
        to,
        "weft_path_reconnects",
        "How often a path was opened again",
        None,
        of(|path| path.reconnects),
    )?;
    let help = "Average latency of the last operations on a path";
    let mut family =
        to.encode_descriptor("weft_path_latency", help, Some(&Unit::Seconds), MetricType::Gauge)?;
    for (labels, path) in &each {
        family.encode_family(labels)?.encode_gauge(&(path.latency_ns as f64 / 1e9))?;
    }
    Ok(())
}

/// What `stats:` has counted.
fn filters(to: &mut DescriptorEncoder, report: &Report) -> fmt::Result {
    let mut each: Vec<(Labels, FilterCounts)> = Vec::new();
    for subsystem in &report.subsystems {
        for namespace in &subsystem.namespaces {
            for (at, filter) in namespace.filters.iter().enumerate() {
                let labels = |kind: &String| {
                    let names = [
                        ("subsystem", subsystem.nqn.clone()),
                        ("nsid", namespace.nsid.to_string()),
                    ];
                    let place = [
                        ("filter", at.to_string()),
                        ("url", filter.url.clone()),
                        ("operation", kind.clone()),
                    ];
                    names.into_iter().chain(place).collect()
                };
                each.extend(filter.kinds.iter().map(|(kind, counts)| (labels(kind), *counts)));
            }
        }
    }
    let of = |value: fn(&FilterCounts) -> u64| {
        each.iter().map(|(labels, counts)| (labels.clone(), value(counts))).collect()
    };
    counters(
        to,
        "weft_filter_operations",
        "Operations that passed a stats: filter",
        None,
        of(|counts| counts.operations),
    )?;
    let moved = of(|counts| counts.bytes);
    counters(
        to,
        "weft_filter_transferred",
        "Data of successful operations at a stats: filter",
        Some(Unit::Bytes),
        moved,
    )?;
    counters(
        to,
        "weft_filter_errors",
        "Operations that failed below a stats: filter",
        None,
        of(|counts| counts.errors),
    )?;
    let help = "Sum of the times of operations below a stats: filter";
    seconds(to, "weft_filter_time", help, of(|counts| counts.time_ns))
}

fn hosts(to: &mut DescriptorEncoder, report: &Report) -> fmt::Result {
    let labels = |name: &str| vec![("host", name.to_owned())];
    let open =
        report.hosts.iter().map(|host| (labels(&host.name), host.connections as u64)).collect();
    gauges(
        to,
        "weft_host_connections",
        "Open connections of a host that serve commands",
        None,
        open,
    )?;
    counted(
        to,
        "host",
        &report.hosts.iter().map(|host| (labels(&host.name), &host.counts)).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use weft_endpoint::report::{HostReport, LoopReport, NamespaceReport, SubsystemReport};

    fn report() -> Report {
        let path = PathReport {
            url: "nbd://a".into(),
            open: true,
            access: "optimized".into(),
            retries: 3,
            ..Default::default()
        };
        let paths = vec![path];
        let namespace = NamespaceReport {
            paths,
            nsid: 1,
            block_bytes: 512,
            blocks: 8,
            presence: "here".into(),
            ..Default::default()
        };
        let nqn = "nqn.2026-01.example.weft:\"odd\"\n".to_owned();
        let each = LoopReport {
            answered: true,
            counters: [("recv_calls".into(), 7), ("recv_bytes".into(), 9)].into(),
            ..Default::default()
        };
        Report {
            version: "1.2".into(),
            uptime_ns: 1_500_000_000,
            loops: vec![each, LoopReport { number: 1, ..Default::default() }],
            subsystems: vec![SubsystemReport {
                nqn,
                namespaces: vec![namespace],
                ..Default::default()
            }],
            hosts: vec![HostReport { name: "h".into(), connections: 2, ..Default::default() }],
            ..Default::default()
        }
    }

    #[test]
    fn names_follow_the_conventions() {
        let text = text(&report());
        let types: Vec<(&str, &str)> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
        assert_eq!(
            types.iter().collect::<HashSet<_>>().len(),
            types.len(),
            "each is described once"
        );
        let kind = |of: &str| types.iter().find(|(name, _)| *name == of).map(|(_, kind)| *kind);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            let base = name.strip_suffix("_total");
            assert_eq!(base.is_some(), base.and_then(kind) == Some("counter"), "{line}");
        }
        for expected in [
            "weft_build_info{version=\"1.2\"} 1",
            "weft_uptime_seconds 1.5",
            "weft_connections 0",
            "weft_loop_events_total{loop=\"0\",event=\"recv_calls\"} 7",
            "weft_loop_transferred_bytes_total{loop=\"0\",event=\"recv\"} 9",
            "weft_namespace_size_bytes{subsystem=\"nqn.2026-01.example.weft:\\\"odd\\\"\\n\",nsid=\"1\"} 4096",
            "weft_path_up{subsystem=\"nqn.2026-01.example.weft:\\\"odd\\\"\\n\",nsid=\"1\",path=\"nbd://a\"} 1",
            "weft_path_retries_total{subsystem=\"nqn.2026-01.example.weft:\\\"odd\\\"\\n\",nsid=\"1\",path=\"nbd://a\"} 3",
            "weft_host_connections{host=\"h\"} 2",
            "weft_host_operations_total{host=\"h\",operation=\"read\"} 0",
            "weft_host_latency_seconds_count{host=\"h\",operation=\"read\"} 0",
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected} is not in\n{text}");
        }
        assert!(!text.contains("loop=\"1\""), "a loop that did not answer has no values");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn buckets_hold_each_time_once() {
        let json = r#"{"sum_ns":0,"mean_ns":0,"p50_ns":0,"p90_ns":0,"p99_ns":0,"p999_ns":0,"buckets":[[4096,3],[8192,2],[68719476736,1]]}"#;
        let latency: Histogram = serde_json::from_str(json).unwrap();
        let buckets = buckets(&latency);
        assert_eq!(buckets.iter().map(|(_, n)| n).sum::<u64>(), 6);
        assert_eq!((buckets[0], buckets[1].1, buckets.last().unwrap().1), ((4096e-9, 3), 2, 1));
    }
}
