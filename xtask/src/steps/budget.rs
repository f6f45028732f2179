//! Budgets of processor time for whole runs from a fresh clone.
//!
//! `xtask/budget.txt` has them as multiples of what a fixed loop takes on the same machine at the
//! same time, so that a slow machine does not fail.

use std::{fs, hint::black_box, time::Duration};

use anyhow::{Context, Result};
use plan::Run;

use crate::{sh, times};

/// Steps of the loop, about a second of processor time in all.
const STEPS: u64 = 30_000_000;

/// How often the loop runs; the fastest counts.
const ROUNDS: u32 = 5;

/// A run's use of its budget.
pub struct Used {
    /// Multiples of the loop's time.
    pub units: f64,
    /// Those that the budget allows.
    pub allowed: f64,
}

impl Used {
    /// Compares a run's processor time with its budget.
    ///
    /// # Errors
    /// If the file lacks the run.
    pub fn of(run: Run, cpu: Duration) -> Result<Self> {
        let path = sh::root().join("xtask/budget.txt");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let allowed = allowed(&text, run)
            .with_context(|| format!("xtask/budget.txt has no budget for `{}`", run.name()))?;
        Ok(Self { units: cpu.as_secs_f64() / unit().as_secs_f64(), allowed })
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

/// The processor time of the loop.
fn unit() -> Duration {
    let rounds = (0..ROUNDS).map(|_| {
        let before = times::cpu_of_thread();
        let mut state = black_box(1u64);
        for _ in 0..STEPS {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        black_box(state);
        times::cpu_of_thread().saturating_sub(before)
    });
    rounds.min().unwrap_or_default().max(Duration::from_millis(1))
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
            assert!(!Used::of(run, Duration::ZERO).unwrap().is_over());
            assert!(Used::of(run, Duration::from_secs(1_000_000)).unwrap().is_over());
        }
    }
}
