//! `weft disconnect`: ends connections of `weft connect`.

use super::connect::detach;
use crate::args::daemon::DaemonArgs;
use crate::process::exit::{Failure, printed};
use clap::Args;
use std::io::Write;
use std::path::Path;
use weft_block::ErrorKind;
use weft_block::file::user_of;
use weft_endpoint::url::{NvmeUrl, means};
use weft_server::attach::entries::{Entry, Runtime};
use weft_server::attach::server::end;
use weft_server::connections::orders::{DISCONNECT, Disconnect, HeldConnection, no_daemon};
use weft_server::management::client::ManagementClient;

/// Options of `weft disconnect`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft disconnect /dev/sdb
  weft disconnect nvme+tcp://192.0.2.10:4420/nqn.2014-08.org.example:disk/1
  weft disconnect -n nqn.2014-08.org.example:disk
  weft disconnect --all
  weft disconnect /dev/sdb --forget
      do not connect it again when weft daemon starts")]
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
    /// Do not connect again when the daemon starts: ends --persist of weft connect
    #[arg(long)]
    forget: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// A connection, or one that a daemon would make.
struct Known {
    name: String,
    url: String,
    device: String,
    /// What is connected; not if it is the daemon's matter.
    own: Option<Entry>,
    recorded: bool,
}

/// Detaches devices and ends their servers.
pub fn run(args: &DisconnectArgs) -> Result<(), Failure> {
    let runtime = Runtime::open()?;
    let mut daemon = args.daemon.client(&runtime)?;
    if args.forget && daemon.is_none() {
        return Err(no_daemon("--forget").into());
    }
    let entries = [runtime.list()?, runtime.left()?].concat();
    let known = all(entries, DaemonArgs::held(&mut daemon)?);
    let chosen = match &args.what {
        Some(what) => vec![named(what, &known)?],
        None => known.iter().filter(|known| args.means(known)).collect(),
    };
    if let (true, Some(what)) = (chosen.is_empty(), args.nqn.as_ref().or(args.device.as_ref())) {
        return Err(unknown(what));
    }
    let end = |known: &Known| match (&known.own, &mut daemon) {
        (Some(entry), _) => disconnect(&runtime, entry, args.force),
        (None, Some(daemon)) => ask(daemon, known, args),
        (None, None) => Ok(()),
    };
    // One that stays, such as a mounted disk, keeps no other from ending.
    let ended: Vec<_> = chosen.into_iter().map(end).collect();
    ended.into_iter().collect()
}

/// All connections, each once: those that a daemon holds are its matter.
fn all(entries: Vec<Entry>, held: Vec<HeldConnection>) -> Vec<Known> {
    let is_own = |entry: &Entry| held.iter().all(|it| it.name != entry.name);
    let own = entries.into_iter().filter(is_own).map(|entry| Known {
        name: entry.name.clone(),
        url: entry.url.clone(),
        device: entry.device.clone(),
        own: Some(entry),
        recorded: false,
    });
    let own: Vec<Known> = own.collect();
    let held = held.into_iter().map(|it| Known {
        name: it.name,
        device: it.entry.as_ref().map(|entry| entry.device.clone()).unwrap_or_default(),
        url: it.entry.map_or(it.url, |entry| entry.url),
        own: None,
        recorded: it.recorded,
    });
    own.into_iter().chain(held).collect()
}

/// Has the daemon end a connection that it holds.
fn ask(daemon: &mut ManagementClient, known: &Known, args: &DisconnectArgs) -> Result<(), Failure> {
    let name = known.name.clone();
    let order = Disconnect { name, forget: args.forget, force: args.force };
    daemon.ask::<()>(DISCONNECT, order)?;
    if known.recorded && !args.forget {
        let name = &known.name;
        printed(writeln!(
            std::io::stdout().lock(),
            "\"{name}\" comes back when the daemon starts; `weft disconnect {name} --forget` ends that"
        ))?;
    }
    Ok(())
}

impl DisconnectArgs {
    fn means(&self, known: &Known) -> bool {
        let has_nqn = |nqn: &String| {
            let url = NvmeUrl::parse(&known.url);
            url.is_ok_and(|url| url.subsystem.is_some_and(|subsystem| subsystem.as_str() == nqn))
        };
        let is_device = |device: &String| {
            known.device.trim_start_matches("/dev/") == device.trim_start_matches("/dev/")
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
fn named<'a>(what: &str, all: &'a [Known]) -> Result<&'a Known, Failure> {
    let is_named = |known: &&Known| known.name == what || !what.is_empty() && known.device == what;
    if let Some(known) = all.iter().find(is_named) {
        return Ok(known);
    }
    let same: Vec<&Known> = all.iter().filter(|known| known.url == what).collect();
    let meant = || all.iter().filter(|known| means(what, &known.url)).collect();
    let found: Vec<&Known> = if same.is_empty() { meant() } else { same };
    match found[..] {
        [] => Err(unknown(what)),
        [known] => Ok(known),
        _ => {
            let names: Vec<&str> = found.iter().map(|known| known.name.as_str()).collect();
            let names = names.join(", ");
            let text = format!("\"{what}\" means several connections ({names}); name one of them");
            Err(Failure::of(ErrorKind::Usage, text))
        }
    }
}

fn disconnect(runtime: &Runtime, entry: &Entry, force: bool) -> Result<(), Failure> {
    if let Some(use_of) = use_of(&entry.device).filter(|_| !force) {
        let text = format!("{use_of}; end that first, or use --force and lose unwritten data");
        return Err(Failure::of(ErrorKind::InUse, text));
    }
    match detach(runtime, entry) {
        Err(e) if force => tracing::warn!("{e}"),
        Err(e) if e.kind() == ErrorKind::InUse => {
            let file = &entry.served;
            let text =
                format!("{file} is in use; end that first, or use --force and lose unwritten data");
            return Err(Failure::of(ErrorKind::InUse, text));
        }
        other => other?,
    }
    if !runtime.is_held(&entry.name) {
        return Ok(runtime.forget_left(&entry.name)?);
    }
    Ok(end(runtime, entry)?)
}

/// What a disk or one of its partitions is used for: a mount, swap, or a device above it.
fn use_of(device: &str) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    match mounted_at(&mounts, device) {
        Some(place) => Some(format!("{device} is mounted at {place}")),
        None => user_of(Path::new(device)).map(|user| format!("{device}: {user}")),
    }
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
