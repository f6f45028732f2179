//! `docs/long.md`: what the long proofs said last.

use std::{
    fmt::Write,
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use xtask::sh;

use super::{proofs::Proof, run::Report};

/// The record of a run, as it grows.
pub struct Record {
    start: Instant,
    commit: String,
    machine: String,
    date: String,
    table: String,
    sections: String,
}

impl Record {
    /// Of this commit on this machine, from now on.
    pub fn begin() -> Result<Self> {
        let date = sh::output(Command::new("date").args(["-u", "+%Y-%m-%d"]))
            .unwrap_or_else(|_| "an unknown day".into());
        Ok(Self {
            start: Instant::now(),
            commit: lab_host::machine::commit()?,
            machine: lab_host::machine::in_words(),
            date: date.trim().to_owned(),
            table: String::new(),
            sections: String::new(),
        })
    }

    /// Adds a proof.
    pub fn add(&mut self, proof: &Proof, report: &Report) {
        let Proof { name, about, .. } = proof;
        let (word, seconds) = (report.outcome.word(), report.elapsed.as_secs_f64());
        // Writing to a string cannot fail.
        let _ = writeln!(self.table, "| [{name}](#{name}) | {word} | {seconds:.0} |");
        let _ = write!(
            self.sections,
            "\n## {name}\n\n{about}\n\nIt {word} after {seconds:.0} s.\n",
            word = told(word)
        );
        if !report.lines.is_empty() {
            let _ = write!(self.sections, "\n```text\n{}\n```\n", report.lines.join("\n"));
        }
    }

    /// The whole document.
    fn text(&self, elapsed: Duration) -> String {
        let Self { commit, machine, date, table, sections, .. } = self;
        format!(
            "# Long proofs\n\n\
             What `cargo xtask long` said last; it writes this page. [Writing tests](contributing/writing-tests.md#long-proofs) describes it.\n\n\
             Commit `{commit}`, {date} (UTC), {:.0} s in all. The machine: {machine}.\n\n\
             | proof | result | seconds |\n|---|---|---:|\n{table}{sections}",
            elapsed.as_secs_f64()
        )
    }

    /// Writes it, and tells where.
    pub fn write(&self) -> Result<PathBuf> {
        let path = sh::root().join("docs/long.md");
        fs::write(&path, self.text(self.start.elapsed()))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

fn told(word: &str) -> &str {
    if word == "skipped" { "was skipped" } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Outcome;

    #[test]
    fn a_record_can_be_read() {
        let mut record = Record {
            start: Instant::now(),
            commit: "abc".into(),
            machine: "a machine".into(),
            date: "2026-01-01".into(),
            table: String::new(),
            sections: String::new(),
        };
        let proof = Proof {
            name: "many".into(),
            about: "Many of them.".into(),
            command: Command::new("true"),
        };
        let report = Report {
            outcome: Outcome::Passed,
            elapsed: Duration::from_secs(61),
            lines: vec!["7 of 7".into()],
        };
        record.add(&proof, &report);
        let text = record.text(Duration::from_secs(62));
        assert!(
            text.contains("Commit `abc`, 2026-01-01 (UTC), 62 s in all. The machine: a machine."),
            "{text}"
        );
        assert!(text.contains("| [many](#many) | passed | 61 |"), "{text}");
        assert!(
            text.ends_with(
                "## many\n\nMany of them.\n\nIt passed after 61 s.\n\n```text\n7 of 7\n```\n"
            ),
            "{text}"
        );
    }
}
