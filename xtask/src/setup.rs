//! `cargo xtask setup`: the programs that the crates' own tests start. (The lab, Windows and the
//! fuzzer bring theirs.)

use std::fs;

use anyhow::{Context, Result};

use crate::{debian, sh};

/// Programs, and the Debian packages that contain them.
const PROGRAMS: &[(&str, &str)] = &[
    ("kill", "procps"),
    ("mount", "mount"),
    ("setpriv", "util-linux"),
    ("taskset", "util-linux"),
    ("strace", "strace"),
    ("systemd-analyze", "systemd"),
    ("shellcheck", "shellcheck"),
    ("xmllint", "libxml2-utils"),
    ("valgrind", "valgrind"),
    ("fio", "fio"),
    ("nbdkit", "nbdkit"),
    ("nbdinfo", "libnbd-bin"),
    ("nbdcopy", "libnbd-bin"),
    ("qemu-img", "qemu-utils"),
    ("qemu-nbd", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("openssl", "openssl"),
    ("tgtd", "tgt"),
    ("iscsi-perf", "libiscsi-bin"),
    ("mkfs.ext4", "e2fsprogs"),
    ("sfdisk", "fdisk"),
    ("mkfs.vfat", "dosfstools"),
    ("mkfs.ntfs", "ntfs-3g"),
    ("cryptsetup", "cryptsetup-bin"),
    ("buildah", "buildah"),
    ("ceph-mon", "ceph-mon"),
    ("ceph-osd", "ceph-osd"),
    ("rbd", "ceph-common"),
    ("tshark", "tshark"),
    ("chromium-headless-shell", "chromium-headless-shell"),
];

/// Packages without a program: the library of Ceph's images, QEMU's iSCSI driver, and letters for
/// the study's pictures.
const PARTS: &[&str] = &["librbd1", "qemu-block-extra", "fonts-dejavu-core"];

/// Programs whose packages are unpacked below the target directory: to install them would start a
/// server. Tests find them there.
const UNPACKED: &[(&str, &str)] = &[("promtool", "prometheus")];

/// Installs missing packages.
pub fn run() -> Result<()> {
    for (program, package) in UNPACKED.iter().filter(|(program, _)| !sh::have(program)) {
        unpack(program, package)?;
    }
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| !sh::have(program))
        .map(|(_, package)| *package)
        .collect();
    let parts: &[&str] = if sh::have("dpkg-query") { PARTS } else { &[] };
    let wanted = [&missing, parts].concat();
    if wanted.is_empty() { Ok(()) } else { debian::install(&wanted) }
}

/// Unpacks a package, unless an earlier run has.
fn unpack(program: &str, package: &str) -> Result<()> {
    let to = sh::target_dir().join("xtask/programs").join(program);
    if to.is_dir() {
        return Ok(());
    }
    eprintln!("unpacking {package}");
    // Under its name it is whole, whenever this is interrupted.
    let begun = to.with_extension("begun");
    if begun.exists() {
        fs::remove_dir_all(&begun)?;
    }
    fs::create_dir_all(&begun)?;
    debian::unpack(&begun, &[package])?;
    fs::rename(&begun, &to).with_context(|| format!("cannot make {}", to.display()))
}
