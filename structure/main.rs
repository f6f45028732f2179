//! Structure tests: the rules in `CONTRIBUTING.md` that tests can check.
//!
//! Each module holds one rule. A rule that fails names every place that breaks it and the way out.

mod api;
mod claims;
mod commands;
mod cycles;
mod dependencies;
mod examples;
mod fields;
mod imports;
mod layers;
mod length;
mod links;
mod local_users;
mod modules;
mod names;
mod options;
mod planted;
mod prose;
mod testing;
mod tokens;
mod tools;
mod units;
mod unsafety;
mod words;

use std::collections::BTreeMap;

use xtask::{files, markdown};

/// The entries of a file that a ratchet tolerates: a name, its number, and maybe a colon and a reason.
fn numbers(text: &'static str) -> BTreeMap<&'static str, usize> {
    let entries = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let number = |line: &'static str| {
        let entry = line.split_once(": ").map_or(line, |(entry, _)| entry);
        let (name, number) = entry.rsplit_once(' ')?;
        Some((name, number.parse().ok()?))
    };
    entries.map(|line| number(line).unwrap_or_else(|| panic!("{line}: not a number"))).collect()
}

/// Fails with all faults, one a line, under the rule that they break.
fn demand(rule: &str, faults: Vec<String>) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}
