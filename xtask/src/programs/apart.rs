//! `xtask/apart.txt`: tests that run apart from the others of `cargo xtask test`, and the reasons.

use std::{
    collections::BTreeSet,
    fs,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    part::Part,
    program::{Job, Program},
};
use crate::sh;

/// Reasons with which an entry may begin.
const REASONS: [&str; 6] = ["packages", "minutes", "emulation", "clock", "process", "cargo"];

/// The entries of the file.
pub(super) struct Apart {
    entries: Vec<Entry>,
    /// The entries that name tests, by their indexes.
    met: Mutex<BTreeSet<usize>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    program: String,
    /// The beginning of the names of its tests; empty for all of them.
    prefix: String,
    part: Part,
}

impl Apart {
    pub(super) fn read() -> Result<Self> {
        let path = sh::root().join("xtask/apart.txt");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text)
    }

    /// Parses lines of a program, the beginning of its tests' names or `*`, a part, and a reason.
    fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let entries = lines.filter(|line| !line.starts_with('#')).map(entry);
        Ok(Self { entries: entries.collect::<Result<_>>()?, met: Mutex::default() })
    }

    /// The tests of a program that belong to a part of the run, in processes: none, one, or two if
    /// some of those that run together must wait until everything is built.
    pub(super) fn jobs(&self, program: &Program, part: Part) -> Result<Vec<Job>> {
        let entries: Vec<(usize, &Entry)> =
            self.entries.iter().enumerate().filter(|(_, it)| it.program == program.name).collect();
        if entries.is_empty() {
            let is_all = [Part::Together, Part::Tools].contains(&part);
            let together = is_all.then(|| Job::new(program, part, None));
            return Ok(together.into_iter().collect());
        }
        let all = program.tests()?;
        let parts = match part {
            Part::Together => vec![Part::Together, Part::Built],
            other => vec![other],
        };
        let mut jobs = Vec::new();
        for part in parts {
            let tests: BTreeSet<String> =
                all.iter().filter(|test| self.part_of(test, &entries) == part).cloned().collect();
            if !tests.is_empty() {
                let some = (tests.len() < all.len()).then_some(tests);
                jobs.push(Job::new(program, part, some));
            }
        }
        Ok(jobs)
    }

    /// The part of a test by the entries of its program: the longest of several that its name begins
    /// with decides.
    fn part_of(&self, test: &str, entries: &[(usize, &Entry)]) -> Part {
        let found = entries.iter().filter(|(_, entry)| test.starts_with(&entry.prefix));
        match found.max_by_key(|(_, entry)| entry.prefix.len()) {
            Some((index, entry)) => {
                self.met.lock().unwrap_or_else(PoisonError::into_inner).insert(*index);
                entry.part
            }
            None => Part::Together,
        }
    }

    /// Refuses entries that name no test, once all programs are known. Other systems have fewer.
    pub(super) fn all_exist(&self) -> Result<()> {
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = (0..self.entries.len()).find(|index| !met.contains(index));
        match missing.filter(|_| cfg!(target_os = "linux")) {
            Some(index) => {
                let Entry { program, prefix, .. } = &self.entries[index];
                bail!("xtask/apart.txt: {program} has no test that begins with {prefix:?}")
            }
            None => Ok(()),
        }
    }
}

fn entry(line: &str) -> Result<Entry> {
    let mut words = line.split_whitespace();
    let (program, prefix, part) = (words.next(), words.next(), words.next());
    let reason = words.next().unwrap_or_default().trim_end_matches(':');
    let part = part.and_then(|part| Part::ALL.iter().find(|(name, _)| *name == part));
    let (Some(program), Some(prefix), Some((_, part))) = (program, prefix, part) else {
        bail!("xtask/apart.txt: `{line}` is not PROGRAM TESTS PART REASON");
    };
    ensure!(
        REASONS.contains(&reason) && words.next().is_some(),
        "xtask/apart.txt: the reason in `{line}` must begin with {}, and a colon",
        REASONS.join(", ")
    );
    let prefix = if prefix == "*" { "" } else { prefix };
    Ok(Entry { program: program.into(), prefix: prefix.into(), part: *part })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_state_a_known_reason() {
        let apart =
            Apart::parse("# a comment\n\nweft/cli gateways:: rest packages: Ceph\n").unwrap();
        let [entry] = &apart.entries[..] else { panic!("{:?}", apart.entries) };
        assert_eq!((entry.prefix.as_str(), entry.part), ("gateways::", Part::Rest));
        assert!(Apart::parse("weft/cli a:: rest because: of it").is_err());
        assert!(Apart::parse("weft/cli a:: rest packages:").is_err());
        assert!(Apart::parse("weft/cli a:: later packages: Ceph").is_err());
        assert!(apart.all_exist().is_err() || cfg!(not(target_os = "linux")));
    }

    #[test]
    fn the_file_is_in_order() {
        assert!(!Apart::read().unwrap().entries.is_empty());
    }
}
