//! The options of fio on the command line. Those that [`JobArgs`] does not have are accepted as
//! well: they are translated, left out, or refused, by the same rules as in a job file.

use super::imported::{ReadyJob, ready};
use super::job::JobArgs;
use crate::help::headings::{FIO, IGNORED, REFUSED};
use crate::process::exit::Failure;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use weft_block::ErrorKind;
use weft_formats::import::fio::options::FioOption;
use weft_formats::import::fio::{Numbers, settle, with_files};
use weft_formats::import::{ImportError, ImportedJob, OptionSupport};

/// An option of fio itself, not of its jobs.
const ETA: (&str, &str) = ("eta", "progress is shown if standard error is a terminal");

/// Options of `weft bench` whose names belong to something else in fio.
const OWN: [&str; 1] = ["threads"];

/// The options of jobs on this command line.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// Those of fio, in their order.
    given: Vec<(String, String)>,
    /// With the options that only weft has.
    own: JobArgs,
}

impl JobOptions {
    /// The job of this command line, or one for each clone that has a file of its own.
    pub fn jobs(&self) -> Result<Vec<ReadyJob>, Failure> {
        let refused = |e: ImportError| Failure::of(ErrorKind::Usage, e.to_string());
        let (eta, options): (Vec<_>, Vec<_>) =
            self.given.iter().cloned().partition(|(name, _)| name == ETA.0);
        let mut job = ImportedJob { options, ..ImportedJob::default() };
        settle("the options", &mut job, Numbers::Weft).map_err(refused)?;
        job.left_out.extend(eta.iter().map(|(name, value)| format!("{name}={value} ({})", ETA.1)));
        let name = job.get("name").unwrap_or("weft").to_owned();
        let jobs = with_files(&name, job).map_err(refused)?;
        jobs.into_iter()
            .map(|job| {
                let mut ready = ready(job)?;
                ready.job.keep_own(&self.own);
                Ok(ready)
            })
            .collect()
    }

    /// The value of an option.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Options that other programs' engines have, and that are refused with these.
fn is_taken(option: &FioOption) -> bool {
    !(option.is_of_engine() && option.answer == OptionSupport::Refused)
}

/// The options of fio that were given, in their order.
fn given(matches: &ArgMatches) -> Vec<(String, String)> {
    let names = FioOption::all().iter().filter(|option| is_taken(option));
    let names = names.flat_map(|option| option.names.iter().copied()).chain([ETA.0]);
    // `--filename` may have colons here, so it is not fio's.
    let names = names.filter(|name| !OWN.contains(name) && *name != "filename");
    let mut given = Vec::new();
    for name in names {
        let is_given = matches.try_contains_id(name).unwrap_or(false)
            && matches.value_source(name) == Some(ValueSource::CommandLine);
        if !is_given {
            continue;
        }
        let at = matches.indices_of(name).and_then(Iterator::last).unwrap_or(0);
        let value = matches.get_raw(name).and_then(Iterator::last).unwrap_or_default();
        given.push((at, name.to_owned(), value.to_string_lossy().into_owned()));
    }
    given.sort();
    given.into_iter().map(|(_, name, value)| (name, value)).collect()
}

impl FromArgMatches for JobOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        // Before `JobArgs` takes its options out of the matches.
        let given = given(matches);
        Ok(Self { given, own: JobArgs::from_arg_matches_mut(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for JobOptions {
    fn augment_args(command: Command) -> Command {
        let command = JobArgs::augment_args(command);
        let has = |name: &str| {
            command.get_arguments().any(|arg| {
                arg.get_id() == name
                    || arg.get_long() == Some(name)
                    || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
            })
        };
        let arg = |names: &[&'static str], note: &'static str, heading: &'static str| {
            Arg::new(names[0])
                .long(names[0])
                .aliases(names[1..].iter().copied())
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("1")
                .action(ArgAction::Set)
                .help(note)
                .help_heading(heading)
                .hide_short_help(true)
        };
        let all: Vec<Arg> = FioOption::all()
            .iter()
            .filter(|option| is_taken(option) && !option.names.iter().any(|name| has(name)))
            .map(|option| {
                let heading = match option.answer {
                    OptionSupport::Honoured => FIO,
                    OptionSupport::LeftOut => IGNORED,
                    OptionSupport::Refused => REFUSED,
                };
                arg(&option.names, option.note, heading)
            })
            .collect();
        command.args(all).arg(arg(&[ETA.0], ETA.1, IGNORED))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
