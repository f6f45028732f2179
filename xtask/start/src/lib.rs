//! The steps of `cargo xtask test`: the command that each belongs to and why, and the time that it
//! takes.
#![forbid(unsafe_code)]

mod known;
mod search;
mod steps;

use std::ffi::OsString;

pub use known::Known;
pub use search::{peers, search_path};
pub use steps::{STEPS, Step, Why, named};

/// A run of `cargo xtask test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// `cargo xtask test`.
    Product,
    /// `cargo xtask test --rest`.
    Rest,
    /// `cargo xtask test --all`.
    All,
}

impl Run {
    /// The run that a command line asks for; none if it asks for something else, or for a selection
    /// of steps.
    pub fn of(args: &[OsString]) -> Option<Self> {
        let words: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
        match words[..] {
            ["test"] => Some(Self::Product),
            ["test", "--rest"] => Some(Self::Rest),
            ["test", "--all"] => Some(Self::All),
            _ => None,
        }
    }

    /// Returns whether a step is part of it.
    pub fn has(self, step: &Step) -> bool {
        match self {
            Self::Product => step.why == Why::Product,
            Self::Rest => step.why != Why::Product,
            Self::All => true,
        }
    }

    /// The name under which the duration of the whole run is kept.
    pub fn name(self) -> &'static str {
        match self {
            Self::Product => "test",
            Self::Rest => "test --rest",
            Self::All => "test --all",
        }
    }

    /// Minutes on two processors that do nothing else: with everything to be built, and with
    /// everything built.
    fn minutes(self) -> (u32, u32) {
        match self {
            Self::Product => (15, 7),
            Self::Rest => (36, 28),
            Self::All => (50, 35),
        }
    }

    /// Other commands, for somebody who wants less or more.
    fn others(self) -> &'static str {
        match self {
            Self::Product => {
                "less: `cargo test -p weft-proto` runs the tests of one crate; `cargo xtask test sim` runs one step\n\
                 more: `cargo xtask test --all` also runs virtual machines, Windows programs, Ceph, fuzzing and lints (Debian 12, root)"
            }
            Self::Rest | Self::All => {
                "less: `cargo xtask test` needs Rust and a C compiler only; `cargo xtask test lab` runs one step"
            }
        }
    }
}

/// The first lines of a run: its steps, the time that they take, and how to run less.
pub fn announcement(run: Run, known: &Known) -> String {
    let steps: Vec<&str> =
        STEPS.iter().filter(|step| run.has(step)).map(|step| step.name).collect();
    let time = match known.of(run.name()) {
        Some(seconds) => format!("it took {:.0} min here last", (seconds / 60.0).ceil()),
        None => {
            let (cold, warm) = run.minutes();
            format!("about {cold} min on two processors, {warm} if everything is built")
        }
    };
    format!("cargo xtask {}: {} ({time})\n{}", run.name(), steps.join(", "), run.others())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_runs_are_announced() {
        let run = |words: &[&str]| Run::of(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(run(&["test"]), Some(Run::Product));
        assert_eq!(run(&["test", "--all"]), Some(Run::All));
        assert_eq!(run(&["test", "lab"]), None);
        assert_eq!(run(&["check"]), None);
    }

    #[test]
    fn the_duration_is_that_of_the_last_run_here() {
        let target = std::env::temp_dir().join(format!("weft-plan-{}", std::process::id()));
        let mut known = Known::read(&target);
        assert!(announcement(Run::Product, &known).starts_with(
            "cargo xtask test: workspace, sim, examples, alone (about 15 min on two processors, 7 if everything is built)\n"
        ));
        known.remember("test", std::time::Duration::from_secs(61));
        let again = Known::read(&target);
        assert!(announcement(Run::Product, &again).contains("(it took 2 min here last)"));
        std::fs::remove_dir_all(&target).unwrap();
    }

    #[test]
    fn each_step_is_in_one_of_the_two_halves() {
        for step in STEPS {
            assert!(Run::Product.has(step) != Run::Rest.has(step), "{}", step.name);
            assert!(Run::All.has(step), "{}", step.name);
        }
    }
}
