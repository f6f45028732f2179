//! Fields that other modules of a crate see, as a ratchet.
//!
//! All files that write such a field must keep what its type promises. `fields.txt` has their number
//! in each crate. Plain data promises nothing: a structure whose fields are all visible, and that
//! has no method that changes it. Its fields do not count, nor do those that are `pub`. No number
//! may grow; lower it when you make fields private.

use std::collections::{BTreeMap, BTreeSet};

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

/// Returns whether a line declares a field, for whomever.
fn is_field(line: &str) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("pub(").and_then(|it| it.split_once(") ")).map_or(line, |it| it.1);
    let name = line.split_once(": ").map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the name of the type whose structure or implementation begins on a line, after a word.
fn subject<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let (before, after) = line.split_once(word)?;
    let is_first = before.trim().is_empty() || before.trim_start().starts_with("pub");
    // Parameters of an implementation, and the trait that it is of.
    let after = after.strip_prefix('<').and_then(|it| it.split_once("> ")).map_or(after, |it| it.1);
    let after = after.split_once(" for ").map_or(after, |(_, name)| name).trim_start();
    let name = after.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    // Conditions may stand between the name and the brace.
    (is_first && !line.ends_with(';') && !name.is_empty()).then_some(name)
}

/// Returns whether a block that begins with `indent` spaces ends at a line.
fn is_end(line: &str, indent: usize) -> bool {
    line.len() == indent + 1 && line.ends_with('}')
}

/// Returns the lines of each block that begins with a word, with the name of its type.
fn blocks<'a>(text: &'a str, word: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = lines.iter().enumerate();
    let begins = begins.filter_map(|(at, line)| Some((at, subject(line, word)?)));
    let block = |(at, name): (usize, &'a str)| {
        let indent = lines[at].len() - lines[at].trim_start().len();
        let inside = lines[at + 1..].iter().copied();
        let inside = inside.take_while(|line| !is_end(line, indent));
        (name, inside.collect())
    };
    begins.map(block).collect()
}

/// Returns how many visible fields of other types than plain data there are in each crate.
fn counted(sources: &[(String, String)]) -> BTreeMap<String, usize> {
    let crate_of = |path: &str| path.split('/').nth(1).unwrap_or_default().to_owned();
    let own = || sources.iter().filter(|(path, _)| !layers::is_test(path));
    let mut changed = BTreeSet::new();
    for (path, text) in own() {
        let implementations = blocks(text, "impl").into_iter();
        let changing = implementations.filter(|(_, lines)| {
            lines.iter().any(|line| line.contains("&mut self") || line.contains("(mut self"))
        });
        changed.extend(changing.map(|(name, _)| (crate_of(path), name)));
    }
    let mut counts = BTreeMap::new();
    for (path, text) in own() {
        let name = crate_of(path);
        let structures = blocks(text, "struct ").into_iter();
        let visible = structures.map(|(of, lines)| {
            let seen = lines.iter().filter(|line| is_visible_field(line)).count();
            let all = lines.iter().filter(|line| is_field(line)).count();
            let is_plain = seen == all && !changed.contains(&(name.clone(), of));
            if is_plain { 0 } else { seen }
        });
        *counts.entry(name.clone()).or_default() += visible.sum::<usize>();
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

#[test]
fn plain_data_is_told_from_other_types() {
    let count = |text: &str| {
        let found = counted(&[("crates/a/src/b.rs".into(), text.into())]);
        found.values().sum::<usize>()
    };
    let plain = "struct A {\n    pub(super) a: u8,\n    /// Text.\n    pub(super) b: u8,\n}\n";
    assert_eq!(count(plain), 0);
    assert_eq!(count(&format!("{plain}impl A {{\n    fn c(&self) {{}}\n}}\n")), 0);
    assert_eq!(count(&format!("{plain}impl<T> B<T> for A {{\n    fn c(&mut self) {{}}\n}}\n")), 2);
    let far = "impl<T> A\nwhere\n    T: B,\n{\n    fn c(&mut self) {}\n}\n";
    assert_eq!(count(&format!("{plain}{far}")), 2);
    assert_eq!(count(&plain.replace("pub(super) a", "a")), 1);
}
