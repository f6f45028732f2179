//! A parameter file as it was read.

use super::super::{ImportError, ImportedJobs};
use super::lines::Definition;

/// One run of a definition: what its lists chose.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    pub(super) xfersize: Option<String>,
    pub(super) rdpct: Option<String>,
    pub(super) seekpct: Option<String>,
    pub(super) threads: Option<String>,
    pub(super) iorate: Option<String>,
}

/// The definitions of a file, and what was made of them.
pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) imported: ImportedJobs,
    pub(super) sds: Vec<Definition>,
    pub(super) wds: Vec<Definition>,
    pub(super) rds: Vec<Definition>,
}

impl Reader<'_> {
    /// An error at a line.
    pub(super) fn wrong(&self, at: usize, problem: impl Into<String>) -> ImportError {
        ImportError::wrong(format!("{}:{at}", self.file), problem)
    }
}
