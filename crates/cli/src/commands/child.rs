//! Processes of our own program that a study starts: they end when their standard input closes, so that none is left behind
//! whatever becomes of the study.

use crate::exit::Failure;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weft_block::ErrorKind;

/// How long a child gets to end in order.
const END: Duration = Duration::from_secs(5);

/// Bytes of a line of standard input; a longer one counts as several.
const LINE_BYTES_MAX: u64 = 4096;

/// A running `weft serve` or `weft ceiling`.
pub struct Spawned {
    child: Child,
    /// What it listens on.
    pub url: String,
}

impl Spawned {
    /// Starts our own program with `args` and waits until it prints `listening on URL`.
    pub fn start(args: &[&str]) -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let Some(out) = child.stdout.take() else { return Err(Failure::of(ErrorKind::Io, "a child without output")) };
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        let Some(url) = lines.find_map(|line| line.strip_prefix("listening on ").map(str::to_owned)) else {
            let status = child.wait()?;
            return Err(Failure::of(ErrorKind::Io, format!("`weft {}` ended with {status} before it listened", args.join(" "))));
        };
        // Whatever else it prints must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, url })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let until = Instant::now() + END;
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns when standard input has closed.
pub fn wait_for_end_of_input() {
    for_each_line_of_input(|_| ());
}

/// Hands over each line of standard input, and returns when that has closed.
pub fn for_each_line_of_input(mut each: impl FnMut(&str)) {
    // Whoever writes so much without a line end is no parent of ours.
    let mut input = BufReader::new(std::io::stdin().lock());
    let mut line = Vec::new();
    while matches!(input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line), Ok(1..)) {
        each(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
}
