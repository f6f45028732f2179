//! The rows of `weft top`, and their order.

use crate::output::figures::{bytes, count, duration, percentile, several};
use clap::ValueEnum;
use std::cmp::Reverse;
use weft_endpoint::report::{PathReport, Rates, Report, SubsystemReport};
use weft_endpoint::statistics::Counts;

/// `--sort`: what comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// The names in order.
    Name,
    /// Most commands per second.
    Rate,
    /// Most bytes per second.
    Bandwidth,
    /// Longest p99; of paths: longest average.
    Latency,
    /// Most commands in flight.
    Depth,
    /// Most errors per second.
    Errors,
}

/// A row, and what it is sorted by.
struct Row {
    cells: Vec<String>,
    rate: f64,
    bandwidth: f64,
    latency_ns: u64,
    depth: u64,
    errors: f64,
}

impl Sort {
    /// Sorts things, each with its first row. What is equal stays in order.
    fn sort(self, groups: &mut [Vec<Row>]) {
        let largest = |value: fn(&Row) -> f64| {
            move |a: &Vec<Row>, b: &Vec<Row>| value(&b[0]).total_cmp(&value(&a[0]))
        };
        match self {
            Self::Name => groups.sort_by(|a, b| a[0].cells[1].cmp(&b[0].cells[1])),
            Self::Rate => groups.sort_by(largest(|row| row.rate)),
            Self::Bandwidth => groups.sort_by(largest(|row| row.bandwidth)),
            Self::Errors => groups.sort_by(largest(|row| row.errors)),
            Self::Latency => groups.sort_by_key(|group| Reverse(group[0].latency_ns)),
            Self::Depth => groups.sort_by_key(|group| Reverse(group[0].depth)),
        }
    }
}

/// The rows of what was done between two reports: subsystems, each with its namespaces, which have
/// their paths; hosts; connections. Each kind is sorted by itself.
pub fn rows(before: &Report, now: &Report, seconds: f64, sort: Option<Sort>) -> Vec<Vec<String>> {
    let none = Counts::default();
    let sorted = |mut groups: Vec<Vec<Row>>| {
        if let Some(sort) = sort {
            sort.sort(&mut groups);
        }
        groups.into_iter().flatten().collect::<Vec<_>>()
    };
    let subsystems = now.subsystems.iter().map(|subsystem| {
        let was = before.subsystems.iter().find(|was| was.nqn == subsystem.nqn);
        let earlier = was.map_or(&none, |was| &was.counts);
        let own = row("subsystem", &subsystem.nqn, earlier, &subsystem.counts, seconds, "");
        let below = subsystem.namespaces.iter().map(|of| of_namespace(was, of, seconds, sorted));
        std::iter::once(own).chain(sorted(below.collect())).collect()
    });
    let hosts = now.hosts.iter().map(|host| {
        let was = before.hosts.iter().find(|was| was.name == host.name);
        let state = several(host.connections as u64, "connection");
        let earlier = was.map_or(&none, |was| &was.counts);
        vec![row("host", &host.name, earlier, &host.counts, seconds, &state)]
    });
    let connections = now.connections.iter().map(|connection| {
        let same = |was: &&weft_endpoint::report::ConnectionReport| {
            (&was.peer, was.queue, &was.host)
                == (&connection.peer, connection.queue, &connection.host)
        };
        let earlier = before.connections.iter().find(same).map_or(&none, |was| &was.counts);
        let queue = connection.queue.map_or_else(String::new, |queue| format!(" queue {queue}"));
        let name = format!("{} {}{queue}", connection.protocol, connection.peer);
        vec![row("connection", &name, earlier, &connection.counts, seconds, "")]
    });
    let kinds = [subsystems.collect(), hosts.collect(), connections.collect()];
    kinds.into_iter().flat_map(sorted).map(|row| row.cells).collect()
}

