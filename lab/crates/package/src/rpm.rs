//! The package for Fedora, RHEL and SUSE.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
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

/// Directories of this package alone.
const OWN: [&str; 2] = ["usr/share/doc/weft", "usr/share/weft"];

/// Packs a program; where the package is.
pub fn pack(program: &Path, out: &Path) -> Result<PathBuf> {
    if !sh::have("rpmbuild") {
        lab_host::require(&["rpm"])?;
    }
    let top = out.join("rpm");
    let root = top.join("root");
    staged::stage(program, &root)?;
    let spec = top.join("weft.spec");
    fs::write(&spec, text(&root)?)?;
    let mut rpmbuild = Command::new("rpmbuild");
    rpmbuild
        .env("SOURCE_DATE_EPOCH", archive::commit_seconds()?.to_string())
        .arg("-bb")
        .arg("--quiet");
    for (name, value) in [
        ("_topdir", top.display().to_string()),
        ("staged", root.display().to_string()),
        ("_buildhost", "localhost".into()),
        ("use_source_date_epoch_as_buildtime", "1".into()),
        ("clamp_mtime_to_source_date_epoch", "1".into()),
        // Pages are compressed, and the program is as it is to be.
        ("__os_install_post", "%{nil}".into()),
        ("debug_package", "%{nil}".into()),
        ("_build_id_links", "none".into()),
    ] {
        rpmbuild.arg("--define").arg(format!("{name} {value}"));
    }
    sh::output(rpmbuild.arg(&spec))?;
    let built = staged::files(&top.join("RPMS"))?.pop().context("rpmbuild made no package")?;
    let made = out.join(built.file_name().context("a package has a name")?);
    fs::rename(&built, &made)?;
    fs::remove_dir_all(&top)?;
    Ok(made)
}

/// A script of the package for Debian, which says by words what RPM says by numbers.
fn script(name: &str) -> Result<String> {
    let path = sh::root().join("packaging/deb").join(name);
    // What the shell calls is RPM's concern, and its signs are no macros.
    Ok(fs::read_to_string(&path)?.replace("#!/bin/sh\n", "").replace('%', "%%"))
}

/// What rpmbuild does: it takes the files as they are staged.
fn text(root: &Path) -> Result<String> {
    let (mut files, mut own) = (String::from("%dir /etc/weft\n"), BTreeSet::new());
    for file in staged::files(root)? {
        // Directories that no other package brings.
        own.extend(
            file.ancestors()
                .filter(|of| OWN.iter().any(|own| of.starts_with(root.join(own))))
                .filter(|of| of.is_dir())
                .map(Path::to_path_buf),
        );
        let name = file.strip_prefix(root)?.display().to_string();
        let kind = if name == CONFIGURATION { "%config(noreplace) " } else { "" };
        let _ = writeln!(files, "{kind}\"/{name}\"");
    }
    for directory in own {
        let _ = writeln!(files, "%dir \"/{}\"", directory.strip_prefix(root)?.display());
    }
    Ok(format!(
        "\
Name: weft
Version: {VERSION}
Release: 1
Summary: Block storage over the network from user space
License: Apache-2.0 OR MIT
Recommends: openssl-libs
AutoProv: no

%description
weft serves and uses block devices over NVMe/TCP, NVMe over RDMA, iSCSI and
NBD without a kernel module, attaches remote ones as disks of this system,
and measures what a fabric costs.

%install
mkdir -p %{{buildroot}}
cp -a %{{staged}}/. %{{buildroot}}/

%files
{files}
%post
if [ $1 -gt 1 ]; then set -- configure upgrade; else set -- configure; fi
{postinst}
%preun
if [ $1 -eq 0 ]; then set -- remove; fi
{prerm}
%postun
if [ $1 -eq 0 ]; then set -- remove; fi
{postrm}
",
        postinst = script("postinst")?,
        prerm = script("prerm")?,
        postrm = script("postrm")?,
    ))
}
