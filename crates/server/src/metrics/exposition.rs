//! A report in the text format of OpenMetrics, which Prometheus reads.

use super::families::{BYTES, Families, Labels, counted};
use super::health;
use weft_endpoint::report::{CpuReport, FilterCounts, LoopReport, PathReport, Report};

/// The metrics of a report.
pub fn text(report: &Report) -> String {
    let mut to = Families::default();
    let version = vec![(vec![("version", report.version.clone())], 1)];
    to.gauges("weft_build", "Version of the program", Some("info"), version);
    to.times("weft_uptime", "Time since the start", vec![(Labels::new(), report.uptime_ns)]);
    let healthy = u64::from(health::problems(report).is_empty());
    let help = "1: every event loop answers, and every device can be reached";
    to.gauge("weft_healthy", help, healthy);
    to.gauge("weft_connections", "Open connections of any kind", report.open_connections as u64);
    let help = "Associations of NVMe hosts that ended because the keep alive timer expired";
    let expired = vec![(Labels::new(), report.keep_alives_expired)];
    to.counters("weft_keep_alives_expired", help, None, expired);
    cpu(&mut to, report);
    loops(&mut to, report);
    namespaces(&mut to, report);
    paths(&mut to, report);
    mirrors(&mut to, report);
    filters(&mut to, report);
    hosts(&mut to, report);
    to.end()
}

fn cpu(to: &mut Families, report: &Report) {
    let modes = |cpu: &CpuReport, labels: Labels| {
        let mode =
            |mode: &str, ns| ([labels.clone(), vec![("mode", mode.to_owned())]].concat(), ns);
        [mode("user", cpu.user_ns), mode("system", cpu.system_ns)]
    };
    to.seconds("weft_cpu", "CPU time of the process", modes(&report.cpu, Labels::new()).into());
    let each = report.loops.iter().filter(|each| each.answered);
    let of_loops =
        each.flat_map(|each| modes(&each.cpu, vec![("loop", each.number.to_string())])).collect();
    to.seconds("weft_loop_cpu", "CPU time of an event loop", of_loops);
}

fn loops(to: &mut Families, report: &Report) {
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
    let help = "Work of an event loop, such as system calls";
    to.counters("weft_loop_events", help, None, of(false));
    let help = "Bytes received, sent or copied by an event loop";
    to.counters("weft_loop_transferred", help, Some(BYTES), of(true));
    let pool = |value: fn(&LoopReport) -> u64| {
        let each = report.loops.iter().filter(|each| each.answered);
        each.map(|each| (vec![("loop", each.number.to_string())], value(each))).collect()
    };
    let (size, used) = (pool(|each| each.pool_bytes), pool(|each| each.pool_used_bytes));
    to.gauges("weft_loop_pool_size", "Payload memory of an event loop", Some(BYTES), size);
    to.gauges("weft_loop_pool_used", "Payload memory that is in use", Some(BYTES), used);
}

fn namespaces(to: &mut Families, report: &Report) {
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
    to.gauges("weft_namespace_size", "Size of a namespace", Some(BYTES), sizes);
    let present = each
        .iter()
        .map(|(labels, it)| (labels.clone(), u64::from(it.presence == "here")))
        .collect();
    let help = "Whether the device of a namespace can be reached";
    to.gauges("weft_namespace_up", help, None, present);
    let counts = each.iter().map(|(labels, it)| (labels.clone(), &it.counts)).collect();
    counted(to, "namespace", &counts);
}

fn hosts(to: &mut Families, report: &Report) {
    let labels = |name: &str| vec![("host", name.to_owned())];
    let open =
        report.hosts.iter().map(|host| (labels(&host.name), host.connections as u64)).collect();
    let help = "Open connections of a host that serve commands";
    to.gauges("weft_host_connections", help, None, open);
    let counts = report.hosts.iter().map(|host| (labels(&host.name), &host.counts)).collect();
    counted(to, "host", &counts);
}

// The metrics of what is below a namespace: the paths to its source, and filters that count.

