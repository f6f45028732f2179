//! xtask and the tools of the lab (decision 51): xtask is small, the tools share with the main
//! workspace what both depend on, and they know the commands that the documents name.

use std::collections::{BTreeMap, BTreeSet};

use xtask::tools::{MANIFEST, TOOLS};

use crate::{demand, files};

/// Lines of xtask with its tests. All of it compiles before the first output.
const XTASK_LINES: usize = 5000;

/// The lock file of the tools.
const LOCK: &str = "lab/Cargo.lock";

#[test]
fn xtask_is_small() {
    let lines: usize =
        files::below("xtask", "rs").iter().map(|(_, text)| text.lines().count()).sum();
    assert!(lines <= XTASK_LINES, "xtask has {lines} lines: move a chore to lab/crates");
}

#[test]
fn dependencies_of_both_workspaces_have_one_version() {
    let own = versions("Cargo.lock");
    let faults = versions(LOCK).into_iter().filter_map(|(name, versions)| {
        let known = own.get(&name)?;
        (!versions.is_subset(known)).then(|| format!("{name}: {versions:?}, and {known:?}"))
    });
    demand(&format!("{LOCK} has other versions than Cargo.lock"), faults.collect());
}

/// The versions of each package in a lock file.
fn versions(path: &str) -> BTreeMap<String, BTreeSet<String>> {
    let text = read(path);
    let mut found = BTreeMap::<_, BTreeSet<_>>::new();
    for package in text.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let value =
                package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            value.unwrap_or_default().trim_matches('"').to_owned()
        };
        found.entry(field("name")).or_default().insert(field("version"));
    }
    found
}

#[test]
fn profiles_of_both_workspaces_are_equal() {
    let (own, tools, lock) = (settings("Cargo.toml"), settings(MANIFEST), versions(LOCK));
    let faults = tools.difference(&own).cloned();
    demand(&format!("{MANIFEST} has settings that Cargo.toml lacks"), faults.collect());
    let is_missing = |line: &&String| {
        let package =
            line.strip_prefix("profile.dev.package ").and_then(|line| line.split('.').next());
        package.is_none_or(|name| lock.contains_key(name)) && !tools.contains(*line)
    };
    let faults = own.iter().filter(is_missing).cloned();
    demand(&format!("{MANIFEST} lacks settings of Cargo.toml"), faults.collect());
}

/// The settings of the profile `dev` in a manifest, each behind the name of its table.
fn settings(path: &str) -> BTreeSet<String> {
    let (text, mut table) = (read(path), "");
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            table = name.trim_end_matches(']');
        } else if table.starts_with("profile.dev") && !line.is_empty() {
            found.insert(format!("{table} {line}"));
        }
    }
    assert!(!found.is_empty(), "{path} has no profile");
    found
}

#[test]
fn every_tool_tries_the_commands_of_the_documents() {
    let faults = TOOLS.iter().filter(|tool| {
        let asks = format!("commands::faults(\"{}\"", tool.name);
        let sources = files::below(&format!("lab/crates/{}/src", tool.directory), "rs");
        !sources.iter().any(|(_, text)| text.contains(&asks))
    });
    demand(
        "a test of the tool asks `xtask::commands::faults`",
        faults.map(|tool| tool.name.to_owned()).collect(),
    );
}

fn read(path: &str) -> String {
    std::fs::read_to_string(files::root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}
