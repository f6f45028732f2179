//! `weft list`: lists the connections of `weft connect`, with the columns of `nvme list`.

use crate::daemon_args::DaemonArgs;
use crate::exit::Failure;
use crate::held_table;
use crate::table::{Table, room};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io::Write;
use weft_block::units;
use weft_proto::printable::Printable;
use weft_server::attach::entries::{Entry, Runtime};
use weft_server::connections::orders::Shown;

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Listing {
    /// Readable text.
    #[default]
    Normal,
    /// JSON with nvme-cli's field names.
    Json,
}

/// Options of `weft list` and `weft list-subsys`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft list
  weft list -o json
  weft list-subsys")]
pub struct ListArgs {
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output_format: Listing,
    /// All columns, and names in full, however wide the terminal is
    #[arg(long)]
    wide: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

impl ListArgs {
    /// What is connected, and what a daemon holds.
    pub fn entries(&self, runtime: &Runtime) -> Result<(Vec<Entry>, Vec<Shown>), Failure> {
        let held = DaemonArgs::held(&mut self.daemon.client(runtime)?)?;
        let mut entries = runtime.list()?;
        let of_daemon = held.iter().filter_map(|it| it.entry.clone());
        for entry in of_daemon {
            if entries.iter().all(|it| it.name != entry.name) {
                entries.push(entry);
            }
        }
        Ok((entries, held))
    }

    /// The requested format.
    pub fn output(&self) -> Listing {
        self.output_format
    }
}

/// Prints the connections of the current user.
pub fn run(args: &ListArgs) -> Result<(), Failure> {
    let runtime = Runtime::open()?;
    let (entries, held) = args.entries(&runtime)?;
    let mut out = std::io::stdout().lock();
    if args.output_format == Listing::Json {
        let devices: Vec<_> = entries.iter().map(|entry| device(&runtime, entry)).collect();
        let held: Vec<_> = held.iter().map(held_table::json).collect();
        return Ok(writeln!(out, "{:#}", json!({ "Devices": devices, "Connections": held }))?);
    }
    let head = [
        "Node",
        "Generic",
        "SN",
        "Model",
        "Namespace",
        "Usage",
        "Format",
        "FW Rev",
        "Name",
        "Attached",
    ];
    let rows = entries.iter().map(row).collect();
    let spare: &[&[&str]] = &[&["Generic", "FW Rev"], &["Model"], &["SN"], &["Namespace"]];
    let table = Table { head: &head, rows, names: head.len(), spare, is_ruled: true };
    table.print(&mut out, room(args.wide))?;
    if !held.is_empty() {
        writeln!(out)?;
    }
    held_table::print(&mut out, &held, args.wide)?;
    // The daemon's come back by themselves.
    let is_own = |entry: &&Entry| held.iter().all(|it| it.name != entry.name);
    for Entry { name, pid, device, url, .. } in runtime.left()?.iter().filter(is_own) {
        tracing::warn!(
            "process {pid} of \"{name}\" was killed, and {device} waits for the next one: `weft connect {url} --as iscsi --name {name}` continues it, `weft disconnect {name}` ends it"
        );
    }
    Ok(())
}

/// The namespace of an NVMe URL.
fn namespace(url: &str) -> Option<u32> {
    url.starts_with("nvme+").then(|| url.rsplit('/').next()?.parse().ok())?
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".into() } else { Printable(text).to_string() }
}

fn row(entry: &Entry) -> Vec<String> {
    vec![
        or_dash(&entry.device),
        "-".into(),
        or_dash(&entry.serial),
        or_dash(&entry.model),
        namespace(&entry.url).map_or_else(|| "-".into(), |nsid| format!("0x{nsid:x}")),
        units::format_size(entry.bytes),
        format!("{} B + 0 B", entry.block_bytes),
        "-".into(),
        entry.name.clone(),
        format!("{} at {}{}", entry.url, entry.served, if entry.lost { ", lost" } else { "" }),
    ]
}

/// nvme-cli's field names, followed by weft's.
fn device(runtime: &Runtime, entry: &Entry) -> serde_json::Value {
    json!({
        "DevicePath": entry.device,
        "SerialNumber": entry.serial,
        "ModelNumber": entry.model,
        "NameSpace": namespace(&entry.url),
        "PhysicalSize": entry.bytes,
        "SectorSize": entry.block_bytes,
        "Name": entry.name,
        "Url": entry.url,
        "Protocol": entry.protocol,
        "Served": entry.served,
        "ChapUser": entry.chap_user,
        "ChapSecretFile": if entry.chap_user.is_empty() { String::new() } else { runtime.secret(&entry.name).display().to_string() },
        "Attached": entry.attached,
        "Lost": entry.lost,
        "Pid": entry.pid,
    })
}
