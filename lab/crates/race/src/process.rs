//! Programs that run during a measurement. They end with the value that holds them.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// How long a program may take to say what it is waited for, and to answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long it gets to end in order.
const END: Duration = Duration::from_secs(5);

/// A running program, with its standard input and output.
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Process {
    /// Starts a program. Its standard error is ours.
    pub fn start(command: &mut Command) -> Result<Self> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child =
            started.with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let (input, output) =
            (child.stdin.take(), child.stdout.take().context("a child without output")?);
        let (give, lines) = channel();
        // It ends when the program's output does, or when nobody listens any more.
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).all(|line| give.send(line).is_ok())
        });
        Ok(Self { child, input, lines })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that starts with `start` and returns the rest of it.
    pub fn line(&mut self, start: &str) -> Result<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(start) {
                        return Ok(rest.to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    bail!("no line `{start}…` in {} s", PATIENCE.as_secs())
                }
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("it ended before it said `{start}…`: {}", self.child.wait()?)
                }
            }
        }
    }

    /// The counters of a `weft serve --until-eof`.
    pub fn counters(&mut self) -> Result<Value> {
        let input = self.input.as_mut().context("its input is closed")?;
        input.write_all(b"counters\n")?;
        let line = self.line("counters ")?;
        serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))
    }

    /// Processor time of all its threads so far: in user mode and in the system.
    pub fn cpu(&self) -> Result<[Duration; 2]> {
        cpu_of(self.pid())
    }

    /// A line of its `/proc/PID/status`, such as `VmHWM`, in bytes.
    pub fn memory(&self, field: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .context("no such field")?;
        let kib: u64 = line
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .with_context(|| format!("{field}: {line}"))?;
        Ok(kib << 10)
    }
}

/// Processor time of a process, to the clock tick (10 ms).
fn cpu_of(pid: u32) -> Result<[Duration; 2]> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field, a name in parentheses, may hold anything.
    let fields: Vec<&str> =
        stat.rsplit_once(')').context("no name in it")?.1.split_ascii_whitespace().collect();
    let time = |at: usize| -> Result<Duration> {
        let ticks: u64 = fields.get(at).context("too short")?.parse()?;
        Ok(Duration::from_millis(ticks * 10))
    };
    Ok([time(11)?, time(12)?])
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        let until = Instant::now() + END;
        let mut asked = false;
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            // Ours end with their input; others are asked.
            if !asked && Instant::now() + END > until + Duration::from_millis(300) {
                asked = true;
                let _ = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status();
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end and returns what it wrote; standard error too when it fails.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        bail!(
            "{name} {} ended with {}: {}",
            words.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
