//! `weft status`: the state of a running server, and what it has done since its start.

use crate::args::server::ServerArgs;
use crate::output::figures::{age, amount, bytes, duration, percentile, several};
use crate::output::table::{Table, named, room};
use crate::process::exit::{Failure, printed};
use clap::Args;
use std::io::Write;
use weft_endpoint::report::{FilterCounts, NamespaceReport, PathReport, Report, SubsystemReport};
use weft_endpoint::statistics::Counts;
use weft_server::management::client::ManagementClient;
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
    /// All columns, and names in full, however wide the terminal is
    #[arg(long, conflicts_with = "json")]
    wide: bool,
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
    let mut page = Page { out, room: room(args.wide), is_whole: true };
    printed(page.print(&report))
}

/// The state of a server.
pub fn ask(client: &mut ManagementClient) -> Result<Report, Failure> {
    Ok(client.ask("server.status", NoParams {})?)
}

/// What is printed, within these columns.
struct Page<W> {
    out: W,
    room: Option<usize>,
    is_whole: bool,
}

impl<W: Write> Page<W> {
    fn print(&mut self, report: &Report) -> std::io::Result<()> {
        let total = report.total().operations;
        writeln!(
            self.out,
            "weft {}, process {}, up {}, {}, {}",
            report.version,
            report.pid,
            age(report.uptime_ns),
            several(report.open_connections as u64, "connection"),
            several(total, "command")
        )?;
        let per_command =
            report.loops_cpu_ns().checked_div(total).map_or_else(|| "-".to_owned(), duration);
        let cpu = duration(report.cpu.total_ns());
        writeln!(self.out, "CPU {cpu}, {per_command} of the loops per command")?;
        for listener in &report.listeners {
            writeln!(self.out, "listening on {listener}")?;
        }
        if total > 0 {
            writeln!(
                self.out,
                "p50, p99, p99.9: from receiving a command to answering it, without the network"
            )?;
        }
        for subsystem in &report.subsystems {
            self.subsystem(subsystem)?;
        }
        self.hosts(report)?;
        self.connections(report)?;
        if !self.is_whole {
            writeln!(self.out, "\nwithout some columns, to fit the terminal; --wide shows all")?;
        }
        Ok(())
    }

    fn subsystem(&mut self, subsystem: &SubsystemReport) -> std::io::Result<()> {
        writeln!(self.out, "\nsubsystem {}", subsystem.nqn)?;
        let row = |of: &NamespaceReport| {
            let size = weft_block::units::format_size(of.blocks * u64::from(of.block_bytes));
            [format!("{} {}", of.nsid, of.device), format!("{size} {}", of.presence)]
        };
        let rows: Vec<_> = subsystem.namespaces.iter().map(|of| (row(of), &of.counts)).collect();
        self.counted(["Namespace", "Size"], &rows)?;
        for of in &subsystem.namespaces {
            if let Some(why) = &of.trouble {
                writeln!(self.out, "namespace {}: {why}", of.nsid)?;
            }
        }
        self.paths(subsystem)?;
        for waiting in subsystem.namespaces.iter().filter(|of| of.waits()) {
            let whys = waiting.paths.iter().filter_map(|path| path.why.as_deref());
            let whys = whys.collect::<std::collections::BTreeSet<_>>();
            let why: String = whys.into_iter().map(|why| format!("; {why}")).collect();
            writeln!(
                self.out,
                "commands of namespace {} wait, as no path can be used{why}",
                waiting.nsid
            )?;
        }
        self.filters(subsystem)
    }

    fn hosts(&mut self, report: &Report) -> std::io::Result<()> {
        let row = |name: &str, connections: usize| [name.to_owned(), connections.to_string()];
        let rows = report.hosts.iter().map(|of| (row(&of.name, of.connections), &of.counts));
        self.titled(["Host", "Connections"], &rows.collect::<Vec<_>>())
    }

