//! `cargo xtask setup`: the programs that the crates' own tests start. (The lab, Windows and the
//! fuzzer bring theirs.)

use anyhow::Result;

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
    ("ceph-mon", "ceph-mon"),
    ("ceph-osd", "ceph-osd"),
    ("rbd", "ceph-common"),
    ("tshark", "tshark"),
    ("chromium-headless-shell", "chromium-headless-shell"),
];

/// Packages without a program: the library of Ceph's images, QEMU's iSCSI driver, and letters for
/// the study's pictures.
const PARTS: &[&str] = &["librbd1", "qemu-block-extra", "fonts-dejavu-core"];

/// Installs missing packages.
pub fn run() -> Result<()> {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| !sh::have(program))
        .map(|(_, package)| *package)
        .collect();
    let parts: &[&str] = if sh::have("dpkg-query") { PARTS } else { &[] };
    let wanted = [&missing, parts].concat();
    if wanted.is_empty() { Ok(()) } else { debian::install(&wanted) }
}