/// A counter of paths: its name, its help, its unit and its value.
type PathCounter = (&'static str, &'static str, Option<&'static str>, fn(&PathReport) -> u64);

/// The paths to remote sources.
pub fn paths(to: &mut Families, report: &Report) {
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
    let up = of(|path| u64::from(path.is_usable()));
    to.gauges("weft_path_up", "Whether a path is open and reaches the data", None, up);
    let counted: [PathCounter; 5] = [
        ("operations", "Operations that ended on a path", None, |path| path.operations),
        ("transferred", "Data of operations that ended on a path", Some(BYTES), |path| path.bytes),
        ("errors", "Operations that a path ended with an error", None, |path| path.errors),
        ("retries", "Operations that were sent again because of a path", None, |path| path.retries),
        ("reconnects", "How often a path was opened again", None, |path| path.reconnects),
    ];
    for (name, help, unit, value) in counted {
        to.counters(&format!("weft_path_{name}"), help, unit, of(value));
    }
    let help = "Average latency of the last operations on a path";
    to.times("weft_path_latency", help, of(|path| path.latency_ns));
}

/// Reports whether mirrors have all of their legs, which the report has as paths.
pub fn mirrors(to: &mut Families, report: &Report) {
    let is_mirror = |device: &str| {
        device.starts_with("mirror:")
            || [":mirror:", ",mirror:"].iter().any(|at| device.contains(at))
    };
    let each = report.subsystems.iter().flat_map(|subsystem| {
        let mirrors = subsystem.namespaces.iter().filter(|it| is_mirror(&it.device));
        mirrors.map(|it| {
            let labels = vec![("subsystem", subsystem.nqn.clone()), ("nsid", it.nsid.to_string())];
            (labels, u64::from(!it.paths.iter().all(PathReport::is_usable)))
        })
    });
    let help = "1: a leg of a mirror is missing or is being made equal";
    to.gauges("weft_mirror_degraded", help, None, each.collect());
}

/// The counters of `stats:`.
pub fn filters(to: &mut Families, report: &Report) {
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
    let help = "Operations that passed a stats: filter";
    to.counters("weft_filter_operations", help, None, of(|counts| counts.operations));
    let help = "Data of successful operations at a stats: filter";
    to.counters("weft_filter_transferred", help, Some(BYTES), of(|counts| counts.bytes));
    let help = "Operations that failed below a stats: filter";
    to.counters("weft_filter_errors", help, None, of(|counts| counts.errors));
    let help = "Sum of the times of operations below a stats: filter";
    to.seconds("weft_filter_time", help, of(|counts| counts.time_ns));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use weft_endpoint::report::{HostReport, NamespaceReport, PathReport, SubsystemReport};

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
        let lost = PathReport { url: "nbd://b".into(), ..Default::default() };
        let mirror = NamespaceReport {
            paths: vec![PathReport { url: "nbd://c".into(), ..namespace.paths[0].clone() }, lost],
            nsid: 2,
            device: "limit:iops=9,mirror:nbd://c|nbd://b".into(),
            ..namespace.clone()
        };
        let nqn = "nqn.2026-01.example.weft:\"odd\"\n".to_owned();
        let each = LoopReport {
            answered: true,
            pool_bytes: 4096,
            pool_used_bytes: 512,
            counters: [("recv_calls".into(), 7), ("recv_bytes".into(), 9)].into(),
            ..Default::default()
        };
        Report {
            version: "1.2".into(),
            uptime_ns: 1_500_000_000,
            keep_alives_expired: 4,
            loops: vec![each, LoopReport { number: 1, ..Default::default() }],
            subsystems: vec![SubsystemReport {
                nqn,
                namespaces: vec![namespace, mirror],
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
            "weft_healthy 0",
            "weft_keep_alives_expired_total 4",
            "weft_loop_pool_size_bytes{loop=\"0\"} 4096",
            "weft_loop_pool_used_bytes{loop=\"0\"} 512",
            "weft_mirror_degraded{subsystem=\"nqn.2026-01.example.weft:\\\"odd\\\"\\n\",nsid=\"2\"} 1",
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
        assert_eq!(text.matches("weft_mirror_degraded{").count(), 1, "the first is no mirror");
        assert!(!text.contains("loop=\"1\""), "a loop that did not answer has no values");
        assert!(text.ends_with("# EOF\n"));
    }
}
