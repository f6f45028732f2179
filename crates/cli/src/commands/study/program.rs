//! Another program: started, read to its end, and ended with its owner.

use crate::limits::{LINE_CHARS_MAX, OUTPUT_BYTES_MAX};
use std::io::{self, Read};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use weft_bench::limits::PROGRESS_EVERY;
use weft_bench::{Phase, Progress};

/// The end of a wait for a program.
pub enum Waited {
    /// It has closed its standard output.
    Over,
    /// Somebody has set the stop flag.
    Stopped,
    /// It took too long.
    Late,
}

/// A program while it runs. It ends when this is dropped.
pub struct RunningProgram {
    child: Child,
    /// Contents of its two pipes, once each has ended.
    output: Receiver<Vec<u8>>,
    said: Receiver<Vec<u8>>,
    all: Option<Vec<u8>>,
}

impl RunningProgram {
    /// Starts a program, and reads all that it writes.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mut command: std::process::Command) -> io::Result<Self> {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = reading(child.stdout.take(), OUTPUT_BYTES_MAX);
        let said = reading(child.stderr.take(), OUTPUT_BYTES_MAX);
        Ok(Self { child, output, said, all: None })
    }

    /// The same on some cores.
    ///
    /// # Errors
    /// It cannot be started, or a core does not exist.
    #[cfg(target_os = "linux")]
    pub fn start_on(command: std::process::Command, cpus: &[usize]) -> io::Result<Self> {
        // A program runs on the cores of the thread that starts it.
        let start = || {
            weft_io::cpu::pin_thread_to(cpus)?;
            Self::start(command)
        };
        std::thread::scope(|scope| {
            scope.spawn(start).join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        })
    }

    /// Its processor time so far.
    #[cfg(target_os = "linux")]
    pub fn used(&self) -> weft_io::cpu_usage::Usage {
        weft_io::cpu_usage::of_process(self.child.id()).unwrap_or_default()
    }

    /// Returns whether it has closed its standard output; waits [`PROGRESS_EVERY`] otherwise.
    fn is_over(&mut self) -> bool {
        match self.output.recv_timeout(PROGRESS_EVERY) {
            Ok(output) => self.all = Some(output),
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => {}
        }
        true
    }

    /// Waits until it has closed its standard output, for `most` at most. Until then it reports
    /// that nothing is measured yet: a load generator prints its results at its end.
    pub fn wait(
        &mut self,
        most: Duration,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Waited {
        let begun = Instant::now();
        while !self.is_over() {
            let elapsed = begun.elapsed();
            if stop.load(Relaxed) {
                return Waited::Stopped;
            }
            if elapsed > most {
                return Waited::Late;
            }
            progress(Progress {
                phase: Phase::Ramp,
                elapsed,
                fraction: 0.0,
                eta: None,
                iops: [0.0; 3],
                bytes_per_second: [0.0; 3],
                failed: 0,
            });
        }
        Waited::Over
    }

    /// Returns its exit status, its standard output and the last line of its standard error.
    pub fn end(mut self) -> io::Result<(ExitStatus, String, Option<String>)> {
        let status = self.child.wait()?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let said = text(self.said.recv().unwrap_or_default());
        let line = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        let line = line.map(|line| line.chars().take(LINE_CHARS_MAX).collect());
        Ok((status, text(self.all.take().unwrap_or_default()), line))
    }
}

/// Runs a program to its end, which must come within `most`. Returns its standard output.
///
/// # Errors
/// It cannot be started, takes longer, or fails: a sentence without a full stop.
#[cfg(any(target_os = "linux", all(test, unix)))]
pub fn output(
    name: &str,
    command: std::process::Command,
    most: Duration,
) -> Result<String, String> {
    let running =
        RunningProgram::start(command).map_err(|e| format!("{name} cannot be started: {e}"))?;
    ended(name, running, most)
}

/// The same of a program that was started.
///
/// # Errors
/// Those of [`output`].
pub fn ended(name: &str, mut running: RunningProgram, most: Duration) -> Result<String, String> {
    if !matches!(running.wait(most, &AtomicBool::new(false), &mut |_| ()), Waited::Over) {
        return Err(format!("{name} did not end within {} s", most.as_secs()));
    }
    match running.end() {
        Ok((status, output, _)) if status.success() => Ok(output),
        Ok((status, _, said)) => {
            Err(format!("{name} failed: {}", said.unwrap_or_else(|| status.to_string())))
        }
        Err(e) => Err(format!("{name} failed: {e}")),
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // It may have ended, and then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a pipe to its end on a thread of its own; more than `most` bytes are dropped.
fn reading(pipe: Option<impl Read + Send + 'static>, most: u64) -> Receiver<Vec<u8>> {
    let (give, take) = mpsc::channel();
    std::thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut bytes = Vec::new();
        let _ = pipe.by_ref().take(most).read_to_end(&mut bytes);
        let _ = io::copy(&mut pipe, &mut io::sink());
        let _ = give.send(bytes);
    });
    take
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use weft_server::programs;

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let mut command = programs::system("cat");
        command.arg("/dev/zero");
        let mut running = RunningProgram::start(command).unwrap();
        let output = std::mem::replace(&mut running.output, mpsc::channel().1);
        drop(running);
        assert!(
            output.recv().is_ok_and(|output| output.len() as u64 <= OUTPUT_BYTES_MAX),
            "it was ended"
        );
    }

    #[test]
    fn a_failure_is_the_last_line_that_the_program_said() {
        let said = |words: &[&str], most: u64| {
            let mut command = programs::system("sh");
            command.args(words);
            output("sh", command, Duration::from_secs(most))
        };
        assert_eq!(said(&["-c", "echo yes"], 60), Ok("yes\n".to_owned()));
        assert_eq!(
            said(&["-c", "echo one >&2; echo two >&2; exit 3"], 60),
            Err("sh failed: two".to_owned())
        );
        assert_eq!(
            said(&["-c", "exec cat /dev/zero"], 0),
            Err("sh did not end within 0 s".to_owned())
        );
    }
}
