//! Times of a suite.

use core::time::Duration;
use serde::Deserialize;
use weft_block::units::parse_duration;

/// `--quick`, nothing, or `--full`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SuiteMode {
    /// For a first look.
    Quick,
    /// As usual.
    #[default]
    Usual,
    /// As it was published.
    Full,
}

/// Times of a suite in a mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// In all, at most. None: as long as `each` asks for.
    pub budget: Option<Duration>,
    /// Rounds of each row, with a budget the maximum; none: as many as it takes and there is time
    /// for.
    pub rounds: Option<u32>,
    /// Time for the measurements of each row, all its rounds together.
    pub each: Option<Duration>,
    /// Warm-up before each round; none: a quarter of it.
    pub warm_up: Option<Duration>,
}

/// As it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimesEntry {
    budget: Option<String>,
    rounds: Option<u32>,
    each: Option<String>,
    warm_up: Option<String>,
}

/// Most rounds of a row.
const ROUNDS_MAX: u32 = 1000;

impl TimesEntry {
    pub(super) fn read(self, table: &str) -> Result<Times, String> {
        let time = |key: &str, text: &Option<String>| {
            let parse = |text: &String| {
                parse_duration(text).map_err(|problem| format!("[{table}] {key}: {problem}"))
            };
            text.as_ref().map(parse).transpose()
        };
        let times = Times {
            budget: time("budget", &self.budget)?,
            rounds: self.rounds,
            each: time("each", &self.each)?,
            warm_up: time("warm_up", &self.warm_up)?,
        };
        if times.rounds.is_some_and(|rounds| !(1..=ROUNDS_MAX).contains(&rounds)) {
            return Err(format!("[{table}] rounds: it is 1 to {ROUNDS_MAX}"));
        }
        if times.each.is_some() && times.rounds.is_none() {
            return Err(format!(
                "[{table}] `each`, the time of a row, takes `rounds`, into which it is divided"
            ));
        }
        if times.budget.is_none() == times.each.is_none() {
            return Err(format!(
                "[{table}] has either `budget`, the time of all, or `each`, that of a row"
            ));
        }
        Ok(times)
    }
}
