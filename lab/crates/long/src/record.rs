//! `docs/long.md`: what the long proofs said last.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

use anyhow::{Context, Result};
use xtask::sh;

use super::{proofs::Proof, run::Report};

/// What the page holds of a proof.
struct Entry {
    /// Its row of the table.
    row: String,
    /// Its section, without the heading.
    section: String,
}

/// The page, of which a run renews the entries of its proofs.
pub struct Record {
    commit: String,
    machine: String,
    date: String,
    entries: BTreeMap<String, Entry>,
}

impl Record {
    /// Returns the present contents of the page, for a run of this commit on this machine.
    pub fn begin() -> Result<Self> {
        let date = sh::output(Command::new("date").args(["-u", "+%Y-%m-%d"]))
            .unwrap_or_else(|_| "an unknown day".into());
        Ok(Self {
            commit: lab_host::machine::commit()?,
            machine: lab_host::machine::in_words(),
            date: date.trim().to_owned(),
            entries: entries(&fs::read_to_string(path()).unwrap_or_default()),
        })
    }

    /// Adds a proof, in place of its previous text.
    pub fn add(&mut self, proof: &Proof, report: &Report) {
        let Proof { name, about, .. } = proof;
        let (word, seconds) = (report.outcome.word(), report.elapsed.as_secs_f64());
        let Self { commit, date, machine, .. } = self;
        let row = format!("| [{name}](#{name}) | {word} | {seconds:.0} | `{commit}` | {date} |");
        let lines = match &report.lines[..] {
            [] => String::new(),
            lines => format!("\n```text\n{}\n```\n", lines.join("\n")),
        };
        let word = in_sentence(word);
        let section =
            format!("{about}\n\nIt {word} after {seconds:.0} s. The machine: {machine}.\n{lines}");
        self.entries.insert(name.clone(), Entry { row, section });
    }

    /// The whole page, with the proofs of these names in this order.
    fn text(&self, names: &[String]) -> String {
        let known = || names.iter().filter_map(|name| Some((name, self.entries.get(name)?)));
        let rows: String = known().map(|(_, entry)| format!("{}\n", entry.row)).collect();
        let sections: String =
            known().map(|(name, entry)| format!("\n## {name}\n\n{}", entry.section)).collect();
        format!(
            "# Long proofs\n\n\
             What `cargo xtask long` said last of each proof; it writes this page. [Writing tests](contributing/writing-tests.md#long-proofs) describes it.\n\n\
             | proof | result | seconds | commit | day (UTC) |\n|---|---|---:|---|---|\n{rows}{sections}"
        )
    }

    /// Writes it.
    pub fn write(&self, names: &[String]) -> Result<()> {
        let path = path();
        fs::write(&path, self.text(names))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

fn path() -> PathBuf {
    sh::root().join("docs/long.md")
}

/// The entries of a page.
fn entries(page: &str) -> BTreeMap<String, Entry> {
    let mut parts = page.split("\n## ");
    let table = parts.next().unwrap_or_default();
    let row = |name: &str| {
        let start = format!("| [{name}]");
        table.lines().find(|line| line.starts_with(&start)).map(str::to_owned)
    };
    let entry = |part: &str| {
        let (name, section) = part.split_once("\n\n")?;
        Some((
            name.to_owned(),
            Entry { row: row(name)?, section: section.trim_end().to_owned() + "\n" },
        ))
    };
    parts.filter_map(entry).collect()
}

fn in_sentence(word: &str) -> &str {
    if word == "skipped" { "was skipped" } else { word }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::Outcome;

    #[test]
    fn a_run_renews_the_entries_of_its_proofs() {
        let record = |page: &str| Record {
            commit: "abc".into(),
            machine: "a machine".into(),
            date: "2026-01-01".into(),
            entries: entries(page),
        };
        let proof = |name: &str| Proof::new(name, "Many of them.", Command::new("true"));
        let report = |seconds| Report {
            outcome: Outcome::Passed,
            elapsed: Duration::from_secs(seconds),
            lines: vec!["7 of 7".into()],
        };
        let names = ["one".to_owned(), "two".to_owned()];
        let mut first = record("");
        first.add(&proof("two"), &report(61));
        first.add(&proof("one"), &report(2));
        first.add(&proof("gone"), &report(3));
        let page = first.text(&names);
        let mut second = record(&page);
        second.add(&proof("one"), &report(5));
        let renewed = second.text(&names);
        let row = |name: &str, seconds| {
            format!("| [{name}](#{name}) | passed | {seconds} | `abc` | 2026-01-01 |\n")
        };
        assert!(renewed.contains(&format!("{}{}", row("one", 5), row("two", 61))), "{renewed}");
        let end = "## two\n\nMany of them.\n\nIt passed after 61 s. The machine: a machine.\n\n```text\n7 of 7\n```\n";
        assert!(renewed.ends_with(end), "{renewed}");
        assert!(!renewed.contains("gone"), "{renewed}");
    }
}
