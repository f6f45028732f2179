//! The Debian packages that steps need, and the programs by which other systems have them.

/// The steps that need a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Tests of `cargo xtask test`; `cargo xtask setup --unpack` provides it without root.
    Quick,
    /// Tests of the crates.
    Tests,
    /// The lab.
    Lab,
    /// Builds and tests for Windows.
    Windows,
    /// Builds and tests for 64-bit ARM.
    Aarch64,
    /// The fuzz targets.
    Fuzz,
    /// `cargo xtask package`.
    Packaging,
}

/// A package.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// Its name.
    pub name: &'static str,
    /// A program by which its presence is known; empty where dpkg has to be asked.
    pub program: &'static str,
    /// The steps that need it.
    pub used: Use,
}

/// All packages. A step may ask for these only.
pub const PACKAGES: &[Package] = &[
    package("fio", "fio", Use::Quick),
    package("libiscsi-bin", "iscsi-perf", Use::Quick),
    package("libnbd-bin", "nbdcopy", Use::Quick),
    package("nbdkit", "nbdkit", Use::Quick),
    package("qemu-block-extra", "", Use::Quick),
    package("qemu-utils", "qemu-io", Use::Quick),
    package("tgt", "tgtd", Use::Quick),
    package("tshark", "tshark", Use::Quick),
    package("buildah", "buildah", Use::Tests),
    package("ceph-common", "rbd", Use::Tests),
    package("ceph-mon", "ceph-mon", Use::Tests),
    package("ceph-osd", "ceph-osd", Use::Tests),
    package("chromium-headless-shell", "chromium-headless-shell", Use::Tests),
    package("clang", "clang", Use::Tests),
    package("cryptsetup-bin", "cryptsetup", Use::Tests),
    package("dosfstools", "mkfs.vfat", Use::Tests),
    package("e2fsprogs", "mkfs.ext4", Use::Tests),
    package("fdisk", "sfdisk", Use::Tests),
    package("fio-examples", "", Use::Tests),
    package("fonts-dejavu-core", "", Use::Tests),
    package("fuse2fs", "fuse2fs", Use::Tests),
    package("fuse3", "fusermount3", Use::Tests),
    package("librbd1", "", Use::Tests),
    package("libxml2-utils", "xmllint", Use::Tests),
    package("mount", "mount", Use::Tests),
    package("nbd-server", "nbd-server", Use::Tests),
    package("nbdkit-plugin-dev", "", Use::Tests),
    package("ntfs-3g", "mkfs.ntfs", Use::Tests),
    package("openssl", "openssl", Use::Tests),
    package("procps", "kill", Use::Tests),
    package("python3-venv", "", Use::Tests),
    package("shellcheck", "shellcheck", Use::Tests),
    package("strace", "strace", Use::Tests),
    package("systemd", "systemd-analyze", Use::Tests),
    package("valgrind", "valgrind", Use::Tests),
    package("busybox-static", "", Use::Lab),
    package("dash", "dash", Use::Lab),
    package("gcc", "gcc", Use::Lab),
    package("kmod", "modprobe", Use::Lab),
    package("libc6-dev", "", Use::Lab),
    package("libssl-dev", "", Use::Lab),
    package("linux-libc-dev", "", Use::Lab),
    package("qemu-system-x86", "qemu-system-x86_64", Use::Lab),
    package("util-linux", "setpriv", Use::Lab),
    package("xz-utils", "xz", Use::Lab),
    package("gcc-mingw-w64-x86-64", "x86_64-w64-mingw32-gcc", Use::Windows),
    package("libedit2", "", Use::Windows),
    package("libffi8", "", Use::Windows),
    package("libxml2", "", Use::Windows),
    package("libz3-4", "", Use::Windows),
    package("libzstd1", "", Use::Windows),
    package("wine64", "", Use::Windows),
    package("zlib1g", "", Use::Windows),
    package("gcc-aarch64-linux-gnu", "aarch64-linux-gnu-gcc", Use::Aarch64),
    package("libc6-dev-arm64-cross", "", Use::Aarch64),
    package("qemu-user", "qemu-aarch64", Use::Aarch64),
    package("g++", "g++", Use::Fuzz),
    package("binutils", "strip", Use::Packaging),
    package("dpkg", "dpkg", Use::Packaging),
    package("libssl3", "", Use::Packaging),
    package("make", "make", Use::Packaging),
    package("osslsigncode", "osslsigncode", Use::Packaging),
    package("perl", "perl", Use::Packaging),
    package("rpm", "rpmbuild", Use::Packaging),
    package("tar", "tar", Use::Packaging),
    package("unzip", "unzip", Use::Packaging),
    package("zip", "zip", Use::Packaging),
];

const fn package(name: &'static str, program: &'static str, used: Use) -> Package {
    Package { name, program, used }
}

/// The command that provides a program or package; none if neither is known.
pub fn command_for(word: &str) -> Option<&'static str> {
    let found = PACKAGES
        .iter()
        .find(|package| package.name == word || (!word.is_empty() && package.program == word));
    match found.map(|package| package.used) {
        Some(Use::Quick) => Some("cargo xtask setup --unpack"),
        Some(_) => Some("cargo xtask setup --yes"),
        None if word == "promtool" => Some("cargo xtask setup --yes"),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_leads_to_a_command() {
        assert_eq!(command_for("fio"), Some("cargo xtask setup --unpack"));
        assert_eq!(command_for("nbdcopy"), Some("cargo xtask setup --unpack"));
        assert_eq!(command_for("ceph-mon"), Some("cargo xtask setup --yes"));
        assert_eq!(command_for(""), None);
        assert_eq!(command_for("root"), None);
    }

    #[test]
    fn each_package_has_one_row() {
        for (index, package) in PACKAGES.iter().enumerate() {
            assert!(PACKAGES[..index].iter().all(|it| it.name != package.name), "{}", package.name);
        }
    }
}
