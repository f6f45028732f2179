//! open-iscsi, the iSCSI initiator of Linux. Its daemon logs in; weft does not start it.

use super::super::peer::{PeerProgram, words};
use super::initiator::{KernelInitiator, Remote, appeared, place};
use super::session::KernelGroup;
use super::steps::KernelSteps;
use crate::commands::internal::study_kernel::step::KernelStep;
use crate::limits::PEER_OUTAGE_S;
use std::net::IpAddr;
use std::path::Path;
use weft_bench::suite::Through;
use weft_endpoint::url::{ISCSI_PORT, IscsiUrl};
use weft_server::attach::run::find_iscsi_disk;

pub const INITIATOR: KernelInitiator = KernelInitiator {
    name: "open-iscsi",
    through: Through::Iscsi,
    programs: &[
        PeerProgram { name: "modprobe", package: Some("kmod") },
        PeerProgram { name: "rmmod", package: Some("kmod") },
        PeerProgram { name: "iscsiadm", package: Some("open-iscsi") },
    ],
    modules: &["iscsi_tcp", "sd_mod"],
    is_optional: false,
    refusal,
    attach,
};

/// The socket of the daemon, in the abstract namespace.
const DAEMON: &str = "@ISCSIADM_ABSTRACT_NAMESPACE";

/// The module that the kernel loads by itself for a disk with several paths, where it has it.
const LOADED_BY_SCSI: &str = "scsi_dh_alua";

/// The kernel's table of such sockets.
const SOCKETS: &str = "/proc/net/unix";

/// The kernel's lists of connections and sessions.
const CONNECTIONS: &str = "/sys/class/iscsi_connection";
const SESSIONS: &str = "/sys/class/iscsi_session";

fn refusal(address: IpAddr) -> Option<String> {
    if let Some(connection) = connected(Path::new(CONNECTIONS), address) {
        return Some(format!(
            "open-iscsi has {connection} to {address} already, and weft changes nothing of it: \
             log out there (`iscsiadm -m session` lists the sessions), or give another --address"
        ));
    }
    let sockets = std::fs::read_to_string(SOCKETS).unwrap_or_default();
    (!is_running(&sockets))
        .then(|| "its daemon does not run: start it (`systemctl start iscsid`)".into())
}

/// A connection to an address, by name.
fn connected(connections: &Path, address: IpAddr) -> Option<String> {
    let all = std::fs::read_dir(connections).into_iter().flatten().flatten();
    let leads_there = |place: &Path| {
        ["address", "persistent_address"].iter().any(|file| {
            let text = std::fs::read_to_string(place.join(file)).unwrap_or_default();
            text.trim().parse() == Ok(address)
        })
    };
    let mut found = all.filter(|entry| leads_there(&entry.path()));
    found.next().map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// Returns whether the daemon listens, by the kernel's table of sockets.
fn is_running(table: &str) -> bool {
    table.lines().any(|line| line.rsplit(' ').next() == Some(DAEMON))
}

fn attach(group: &KernelGroup, remote: &Remote<'_>) -> Result<String, String> {
    let url = IscsiUrl::parse(remote.url, ISCSI_PORT).map_err(|e| e.to_string())?;
    let iqn = url.target.ok_or_else(|| format!("{} names no target", remote.url))?.to_string();
    let (portal, lun) = (place(&url.address)?.to_string(), url.lun.unwrap_or(0));
    let steps = KernelSteps::default()
        .load("iscsi_tcp", &[])
        .load("sd_mod", &[])
        .load_if_there(&[LOADED_BY_SCSI]);
    group.perform(steps.into_inner())?;
    group.perform(login(&iqn, &portal, remote))?;
    appeared(&iqn, || find_iscsi_disk(Path::new(SESSIONS), &iqn, lun))
}

/// The commands that log in, each with the one that undoes it. A session that is gone fails as soon
/// as weft's does.
fn login(iqn: &str, portal: &str, remote: &Remote<'_>) -> Vec<KernelStep> {
    let node = |rest: &[&str]| {
        let mut command = words(&["iscsiadm", "-m", "node", "-T", iqn, "-p", portal]);
        command.extend(words(rest));
        command
    };
    let commands = u32::from(remote.queue_size) * u32::from(remote.queues.max(1));
    // Powers of two, as the kernel wants them.
    let commands = commands.next_power_of_two().clamp(32, 2048).to_string();
    let depth = u32::from(remote.queue_size).clamp(32, 1024).to_string();
    let pings = if remote.rests { "0" } else { "5" };
    let outage = PEER_OUTAGE_S.to_string();
    let set = |name: &str, value: &str| KernelStep::Run {
        command: node(&["-o", "update", "-n", name, "-v", value]),
        undo: Vec::new(),
        in_part: false,
    };
    vec![
        KernelStep::Run {
            command: node(&["-o", "new"]),
            undo: node(&["-o", "delete"]),
            in_part: true,
        },
        set("node.startup", "manual"),
        set("node.session.cmds_max", &commands),
        set("node.session.queue_depth", &depth),
        set("node.session.timeo.replacement_timeout", &outage),
        set("node.conn[0].timeo.noop_out_interval", pings),
        set("node.conn[0].timeo.noop_out_timeout", pings),
        KernelStep::Run { command: node(&["--login"]), undo: node(&["--logout"]), in_part: true },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::needs::scratch;
    use super::*;

    #[test]
    fn a_session_to_the_address_is_found() {
        let root = scratch("iscsi-connections");
        let place = root.join("connection3:0");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("persistent_address"), "127.0.0.1\n").unwrap();
        std::fs::write(place.join("address"), "(null)\n").unwrap();
        let of = |address: &str| connected(&root, address.parse().unwrap());
        assert_eq!(of("127.0.0.1").as_deref(), Some("connection3:0"));
        assert_eq!(of("10.0.0.1"), None);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_daemon_is_found_by_its_socket() {
        let table = "Num RefCount Protocol Flags Type St Inode Path\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 26 @ISCSIADM_ABSTRACT_NAMESPACE\n";
        assert!(is_running(table));
        assert!(!is_running(&table.replace("NAMESPACE", "NAMESPACE2")) && !is_running(""));
    }

    #[test]
    fn a_login_is_undone_before_its_record() {
        let remote = Remote { url: "", queues: 2, queue_size: 129, rests: false };
        let steps = login("iqn.x", "127.0.0.1:3260", &remote);
        let undo: Vec<String> = steps
            .iter()
            .filter_map(|step| match step {
                KernelStep::Run { undo, in_part: true, .. } => Some(undo[7..].join(" ")),
                _ => None,
            })
            .collect();
        assert_eq!(undo, ["-o delete", "--logout"]);
        let text: Vec<String> = steps.iter().map(ToString::to_string).collect();
        assert!(text[2].ends_with("-n node.session.cmds_max -v 512"), "{text:#?}");
    }
}
