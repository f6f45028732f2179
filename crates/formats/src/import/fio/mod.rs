//! fio's job files (fio(1), "Job file format").
//!
//! Options keep their names, and get plain numbers. [`options`] has the support of each option,
//! [`engines`] that of each engine.

pub mod engines;
mod number;
pub mod options;
mod settle;
#[cfg(test)]
mod tests;

pub use settle::{Numbers, TRANSLATED, settle, with_files};

use super::{ImportError, ImportedJob, ImportedJobs};
use number::{Kind, expression};
use options::FioOption;
use std::path::{Path, PathBuf};

/// Maximum depth of files that include each other.
const INCLUDE_DEPTH: usize = 16;

/// Properties of the machine for a job file.
pub struct Surroundings<'a> {
    /// The text of a file, or why it cannot be read.
    pub read: &'a dyn Fn(&Path) -> Result<String, String>,
    /// The value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Number of processors, for `$ncpus`.
    pub cpus: usize,
    /// Bytes of a page, for `$pagesize`.
    pub page_bytes: usize,
    /// MiB of memory, for `$mb_memory`, if they are known.
    pub memory_mib: Option<u64>,
}

/// Reads a job file.
///
/// # Errors
/// A line that fio does not have, a file that cannot be read, an option that is refused, or no job.
pub fn import(path: &Path, surroundings: &Surroundings<'_>) -> Result<ImportedJobs, ImportError> {
    let mut reader = Reader {
        surroundings,
        groups: Vec::new(),
        base: 0,
        global: ImportedJob::default(),
        job: None,
    };
    reader.file(path, 0)?;
    reader.end_job()?;
    let jobs = |group: Vec<(String, ImportedJob)>| group.into_iter().map(|(_, job)| job).collect();
    let groups = reader.groups.into_iter().map(jobs).collect();
    ImportedJobs { groups, ..ImportedJobs::default() }.some(&path.display().to_string())
}

struct Reader<'a> {
    surroundings: &'a Surroundings<'a>,
    /// Jobs with the names of their sections.
    groups: Vec<Vec<(String, ImportedJob)>>,
    /// The group of jobs that wait for no other job.
    base: usize,
    /// Options of `[global]` so far; they hold for the jobs behind it.
    global: ImportedJob,
    /// The section that is being read; `None` within `[global]`.
    job: Option<(String, ImportedJob)>,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, depth: usize) -> Result<(), ImportError> {
        let at = |line: usize| format!("{}:{line}", path.display());
        let text = (self.surroundings.read)(path)
            .map_err(|problem| ImportError::wrong(path.display().to_string(), problem))?;
        for (line, content) in text.lines().enumerate().map(|(n, content)| (n + 1, content)) {
            // A comment begins anywhere in a line.
            let content = content.split([';', '#']).next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            if let Some(file) = content.strip_prefix("include ") {
                if depth == INCLUDE_DEPTH {
                    return Err(ImportError::wrong(
                        at(line),
                        format!("more than {INCLUDE_DEPTH} files include each other"),
                    ));
                }
                let file: PathBuf = path.parent().unwrap_or(Path::new("")).join(file.trim());
                self.file(&file, depth + 1)?;
            } else if let Some(rest) = content.strip_prefix('[') {
                let name = rest.split_once(']').map(|(name, _)| name.trim());
                let name = name.ok_or_else(|| {
                    ImportError::wrong(at(line), "the name of a section ends with ]")
                })?;
                self.end_job()?;
                self.job = (name != "global").then(|| (name.to_owned(), self.global.clone()));
            } else {
                self.option(content).map_err(|problem| ImportError::wrong(at(line), problem))?;
            }
        }
        Ok(())
    }

    /// Takes in a line with an option.
    fn option(&mut self, content: &str) -> Result<(), String> {
        let (name, value) = content
            .split_once('=')
            .map_or((content, "1"), |(name, value)| (name.trim(), value.trim()));
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(format!("{content:?} is not an option; write name=value"));
        }
        let value = self.surroundings.expand(value)?;
        let job = self.job.as_mut().map_or(&mut self.global, |(_, job)| job);
        job.set(FioOption::named(name).map_or(name, |option| option.name()), value);
        Ok(())
    }

    fn end_job(&mut self) -> Result<(), ImportError> {
        let Some((section, mut job)) = self.job.take() else { return Ok(()) };
        let at = format!("[{section}]");
        let waits = job.take("stonewall").is_some_and(|value| value != "0");
        let group = match job.take("wait_for") {
            Some(name) => self.behind(&name),
            None if !waits && self.groups.len() > self.base + 1 => {
                Err("it waits for no job: put it before those that wait for others".to_owned())
            }
            None => Ok(if waits { self.groups.len() } else { self.base }),
        };
        let group = group.map_err(|problem| ImportError::wrong(&*at, problem))?;
        if job.get("name").is_none() {
            job.set("name", &*section);
        }
        settle(&at, &mut job, Numbers::Fio)?;
        let jobs = with_files(&section, job)?;
        if group >= self.groups.len() {
            self.groups.push(Vec::new());
        }
        if waits {
            self.base = self.groups.len() - 1;
        }
        let into = self.groups.get_mut(group).into_iter();
        into.for_each(|into| into.extend(jobs.iter().map(|job| (section.clone(), job.clone()))));
        Ok(())
    }

    /// The group of a job that waits for the jobs of a section.
    fn behind(&self, name: &str) -> Result<usize, String> {
        let has = |group: &Vec<(String, ImportedJob)>| group.iter().any(|(other, _)| other == name);
        let Some(group) = self.groups.iter().position(has) else {
            return Err(format!("wait_for={name}: there is no such job before it"));
        };
        let is_alone = self.groups[group].iter().all(|(other, _)| other == name);
        match (group < self.base, is_alone) {
            (true, _) => Ok(self.base),
            (false, true) => Ok(group + 1),
            (false, false) => Err(format!(
                "wait_for={name}: other jobs run at the same time as {name}; use stonewall"
            )),
        }
    }
}

impl Surroundings<'_> {
    /// Replaces `${NAME}` by the environment's value, and fio's keywords by their values. Sums and
    /// products with a keyword are computed.
    fn expand(&self, value: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = value;
        while let Some((before, behind)) = rest.split_once("${") {
            let (name, after) =
                behind.split_once('}').ok_or("${ needs a } behind the name of a variable")?;
            out += before;
            out += &(self.variable)(name)
                .ok_or_else(|| format!("the environment has no variable {name}; set it"))?;
            rest = after;
        }
        let expanded = out + rest;
        let mut replaced = expanded
            .replace("$ncpus", &self.cpus.to_string())
            .replace("$pagesize", &self.page_bytes.to_string());
        if replaced.contains("$mb_memory") {
            let memory = self.memory_mib.ok_or("$mb_memory is not known on this system")?;
            replaced = replaced.replace("$mb_memory", &memory.to_string());
        }
        match replaced != expanded && replaced.contains(['+', '-', '*', '/']) {
            true => expression(&replaced, Kind::Number, false).map(|number| number.to_string()),
            false => Ok(replaced),
        }
    }
}
