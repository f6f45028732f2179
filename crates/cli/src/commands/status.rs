//! `weft status`: the state of a running server, and what it has done since its start.

use crate::exit::{Failure, printed};
use crate::server_args::ServerArgs;
use crate::table::{self, bytes, count, duration};
use clap::Args;
use std::io::Write;
use weft_endpoint::report::{FilterCounts, PathReport, Report, SubsystemReport};
use weft_endpoint::statistics::Counts;
use weft_server::management::client::Client;
use weft_server::management::methods::NoParams;

/// Options of `weft status`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft status
      the only server of this user
  weft status --control disks --json
      all counters of the server named disks, as JSON")]
pub struct StatusArgs {
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Asks, and prints the state.
pub fn run(args: &StatusArgs) -> Result<(), Failure> {
    let report: Report = ask(&mut args.server.connect()?)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let json = serde_json::to_string_pretty(&report).map_err(std::io::Error::from)?;
        return printed(writeln!(out, "{json}"));
    }
    printed(print(&mut out, &report))
}

/// The state of a server.
pub fn ask(client: &mut Client) -> Result<Report, Failure> {
    Ok(client.ask("server.status", NoParams {})?)
}

fn print(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let total = report.total().operations;
    writeln!(
        out,
        "weft {}, process {}, up {}, {} connections, {} commands",
        report.version,
        report.pid,
        duration(report.uptime_ns),
        report.open_connections,
        count(total as f64)
    )?;
    let per_command =
        report.loops_cpu_ns().checked_div(total).map_or_else(|| "-".to_owned(), duration);
    writeln!(
        out,
        "CPU {}, {per_command} of the loops per command",
        duration(report.cpu.total_ns())
    )?;
    for listener in &report.listeners {
        writeln!(out, "listening on {listener}")?;
    }
    namespaces(out, report)?;
    let host = |name: &str, connections: usize| [name.to_owned(), connections.to_string()];
    let hosts = report
        .hosts
        .iter()
        .map(|of| (host(&of.name, of.connections), &of.counts))
        .collect::<Vec<_>>();
    counted(out, ["Host", "Connections"], &hosts)?;
    let connections = report.connections.iter().map(|of| {
        let queue = of.queue.map_or_else(String::new, |queue| format!(" queue {queue}"));
        let tls = of.tls.as_ref().map_or_else(String::new, |place| format!(" tls: {place}"));
        ([format!("{}{queue}{tls}", of.protocol), of.peer.clone()], &of.counts)
    });
    counted(out, ["Connection", "Address"], &connections.collect::<Vec<_>>())
}

fn namespaces(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    for subsystem in &report.subsystems {
        writeln!(out, "\nsubsystem {}", subsystem.nqn)?;
        let row = |of: &weft_endpoint::report::NamespaceReport| {
            let size = weft_block::units::format_size(of.blocks * u64::from(of.block_bytes));
            [format!("{} {}", of.nsid, of.device), format!("{size} {}", of.presence)]
        };
        let rows: Vec<_> = subsystem.namespaces.iter().map(|of| (row(of), &of.counts)).collect();
        counted(out, ["Namespace", "Size"], &rows)?;
        paths(out, subsystem)?;
        filters(out, subsystem)?;
    }
    Ok(())
}

/// A table of the paths of remote devices.
fn paths(out: &mut impl Write, subsystem: &SubsystemReport) -> std::io::Result<()> {
    let head = [
        "Path",
        "State",
        "Operations",
        "Data",
        "Errors",
        "Retries",
        "Reconnects",
        "Latency",
        "Why",
    ];
    let each = subsystem.namespaces.iter().flat_map(|namespace| &namespace.paths);
    let row = |path: &PathReport| {
        vec![
            path.url.clone(),
            format!("{} {}", path.state, path.access),
            count(path.operations as f64),
            bytes(path.bytes as f64),
            path.errors.to_string(),
            path.retries.to_string(),
            path.reconnects.to_string(),
            duration(path.latency_ns),
            path.why.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = each.map(row).collect();
    if rows.is_empty() { Ok(()) } else { table::print(out, &head, rows) }
}

/// A table of what `stats:` has counted.
fn filters(out: &mut impl Write, subsystem: &SubsystemReport) -> std::io::Result<()> {
    let head = ["Filter", "Kind", "Operations", "Data", "Errors", "Mean", "p50", "p99", "Longest"];
    let each = subsystem.namespaces.iter().flat_map(|namespace| &namespace.filters);
    let all = each.flat_map(|filter| {
        filter.kinds.iter().map(move |(kind, counts)| (&filter.url, kind, counts))
    });
    let row = |(url, kind, counts): (&String, &String, &FilterCounts)| {
        let mean = counts.time_ns.checked_div(counts.operations).unwrap_or(0);
        let times = [mean, counts.p50_ns, counts.p99_ns, counts.max_ns].map(duration);
        let figures = [
            count(counts.operations as f64),
            bytes(counts.bytes as f64),
            counts.errors.to_string(),
        ];
        [url.clone(), kind.clone()].into_iter().chain(figures).chain(times).collect::<Vec<_>>()
    };
    let rows: Vec<_> = all.filter(|(_, _, counts)| counts.operations > 0).map(row).collect();
    if rows.is_empty() { Ok(()) } else { table::print(out, &head, rows) }
}

/// A table of counts, after two columns of names.
fn counted(
    out: &mut impl Write,
    names: [&str; 2],
    rows: &[([String; 2], &Counts)],
) -> std::io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let head = [
        names[0], names[1], "Reads", "Read", "Writes", "Written", "Other", "Errors", "Depth",
        "p50", "p99", "p99.9",
    ];
    let row = |(names, counts): &([String; 2], &Counts)| {
        let total = counts.total();
        let figures = [
            count(counts.read.operations as f64),
            bytes(counts.read.bytes as f64),
            count(counts.write.operations as f64),
            bytes(counts.write.bytes as f64),
            count(counts.other.operations as f64),
            total.errors.to_string(),
            counts.in_flight.to_string(),
        ];
        let times =
            [50.0, 99.0, 99.9].map(|percent| duration(total.latency.percentile_ns(percent)));
        names.iter().cloned().chain(figures).chain(times).collect::<Vec<_>>()
    };
    table::print(out, &head, rows.iter().map(row).collect())
}
