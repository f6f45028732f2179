//! Workloads from files and command lines of other tools: what runs, and what is said about it.

use super::job::JobArgs;
use super::taken::Taken;
use crate::exit::{Failure, tell};
use crate::help::headings::OTHER_TOOLS;
use clap::{Args, CommandFactory, Parser};
use std::path::{Path, PathBuf};
use weft_block::ErrorKind;
use weft_formats::import::fio::Surroundings;
use weft_formats::import::{self, ImportError, Imported, ImportedJob};

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
pub struct Ready {
    /// Its options.
    pub job: JobArgs,
    /// A path or a URL.
    pub target: Option<String>,
}

/// The options of a job that a file may have.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct OneJob {
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    taken: Taken,
}

impl ImportArgs {
    /// What is to be run, if a file or line was given: groups of jobs. What has no equivalent is
    /// said on standard error.
    pub fn read(&self) -> Result<Option<Vec<Vec<Ready>>>, Failure> {
        let refused = |e: ImportError| Failure::of(ErrorKind::Usage, e.to_string());
        let imported = match (&self.fio, &self.diskspd, &self.vdbench) {
            (Some(path), ..) => {
                let cpus = std::thread::available_parallelism().map_or(1, usize::from);
                import::fio::import(
                    path,
                    &Surroundings {
                        read: &text_of,
                        variable: &|name| std::env::var(name).ok(),
                        cpus,
                    },
                )
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
        let Imported { groups, mut without } = imported.map_err(refused)?;
        let mut ready = Vec::new();
        for group in groups {
            ready.push(
                group
                    .into_iter()
                    .map(|job| parse(job, &mut without))
                    .collect::<Result<Vec<_>, _>>()?,
            );
        }
        if !without.is_empty() {
            tell(&format!("weft: without an equivalent, and left out: {}", without.join("; ")));
        }
        Ok(Some(ready))
    }
}

fn text_of(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("cannot be read: {e}"))
}

/// The options of an imported job, as if they had been given on the command line. Those that weft
/// does not have are added to `without`.
fn parse(job: ImportedJob, without: &mut Vec<String>) -> Result<Ready, Failure> {
    let command = OneJob::command();
    let is_known = |name: &str| {
        command.get_arguments().any(|arg| {
            arg.get_long() == Some(name)
                || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
        })
    };
    let name = job.get("name").unwrap_or_default().to_owned();
    let (known, unknown): (Vec<_>, Vec<_>) =
        job.options.into_iter().partition(|(name, _)| is_known(name));
    for (option, value) in unknown {
        let text = format!("{option}={value}");
        if !without.contains(&text) {
            without.push(text);
        }
    }
    let words = known.iter().map(|(name, value)| format!("--{name}={value}"));
    let parsed = OneJob::try_parse_from(words).map_err(|e| {
        let text = e.to_string();
        let first =
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Failure::of(ErrorKind::Usage, format!("job {name}: {first}"))
    })?;
    Ok(Ready { job: parsed.job, target: job.target })
}
