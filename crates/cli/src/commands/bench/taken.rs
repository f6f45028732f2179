//! Options of fio that are taken, and mean nothing here: a line that was written for fio runs as it is. What was taken so is said once.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// Their names, and why they mean nothing.
const NAMES: [(&str, &str); 19] = [
    ("ioengine", "weft has an engine of its own"),
    ("invalidate", "weft does not empty the cache of the system"),
    ("thread", "jobs are no processes; --threads says how many threads share them"),
    ("refill_buffers", "payload is noise that nobody compresses"),
    ("scramble_buffers", "payload is noise that nobody compresses"),
    ("gtod_reduce", "the clock is read once for each batch"),
    ("clocksource", "the system's monotonic clock is used"),
    ("mem", "memory comes from the pool of the loop"),
    ("fixedbufs", "memory comes from the pool of the loop"),
    ("registerfiles", "weft has an engine of its own"),
    ("hipri", "weft has an engine of its own"),
    ("sqthread_poll", "weft has an engine of its own"),
    ("iodepth_batch_submit", "whatever is due goes together"),
    ("iodepth_batch_complete_min", "whatever is done comes together"),
    ("iodepth_batch_complete_max", "whatever is done comes together"),
    ("fallocate", "files are made sparse"),
    ("unlink", "files are left where they are"),
    ("exitall", "all jobs are alike and end together"),
    ("eta", "progress is shown where people watch"),
];

/// Those that were given.
#[derive(Clone, Debug, Default)]
pub struct Taken(Vec<String>);

impl Taken {
    /// Says on standard error what was taken without meaning anything, for a device that is a file or not.
    pub fn say(&self, is_file: bool, direct: Option<bool>) {
        let direct = direct.filter(|direct| !is_file && !direct).map(|_| "--direct=0 (only files have a cache here)".to_owned());
        let all: Vec<String> = self.0.iter().cloned().chain(direct).collect();
        if !all.is_empty() {
            eprintln!("weft: taken, and without a meaning here: {}", all.join(", "));
        }
    }
}

impl FromArgMatches for Taken {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |(name, why): &(&str, &str)| {
            let value = matches.get_one::<String>(name)?;
            let value = if value.is_empty() { String::new() } else { format!("={value}") };
            // What weft does anyway needs no word.
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
            let form = Arg::new(name).long(name).num_args(0..=1).require_equals(true).default_missing_value("");
            form.action(ArgAction::Set)
                .help(why)
                .help_heading("Taken from lines for fio, without a meaning here")
                .hide_short_help(true)
        };
        command.args(NAMES.map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
