//! `weft disconnect`: ends connections of `weft connect`.

use super::connect::detach;
use crate::exit::Failure;
use clap::Args;
use weft_block::ErrorKind;
use weft_endpoint::url::{NvmeUrl, means};
use weft_server::attach::entries::{Entry, Runtime};
use weft_server::attach::server::end;

/// Options of `weft disconnect`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft disconnect /dev/sdb
  weft disconnect nvme+tcp://192.0.2.10:4420/nqn.2014-08.org.example:disk/1
  weft disconnect -n nqn.2014-08.org.example:disk
  weft disconnect --all")]
pub struct DisconnectArgs {
    /// Name, URL or device of a connection, as printed by `weft list`
    #[arg(required_unless_present_any = ["all", "nqn", "device"])]
    what: Option<String>,
    /// Subsystem NQN: ends all connections to this subsystem
    #[arg(short = 'n', long, conflicts_with_all = ["what", "all"])]
    nqn: Option<String>,
    /// Device, as in /dev/sdb or sdb
    #[arg(short = 'd', long, conflicts_with_all = ["what", "all", "nqn"])]
    device: Option<String>,
    /// End all connections
    #[arg(long, conflicts_with = "what")]
    all: bool,
    /// Disconnect even if the device is mounted, or the system fails to detach it
    #[arg(long)]
    force: bool,
}

/// Detaches devices and ends their servers.
pub fn run(args: &DisconnectArgs) -> Result<(), Failure> {
    let runtime = Runtime::open()?;
    let entries = runtime.list()?;
    let chosen = match &args.what {
        Some(what) => vec![named(what, &entries)?],
        None => entries.iter().filter(|entry| args.means(entry)).collect(),
    };
    if let (true, Some(what)) = (chosen.is_empty(), args.nqn.as_ref().or(args.device.as_ref())) {
        return Err(unknown(what));
    }
    chosen.into_iter().try_for_each(|entry| disconnect(&runtime, entry, args.force))
}

impl DisconnectArgs {
    fn means(&self, entry: &Entry) -> bool {
        let has_nqn = |nqn: &String| {
            let url = NvmeUrl::parse(&entry.url);
            url.is_ok_and(|url| url.subsystem.is_some_and(|subsystem| subsystem.as_str() == nqn))
        };
        let is_device = |device: &String| {
            entry.device.trim_start_matches("/dev/") == device.trim_start_matches("/dev/")
        };
        self.nqn.as_ref().is_none_or(has_nqn) && self.device.as_ref().is_none_or(is_device)
    }
}

fn unknown(what: &str) -> Failure {
    let text = format!("nothing is connected as \"{what}\"; `weft list` lists the connections");
    Failure::of(ErrorKind::NotFound, text)
}

/// The one connection with this name, device or URL. A URL need not be spelled as `weft list` has
/// it.
fn named<'a>(what: &str, entries: &'a [Entry]) -> Result<&'a Entry, Failure> {
    let is_named = |entry: &&Entry| entry.name == what || !what.is_empty() && entry.device == what;
    if let Some(entry) = entries.iter().find(is_named) {
        return Ok(entry);
    }
    let same: Vec<&Entry> = entries.iter().filter(|entry| entry.url == what).collect();
    let meant = || entries.iter().filter(|entry| means(what, &entry.url)).collect();
    let found: Vec<&Entry> = if same.is_empty() { meant() } else { same };
    match found[..] {
        [] => Err(unknown(what)),
        [entry] => Ok(entry),
        _ => {
            let names: Vec<&str> = found.iter().map(|entry| entry.name.as_str()).collect();
            let names = names.join(", ");
            let text = format!("\"{what}\" means several connections ({names}); name one of them");
            Err(Failure::of(ErrorKind::Usage, text))
        }
    }
}

fn disconnect(runtime: &Runtime, entry: &Entry, force: bool) -> Result<(), Failure> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    if let Some(place) = mounted_at(&mounts, &entry.device).filter(|_| !force) {
        let text = format!(
            "{} is mounted at {place}; unmount it first, or use --force and lose unwritten data",
            entry.device
        );
        return Err(Failure::of(ErrorKind::InUse, text));
    }
    match detach(runtime, entry) {
        Err(e) if force => tracing::warn!("{e}"),
        other => other?,
    }
    Ok(end(runtime, entry)?)
}

/// Where a disk or one of its partitions is mounted, from `/proc/mounts`.
fn mounted_at<'a>(mounts: &'a str, device: &str) -> Option<&'a str> {
    let is_part = |of: &str| {
        of.strip_prefix(device)
            .is_some_and(|rest| rest.trim_start_matches('p').chars().all(|c| c.is_ascii_digit()))
    };
    let mut lines = mounts.lines().filter(|_| !device.is_empty()).map(|line| line.split(' '));
    lines.find_map(|mut words| words.next().filter(|of| is_part(of)).and(words.next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounted_disks_are_seen() {
        let mounts = "proc /proc proc rw 0 0\n/dev/sdb /mnt ext4 rw 0 0\n/dev/sdc1 /srv ext4 rw 0 0\n/dev/nbd0p2 /opt xfs rw 0 0\n";
        let at = |device| mounted_at(mounts, device);
        assert_eq!(
            [at("/dev/sdb"), at("/dev/sdc"), at("/dev/nbd0")],
            [Some("/mnt"), Some("/srv"), Some("/opt")]
        );
        assert_eq!([at("/dev/sd"), at("/dev/sdd"), at("")], [None; 3]);
    }
}
