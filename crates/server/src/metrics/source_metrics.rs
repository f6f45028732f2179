//! The metrics of what is below a namespace: the paths to its source, and filters that count.

use super::families::{Labels, counters, gauges, seconds};
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::fmt;
use weft_endpoint::report::{FilterCounts, PathReport, Report};

/// A counter of paths: its name, its help, its unit and its value.
type PathCounter = (&'static str, &'static str, Option<Unit>, fn(&PathReport) -> u64);

/// The paths to remote sources.
pub fn paths(to: &mut DescriptorEncoder, report: &Report) -> fmt::Result {
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
    let up = of(|path| u64::from(is_usable(path)));
    gauges(to, "weft_path_up", "Whether a path is open and reaches the data", None, up)?;
    let counted: [PathCounter; 5] = [
        ("operations", "Operations that ended on a path", None, |path| path.operations),
        ("transferred", "Data of operations that ended on a path", Some(Unit::Bytes), |path| {
            path.bytes
        }),
        ("errors", "Operations that a path ended with an error", None, |path| path.errors),
        ("retries", "Operations that were sent again because of a path", None, |path| path.retries),
        ("reconnects", "How often a path was opened again", None, |path| path.reconnects),
    ];
    for (name, help, unit, value) in counted {
        counters(to, &format!("weft_path_{name}"), help, unit, of(value))?;
    }
    let help = "Average latency of the last operations on a path";
    let mut family =
        to.encode_descriptor("weft_path_latency", help, Some(&Unit::Seconds), MetricType::Gauge)?;
    for (labels, path) in &each {
        family.encode_family(labels)?.encode_gauge(&(path.latency_ns as f64 / 1e9))?;
    }
    Ok(())
}

fn is_usable(path: &PathReport) -> bool {
    path.open && path.access.ends_with("optimized")
}

/// Whether mirrors have all of their legs, which are told as paths.
pub fn mirrors(to: &mut DescriptorEncoder, report: &Report) -> fmt::Result {
    let is_mirror = |device: &str| {
        device.starts_with("mirror:")
            || [":mirror:", ",mirror:"].iter().any(|at| device.contains(at))
    };
    let each = report.subsystems.iter().flat_map(|subsystem| {
        let mirrors = subsystem.namespaces.iter().filter(|it| is_mirror(&it.device));
        mirrors.map(|it| {
            let labels = vec![("subsystem", subsystem.nqn.clone()), ("nsid", it.nsid.to_string())];
            (labels, u64::from(!it.paths.iter().all(is_usable)))
        })
    });
    let help = "1: a leg of a mirror is missing or is being made equal";
    gauges(to, "weft_mirror_degraded", help, None, each.collect())
}

/// What `stats:` has counted.
pub fn filters(to: &mut DescriptorEncoder, report: &Report) -> fmt::Result {
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
