//! Tells `weft --version` of what it was built.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=WEFT_PROFILE={}", profile());
    // Programs for developers would be linked anew after each commit.
    let commit = if is_release() { commit() } else { None };
    println!("cargo::rustc-env=WEFT_COMMIT={}", commit.as_deref().unwrap_or("not recorded"));
}

fn is_release() -> bool {
    std::env::var("PROFILE").is_ok_and(|profile| profile == "release")
}

/// The name of the profile, which cargo tells only by the directory: TARGET/PROFILE/build/….
fn profile() -> String {
    let directory = std::env::var("OUT_DIR").unwrap_or_default();
    let parts: Vec<_> = Path::new(&directory).iter().map(|part| part.to_string_lossy()).collect();
    let build = parts.iter().rposition(|part| part == "build");
    let name = build.and_then(|at| parts.get(at.checked_sub(1)?));
    name.map_or_else(|| "unknown".into(), ToString::to_string)
}

/// The commit, and whether files differ from it.
fn commit() -> Option<String> {
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    // An edited file makes another program.
    println!("cargo::rerun-if-changed=..");
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}, with changes") })
}

fn git(args: &[&str]) -> Option<String> {
    let said = Command::new("git").args(args).output().ok().filter(|said| said.status.success())?;
    Some(String::from_utf8(said.stdout).ok()?.trim().to_owned())
}
