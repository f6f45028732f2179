//! `weft disconnect`: the end of what `weft connect` began.

use super::connect::detach;
use crate::attach::entries::{Entry, Runtime};
use crate::attach::server::end;
use crate::exit::Failure;
use clap::Args;
use weft_block::ErrorKind;

/// Options of `weft disconnect`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft disconnect /dev/sdb
  weft disconnect nvme+tcp://192.0.2.10:4420/nqn.2014-08.org.example:disk/1
  weft disconnect --all")]
pub struct DisconnectArgs {
    /// What is to end: a name, a URL or a device, as `weft list` shows them
    #[arg(required_unless_present = "all")]
    what: Option<String>,
    /// Everything
    #[arg(long, conflicts_with = "what")]
    all: bool,
    /// Even if it is mounted, or the system does not detach it
    #[arg(long)]
    force: bool,
}

/// Detaches devices and ends their servers.
pub fn run(args: &DisconnectArgs) -> Result<(), Failure> {
    let runtime = Runtime::open()?;
    let entries = runtime.list()?;
    let chosen: Vec<&Entry> = entries.iter().filter(|entry| args.means(entry)).collect();
    if let (true, Some(what)) = (chosen.is_empty(), &args.what) {
        let text = format!("nothing is connected as \"{what}\"; `weft list` shows what is");
        return Err(Failure::of(ErrorKind::NotFound, text));
    }
    chosen.into_iter().try_for_each(|entry| disconnect(&runtime, entry, args.force))
}

impl DisconnectArgs {
    fn means(&self, entry: &Entry) -> bool {
        self.what.as_ref().is_none_or(|what| *what == entry.name || *what == entry.url || *what == entry.device)
    }
}

fn disconnect(runtime: &Runtime, entry: &Entry, force: bool) -> Result<(), Failure> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    if let Some(place) = mounted_at(&mounts, &entry.device).filter(|_| !force) {
        let text =
            format!("{} is mounted at {place}; unmount it first, or give --force and lose what is not written yet", entry.device);
        return Err(Failure::of(ErrorKind::InUse, text));
    }
    match detach(runtime, entry) {
        Err(e) if force => tracing::warn!("{e}"),
        other => other?,
    }
    end(runtime, entry)
}

/// Where a disk or a partition of it is mounted, by `/proc/mounts`.
fn mounted_at<'a>(mounts: &'a str, device: &str) -> Option<&'a str> {
    let is_part =
        |of: &str| of.strip_prefix(device).is_some_and(|rest| rest.trim_start_matches('p').chars().all(|c| c.is_ascii_digit()));
    let mut lines = mounts.lines().filter(|_| !device.is_empty()).map(|line| line.split(' '));
    lines.find_map(|mut words| words.next().filter(|of| is_part(of)).and(words.next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounted_disks_are_seen() {
        let mounts =
            "proc /proc proc rw 0 0\n/dev/sdb /mnt ext4 rw 0 0\n/dev/sdc1 /srv ext4 rw 0 0\n/dev/nbd0p2 /opt xfs rw 0 0\n";
        let at = |device| mounted_at(mounts, device);
        assert_eq!([at("/dev/sdb"), at("/dev/sdc"), at("/dev/nbd0")], [Some("/mnt"), Some("/srv"), Some("/opt")]);
        assert_eq!([at("/dev/sd"), at("/dev/sdd"), at("")], [None; 3]);
    }
}
