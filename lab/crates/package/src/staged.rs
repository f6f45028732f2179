//! Files that a package puts onto a Linux system, as a tree.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use xtask::{built::FULL, sh};

use super::{bom, notices, pages};

/// Where the units of systemd go.
const UNITS: &str = "usr/lib/systemd/system";
/// Where the rules of udev go.
const RULES: &str = "usr/lib/udev/rules.d";
/// Where pages and examples go.
const DOC: &str = "usr/share/doc/weft";
/// Where what is not used as it is goes.
const EXAMPLES: &str = "usr/share/doc/weft/examples";
/// Where the dashboard and the alerts go.
const MONITORING: &str = "usr/share/weft/monitoring";
/// The configuration that the administrator edits.
pub const CONFIGURATION: &str = "etc/weft/weft.toml";

/// The notice in the place where Debian looks for it.
pub const COPYRIGHT: &str = "\
weft is licensed under the Apache License, version 2.0, or the MIT licence, as
you choose: LICENSE-APACHE and LICENSE-MIT in this directory. What is linked
into the program has the licences in LICENCES.txt.
";

/// From `packaging/`, and where they go.
pub const FILES: [(&str, &str); 11] = [
    ("weft.service", UNITS),
    ("weft.socket", UNITS),
    ("weft-connections.service", UNITS),
    ("weft-gateway@.service", UNITS),
    ("60-weft.rules", RULES),
    // Any user could make disks with it, so the administrator decides.
    ("61-weft-users.rules", EXAMPLES),
    ("weft-connections.openrc", EXAMPLES),
    ("org.weft.server.plist", EXAMPLES),
    ("Containerfile", EXAMPLES),
    // Who watches the server takes them to their own machines.
    ("grafana/weft.json", MONITORING),
    ("prometheus/weft.rules.yml", MONITORING),
];

/// Shells and the files of their completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/weft"),
    ("zsh", "usr/share/zsh/vendor-completions/_weft"),
    ("fish", "usr/share/fish/vendor_completions.d/weft.fish"),
];

/// Puts a program and its files below `root`, which is made again.
pub fn stage(program: &Path, root: &Path) -> Result<()> {
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    let put = |place: &str, bytes: &[u8]| -> Result<PathBuf> {
        let path = root.join(place);
        fs::create_dir_all(path.parent().context("a file has a directory")?)?;
        fs::write(&path, bytes)?;
        Ok(path)
    };
    let read =
        |path: PathBuf| fs::read(&path).with_context(|| format!("cannot read {}", path.display()));
    let packed = put("usr/bin/weft", &read(program.to_path_buf())?)?;
    for (name, place) in FILES {
        let file = name.rsplit('/').next().unwrap_or(name);
        put(&format!("{place}/{file}"), &read(sh::root().join("packaging").join(name))?)?;
    }
    for (shell, place) in COMPLETIONS {
        put(place, sh::output(Command::new(program).args(["completions", shell]))?.as_bytes())?;
    }
    put(CONFIGURATION, sh::output(Command::new(program).args(["config", "example"]))?.as_bytes())?;
    man_pages(program, &root.join("usr/share/man/man1"))?;
    let metadata = notices::metadata(&host()?, &[FULL])?;
    let text = notices::of_program(&metadata, &standard_library()?)?;
    put(&format!("{DOC}/LICENCES.txt"), text.as_bytes())?;
    put(&format!("{DOC}/copyright"), COPYRIGHT.as_bytes())?;
    pages::stage(&root.join(DOC), files(&sh::root().join("docs"))?, &FILES)?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md"] {
        put(&format!("{DOC}/{name}"), &read(sh::root().join(name))?)?;
    }
    put(&format!("{DOC}/weft.cdx.json"), bom::of_program(&metadata)?.as_bytes())?;
    set_modes(root)?;
    fs::set_permissions(packed, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The pages, compressed without the time.
fn man_pages(program: &Path, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    sh::run(Command::new(program).arg("man").arg(directory))?;
    let pages = files(directory)?;
    sh::run(Command::new("gzip").args(["-9", "-n", "--"]).args(pages))
}

/// All files below a directory, in order.
pub fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    found.sort();
    Ok(found)
}

/// Lets everybody read the files, whatever this machine's mask is.
pub fn set_modes(directory: &Path) -> Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            set_modes(&path)?;
        } else if !path.is_symlink() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        }
    }
    Ok(())
}

/// Returns the target of this machine's compiler.
pub fn host() -> Result<String> {
    let said = sh::output(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it builds for")?.to_owned())
}

/// The licences of the standard library, which cargo does not list.
pub fn standard_library() -> Result<Vec<(&'static str, PathBuf)>> {
    let root = sh::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let places = [
        Path::new(root.trim()).join("share/doc/rust/COPYRIGHT-library.html"),
        PathBuf::from("/usr/share/doc/libstd-rust-dev/copyright"),
    ];
    let found = places.into_iter().find(|place| place.exists());
    let place = found.unwrap_or_else(|| {
        eprintln!(
            "the licences of Rust's standard library are not here: for a package that others get, install rust-docs with rustup"
        );
        sh::root().join("LICENSE-APACHE")
    });
    Ok(vec![("the standard library of Rust", place)])
}
