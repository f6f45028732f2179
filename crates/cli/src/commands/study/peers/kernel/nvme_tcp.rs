//! nvme-tcp, the NVMe/TCP host of Linux.

use super::initiator::{KernelInitiator, Remote, appeared, place};
use super::needs::{KMOD, directories};
use super::session::KernelGroup;
use super::steps::KernelSteps;
use crate::commands::internal::study_kernel::step::KernelStep;
use crate::limits::{PEER_KEEP_ALIVE_S, PEER_OUTAGE_S};
use std::path::Path;
use weft_bench::suite::Through;
use weft_endpoint::url::NvmeUrl;

pub const INITIATOR: KernelInitiator = KernelInitiator {
    name: "nvme-tcp",
    through: Through::NvmeTcp,
    programs: KMOD,
    modules: &["nvme-tcp"],
    is_optional: false,
    refusal: |_| None,
    attach,
};

/// Most entries of a queue, and the least.
const ENTRIES: [u16; 2] = [16, 1024];

/// Keep alive timeout, in seconds, of a target that always answers.
const KEEP_ALIVE_S: u32 = 5;

/// The kernel's list of subsystems, each with its disks.
const SUBSYSTEMS: &str = "/sys/class/nvme-subsystem";

fn attach(group: &KernelGroup, remote: &Remote<'_>) -> Result<String, String> {
    let url = NvmeUrl::parse(remote.url).map_err(|e| e.to_string())?;
    let nqn = url.subsystem.ok_or_else(|| format!("{} names no subsystem", remote.url))?;
    let nqn = nqn.to_string();
    let address = place(&url.address)?;
    let options = options(&nqn, address, &uuid::Uuid::new_v4().to_string(), remote);
    let mut steps = KernelSteps::default().load("nvme-tcp", &[]).into_inner();
    steps.push(KernelStep::Connect { nqn: nqn.clone(), options });
    group.perform(steps)?;
    appeared(&nqn, || find(Path::new(SUBSYSTEMS), &nqn))
}

/// The text by which the kernel connects. It gives up a target that is gone as soon as weft does.
fn options(nqn: &str, at: std::net::SocketAddr, host: &str, remote: &Remote<'_>) -> String {
    let keep_alive = if remote.rests { PEER_KEEP_ALIVE_S } else { KEEP_ALIVE_S };
    let entries = remote.queue_size.clamp(ENTRIES[0], ENTRIES[1]);
    format!(
        "transport=tcp,traddr={},trsvcid={},nqn={nqn},\
         hostnqn=nqn.2014-08.org.nvmexpress:uuid:{host},hostid={host},\
         nr_io_queues={},queue_size={entries},keep_alive_tmo={keep_alive},\
         reconnect_delay=1,ctrl_loss_tmo={PEER_OUTAGE_S},fast_io_fail_tmo={PEER_OUTAGE_S}",
        at.ip(),
        at.port(),
        remote.queues.max(1),
    )
}

/// The disk of a subsystem with one namespace: `nvme-subsysN/nvmeXnY`, while its paths have names
/// like `nvme0c0n1`; `nvme-subsysN/nvmeX/nvmeXnY` in a kernel without multipath.
fn find(subsystems: &Path, nqn: &str) -> Option<String> {
    let all = std::fs::read_dir(subsystems).ok()?.flatten().map(|entry| entry.path());
    let is_it = |place: &Path| {
        std::fs::read_to_string(place.join("subsysnqn")).is_ok_and(|name| name.trim() == nqn)
    };
    let place = all.into_iter().find(|place| is_it(place))?;
    let entries = std::fs::read_dir(&place).ok()?.flatten().map(|entry| entry.path());
    let places = std::iter::once(place.clone()).chain(entries);
    places.flat_map(|place| directories(&place)).find(|name| is_disk(name))
}

fn is_disk(name: &str) -> bool {
    let parts = name.strip_prefix("nvme").and_then(|rest| rest.split_once('n'));
    let is_number =
        |text: &str| !text.is_empty() && text.chars().all(|letter| letter.is_ascii_digit());
    parts.is_some_and(|(controller, namespace)| is_number(controller) && is_number(namespace))
}

#[cfg(test)]
mod tests {
    use super::super::needs::scratch;
    use super::*;

    #[test]
    fn the_disk_of_a_subsystem_is_found() {
        let root = scratch("nvme-subsystems");
        for (n, nqn) in [(0, "nqn.other"), (1, "nqn.ours")] {
            let place = root.join(format!("nvme-subsys{n}"));
            for name in [format!("nvme{n}c{n}n1"), format!("nvme{n}n1"), "power".into()] {
                std::fs::create_dir_all(place.join(name)).unwrap();
            }
            std::fs::write(place.join("subsysnqn"), format!("{nqn}\n")).unwrap();
        }
        assert_eq!(find(&root, "nqn.ours").as_deref(), Some("nvme1n1"));
        assert_eq!(find(&root, "nqn.none"), None);
        let below = root.join("nvme-subsys1");
        std::fs::create_dir(below.join("nvme1")).unwrap();
        std::fs::rename(below.join("nvme1n1"), below.join("nvme1/nvme1n1")).unwrap();
        assert_eq!(find(&root, "nqn.ours").as_deref(), Some("nvme1n1"));
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_target_that_rests_is_given_time() {
        let at = "[::1]:4420".parse().unwrap();
        let text = |rests| {
            let remote = Remote { url: "", queues: 2, queue_size: 2000, rests };
            options("nqn.x", at, "h", &remote)
        };
        let said = text(false);
        assert!(said.starts_with("transport=tcp,traddr=::1,trsvcid=4420,nqn=nqn.x,hostnqn="));
        assert!(said.contains(",nr_io_queues=2,queue_size=1024,keep_alive_tmo=5,"), "{said}");
        assert!(text(true).contains(",keep_alive_tmo=3600,"));
    }
}
