//! Processes of our own program that a study starts: they end when their standard input closes, so that none is left behind
//! whatever becomes of the study.

use crate::exit::Failure;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use weft_block::ErrorKind;
use weft_io::counters::Snapshot;

/// How long a child gets to answer a question.
const ANSWER: Duration = Duration::from_secs(5);

/// How long a child gets to end in order.
const END: Duration = Duration::from_secs(5);

/// Bytes of a line of standard input; a longer one counts as several.
const LINE_BYTES_MAX: u64 = 4096;

/// A running `weft serve` or `weft ceiling`.
pub struct Spawned {
    child: Child,
    /// What it listens on: at least one URL.
    urls: Vec<String>,
    /// Its answers to `counters`.
    answers: Receiver<String>,
}

impl Spawned {
    /// Starts our own program with `args` and waits until it has printed `listening on URL` for each `--listen` among them, or once.
    pub fn start(args: &[&str]) -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let Some(out) = child.stdout.take() else { return Err(Failure::of(ErrorKind::Io, "a child without output")) };
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        let wanted = args.iter().filter(|arg| **arg == "--listen").count().max(1);
        let url = |line: String| line.strip_prefix("listening on ").map(str::to_owned);
        let urls: Vec<String> = lines.by_ref().filter_map(url).take(wanted).collect();
        if urls.len() < wanted {
            let status = child.wait()?;
            return Err(Failure::of(ErrorKind::Io, format!("`weft {}` ended with {status} before it listened", args.join(" "))));
        }
        let (give, answers) = mpsc::channel();
        // Whatever else it prints must not fill the pipe. Nobody listens any more when it has been given up.
        let counters = |line: String| line.strip_prefix("counters ").map(str::to_owned);
        std::thread::spawn(move || lines.filter_map(counters).for_each(|answer| drop(give.send(answer))));
        Ok(Self { child, urls, answers })
    }

    /// What it listens on; where that is several URLs, the first.
    pub fn url(&self) -> &str {
        &self.urls[0]
    }

    /// The URL that begins with `scheme` among those that it listens on.
    pub fn url_of(&self, scheme: &str) -> Option<&str> {
        self.urls.iter().find(|url| url.starts_with(scheme)).map(String::as_str)
    }

    /// What the loops of a `weft serve --until-eof` have counted so far together, as far as a study wants to know; none when it does
    /// not answer.
    pub fn counters(&self) -> Option<Snapshot> {
        writeln!(self.child.stdin.as_ref()?, "counters").ok()?;
        let answer = self.answers.recv_timeout(ANSWER).ok()?;
        let counted: serde_json::Value = serde_json::from_str(&answer).ok()?;
        let of = |name: &str| counted[name].as_u64();
        Some(Snapshot {
            recv_calls: of("recv_calls")?,
            send_calls: of("send_calls")?,
            send_blocked: of("send_blocked")?,
            sleeps: of("sleeps")?,
            disk_enters: of("disk_enters")?,
            copied_bytes: of("copied_bytes")?,
            ..Snapshot::default()
        })
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
