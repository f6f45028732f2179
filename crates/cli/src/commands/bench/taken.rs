//! fio options that are accepted and ignored, so that command lines for fio run unchanged. Ignored
//! options are listed once.

use crate::exit::tell;
use crate::help::headings::IGNORED;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// The options, and why weft ignores them.
const NAMES: [(&str, &str); 17] = [
    ("ioengine", "weft has its own I/O engine"),
    ("invalidate", "weft does not invalidate the page cache"),
    ("thread", "jobs are not processes; --threads sets the number of threads"),
    ("gtod_reduce", "the clock is read once per batch"),
    ("clocksource", "weft uses the system's monotonic clock"),
    ("mem", "memory comes from the event loop's pool"),
    ("fixedbufs", "memory comes from the event loop's pool"),
    ("registerfiles", "weft has its own I/O engine"),
    ("hipri", "weft has its own I/O engine"),
    ("sqthread_poll", "weft has its own I/O engine"),
    ("iodepth_batch_submit", "all due operations are submitted together"),
    ("iodepth_batch_complete_min", "all completed operations are reaped together"),
    ("iodepth_batch_complete_max", "all completed operations are reaped together"),
    ("fallocate", "files are created sparse"),
    ("unlink", "files are not deleted"),
    ("exitall", "all jobs are the same and end together"),
    ("eta", "progress is shown if standard error is a terminal"),
];

/// The ignored options of this command line.
#[derive(Clone, Debug, Default)]
pub struct Taken(Vec<String>);

impl Taken {
    /// Lists the ignored options on standard error; `is_file` says whether the device is a file.
    pub fn say(&self, is_file: bool, direct: Option<bool>) {
        let direct = direct
            .filter(|direct| !is_file && !direct)
            .map(|_| "--direct=0 (only files use the page cache)".to_owned());
        let all: Vec<String> = self.0.iter().cloned().chain(direct).collect();
        if !all.is_empty() {
            tell(&format!("weft: ignored fio options: {}", all.join(", ")));
        }
    }
}

impl FromArgMatches for Taken {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |(name, why): &(&str, &str)| {
            let value = matches.get_one::<String>(name)?;
            let value = if value.is_empty() { String::new() } else { format!("={value}") };
            // Options that ask for what weft does anyway are not listed.
            let same = matches!((*name, value.as_str()), ("invalidate" | "unlink", "=0"));
            (!same).then(|| format!("--{name}{value} ({why})"))
        };
        Ok(Self(NAMES.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Taken {
    fn augment_args(command: Command) -> Command {
        let arg = |(name, why): (&'static str, &'static str)| {
            let form = Arg::new(name)
                .long(name)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("");
            form.action(ArgAction::Set).help(why).help_heading(IGNORED).hide_short_help(true)
        };
        command.args(NAMES.map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
