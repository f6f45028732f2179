//! Budgets of processor time for whole runs from a fresh clone.
//!
//! `xtask/budget.txt` has them as multiples of a piece of work that is timed again and again while
//! the run goes on, so that a slow machine does not fail, nor one that others use.

use std::{
    collections::BTreeMap,
    fs,
    hint::black_box,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result};
use plan::Run;

use crate::{sh, times};

/// Entries of the map that the work fills. They do not fit into the caches of a core, as a
/// compiler's data does not.
const ENTRIES: u64 = 50_000;

/// Between two times. The work takes about a hundredth of it.
const PAUSE: Duration = Duration::from_secs(10);

/// Processor times.
#[derive(Clone, Copy)]
pub struct Cost {
    /// Time of the run.
    pub run: Duration,
    /// Mean time of the work.
    pub unit: Duration,
}

/// Times the work on a thread of its own, from [`Gauge::start`] to [`Gauge::cost`].
pub struct Gauge {
    /// The thread ends when this does.
    stop: Sender<()>,
    times: JoinHandle<Vec<Duration>>,
}

impl Gauge {
    /// Starts the thread.
    pub fn start() -> Self {
        let (stop, stopped) = channel();
        let times = thread::spawn(move || {
            let mut times = vec![timed()];
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                times.push(timed());
            }
            times
        });
        Self { stop, times }
    }

    /// Ends the thread; returns what the run took, in relation to the work.
    pub fn cost(self, run: Duration) -> Cost {
        drop(self.stop);
        let times = self.times.join().unwrap_or_default();
        let sum: Duration = times.iter().sum();
        let mean = sum / u32::try_from(times.len()).unwrap_or(1).max(1);
        Cost { run, unit: mean.max(Duration::from_millis(1)) }
    }
}

/// A run's use of its budget.
pub struct Used {
    /// Multiples of the work's time.
    pub units: f64,
    /// Those that the budget allows.
    pub allowed: f64,
}

impl Used {
    /// Compares a run's processor time with its budget.
    ///
    /// # Errors
    /// If the file lacks the run.
    pub fn of(run: Run, cost: Cost) -> Result<Self> {
        let path = sh::root().join("xtask/budget.txt");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let allowed = allowed(&text, run)
            .with_context(|| format!("xtask/budget.txt has no budget for `{}`", run.name()))?;
        Ok(Self { units: cost.run.as_secs_f64() / cost.unit.as_secs_f64(), allowed })
    }

    /// Returns whether the run took more than it may.
    pub fn is_over(&self) -> bool {
        self.units > self.allowed
    }
}

/// The budget of a run in the file's text.
fn allowed(text: &str, run: Run) -> Option<f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut pairs = lines.filter_map(|line| line.rsplit_once(' '));
    pairs.find(|(name, _)| name.trim() == run.name())?.1.parse().ok()
}

/// The processor time of the work: a map of scattered keys, filled once.
fn timed() -> Duration {
    let before = times::cpu_of_thread();
    let mut map = BTreeMap::new();
    for n in 0..ENTRIES {
        map.insert(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), n);
    }
    black_box(map);
    times::cpu_of_thread().saturating_sub(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_those_of_the_file() {
        let text = "# a comment\ntest 100\ntest --rest 250.5\n";
        assert_eq!(allowed(text, Run::Product), Some(100.0));
        assert_eq!(allowed(text, Run::Rest), Some(250.5));
        assert_eq!(allowed(text, Run::All), None);
    }

    #[test]
    fn each_run_of_continuous_integration_has_a_budget() {
        for run in [Run::Product, Run::Rest] {
            let used = |seconds| {
                let (took, unit) = (Duration::from_secs(seconds), Duration::from_millis(100));
                Used::of(run, Cost { run: took, unit }).unwrap()
            };
            assert!(!used(0).is_over());
            assert!(used(1_000_000).is_over());
        }
    }

    #[test]
    fn a_gauge_tells_what_the_work_takes() {
        let cost = Gauge::start().cost(Duration::from_secs(1));
        assert!(cost.unit >= Duration::from_millis(1));
    }
}
