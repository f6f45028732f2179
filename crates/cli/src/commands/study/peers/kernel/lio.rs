//! LIO, the iSCSI target of Linux.

use super::super::device::PeerDevice;
use super::super::peer::{DeviceWish, KernelPlan, PeerTarget, StartMethod};
use super::needs::{self, KMOD};
use super::null_blk;
use super::steps::{CONFIGFS, KernelSteps};
use std::path::Path;
use weft_bench::suite::Through;

pub const PEER: PeerTarget = PeerTarget {
    name: "lio",
    through: Through::Iscsi,
    programs: KMOD,
    how: StartMethod::Kernel {
        modules: &["iscsi_target_mod", "target_core_iblock", "target_core_file", null_blk::MODULE],
        serves,
        plan,
    },
};

/// Further modules that LIO loads by itself with its first device, where the kernel has them.
/// Loaded by the study, they are unloaded with the others.
const LOADED_BY_LIO: [&str; 2] = ["target_core_pscsi", "target_core_user"];

/// Directories of a fabric that are not targets.
const NOT_TARGETS: [&str; 1] = ["discovery_auth"];

fn plan(wish: &DeviceWish<'_>) -> Result<KernelPlan, String> {
    let iqn = format!("iqn.2014-08.org.example:{}", wish.name);
    let root = format!("{CONFIGFS}/target");
    let port = wish.address.port();
    let (kind, control, disk) = match (wish.device, null_blk::disk(wish)?) {
        (_, Some((path, disk))) => ("iblock", format!("udev_path={path}"), disk),
        (PeerDevice::File { path, direct }, None) => {
            ("fileio", file(path, *direct)?, KernelSteps::default())
        }
        (_, None) => return Err("LIO has no such device".to_owned()),
    };
    let adapter = format!("{root}/core/{kind}_{port}");
    let disk_at = format!("{adapter}/disk");
    let target = format!("{root}/iscsi/{iqn}");
    let group = format!("{target}/tpgt_1");
    let unit = format!("{group}/lun/lun_0");
    let steps = disk
        .load("iscsi_target_mod", &[])
        .load("target_core_iblock", &[])
        .load("target_core_file", &[])
        .load_if_there(&LOADED_BY_LIO)
        .make(&adapter)
        .make(&disk_at)
        .set(&disk_at, &[("control", &control), ("enable", "1")])
        .set(&disk_at, &[("wwn/vpd_unit_serial", wish.name)])
        .share(&format!("{root}/iscsi"))
        .make(&target)
        .make(&group)
        .make(&unit)
        .link(&format!("{unit}/disk"), &disk_at)
        // Every initiator may write; a session has as many commands as initiators use.
        .set(
            &group,
            &[
                ("attrib/authentication", "0"),
                ("attrib/generate_node_acls", "1"),
                ("attrib/demo_mode_write_protect", "0"),
                ("attrib/default_cmdsn_depth", "128"),
                // Writes of a session need not wait for R2T.
                ("param/InitialR2T", "No"),
            ],
        )
        .make(&format!("{group}/np/{}", wish.address))
        .switch_on(&format!("{group}/enable"));
    Ok(KernelPlan { steps: steps.into_inner(), url: format!("iscsi://{}/{iqn}/0", wish.address) })
}

/// The parameters of a file or disk.
fn file(path: &str, direct: bool) -> Result<String, String> {
    if path.contains(',') {
        return Err("LIO takes no path with a comma".to_owned());
    }
    needs::check_path(path)?;
    let bytes = std::fs::metadata(path).map_err(|e| format!("{path}: {e}"))?.len();
    // The kernel asks a disk for its size.
    let size = if bytes == 0 { String::new() } else { format!(",fd_dev_size={bytes}") };
    let cache = if direct { "fd_async_io=1" } else { "fd_buffered_io=1" };
    Ok(format!("fd_dev_name={path}{size},{cache}"))
}

/// Names what it serves already, over any fabric.
fn serves(configfs: &Path) -> Option<String> {
    let root = configfs.join("target");
    let fabrics = needs::directories(&root).into_iter().filter(|name| name != "core");
    let target = fabrics.into_iter().find_map(|fabric| {
        let mut targets = needs::directories(&root.join(&fabric)).into_iter();
        targets.find(|name| !NOT_TARGETS.contains(&name.as_str()))
    })?;
    Some(format!(
        "LIO is in use, it has the target {target}, and weft changes nothing of it: \
         remove what it serves, or leave lio out of --peers"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_serves_already_is_named() {
        let root = needs::scratch("lio");
        assert_eq!(serves(&root), None);
        std::fs::create_dir_all(root.join("target/core/iblock_0/disk")).unwrap();
        std::fs::create_dir_all(root.join("target/iscsi/discovery_auth")).unwrap();
        assert_eq!(serves(&root), None);
        std::fs::create_dir(root.join("target/iscsi/iqn.2026-01.example:x")).unwrap();
        assert!(serves(&root).unwrap().contains("the target iqn.2026-01.example:x,"));
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_target_is_enabled_last() {
        let plan = plan(&needs::wish(&PeerDevice::Null(1 << 30))).unwrap();
        assert_eq!(plan.url, "iscsi://127.0.0.1:4421/iqn.2014-08.org.example:name/0");
        let lines: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
        let (core, target) = (
            "/sys/kernel/config/target/core/iblock_4421",
            "/sys/kernel/config/target/iscsi/iqn.2014-08.org.example:name",
        );
        let at = |line: String| lines.iter().position(|it| *it == line).unwrap();
        let order = [
            at("modprobe iscsi_target_mod".to_owned()),
            at(format!("mkdir {core}")),
            at(format!("mkdir {core}/disk")),
            at(format!("echo udev_path=/dev/weft-4421 >{core}/disk/control")),
            at(format!("echo 1 >{core}/disk/enable")),
            at("mkdir /sys/kernel/config/target/iscsi".to_owned()),
            at(format!("mkdir {target}")),
            at(format!("mkdir {target}/tpgt_1")),
            at(format!("mkdir {target}/tpgt_1/lun/lun_0")),
            at(format!("ln -s {core}/disk {target}/tpgt_1/lun/lun_0/disk")),
            at(format!("mkdir {target}/tpgt_1/np/127.0.0.1:4421")),
            at(format!("echo 1 >{target}/tpgt_1/enable")),
        ];
        assert!(order.is_sorted() && order[11] + 1 == lines.len(), "{lines:#?}");
    }

    #[test]
    fn a_file_is_past_the_page_cache_or_through_it() {
        let place = needs::scratch("lio-file");
        let path = place.join("x").display().to_string();
        std::fs::write(&path, [0; 1024]).unwrap();
        assert_eq!(
            file(&path, true),
            Ok(format!("fd_dev_name={path},fd_dev_size=1024,fd_async_io=1"))
        );
        assert!(file(&path, false).is_ok_and(|text| text.ends_with(",fd_buffered_io=1")));
        assert!(file("/d/x,y", true).is_err_and(|why| why.contains("comma")));
        assert!(file("/no/such/file", true).is_err());
        std::fs::remove_dir_all(place).unwrap();
    }
}
