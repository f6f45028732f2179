//! The graph of `weft top`: the commands per second over the last minute, in one line.

use crate::output::figures::count;
use std::collections::VecDeque;
use std::io::IsTerminal;

/// What is shown, in seconds.
const SPAN_S: f64 = 60.0;

/// Columns of the graph at most...
const COLUMNS_MAX: usize = 60;

/// ...and at least; a narrower terminal has none.
const COLUMNS_MIN: usize = 10;

/// Rates that are kept at most: of shorter intervals the last ones.
const SAMPLES_MAX: usize = 6000;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PLAIN: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// A rate between two times, in seconds.
struct Sample {
    begin: f64,
    end: f64,
    rate: f64,
}

/// The last minute of one process.
#[derive(Default)]
pub struct History(VecDeque<Sample>);

impl History {
    /// Adds the rate of the `seconds` before `end`, the server's time. Rates of an earlier process
    /// are forgotten.
    pub fn add(&mut self, end: f64, seconds: f64, rate: f64) {
        if self.0.back().is_some_and(|last| last.end > end) {
            self.0.clear();
        }
        self.0.push_back(Sample { begin: end - seconds, end, rate });
        while self.0.len() > SAMPLES_MAX
            || self.0.front().is_some_and(|first| first.end < end - SPAN_S)
        {
            self.0.pop_front();
        }
    }

    /// The line, within `room` columns; empty if there is no room.
    pub fn line(&self, room: Option<usize>, with_blocks: bool) -> String {
        let most = self.0.iter().map(|sample| sample.rate).fold(0.0, f64::max);
        let (before, after) = ("IOPS, last 60 s  ", format!("  most {}", count(most)));
        let text = before.len() + after.len();
        let columns = room.map_or(COLUMNS_MAX, |room| room.saturating_sub(text)).min(COLUMNS_MAX);
        if columns < COLUMNS_MIN {
            return String::new();
        }
        let levels = if with_blocks { BLOCKS } else { PLAIN };
        let bar = |rate: Option<f64>| match rate {
            None => ' ',
            Some(rate) if most > 0.0 => {
                levels[((rate / most * 8.0).ceil() as usize).clamp(1, 8) - 1]
            }
            Some(_) => levels[0],
        };
        let bars: String = self.bars(columns).into_iter().map(bar).collect();
        format!("{before}{bars}{after}\n")
    }

    /// The mean rate in each of so many equal parts of the minute, where one is known.
    fn bars(&self, columns: usize) -> Vec<Option<f64>> {
        let Some(last) = self.0.back() else { return vec![None; columns] };
        let width = SPAN_S / columns as f64;
        let mean = |column: usize| {
            let begin = last.end - SPAN_S + column as f64 * width;
            let (mut seconds, mut sum) = (0.0, 0.0);
            for sample in &self.0 {
                let both = sample.end.min(begin + width) - sample.begin.max(begin);
                if both > 0.0 {
                    seconds += both;
                    sum += both * sample.rate;
                }
            }
            (seconds > 0.0).then(|| sum / seconds)
        };
        (0..columns).map(mean).collect()
    }
}

/// Returns whether standard output shows block characters: it is a terminal, and its characters are
/// UTF-8.
pub fn shows_blocks() -> bool {
    std::io::stdout().is_terminal() && (cfg!(windows) || is_utf8(|name| std::env::var(name).ok()))
}

/// What the locale says (POSIX: the first of these that is set and not empty counts).
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_the_last_minute() {
        let mut history = History::default();
        for second in 0..100 {
            history.add(f64::from(second), 1.0, f64::from(second % 10) * 100.0);
        }
        let line = history.line(Some(200), true);
        assert!(line.starts_with("IOPS, last 60 s  ▁▁▂▃▄▅▆▇██▁"), "{line}");
        assert!(line.ends_with("██  most 900\n"), "{line}");
        let plain = history.line(Some(60), false);
        assert!(plain.is_ascii() && plain.trim_end().len() == 60, "{plain}");
        assert_eq!(history.line(Some(30), true), "", "no room");
        // Another process: its minute begins.
        history.add(2.0, 2.0, 50.0);
        let line = history.line(None, false);
        assert_eq!(line, format!("IOPS, last 60 s  {:58}##  most 50\n", ""));
    }

    #[test]
    fn long_intervals_are_wide_and_nothing_is_low() {
        let mut history = History::default();
        history.add(30.0, 30.0, 0.0);
        assert!(history.line(None, true).contains(&"▁".repeat(30)));
        (0..20_000).for_each(|n| history.add(30.0 + f64::from(n) / 1000.0, 0.001, 1.0));
        assert!(history.0.len() <= SAMPLES_MAX);
    }

    #[test]
    fn the_first_variable_of_the_locale_counts() {
        let of = |all: &'static str, ctype: &'static str, lang: &'static str| {
            is_utf8(move |name| {
                let value = match name {
                    "LC_ALL" => all,
                    "LC_CTYPE" => ctype,
                    _ => lang,
                };
                Some(value.to_owned())
            })
        };
        assert!(of("", "", "en_US.UTF-8") && of("C.utf8", "C", "C"));
        assert!(!of("C", "", "en_US.UTF-8") && !of("", "", ""));
    }
}
