//! `weft top`: what a running server does now, as a table that is refreshed.

use super::status;
use crate::exit::Failure;
use crate::figures::{age, bytes, count, duration, percentile, several};
use crate::server_args::ServerArgs;
use crate::table::{Table, named, room};
use clap::Args;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::Duration;
use weft_block::units;
use weft_endpoint::report::{PathReport, Rates, Report};
use weft_endpoint::statistics::Counts;

/// Options of `weft top`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft top
      refreshed each second, until Ctrl-C
  weft top --interval 10s --count 6 > minute.txt
      six tables, each about ten seconds")]
pub struct TopArgs {
    /// Time between two tables
    #[arg(long, default_value = "1s", value_parser = units::parse_duration)]
    interval: Duration,
    /// Number of tables [default: no limit]
    #[arg(long)]
    count: Option<u64>,
    /// All columns, and names in full, however wide the terminal is
    #[arg(long)]
    wide: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Shows tables until their number is reached, or the server ends.
pub fn run(args: &TopArgs) -> Result<(), Failure> {
    let mut client = args.server.connect()?;
    let mut out = std::io::stdout().lock();
    let mut before = status::ask(&mut client)?;
    // Home, and what is below goes: nothing flickers.
    let clear = if out.is_terminal() { "\x1b[H\x1b[J" } else { "" };
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        std::thread::sleep(args.interval);
        let now = status::ask(&mut client)?;
        write!(out, "{clear}{}", shown(&before, &now, room(args.wide))?)?;
        out.flush()?;
        before = now;
    }
    Ok(())
}

/// The table of what was done between two reports.
fn shown(before: &Report, now: &Report, room: Option<usize>) -> std::io::Result<String> {
    // Of another process everything is since its start.
    let empty = Report::default();
    let (before, seconds) = match now.seconds_since(before) {
        Some(seconds) => (before, seconds),
        None => (&empty, now.uptime_ns as f64 / 1e9),
    };
    let mut text = String::new();
    let cpu = now.cpu_ns_per_operation(before).map_or_else(|| "-".to_owned(), duration);
    let busy = now.loops_cpu_ns().saturating_sub(before.loops_cpu_ns()) as f64 / 1e7 / seconds;
    let _ = writeln!(
        text,
        "weft {}, process {}, up {}, {}; loops {busy:.0} % of a core, {cpu} per command",
        now.version,
        now.pid,
        age(now.uptime_ns),
        several(now.open_connections as u64, "connection")
    );
    let head = [
        "Of", "Name", "IOPS", "Read/s", "Write/s", "Err/s", "Depth", "p50", "p99", "p99.9", "State",
    ];
    let mut table = Vec::new();
    let spare: &[&[&str]] = &[&["p99.9"], &["State"], &["Depth"], &["p50"]];
    Table { spare, ..named(&head, rows(before, now, seconds)) }.print(&mut table, room)?;
    text.push_str(&String::from_utf8_lossy(&table));
    Ok(text)
}

fn rows(before: &Report, now: &Report, seconds: f64) -> Vec<Vec<String>> {
    let none = Counts::default();
    let mut rows = Vec::new();
    for subsystem in &now.subsystems {
        let was = before.subsystems.iter().find(|was| was.nqn == subsystem.nqn);
        let earlier = was.map_or(&none, |was| &was.counts);
        rows.push(row("subsystem", &subsystem.nqn, earlier, &subsystem.counts, seconds, ""));
        for namespace in &subsystem.namespaces {
            let was =
                was.and_then(|was| was.namespaces.iter().find(|was| was.nsid == namespace.nsid));
            let earlier = was.map_or(&none, |was| &was.counts);
            let name = format!("{} {}", namespace.nsid, namespace.device);
            rows.push(row(
                "namespace",
                &name,
                earlier,
                &namespace.counts,
                seconds,
                &namespace.presence,
            ));
            let before = was.map_or(&[][..], |was| &was.paths);
            rows.extend(namespace.paths.iter().map(|path| path_row(before, path, seconds)));
        }
    }
    for host in &now.hosts {
        let earlier =
            before.hosts.iter().find(|was| was.name == host.name).map_or(&none, |was| &was.counts);
        let state = several(host.connections as u64, "connection");
        rows.push(row("host", &host.name, earlier, &host.counts, seconds, &state));
    }
    for connection in &now.connections {
        let same = |was: &&weft_endpoint::report::ConnectionReport| {
            (&was.peer, was.queue, &was.host)
                == (&connection.peer, connection.queue, &connection.host)
        };
        let earlier = before.connections.iter().find(same).map_or(&none, |was| &was.counts);
        let queue = connection.queue.map_or_else(String::new, |queue| format!(" queue {queue}"));
        let name = format!("{} {}{queue}", connection.protocol, connection.peer);
        rows.push(row("connection", &name, earlier, &connection.counts, seconds, ""));
    }
    rows
}

/// The row of a path. Of its operations only the average latency is known, and not which of them
/// read.
fn path_row(before: &[PathReport], now: &PathReport, seconds: f64) -> Vec<String> {
    let none = PathReport::default();
    let was = before.iter().find(|was| was.url == now.url).unwrap_or(&none);
    let rate = |now: u64, was: u64| now.saturating_sub(was) as f64 / seconds;
    let (iops, errors) =
        (count(rate(now.operations, was.operations)), count(rate(now.errors, was.errors)));
    let (data, dash) = (bytes(rate(now.bytes, was.bytes)), || "-".to_owned());
    let state = format!("{} {}", now.state, now.access);
    vec![
        "path".to_owned(),
        now.url.clone(),
        iops,
        data,
        dash(),
        errors,
        dash(),
        duration(now.latency_ns),
        dash(),
        dash(),
        state,
    ]
}

fn row(
    what: &str,
    name: &str,
    earlier: &Counts,
    now: &Counts,
    seconds: f64,
    state: &str,
) -> Vec<String> {
    let rates = Rates::between(earlier, now, seconds);
    let since = now.since(earlier);
    let per_second = |n: u64| bytes(n as f64 / seconds);
    let errors = if rates.errors_per_second > 0.0 {
        format!("{:.1}", rates.errors_per_second)
    } else {
        "0".to_owned()
    };
    [
        what.to_owned(),
        name.to_owned(),
        count(rates.iops),
        per_second(since.read.bytes),
        per_second(since.write.bytes),
        errors,
        rates.in_flight.to_string(),
    ]
    .into_iter()
    .chain([rates.p50_ns, rates.p99_ns, rates.p999_ns].map(percentile))
    .chain([state.to_owned()])
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_endpoint::report::HostReport;

    #[test]
    fn a_table_shows_what_was_done_in_between() {
        let mut before = Report { pid: 7, uptime_ns: 1_000_000_000, ..Report::default() };
        before.hosts.push(HostReport {
            name: "h".into(),
            connections: 1,
            counts: Counts::default(),
        });
        let mut now = before.clone();
        now.uptime_ns = 3_000_000_000;
        (now.hosts[0].counts.read.operations, now.hosts[0].counts.read.bytes) = (4000, 16_384_000);
        let text = shown(&before, &now, None).unwrap();
        let host = text.lines().last().unwrap();
        for part in ["host", "2,000", "8.2 MB", "1 connection"] {
            assert!(host.contains(part), "{part} is not in {host}");
        }
        // After a restart nothing is older than the process.
        before.pid = 8;
        assert!(shown(&before, &now, None).unwrap().contains("1,333"));
    }
}