    fn connections(&mut self, report: &Report) -> std::io::Result<()> {
        let rows = report.connections.iter().map(|of| {
            let queue = of.queue.map_or_else(String::new, |queue| format!(" queue {queue}"));
            let tls = of.tls.as_ref().map_or_else(String::new, |place| format!(" tls: {place}"));
            ([format!("{}{queue}{tls}", of.protocol), of.peer.clone()], &of.counts)
        });
        self.titled(["Connection", "Address"], &rows.collect::<Vec<_>>())
    }

    /// A table of the paths of remote devices.
    fn paths(&mut self, subsystem: &SubsystemReport) -> std::io::Result<()> {
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
                amount(path.operations),
                bytes(path.bytes as f64),
                path.errors.to_string(),
                path.retries.to_string(),
                path.reconnects.to_string(),
                duration(path.latency_ns),
                path.why.clone().unwrap_or_default(),
            ]
        };
        let spare: &[&[&str]] = &[&["Data"], &["Retries"], &["Reconnects"], &["Why"]];
        self.table(Table { spare, ..named(&head, each.map(row).collect()) })
    }

    /// A table of what `stats:` has counted.
    fn filters(&mut self, subsystem: &SubsystemReport) -> std::io::Result<()> {
        let head =
            ["Filter", "Kind", "Operations", "Data", "Errors", "Mean", "p50", "p99", "Longest"];
        let each = subsystem.namespaces.iter().flat_map(|namespace| &namespace.filters);
        let all = each.flat_map(|filter| {
            filter.kinds.iter().map(move |(kind, counts)| (&filter.url, kind, counts))
        });
        let row = |(url, kind, counts): (&String, &String, &FilterCounts)| {
            let mean = counts.time_ns.checked_div(counts.operations).unwrap_or(0);
            let percentiles = [counts.p50_ns, counts.p99_ns].map(percentile);
            let figures =
                [amount(counts.operations), bytes(counts.bytes as f64), counts.errors.to_string()];
            let row = [url.clone(), kind.clone()].into_iter().chain(figures);
            let row = row.chain([duration(mean)]).chain(percentiles);
            row.chain([duration(counts.max_ns)]).collect::<Vec<_>>()
        };
        let rows: Vec<_> = all.filter(|(_, _, counts)| counts.operations > 0).map(row).collect();
        let spare: &[&[&str]] = &[&["Data"], &["Mean"]];
        self.table(Table { spare, ..named(&head, rows) })
    }

    /// A table of counts with some space before it.
    fn titled(&mut self, names: [&str; 2], rows: &[([String; 2], &Counts)]) -> std::io::Result<()> {
        if !rows.is_empty() {
            writeln!(self.out)?;
        }
        self.counted(names, rows)
    }

    /// A table of counts, after two columns of names.
    fn counted(
        &mut self,
        names: [&str; 2],
        rows: &[([String; 2], &Counts)],
    ) -> std::io::Result<()> {
        let head = [
            names[0], names[1], "Reads", "Read", "Writes", "Written", "Other", "Errors", "Depth",
            "p50", "p99", "p99.9",
        ];
        let row = |(names, counts): &([String; 2], &Counts)| {
            let total = counts.total();
            let figures = [
                amount(counts.read.operations),
                bytes(counts.read.bytes as f64),
                amount(counts.write.operations),
                bytes(counts.write.bytes as f64),
                amount(counts.other.operations),
                total.errors.to_string(),
                counts.in_flight.to_string(),
            ];
            let times =
                [50.0, 99.0, 99.9].map(|percent| percentile(total.latency.percentile_ns(percent)));
            names.iter().cloned().chain(figures).chain(times).collect::<Vec<_>>()
        };
        let spare: &[&[&str]] = &[&["Other"], &["Depth"], &["p99.9"], &["Read", "Written"]];
        self.table(Table { spare, ..named(&head, rows.iter().map(row).collect()) })
    }

    /// A table, if there is something in it.
    fn table(&mut self, table: Table<'_>) -> std::io::Result<()> {
        if !table.rows.is_empty() {
            self.is_whole &= table.print(&mut self.out, self.room)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_endpoint::report::{ConnectionReport, HostReport};

    fn shown(report: &Report, room: Option<usize>) -> String {
        let mut page = Page { out: Vec::new(), room, is_whole: true };
        page.print(report).unwrap();
        String::from_utf8(page.out).unwrap()
    }

    fn report() -> Report {
        let mut counts = Counts::default();
        (counts.read.operations, counts.write.operations) = (123_456_789, 4_000);
        (counts.read.bytes, counts.write.bytes) = (505_679_007_744, 16_384_000);
        let name = "nqn.2014-08.org.nvmexpress:uuid:0c1c6a3a-5a53-4a1f-9d0f-5a6e2a5d7c11";
        let mut report = Report {
            open_connections: 1,
            uptime_ns: 4_000_000_000,
            listeners: vec!["nvme+tcp://127.0.0.1:4420".into()],
            ..Report::default()
        };
        let path = PathReport {
            url: format!("nvme+tcp://array.example/{name}"),
            state: "live".into(),
            access: "optimized".into(),
            why: Some("the target refused the connection".into()),
            ..PathReport::default()
        };
        report.subsystems.push(SubsystemReport {
            nqn: name.into(),
            namespaces: vec![NamespaceReport {
                device: "ram:1GiB".into(),
                counts: counts.clone(),
                paths: vec![path],
                ..NamespaceReport::default()
            }],
            counts: counts.clone(),
        });
        report.hosts.push(HostReport { name: name.into(), connections: 1, counts: counts.clone() });
        report.connections.push(ConnectionReport {
            protocol: "nvme+tcp".into(),
            peer: "[2001:db8::17:4420:aaaa]:51234".into(),
            queue: Some(1),
            counts,
            ..ConnectionReport::default()
        });
        report
    }

    #[test]
    fn namespaces_whose_commands_wait_are_named() {
        let mut report = report();
        let of = |report: &mut Report, access: &str, why: Option<&str>| {
            let namespace = &mut report.subsystems[0].namespaces[0];
            (namespace.nsid, namespace.presence) = (7, "here".into());
            let path = &mut namespace.paths[0];
            (path.open, path.access, path.why) =
                (true, access.into(), why.map(std::borrow::ToOwned::to_owned));
        };
        of(&mut report, "non-optimized", None);
        assert!(!shown(&report, None).contains(" wait"));
        of(&mut report, "inaccessible", Some("inaccessible, as it says"));
        let line =
            "\ncommands of namespace 7 wait, as no path can be used; inaccessible, as it says\n";
        assert!(shown(&report, Some(80)).contains(line), "{}", shown(&report, Some(80)));
    }

    #[test]
    fn it_fits_a_terminal_and_is_whole_where_that_is_asked_for() {
        let report = report();
        let text = shown(&report, Some(80));
        let tables = text.lines().filter(|line| !line.starts_with("subsystem"));
        let longest = tables.map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= 80, "{text}");
        for part in ["up 4 s, 1 connection, ", "5a6e2a5d7c11 ", "123 M", "--wide"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(text.contains("p50, p99"), "{text}");
        let text = shown(&Report::default(), None);
        assert!(!text.contains("p50, p99"), "there is no latency yet: {text}");
        let mut report = report;
        report.subsystems[0].namespaces[0].trouble = Some("the file was cut".into());
        let text = shown(&report, None);
        assert!(text.contains(&report.hosts[0].name) && text.contains("505.7 GB"), "{text}");
        assert!(text.contains("\nnamespace 0: the file was cut\n"), "{text}");
        assert!(text.contains("refused the connection") && !text.contains("--wide"), "{text}");
    }
}
