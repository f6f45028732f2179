//! Workloads that were written for other tools, as jobs with fio's options.
//!
//! * [`fio`]: job files.
//! * [`diskspd`]: command lines.
//! * [`vdbench`]: parameter files.
//!
//! [`measured`] reads what these tools have measured.
//!
//! An importer takes everything for which `weft bench` has an option. It refuses what decides
//! where, how much, how often or whether to write, and what changes what is measured, if `weft
//! bench` has no option for it. It names the rest, so that nobody takes a result for one of the
//! workload that was meant.

mod answer;
pub mod diskspd;
pub mod fio;
pub mod measured;
mod quoting;
#[cfg(test)]
mod tests;
pub mod vdbench;

pub use answer::{OptionSupport, Options};
pub use quoting::words;

/// Contents of a file or a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportedJobs {
    /// Jobs that run at the same time; one group after the other.
    pub groups: Vec<Vec<ImportedJob>>,
    /// Options without an equivalent, each in a sentence, once. It changes neither what is written
    /// nor what is measured.
    pub without: Vec<String>,
}

/// A job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportedJob {
    /// fio's options and values, without dashes; each name once.
    pub options: Vec<(String, String)>,
    /// Its device: a path or a URL.
    pub target: Option<String>,
    /// Options that were left out, each with the reason: they change neither what is written nor
    /// what is measured.
    pub left_out: Vec<String>,
}

/// Why something cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// A line or an argument is wrong.
    #[error("{at}: {problem}")]
    Wrong {
        /// The file with its line, or the argument.
        at: String,
        /// The fault, and what to do about it.
        problem: String,
    },
    /// There is no job in it.
    #[error("{0} has no job")]
    Empty(String),
}

impl ImportError {
    fn wrong(at: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Wrong { at: at.into(), problem: problem.into() }
    }
}

impl ImportedJobs {
    /// Notes what has no equivalent.
    fn lack(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.without.contains(&text) {
            self.without.push(text);
        }
    }

    /// Refuses what has no job.
    fn some(self, what: &str) -> Result<Self, ImportError> {
        if self.groups.iter().all(Vec::is_empty) {
            Err(ImportError::Empty(what.to_owned()))
        } else {
            Ok(self)
        }
    }
}

impl ImportedJob {
    /// Sets an option; a later value replaces an earlier one, as in fio. Options stand in the order
    /// of their last values: of two that exclude each other, the later one counts.
    fn set(&mut self, name: &str, value: impl Into<String>) {
        self.take(name);
        self.options.push((name.to_owned(), value.into()));
    }

    /// Notes an option that is left out.
    fn leave(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.left_out.contains(&text) {
            self.left_out.push(text);
        }
    }

    /// The value of an option.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.options.iter().position(|(known, _)| known == name)?;
        Some(self.options.remove(at).1)
    }
}
