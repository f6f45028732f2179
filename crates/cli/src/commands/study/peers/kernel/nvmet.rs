//! nvmet, the NVMe target of Linux, over TCP.

use super::super::device::PeerDevice;
use super::super::peer::{DeviceWish, KernelPlan, PeerTarget, StartMethod};
use super::needs::{self, KMOD};
use super::null_blk;
use super::steps::{CONFIGFS, KernelSteps};
use std::path::Path;
use weft_bench::suite::Through;

pub const PEER: PeerTarget = PeerTarget {
    name: "nvmet",
    through: Through::NvmeTcp,
    programs: KMOD,
    how: StartMethod::Kernel { modules: &["nvmet-tcp", null_blk::MODULE], serves, plan },
};

fn plan(wish: &DeviceWish<'_>) -> Result<KernelPlan, String> {
    let nqn = format!("nqn.2014-08.org.nvmexpress:uuid:{}", wish.name);
    let root = format!("{CONFIGFS}/nvmet");
    let subsystem = format!("{root}/subsystems/{nqn}");
    let namespace = format!("{subsystem}/namespaces/1");
    let (ip, port) = (wish.address.ip(), wish.address.port());
    let place = format!("{root}/ports/{port}");
    let (path, disk) = match (wish.device, null_blk::disk(wish)?) {
        (_, Some(disk)) => disk,
        (PeerDevice::File { path, .. }, None) => (path.clone(), KernelSteps::default()),
        (_, None) => return Err("nvmet has no such device".to_owned()),
    };
    needs::check_path(&path)?;
    let buffered = matches!(wish.device, PeerDevice::File { direct: false, .. });
    let family = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
    let (ip, port) = (ip.to_string(), port.to_string());
    let steps = disk
        .load("nvmet-tcp", &[])
        .make(&subsystem)
        .set(&subsystem, &[("attr_allow_any_host", "1")])
        .make(&namespace)
        .set(
            &namespace,
            &[
                ("device_path", &path),
                ("buffered_io", if buffered { "1" } else { "0" }),
                ("device_uuid", wish.name),
            ],
        )
        .switch_on(&format!("{namespace}/enable"))
        .make(&place)
        .set(
            &place,
            &[
                ("addr_trtype", "tcp"),
                ("addr_adrfam", family),
                ("addr_traddr", &ip),
                ("addr_trsvcid", &port),
            ],
        )
        .link(&format!("{place}/subsystems/{nqn}"), &subsystem);
    Ok(KernelPlan { steps: steps.into_inner(), url: format!("nvme+tcp://{}/{nqn}", wish.address) })
}

/// Names what it serves already.
fn serves(configfs: &Path) -> Option<String> {
    let root = configfs.join("nvmet");
    let first = ["subsystems", "ports"].iter().find_map(|kind| {
        let name = needs::directories(&root.join(kind)).into_iter().next()?;
        Some(format!("{kind}/{name}"))
    })?;
    Some(format!(
        "nvmet is in use, it has {first}, and weft changes nothing of it: \
         remove what it serves, or leave nvmet out of --peers"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_serves_already_is_named() {
        let root = needs::scratch("nvmet");
        assert_eq!(serves(&root), None);
        std::fs::create_dir_all(root.join("nvmet/ports")).unwrap();
        std::fs::create_dir_all(root.join("nvmet/subsystems")).unwrap();
        assert_eq!(serves(&root), None);
        std::fs::create_dir(root.join("nvmet/ports/7")).unwrap();
        assert!(serves(&root).unwrap().contains("it has ports/7,"));
        std::fs::create_dir(root.join("nvmet/subsystems/nqn.x")).unwrap();
        assert!(serves(&root).unwrap().contains("it has subsystems/nqn.x,"));
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_port_is_linked_last() {
        let device = PeerDevice::File { path: "/d/x".into(), direct: false };
        let plan = plan(&needs::wish(&device)).unwrap();
        let nqn = "nqn.2014-08.org.nvmexpress:uuid:name";
        assert_eq!(plan.url, format!("nvme+tcp://127.0.0.1:4421/{nqn}"));
        let lines: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
        let root = "/sys/kernel/config/nvmet";
        let subsystem = format!("{root}/subsystems/{nqn}");
        assert_eq!(
            lines,
            [
                "modprobe nvmet-tcp".to_owned(),
                format!("mkdir {subsystem}"),
                format!("echo 1 >{subsystem}/attr_allow_any_host"),
                format!("mkdir {subsystem}/namespaces/1"),
                format!("echo /d/x >{subsystem}/namespaces/1/device_path"),
                format!("echo 1 >{subsystem}/namespaces/1/buffered_io"),
                format!("echo name >{subsystem}/namespaces/1/device_uuid"),
                format!("echo 1 >{subsystem}/namespaces/1/enable"),
                format!("mkdir {root}/ports/4421"),
                format!("echo tcp >{root}/ports/4421/addr_trtype"),
                format!("echo ipv4 >{root}/ports/4421/addr_adrfam"),
                format!("echo 127.0.0.1 >{root}/ports/4421/addr_traddr"),
                format!("echo 4421 >{root}/ports/4421/addr_trsvcid"),
                format!("ln -s {subsystem} {root}/ports/4421/subsystems/{nqn}"),
            ]
        );
    }

    #[test]
    fn memory_is_a_disk_of_whole_mebibytes() {
        let plan = |device: PeerDevice| plan(&needs::wish(&device));
        let lines = |device| -> Vec<String> {
            plan(device).unwrap().steps.iter().map(ToString::to_string).collect()
        };
        let ram = lines(PeerDevice::Ram(3 << 20));
        let disk = "/sys/kernel/config/nullb/weft-4421";
        assert_eq!(
            ram[..3],
            [
                "modprobe null_blk nr_devices=0".to_owned(),
                format!("mkdir {disk}"),
                format!("echo 3 >{disk}/size"),
            ]
        );
        assert!(ram.contains(&format!("echo 1 >{disk}/memory_backed")));
        assert!(ram.iter().any(|line| line.starts_with("echo /dev/weft-4421 >")));
        assert!(
            lines(PeerDevice::Null(1 << 20)).contains(&format!("echo 0 >{disk}/memory_backed"))
        );
        assert!(plan(PeerDevice::Null((1 << 20) + 512)).err().unwrap().contains("whole MiB"));
        let odd = PeerDevice::File { path: "/d/x\ny".into(), direct: true };
        assert!(plan(odd).err().unwrap().contains("line"));
    }
}
