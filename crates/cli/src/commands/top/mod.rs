//! `weft top`: what a running server does now, as a table that is refreshed.
//!
//! * `rows`: the rows, and their order.
//! * `graph`: the rate over the last minute.

mod graph;
mod rows;

use super::status;
use crate::args::server::ServerArgs;
use crate::output::figures::{age, duration, several};
use crate::output::table::{Table, height, named, room};
use crate::process::exit::Failure;
use clap::Args;
use graph::History;
use rows::{Sort, rows};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::Duration;
use weft_block::units;
use weft_endpoint::report::Report;

/// Lines of a table that are no rows: the process, the graph, the head, and what is left out.
const OTHER_LINES: usize = 4;

/// Options of `weft top`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft top
      refreshed each second, until Ctrl-C
  weft top --interval 10s --count 6 > minute.txt
      six tables, each about ten seconds
  weft top --sort latency
      the slowest hosts, namespaces and connections first")]
pub struct TopArgs {
    /// Time between two tables
    #[arg(long, default_value = "1s", value_parser = units::parse_duration)]
    interval: Duration,
    /// Number of tables [default: no limit]
    #[arg(long)]
    count: Option<u64>,
    /// Sort key of the subsystems, namespaces, paths, hosts and connections [default: the order of
    /// the server]
    #[arg(long, value_enum, value_name = "KEY")]
    sort: Option<Sort>,
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
    let mut shown = Shown { sort: args.sort, history: History::default() };
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        std::thread::sleep(args.interval);
        let now = status::ask(&mut client)?;
        let blocks = graph::shows_blocks();
        let text =
            shown.text(&before, &now, Place { room: room(args.wide), height: height(), blocks });
        write!(out, "{clear}{}", text?)?;
        out.flush()?;
        before = now;
    }
    Ok(())
}

/// Where a table goes: the columns and lines there are, if they are limited, and whether it can
/// show block characters.
#[derive(Clone, Copy, Default)]
struct Place {
    room: Option<usize>,
    height: Option<usize>,
    blocks: bool,
}

/// How tables are made, and what the next one shows of those before.
#[derive(Default)]
struct Shown {
    sort: Option<Sort>,
    history: History,
}

impl Shown {
    /// The table of what was done between two reports.
    fn text(&mut self, before: &Report, now: &Report, place: Place) -> std::io::Result<String> {
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
        let operations = now.total().operations.saturating_sub(before.total().operations);
        self.history.add(now.uptime_ns as f64 / 1e9, seconds, operations as f64 / seconds);
        text.push_str(&self.history.line(place.room, place.blocks));
        let mut rows = rows(before, now, seconds, self.sort);
        let fit = place.height.map_or(usize::MAX, |lines| lines.saturating_sub(OTHER_LINES).max(1));
        let left_out = rows.len().saturating_sub(fit);
        rows.truncate(fit);
        text.push_str(&table(rows, place.room)?);
        if left_out > 0 {
            // Without an end of line: the screen would move.
            let _ = write!(text, "{left_out} more; --sort says which come first");
        }
        Ok(text)
    }
}

fn table(rows: Vec<Vec<String>>, room: Option<usize>) -> std::io::Result<String> {
    let head = [
        "Of", "Name", "IOPS", "Read/s", "Write/s", "Err/s", "Depth", "p50", "p99", "p99.9", "State",
    ];
    let mut table = Vec::new();
    let spare: &[&[&str]] = &[&["p99.9"], &["State"], &["Depth"], &["p50"]];
    Table { spare, ..named(&head, rows) }.print(&mut table, room)?;
    Ok(String::from_utf8_lossy(&table).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_endpoint::report::HostReport;
    use weft_endpoint::statistics::Counts;

    fn shown(before: &Report, now: &Report, place: Place) -> String {
        Shown::default().text(before, now, place).unwrap()
    }

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
        let text = shown(&before, &now, Place::default());
        let host = text.lines().last().unwrap();
        for part in ["host", "2,000", "8.2 MB", "1 connection"] {
            assert!(host.contains(part), "{part} is not in {host}");
        }
        // After a restart nothing is older than the process.
        before.pid = 8;
        assert!(shown(&before, &now, Place::default()).contains("1,333"));
    }

    #[test]
    fn a_table_fits_the_terminal() {
        let host = |n: usize| HostReport {
            name: format!("nqn.2014-08.org.nvmexpress:uuid:0c1c6a3a-5a53-4a1f-9d0f-5a6e2a5d7c{n}"),
            connections: 1,
            counts: Counts::default(),
        };
        let before = Report { pid: 7, uptime_ns: 1_000_000_000, ..Report::default() };
        let hosts = (10..60).map(host).collect();
        let now = Report { uptime_ns: 2_000_000_000, hosts, ..before.clone() };
        let place = Place { room: Some(60), height: Some(24), blocks: true };
        let text = shown(&before, &now, place);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 24 && !text.ends_with('\n'), "{text}");
        assert!(lines[1..].iter().all(|line| line.chars().count() <= 60), "{text}");
        assert!(lines[3].contains('…') && lines[3].contains("7c10 "), "{text}");
        assert!(lines[23].starts_with("30 more"), "{text}");
    }
}
