//! The skipped tests of a run, grouped by what is missing, with the command that provides it.

use std::collections::BTreeMap;

use crate::{count::Skip, packages};

/// Tests that are named for each group.
const NAMED: usize = 3;

/// Prints the groups, the largest first.
pub fn print(skips: &[Skip], strict: bool) {
    if skips.is_empty() {
        return;
    }
    let consequence = if strict { ", which count as failed since CI is set" } else { "" };
    println!("\n{} skipped tests{consequence}:", skips.len());
    for group in groups(skips) {
        println!("{:>5}  {}{}", group.tests.len(), group.lack, group.remedy());
        let more = group.tests.len().saturating_sub(NAMED);
        let named: Vec<&str> = group.tests.iter().take(NAMED).copied().collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        println!("       {}{more}", named.join(", "));
    }
}

/// Tests that lack the same thing.
#[derive(Debug, PartialEq, Eq)]
struct Group<'a> {
    lack: String,
    tests: Vec<&'a str>,
}

impl Group<'_> {
    /// The command that provides what is missing, if one does.
    fn remedy(&self) -> String {
        let words = self.lack.split([' ', ',', ';']);
        match words.filter_map(packages::command_for).next() {
            Some(command) => format!("  ({command})"),
            None => String::new(),
        }
    }
}

fn groups(skips: &[Skip]) -> Vec<Group<'_>> {
    let mut by_lack: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for skip in skips {
        by_lack.entry(lack(&skip.reason)).or_default().push(&skip.test);
    }
    let group = |(lack, tests): (&str, Vec<_>)| Group { lack: lack.to_owned(), tests };
    let mut groups: Vec<_> = by_lack.into_iter().map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.tests.len()));
    groups
}

/// The part of a reason that other tests share: a detail stands behind a colon.
fn lack(reason: &str) -> &str {
    reason.split_once(": ").map_or(reason, |(lack, _)| lack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_lack_the_same_are_one_group() {
        let skip = |test: &str, reason: &str| Skip { test: test.into(), reason: reason.into() };
        let skips = [
            skip("a", "needs root: to mount a file system"),
            skip("b", "fio is missing"),
            skip("c", "needs root: to make a loop device"),
        ];
        let groups = groups(&skips);
        assert_eq!(groups[0], Group { lack: "needs root".into(), tests: vec!["a", "c"] });
        assert_eq!(groups[0].remedy(), "");
        assert_eq!(groups[1].remedy(), "  (cargo xtask setup --unpack)");
    }
}