/// A namespace with its paths.
fn of_namespace(
    was: Option<&SubsystemReport>,
    namespace: &weft_endpoint::report::NamespaceReport,
    seconds: f64,
    sorted: impl Fn(Vec<Vec<Row>>) -> Vec<Row>,
) -> Vec<Row> {
    let none = Counts::default();
    let was = was.and_then(|was| was.namespaces.iter().find(|was| was.nsid == namespace.nsid));
    let earlier = was.map_or(&none, |was| &was.counts);
    let name = format!("{} {}", namespace.nsid, namespace.device);
    let own = row("namespace", &name, earlier, &namespace.counts, seconds, &namespace.presence);
    let before = was.map_or(&[][..], |was| &was.paths);
    let paths = namespace.paths.iter().map(|path| vec![path_row(before, path, seconds)]);
    std::iter::once(own).chain(sorted(paths.collect())).collect()
}

/// The row of a path. Of its operations only the average latency is known, and not which of them
/// read.
fn path_row(before: &[PathReport], now: &PathReport, seconds: f64) -> Row {
    let none = PathReport::default();
    let was = before.iter().find(|was| was.url == now.url).unwrap_or(&none);
    let per_second = |now: u64, was: u64| now.saturating_sub(was) as f64 / seconds;
    let rate = per_second(now.operations, was.operations);
    let errors = per_second(now.errors, was.errors);
    let bandwidth = per_second(now.bytes, was.bytes);
    let dash = || "-".to_owned();
    let cells = vec![
        "path".to_owned(),
        now.url.clone(),
        count(rate),
        bytes(bandwidth),
        dash(),
        count(errors),
        dash(),
        duration(now.latency_ns),
        dash(),
        dash(),
        format!("{} {}", now.state, now.access),
    ];
    Row { cells, rate, bandwidth, latency_ns: now.latency_ns, depth: 0, errors }
}

fn row(what: &str, name: &str, earlier: &Counts, now: &Counts, seconds: f64, state: &str) -> Row {
    let rates = Rates::between(earlier, now, seconds);
    let since = now.since(earlier);
    let per_second = |n: u64| bytes(n as f64 / seconds);
    let errors = if rates.errors_per_second > 0.0 {
        format!("{:.1}", rates.errors_per_second)
    } else {
        "0".to_owned()
    };
    let cells = [
        what.to_owned(),
        name.to_owned(),
        count(rates.iops),
        per_second(since.read.bytes),
        per_second(since.write.bytes),
        errors,
        rates.in_flight.to_string(),
    ];
    Row {
        cells: cells
            .into_iter()
            .chain([rates.p50_ns, rates.p99_ns, rates.p999_ns].map(percentile))
            .chain([state.to_owned()])
            .collect(),
        rate: rates.iops,
        bandwidth: rates.bytes_per_second,
        latency_ns: rates.p99_ns,
        depth: rates.in_flight,
        errors: rates.errors_per_second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_endpoint::report::HostReport;

    #[test]
    fn hosts_are_sorted_by_what_is_asked_for() {
        let host = |name: &str, operations: u64, bytes: u64, errors: u64| {
            let mut counts = Counts { in_flight: errors, ..Counts::default() };
            (counts.read.operations, counts.read.bytes) = (operations, bytes);
            counts.read.errors = errors;
            HostReport { name: name.into(), connections: 1, counts }
        };
        let hosts = vec![host("b", 30, 1, 1), host("a", 10, 3, 2), host("c", 20, 2, 3)];
        let (before, now) = (Report::default(), Report { hosts, ..Report::default() });
        let order = |sort| {
            let rows = rows(&before, &now, 1.0, sort);
            rows.iter().map(|cells| cells[1].clone()).collect::<String>()
        };
        assert_eq!(order(None), "bac", "as the server has them");
        assert_eq!(order(Some(Sort::Name)), "abc");
        assert_eq!(order(Some(Sort::Rate)), "bca");
        assert_eq!(order(Some(Sort::Bandwidth)), "acb");
        assert_eq!(order(Some(Sort::Errors)), "cab");
        assert_eq!(order(Some(Sort::Depth)), "cab");
        assert_eq!(order(Some(Sort::Latency)), "bac", "what is equal stays in order");
    }
}
