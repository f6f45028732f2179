//! The package for Debian and Ubuntu.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use xtask::{VERSION, sh};

use super::{
    archive,
    staged::{self, CONFIGURATION},
};

/// Permitted time of compressing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// For users.
    Full,
    /// For tests.
    Little,
}

/// What the package does when it comes and goes.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Packs a program; where the package is.
pub fn pack(program: &Path, out: &Path, effort: Effort) -> Result<PathBuf> {
    lab_host::require(&["dpkg", "binutils"])?;
    let root = out.join("deb");
    staged::stage(program, &root)?;
    let architecture = architecture()?;
    let meta =
        describe(&root, |kilobytes| Ok(control(&architecture, kilobytes, &glibc_of(program)?)))?;
    fs::write(meta.join("conffiles"), format!("/{CONFIGURATION}\n"))?;
    for script in SCRIPTS {
        // With its mode.
        fs::copy(sh::root().join("packaging/deb").join(script), meta.join(script))?;
    }
    build(&root, &out.join(format!("weft_{VERSION}_{architecture}.deb")), effort)
}

/// Debian's name of this machine's architecture.
pub fn architecture() -> Result<String> {
    let said = sh::output(Command::new("dpkg").arg("--print-architecture"))?;
    Ok(said.trim().to_owned())
}

/// Describes the files below `root` as a package; where the description is. `control` makes its
/// main part, for the size of the files in KiB.
pub fn describe(root: &Path, control: impl FnOnce(u64) -> Result<String>) -> Result<PathBuf> {
    let mut bytes = 0;
    let mut md5sum = Command::new("md5sum");
    md5sum.current_dir(root).arg("--");
    let files = staged::files(root)?.into_iter().filter(|file| !file.is_symlink());
    for file in files {
        bytes += fs::metadata(&file)?.len();
        md5sum.arg(file.strip_prefix(root)?);
    }
    let sums = sh::output(&mut md5sum)?;
    let meta = root.join("DEBIAN");
    fs::create_dir(&meta)?;
    fs::write(meta.join("control"), control(bytes.div_ceil(1024))?)?;
    fs::write(meta.join("md5sums"), sums)?;
    Ok(meta)
}

/// Packs the files below `root`, which are described, and removes them; where the package is.
pub fn build(root: &Path, made: &Path, effort: Effort) -> Result<PathBuf> {
    let effort = match effort {
        Effort::Full => "-Zxz",
        Effort::Little => "-Znone",
    };
    let mut command = Command::new("dpkg-deb");
    command.env("SOURCE_DATE_EPOCH", archive::commit_seconds()?.to_string());
    command.args(["--root-owner-group", effort, "--build"]).arg(root).arg(made);
    sh::output(&mut command)?;
    fs::remove_dir_all(root)?;
    Ok(made.to_owned())
}

fn control(architecture: &str, kilobytes: u64, glibc: &str) -> String {
    format!(
        "\
Package: weft
Version: {VERSION}
Architecture: {architecture}
Maintainer: weft <weft@localhost>
Installed-Size: {kilobytes}
Depends: libc6 (>= {glibc}), libgcc-s1
Recommends: libssl3t64 | libssl3
Suggests: librbd1, librdmacm1, ibverbs-providers, open-iscsi, nbd-client
Section: admin
Priority: optional
Description: block storage over the network from user space
 weft serves and uses block devices over NVMe/TCP, NVMe over RDMA, iSCSI and
 NBD without a kernel module, attaches remote ones as disks of this system,
 and measures what a fabric costs.
 .
 OpenSSL (for TLS), librbd (for images of Ceph) and rdma-core (for RDMA) are
 loaded when they are used.
"
    )
}

/// The newest version of the C library that a program needs.
pub fn glibc_of(program: &Path) -> Result<String> {
    let said = sh::output(Command::new("objdump").arg("-T").arg(program))?;
    newest_glibc(&said).with_context(|| format!("{} needs no C library", program.display()))
}

/// The newest version in a list of dynamic symbols.
fn newest_glibc(symbols: &str) -> Option<String> {
    let number = |text: &str| -> Option<Vec<u32>> {
        text.split('.').map(|part| part.parse().ok()).collect()
    };
    let versions = symbols.split(['(', ')', ' ', '\t', '\n']);
    let versions = versions.filter_map(|word| word.strip_prefix("GLIBC_"));
    let newest = versions.filter_map(|text| Some((number(text)?, text))).max()?;
    Some(newest.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_the_one_that_is_needed() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.9)  a\n0 DF *UND* 0 (GLIBC_2.35) b\n0 DF *UND* 0 (GLIBC_2.2.5) c\n0 (GLIBC_PRIVATE) d\n";
        assert_eq!(newest_glibc(symbols).as_deref(), Some("2.35"));
        assert_eq!(newest_glibc("nothing"), None);
    }

    #[test]
    fn lines_of_the_description_are_as_debian_wants_them() {
        let text = control("amd64", 7, "2.35");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.contains("Installed-Size: 7\n") && text.contains("libc6 (>= 2.35)"), "{text}");
    }
}
