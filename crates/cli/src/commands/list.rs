//! `weft list`: lists the connections of `weft connect`, with the columns of `nvme list`.

use crate::args::daemon::DaemonArgs;
use crate::output::held_table;
use crate::output::table::{Table, room};
use crate::process::exit::Failure;
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use weft_proto::printable::Printable;
use weft_server::attach::entries::{Entry, Runtime};
use weft_server::connections::orders::HeldConnection;

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
    /// The present connections, and those that a daemon holds.
    pub fn entries(&self, runtime: &Runtime) -> Result<(Vec<Entry>, Vec<HeldConnection>), Failure> {
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
    let room = room(args.wide);
    let rows = entries.iter().map(|entry| row(entry, room.is_some())).collect();
    let spare: &[&[&str]] =
        &[&["Generic", "FW Rev"], &["Model"], &["SN"], &["Namespace"], &["Format"]];
    let table = Table { head: &head, rows, names: head.len(), spare, is_ruled: true };
    table.print(&mut out, room)?;
    if !held.is_empty() {
        writeln!(out)?;
    }
    held_table::print(&mut out, &held, args.wide)?;
    // The daemon's come back by themselves.
    let is_own = |entry: &&Entry| held.iter().all(|it| it.name != entry.name);
    for entry in runtime.left()?.iter().filter(is_own) {
        let Entry { name, pid, device, url, protocol, .. } = entry;
        let (state, then) = match entry.is_continued() {
            true => ("waits for the next one", "continues it"),
            false => ("answers with errors", "makes it again"),
        };
        let own = runtime.chosen_directory(entry);
        let place = own.map(|own| format!(" --directory {}", own.display())).unwrap_or_default();
        tracing::warn!(
            "process {pid} of \"{name}\" was killed, and {device} {state}: `weft connect {url} --as {protocol} --name {name}{place}` {then}, `weft disconnect {name}` ends it"
        );
    }
    Ok(())
}

/// The node of the same disk that takes commands of its protocol, where the system has one.
fn generic(node: &str) -> String {
    let Some(name) = node.strip_prefix("/dev/") else { return String::new() };
    // NVMe has the same numbers in both names, SCSI a directory with one name.
    if let Some(numbers) = name.strip_prefix("nvme") {
        let path = format!("/dev/ng{numbers}");
        return if Path::new(&path).exists() { path } else { String::new() };
    }
    let named = std::fs::read_dir(format!("/sys/block/{name}/device/scsi_generic"));
    let found = named.ok().and_then(|mut entries| entries.next()?.ok());
    found.map(|entry| format!("/dev/{}", entry.file_name().display())).unwrap_or_default()
}

/// Bytes in use. A source that does not tell has them all in use, as one of NVMe says that does not
/// know better.
fn used(entry: &Entry) -> u64 {
    entry.used_bytes.unwrap_or(entry.bytes)
}

/// A size with a decimal unit, as nvme-cli writes it.
fn decimal(bytes: u64) -> String {
    let units = [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let bytes = bytes as f64;
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1.0, ""));
    format!("{:6.2} {name:>2}B", bytes / unit)
}

/// The size of a block with a binary unit, as nvme-cli writes it.
fn binary(bytes: u32) -> String {
    match bytes {
        0..1024 => format!("{bytes:3}   B"),
        _ => format!("{:3} KiB", (bytes + 512) / 1024),
    }
}

/// The namespace of an NVMe URL.
fn namespace(url: &str) -> Option<u32> {
    url.starts_with("nvme+").then(|| url.rsplit('/').next()?.parse().ok())?
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".into() } else { Printable(text).to_string() }
}

/// The fault of the source, if it has one.
fn trouble(entry: &Entry) -> String {
    match entry.state() {
        _ if entry.lost => ", lost".into(),
        "live" => String::new(),
        state => format!(", {state}"),
    }
}

/// The cells as nvme-cli fills them; with single spaces only where there is little room.
fn row(entry: &Entry, is_narrow: bool) -> Vec<String> {
    let squeezed = |cell: String| match is_narrow {
        true => cell.split_whitespace().collect::<Vec<_>>().join(" "),
        false => cell,
    };
    vec![
        or_dash(&entry.device),
        or_dash(&generic(&entry.device)),
        or_dash(&entry.serial),
        or_dash(&entry.model),
        namespace(&entry.url).map_or_else(|| "-".into(), |nsid| nsid.to_string()),
        squeezed(format!("{} / {}", decimal(used(entry)), decimal(entry.bytes))),
        squeezed(format!("{} +  0 B", binary(entry.block_bytes))),
        or_dash(&entry.firmware),
        entry.name.clone(),
        format!("{} at {}{}", entry.url, entry.served, trouble(entry)),
    ]
}

/// nvme-cli's field names, followed by weft's.
fn device(runtime: &Runtime, entry: &Entry) -> serde_json::Value {
    json!({
        "NameSpace": namespace(&entry.url),
        "DevicePath": entry.device,
        "GenericPath": generic(&entry.device),
        "Firmware": entry.firmware,
        "ModelNumber": entry.model,
        "SerialNumber": entry.serial,
        "UsedBytes": used(entry),
        "MaximumLBA": entry.bytes / u64::from(entry.block_bytes.max(1)),
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
        "State": entry.state(),
        "Pid": entry.pid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_nvme_cli_writes_them() {
        assert_eq!(decimal(16 << 20), " 16.78  MB");
        assert_eq!(decimal(1 << 30), "  1.07  GB");
        assert_eq!(decimal(999), "999.00   B");
        assert_eq!(decimal(u64::MAX), " 18.45  EB");
        assert_eq!([512, 4096, 65_536].map(binary), ["512   B", "  4 KiB", " 64 KiB"]);
    }
}
