//! Subject of a measurement: the commit, and the machine in words.

use std::{fs, process::Command};

use anyhow::Result;

use xtask::sh;

/// The commit that is measured, with a plus when files differ from it.
pub fn commit() -> Result<String> {
    let git = |args: &[&str]| sh::output(Command::new("git").args(args).current_dir(sh::root()));
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?.trim().to_owned();
    // Documents may differ: some are written by what asks for this.
    let changed = git(&[
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        "crates",
        "lab",
        "xtask",
        "Cargo.lock",
        "Cargo.toml",
    ])?;
    Ok(if changed.trim().is_empty() { commit } else { commit + "+" })
}

/// The machine, in words.
pub fn in_words() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, name)| name);
    let cores = sh::cores();
    let virtual_machine = if info.contains(" hypervisor") { ", a virtual machine" } else { "" };
    let pages = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let pages = pages.split(['[', ']']).nth(1).unwrap_or("unknown").to_owned();
    let kernel = read("/proc/sys/kernel/osrelease");
    let kernel = kernel.split('-').next().unwrap_or_default().trim().to_owned();
    format!(
        "{cores} cores of {model}{virtual_machine}, Linux {kernel}, transparent huge pages {pages}, loopback"
    )
}
