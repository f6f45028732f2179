//! The metrics of what is below a namespace: the paths to its source, and filters that count.

use super::families::{BYTES, Families, Labels};
use weft_endpoint::report::{FilterCounts, PathReport, Report};

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
