//! Fields that other modules of a crate see, as a ratchet.
//!
//! All files that write such a field must keep what its type promises. `fields.txt` has their number
//! in each crate. Fields of plain data are `pub` and do not count. No number may grow; lower it when
//! you make fields private.

use std::collections::BTreeMap;

use crate::{demand, files, layers, numbers};

/// The number of each crate.
const VISIBLE: &str = include_str!("fields.txt");

/// Returns whether a line declares a field that a part of its crate sees.
fn is_visible_field(line: &str) -> bool {
    let Some((scope, rest)) =
        line.trim_start().strip_prefix("pub(").and_then(|it| it.split_once(") "))
    else {
        return false;
    };
    let name = rest.split_once(": ").map_or("", |(name, _)| name);
    let is_scope = scope == "super" || scope == "crate" || scope.starts_with("in ");
    is_scope && !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns how many there are in each crate.
fn counted(sources: &[(String, String)]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (path, text) in sources.iter().filter(|(path, _)| !layers::is_test(path)) {
        let name = path.split('/').nth(1).unwrap_or_default().to_owned();
        *counts.entry(name).or_default() += text.lines().filter(|it| is_visible_field(it)).count();
    }
    counts
}

#[test]
fn fields_are_private() {
    let found = counted(&files::below("crates", "rs"));
    let allowed = numbers(VISIBLE);
    let differs = found.iter().filter_map(|(name, found)| {
        let allowed = allowed.get(name.as_str()).copied().unwrap_or(0);
        (*found != allowed).then(|| format!("{name} {found}, and {allowed} in fields.txt"))
    });
    demand("make the field private, or lower the number", differs.collect());
}

#[test]
fn a_field_is_told_from_other_lines() {
    for line in ["    pub(super) name: String,", "pub(crate) at: (u64, u32),", "pub(in a) b: C,"] {
        assert!(is_visible_field(line), "{line}");
    }
    for line in ["    pub name: String,", "pub(super) fn a(b: u8) {", "pub(crate) mod a;", "a: B,"]
    {
        assert!(!is_visible_field(line), "{line}");
    }
}
