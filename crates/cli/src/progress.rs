//! The progress line of a measurement, on standard error if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use weft_bench::{Phase, Progress};

/// Steps of the progress bar.
const STEPS: u64 = 1000;

/// A progress line.
pub struct Bar(ProgressBar);

impl Bar {
    /// An empty progress line.
    pub fn new() -> Self {
        let bar = ProgressBar::new(STEPS);
        let style = ProgressStyle::with_template("{prefix:>10} [{bar:30}] {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        Self(bar)
    }

    /// Shows the progress of a run.
    pub fn show(&mut self, progress: &Progress) {
        let name = match progress.phase {
            Phase::Connecting => "connecting",
            Phase::Ramp => "ramp",
            Phase::Running => "running",
            Phase::Verifying => "verifying",
        };
        let iops: f64 = progress.iops.iter().sum();
        let rate: f64 = progress.bytes_per_second.iter().sum::<f64>() / 1e6;
        self.set(name, progress.fraction, progress.eta, &format!("{iops:.0} IOPS, {rate:.0} MB/s"));
    }

    /// Shows one step of a longer task.
    pub fn set(&mut self, name: &str, fraction: f64, eta: Option<Duration>, what: &str) {
        self.0.set_prefix(name.to_owned());
        self.0.set_position((fraction.clamp(0.0, 1.0) * STEPS as f64) as u64);
        let eta =
            eta.map_or_else(String::new, |eta| format!(", {} s left", eta.as_secs_f64().ceil()));
        self.0.set_message(format!("{what}{eta}"));
    }

    /// Removes the line.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
