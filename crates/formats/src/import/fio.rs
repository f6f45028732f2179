//! fio's job files (fio(1), "Job file format").
//!
//! Options keep their names and values; whoever runs the jobs names those that it does not know.

use super::{ImportError, Imported, ImportedJob};
use std::path::{Path, PathBuf};

/// Files that include each other, at most.
const INCLUDE_DEPTH: usize = 16;

/// Engines that wait for each operation, so that `iodepth` means nothing to them.
const SYNCHRONOUS: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];

/// What a job file may need of the machine.
pub struct Surroundings<'a> {
    /// The text of a file, or why it cannot be read.
    pub read: &'a dyn Fn(&Path) -> Result<String, String>,
    /// The value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Number of processors, for `$ncpus`.
    pub cpus: usize,
}

/// Reads a job file.
///
/// # Errors
/// A line that is none of fio's, a file that cannot be read, or no job.
pub fn import(path: &Path, surroundings: &Surroundings<'_>) -> Result<Imported, ImportError> {
    let mut reader = Reader {
        surroundings,
        imported: Imported::default(),
        global: ImportedJob::default(),
        job: None,
    };
    reader.file(path, 0)?;
    reader.end_job()?;
    reader.imported.some(&path.display().to_string())
}

struct Reader<'a> {
    surroundings: &'a Surroundings<'a>,
    imported: Imported,
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
        for (line, content) in text.lines().enumerate().map(|(n, content)| (n + 1, content.trim()))
        {
            if content.is_empty() || content.starts_with([';', '#']) {
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
                let (name, value) = content
                    .split_once('=')
                    .map_or((content, "1"), |(name, value)| (name.trim(), value.trim()));
                if name.is_empty() || name.contains(char::is_whitespace) {
                    return Err(ImportError::wrong(
                        at(line),
                        format!("{content:?} is no option; write name=value"),
                    ));
                }
                let value = self
                    .surroundings
                    .expand(value)
                    .map_err(|problem| ImportError::wrong(at(line), problem))?;
                let job = self.job.as_mut().map_or(&mut self.global, |(_, job)| job);
                job.set(canonical(name), value);
            }
        }
        Ok(())
    }

    fn end_job(&mut self) -> Result<(), ImportError> {
        let Some((section, mut job)) = self.job.take() else { return Ok(()) };
        let waits = [job.take("stonewall"), job.take("wait_for_previous")]
            .into_iter()
            .flatten()
            .any(|value| value != "0");
        if job.get("name").is_none() {
            job.set("name", &*section);
        }
        let directory = job.take("directory");
        job.target = job.take("filename");
        if let Some(name) = job.target.as_deref().filter(|name| names_several(name)) {
            let problem = format!(
                "filename={name} names several files; give each a job, or name a stripe: of them"
            );
            return Err(ImportError::wrong(format!("[{section}]"), problem));
        }
        let given = job.target.take().or_else(|| {
            let several = job.get("numjobs").is_some_and(|count| count != "1")
                || job.get("nrfiles").is_some_and(|count| count != "1");
            directory.as_ref()?;
            if several {
                self.imported.lack(format!(
                    "[{section}]: all of its jobs use one file, where fio gives a file to each"
                ));
            }
            Some(format!("{section}.0.0"))
        });
        job.target = given.map(|name| {
            directory.map_or_else(|| name.clone(), |directory| format!("{directory}/{name}"))
        });
        let engine = job.get("ioengine").map(str::to_owned);
        if let Some(engine) = engine.filter(|engine| SYNCHRONOUS.contains(&engine.as_str()))
            && job.get("iodepth").is_some_and(|depth| depth != "1")
        {
            self.imported.lack(format!(
                "[{section}]: iodepth, because ioengine={engine} has one operation in flight"
            ));
            job.set("iodepth", "1");
        }
        if waits || self.imported.groups.is_empty() {
            self.imported.groups.push(Vec::new());
        }
        self.imported.groups.last_mut().into_iter().for_each(|group| group.push(job.clone()));
        Ok(())
    }
}

/// fio's other names of options.
fn canonical(name: &str) -> &str {
    match name {
        "readwrite" => "rw",
        "blocksize" => "bs",
        "blocksplit" => "bssplit",
        "stonewall" | "wait_for_previous" => "stonewall",
        name => name,
    }
}

/// Whether a file name has a colon that separates names. URLs, and drives of Windows, have others.
fn names_several(name: &str) -> bool {
    let is_drive =
        name.len() > 2 && name.as_bytes()[1] == b':' && matches!(name.as_bytes()[2], b'\\' | b'/');
    !weft_block::grammar::has_scheme(name) && !is_drive && name.replace("\\:", "").contains(':')
}

impl Surroundings<'_> {
    /// Replaces `${NAME}` by the environment's value, and `$ncpus`.
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
        Ok((out + rest).replace("$ncpus", &self.cpus.to_string()))
    }
}
