//! tgt, the SCSI target framework of Linux in user space: iSCSI.
//!
//! A thread of tgt does the I/O of a logical unit for the one that has the connections. More such
//! threads than cores make it slower on memory; a disk needs as many as operations in flight.

use super::device::PeerDevice;
use super::peer::{DeviceWish, PeerProgram, PeerTarget, StartMethod, TargetPlan, words};
use weft_bench::suite::Through;

pub const PEER: PeerTarget = PeerTarget {
    name: "tgt",
    through: Through::Iscsi,
    programs: &[
        PeerProgram { name: "tgtd", package: Some("tgt") },
        PeerProgram { name: "tgtadm", package: Some("tgt") },
    ],
    how: StartMethod::Program(plan),
};

/// Threads for a disk: tgt's own default.
const DISK_THREADS: usize = 16;

fn plan(wish: &DeviceWish<'_>) -> Result<TargetPlan, String> {
    let (path, direct, threads) = match wish.device {
        PeerDevice::Ram(_) => (wish.memory, false, wish.cpus.len().max(1)),
        PeerDevice::File { path, .. } if path.contains(',') => {
            return Err("tgt takes no path with a comma".to_owned());
        }
        PeerDevice::File { path, direct } => (path.as_str(), *direct, DISK_THREADS),
        PeerDevice::Null(_) => return Err("tgt has no null device of a given size".to_owned()),
    };
    let iqn = format!("iqn.2014-08.org.example:{}", wish.name);
    let (portal, threads) = (format!("portal={}", wish.address), threads.to_string());
    let admin = |rest: &[&str]| {
        let mut command = words(&["tgtadm", "--control-port", "1", "--lld", "iscsi", "--op"]);
        command.extend(words(rest));
        command
    };
    let mut unit =
        admin(&["new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "--backing-store"]);
    unit.push(path.to_owned());
    if direct {
        unit.extend(words(&["--bsoflags", "direct"]));
    }
    Ok(TargetPlan {
        command: words(&[
            "tgtd",
            "--foreground",
            "--control-port",
            "1",
            "--nr_iothreads",
            &threads,
            "--iscsi",
            &portal,
        ]),
        environment: vec![("TGT_IPC_SOCKET", format!("{}/control", wish.directory))],
        then: vec![
            admin(&["new", "--mode", "target", "--tid", "1", "--targetname", &iqn]),
            unit,
            admin(&["bind", "--mode", "target", "--tid", "1", "--initiator-address", "ALL"]),
        ],
        url: format!("iscsi://{}/{iqn}/1", wish.address),
        ..TargetPlan::default()
    })
}
