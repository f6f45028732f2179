//! Child processes that run this program for a study. They end when their standard input closes, so
//! they never outlive the study.

use crate::process::exit::Failure;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use weft_block::{ErrorKind, waiting};
use weft_endpoint::url::without_secret;
use weft_io::counters::Snapshot;
use weft_server::programs::{system, this_program, this_program_for_others};

/// Time limit for a child to answer a question.
const ANSWER: Duration = Duration::from_secs(5);

/// Time limit for a child to end in order.
const END: Duration = Duration::from_secs(5);

/// Maximum bytes of a line on standard input; a longer line counts as several.
const LINE_BYTES_MAX: u64 = 4096;

/// A running `weft serve` or `weft ceiling`.
pub struct Spawned {
    child: Child,
    /// The URLs that it listens on, at least one.
    urls: Vec<String>,
    /// Its command line, without secrets.
    command: String,
    /// Its answers to `counters`.
    answers: Receiver<String>,
}

impl Spawned {
    /// Starts this program with `args` and waits until it has printed `listening on URL` once for
    /// each `--listen` in `args`, at least once.
    pub fn start(args: &[&str]) -> Result<Self, Failure> {
        Self::start_in(None, args)
    }

    /// The same in a network namespace, if one is given.
    pub fn start_in(namespace: Option<&str>, args: &[&str]) -> Result<Self, Failure> {
        let mut command = this_program()?;
        if let Some(namespace) = namespace {
            let mut inside = system("ip");
            inside.args(["netns", "exec", namespace]).arg(this_program_for_others()?);
            command = inside;
        }
        let mut child = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let Some(out) = child.stdout.take() else {
            return Err(Failure::of(ErrorKind::Io, "a child without output"));
        };
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        let wanted = args.iter().filter(|arg| **arg == "--listen").count().max(1);
        let _waiting = waiting::begin(|| format!("`weft {}` to listen", args[0]));
        let url = |line: String| line.strip_prefix("listening on ").map(str::to_owned);
        let urls: Vec<String> = lines.by_ref().filter_map(url).take(wanted).collect();
        if urls.len() < wanted {
            let status = child.wait()?;
            return Err(Failure::of(
                ErrorKind::Io,
                format!("`weft {}` ended with {status} before it listened", args.join(" ")),
            ));
        }
        let (give, answers) = mpsc::channel();
        // Read all other output so that the pipe does not fill up. The receiver is gone if the
        // caller has given up.
        let counters = |line: String| line.strip_prefix("counters ").map(str::to_owned);
        std::thread::spawn(move || {
            lines.filter_map(counters).for_each(|answer| drop(give.send(answer)))
        });
        let shown: Vec<String> = args.iter().map(|arg| without_secret(arg)).collect();
        let place = namespace.map(|namespace| format!("ip netns exec {namespace} "));
        let command = format!("{}weft {}", place.unwrap_or_default(), shown.join(" "));
        Ok(Self { child, urls, command, answers })
    }

    /// The first URL that it listens on.
    pub fn url(&self) -> &str {
        &self.urls[0]
    }

    /// All URLs that it listens on, in the order of its `--listen`.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The URL that it listens on with the given `scheme`.
    pub fn url_of(&self, scheme: &str) -> Option<&str> {
        self.urls.iter().find(|url| url.starts_with(scheme)).map(String::as_str)
    }

    /// The sum of the counters of all loops of a `weft serve --until-eof` that a study needs; none
    /// if it does not answer.
    pub fn counters(&self) -> Option<Snapshot> {
        let counted = self.counted()?;
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

    /// Returns its answer to `counters`; none if it does not answer.
    pub fn counted(&self) -> Option<serde_json::Value> {
        writeln!(self.child.stdin.as_ref()?, "counters").ok()?;
        let answer = self.answers.recv_timeout(ANSWER).ok()?;
        serde_json::from_str(&answer).ok()
    }

    /// Its command line, without secrets.
    pub fn command(&self) -> &str {
        &self.command
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

/// Returns when standard input is closed.
pub fn wait_for_end_of_input() {
    for_each_line_of_input(|_| ());
}

/// Passes each line of standard input to `each`, and returns when standard input is closed.
pub fn for_each_line_of_input(mut each: impl FnMut(&str)) {
    // A parent process never writes this much without a line end.
    let mut input = BufReader::new(std::io::stdin().lock());
    let mut line = Vec::new();
    while matches!(input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line), Ok(1..)) {
        each(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
}
