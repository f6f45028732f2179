//! Workloads from files and command lines of other tools: what runs, and what is left out of it.

use super::job::JobArgs;
use crate::help::headings::OTHER_TOOLS;
use crate::process::exit::Failure;
use clap::{Args, Parser};
use std::path::{Path, PathBuf};
use weft_block::ErrorKind;
use weft_formats::import::fio::Surroundings;
use weft_formats::import::{self, ImportError, ImportedJob, ImportedJobs};

/// Options that name a workload of another tool.
#[derive(Args, Clone, Debug, Default)]
#[group(multiple = false)]
pub struct ImportArgs {
    /// Run the jobs of a fio job file
    #[arg(help_heading = OTHER_TOOLS, long, value_name = "FILE")]
    fio: Option<PathBuf>,
    /// Run what a DISKSPD command line asks for, as in "-b4K -r -w30 -t10 -o4 -d60 PATH"
    #[arg(help_heading = OTHER_TOOLS, long, value_name = "LINE", allow_hyphen_values = true)]
    diskspd: Option<String>,
    /// Run the runs of a vdbench parameter file
    #[arg(help_heading = OTHER_TOOLS, long, value_name = "FILE")]
    vdbench: Option<PathBuf>,
}

/// A job that was imported, with its options as the command line has them.
pub struct ReadyJob {
    /// Its options.
    pub job: JobArgs,
    /// A path or a URL.
    pub target: Option<String>,
    /// Options that were left out.
    pub left_out: Vec<String>,
}

/// The options of a job that a file may have.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct OneJob {
    #[command(flatten)]
    job: JobArgs,
}

impl ImportArgs {
    /// The jobs to run, in groups, if a file or line was given.
    pub fn read(&self) -> Result<Option<Vec<Vec<ReadyJob>>>, Failure> {
        let refused = |e: ImportError| Failure::of(ErrorKind::Usage, e.to_string());
        let imported = match (&self.fio, &self.diskspd, &self.vdbench) {
            (Some(path), ..) => {
                let surroundings = Surroundings {
                    read: &text_of,
                    variable: &|name| std::env::var(name).ok(),
                    cpus: std::thread::available_parallelism().map_or(1, usize::from),
                    page_bytes: PAGE_BYTES,
                    memory_mib: memory_mib(),
                };
                import::fio::import(path, &surroundings)
            }
            (_, Some(line), _) => import::diskspd::import(line),
            (.., Some(path)) => {
                let name = path.display().to_string();
                let text = text_of(path).map_err(|problem| {
                    Failure::of(ErrorKind::Usage, format!("{name}: {problem}"))
                })?;
                import::vdbench::import(&name, &text)
            }
            _ => return Ok(None),
        };
        let ImportedJobs { groups, without } = imported.map_err(refused)?;
        let with_all = |mut job: ImportedJob| {
            job.left_out.extend(without.iter().cloned());
            ready(job)
        };
        let groups = groups.into_iter().map(|group| group.into_iter().map(with_all).collect());
        groups.collect::<Result<_, _>>().map(Some)
    }
}

/// Bytes of a page, of fio's `$pagesize`: those of nearly all machines.
const PAGE_BYTES: usize = 4096;

/// MiB of memory of this machine, where Linux tells them.
fn memory_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib >> 10)
}

fn text_of(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("cannot be read: {e}"))
}

/// The options of an imported job, as if they had been given on the command line.
pub fn ready(job: ImportedJob) -> Result<ReadyJob, Failure> {
    let name = job.get("name").unwrap_or_default().to_owned();
    let words = job.options.iter().map(|(name, value)| format!("--{name}={value}"));
    let parsed = OneJob::try_parse_from(words).map_err(|e| {
        let text = e.to_string();
        let first =
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Failure::of(ErrorKind::Usage, format!("job {name}: {first}"))
    })?;
    Ok(ReadyJob { job: parsed.job, target: job.target, left_out: job.left_out })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use weft_formats::import::OptionSupport;
    use weft_formats::import::fio::TRANSLATED;
    use weft_formats::import::fio::options::FioOption;

    /// What the table promises, this program has.
    #[test]
    fn each_option_that_is_honoured_exists() {
        let command = OneJob::command();
        let has = |name: &str| {
            command.get_arguments().any(|arg| {
                arg.get_long() == Some(name)
                    || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
            })
        };
        for option in FioOption::all() {
            let name = option.name();
            let is_honoured = option.answer == OptionSupport::Honoured;
            let is_own = TRANSLATED.contains(&name) || name == "threads";
            assert!(is_own || has(name) == is_honoured, "{name}: {:?}", option.answer);
        }
    }
}
