//! The progress line of a measurement, on standard error if that is a terminal.

use crate::output::table::terminal_width;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use weft_bench::{Phase, Progress};

/// Shortest time between two states of the line: faster ones cannot be read.
const PAUSE: Duration = Duration::from_millis(100);

/// Characters of the bar.
const STEPS: usize = 30;

/// Columns of a terminal that does not say how wide it is.
const WIDTH: usize = 80;

/// A progress line.
pub struct Bar {
    is_shown: bool,
    drawn: Option<Instant>,
    /// Columns of what stands there.
    columns: usize,
}

impl Bar {
    /// An empty progress line.
    pub fn new() -> Self {
        Self { is_shown: std::io::stderr().is_terminal(), drawn: None, columns: 0 }
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
        if !self.is_shown || self.drawn.is_some_and(|drawn| drawn.elapsed() < PAUSE) {
            return;
        }
        self.drawn = Some(Instant::now());
        let width = terminal_width().unwrap_or(WIDTH).saturating_sub(1);
        self.draw(line(name, fraction, eta, what).chars().take(width).collect());
    }

    /// Overwrites what stands there.
    fn draw(&mut self, line: String) {
        let columns = line.chars().count();
        // A terminal that takes no more has nothing to show.
        let _ = write!(std::io::stderr(), "\r{line:<0$}\r", self.columns.max(columns));
        self.columns = columns;
    }

    /// Removes the line.
    pub fn finish(&mut self) {
        if self.columns > 0 {
            self.draw(String::new());
        }
    }
}

fn line(name: &str, fraction: f64, eta: Option<Duration>, what: &str) -> String {
    let done = (fraction.clamp(0.0, 1.0) * STEPS as f64) as usize;
    let bar = "=".repeat(done) + if done < STEPS { ">" } else { "" };
    let eta = eta.map_or_else(String::new, |eta| format!(", {} s left", eta.as_secs_f64().ceil()));
    format!("{name:>10} [{bar:STEPS$}] {what}{eta}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_it_is() {
        let eta = Some(Duration::from_millis(1200));
        assert_eq!(
            line("study", 0.1, eta, "local"),
            "     study [===>                          ] local, 2 s left"
        );
        assert_eq!(line("ramp", 1.5, None, ""), format!("      ramp [{}] ", "=".repeat(30)));
        assert_eq!(
            line("ramp", f64::NAN, None, "x"),
            format!("      ramp [>{}] x", " ".repeat(29))
        );
    }
}
