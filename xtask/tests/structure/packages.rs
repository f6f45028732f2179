//! Packages of one program are equal, and have what a system needs.

use std::{path::Path, process::Command};

use crate::commands::weft;

/// Packs weft into this directory; the names and sums.
fn packed(out: &Path) -> String {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(["package", "linux", "deb", "tar", "--fast", "--program"]).arg(weft());
    let said = xtask.arg("--out").arg(out).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

#[test]
fn packages_of_one_program_are_equal_and_whole() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        println!("skipped: dpkg-deb is missing, as this is no Debian system");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("first"), directory.path().join("second"));
    let sums = packed(&first);
    assert_eq!(sums, packed(&second));
    let mut names = sums.lines().filter_map(|line| line.split("  ").nth(1));
    let deb = names.find(|name| name.ends_with(".deb")).unwrap();
    let listed = Command::new("dpkg-deb").arg("--contents").arg(first.join(deb)).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for part in [
        "-rwxr-xr-x root/root",
        "./usr/bin/weft",
        "./usr/lib/systemd/system/weft.service",
        "./usr/share/man/man1/weft-serve.1.gz",
        "./usr/share/doc/weft/LICENCES.txt",
        "./usr/share/doc/weft/weft.cdx.json",
        "./usr/share/weft/monitoring/weft.json",
        "./usr/share/weft/monitoring/weft.rules.yml",
        "./etc/weft/weft.toml",
    ] {
        assert!(listed.contains(part), "{part} is not in {listed}");
    }
}
