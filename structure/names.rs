//! Names of types, as a ratchet: a name that other modules see exists once in the workspace.
//!
//! A reader of `Request` should not have to look up which of several types it is. `names.txt` lists
//! the names that exist more often, and how often. A name with a reason means the same thing
//! everywhere; the others await a better name. No number may grow; lower it when you rename a type.

use std::collections::BTreeMap;

use crate::{demand, files, layers, numbers};

/// The names that exist more than once.
const REPEATED: &str = include_str!("names.txt");

/// Returns the name of the type that a line defines for other modules.
fn defined(line: &str) -> Option<&str> {
    let visible = line.trim_start().strip_prefix("pub")?;
    let (kind, name) = visible.strip_prefix("(crate)").unwrap_or(visible).trim().split_once(' ')?;
    let is_type = ["enum", "struct", "trait", "union"].contains(&kind);
    let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    (is_type && name.starts_with(|c: char| c.is_ascii_uppercase())).then_some(name)
}

/// Each name, and the files that define it.
fn names(sources: &[(String, String)]) -> BTreeMap<&str, Vec<&str>> {
    let mut names: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (path, text) in sources.iter().filter(|(path, _)| !layers::is_test(path)) {
        for name in text.lines().filter_map(defined) {
            names.entry(name).or_default().push(path.as_str());
        }
    }
    names
}

/// Returns the differences between what exists and what is tolerated.
fn faults(names: &BTreeMap<&str, Vec<&str>>, tolerated: &BTreeMap<&str, usize>) -> Vec<String> {
    let most = |name| tolerated.get(name).copied().unwrap_or(1);
    let grown = names.iter().filter(|(name, paths)| paths.len() > most(**name));
    let grown = grown.map(|(name, paths)| {
        format!("{name}: {} types, allowed {}: {}", paths.len(), most(*name), paths.join(" "))
    });
    let fallen = tolerated.iter().filter_map(|(name, most)| {
        let found = names.get(name).map_or(0, Vec::len);
        (found < *most).then(|| format!("{name}: {found} types, write that in names.txt"))
    });
    grown.chain(fallen).collect()
}

#[test]
fn a_name_means_one_thing() {
    let sources = ["crates", "bindings"].map(|directory| files::below(directory, "rs")).concat();
    demand("name the type by what it is", faults(&names(&sources), &numbers(REPEATED)));
}

#[test]
fn what_other_modules_see_is_counted() {
    let lines = ["pub struct A;", "pub(crate) enum B<'a> {", "    pub trait C: Send {"];
    assert_eq!(lines.map(defined), [Some("A"), Some("B"), Some("C")]);
    let others = ["struct A;", "pub(super) enum B {", "pub fn a() {", "pub type D = A;", "// pub"];
    assert_eq!(others.map(defined), [None; 5]);
}

#[test]
fn numbers_only_fall() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let twice = [file("a.rs", "pub struct A;"), file("b.rs", "pub enum A {}")];
    let names = names(&twice);
    assert!(faults(&names, &BTreeMap::from([("A", 2)])).is_empty());
    for most in [1, 3] {
        assert_eq!(faults(&names, &BTreeMap::from([("A", most)])).len(), 1);
    }
}
