//! A lane that fio puts the load on.

use crate::exit::Failure;
use crate::limits::{FIO_LATE_S, FIO_LINE_CHARS_MAX, FIO_OUTPUT_BYTES_MAX, FIO_SLICE_S};
use std::io::{self, Read};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use weft_bench::limits::PROGRESS_EVERY;
use weft_bench::study::{Generator, Purpose};
use weft_bench::{Error, JobSpec, Phase, Progress, Report};
use weft_block::{ErrorKind, Geometry, grammar};
use weft_endpoint::url::without_secret;
use weft_formats::import::measured::fio_run::{self, Engine};
use weft_server::programs;

/// What stands before the device in `--lane NAME=fio:DEVICE`.
const SCHEME: &str = "fio:";

/// The device of a lane that fio measures.
pub fn device(url: &str) -> Option<&str> {
    url.strip_prefix(SCHEME)
}

/// fio, on a device.
pub struct Fio {
    engine: Engine,
    /// The device, without secrets.
    url: String,
    geometry: Geometry,
    twin: Option<String>,
}

impl Fio {
    /// On a device of which weft knows the size; `twin` is the lane on which weft measures it.
    pub fn new(engine: Engine, url: &str, geometry: Geometry, twin: Option<String>) -> Self {
        Self { engine, url: without_secret(url), geometry, twin }
    }

    /// Starts fio, and waits for it.
    fn output(
        &self,
        spec: &JobSpec,
        stop: &AtomicBool,
        wait: &mut dyn FnMut(),
    ) -> Result<Option<String>, weft_block::Error> {
        let mut command = programs::system("fio");
        command.args(fio_run::arguments(&self.engine, spec));
        let mut running = Running::start(command).map_err(|e| not_started(&e))?;
        let most =
            spec.ramp_time + spec.runtime.unwrap_or_default() + Duration::from_secs(FIO_LATE_S);
        let begun = Instant::now();
        while !running.is_over() {
            if stop.load(Relaxed) {
                return Ok(None);
            }
            if begun.elapsed() > most {
                let text = format!(
                    "fio on {} did not end within {} s of its time; it was ended",
                    self.url, FIO_LATE_S
                );
                return Err(weft_block::Error::new(ErrorKind::Io, text));
            }
            wait();
        }
        let (status, output, said) = running.end().map_err(|e| weft_block::Error::io("fio", e))?;
        match said {
            Some(line) if !status.success() => Err(weft_block::Error::new(
                ErrorKind::Io,
                format!("fio on {} failed: {line}", self.url),
            )),
            _ if !status.success() && output.is_empty() => Err(weft_block::Error::new(
                ErrorKind::Io,
                format!("fio on {} failed ({status}) and said nothing", self.url),
            )),
            _ => Ok(Some(output)),
        }
    }
}

impl Generator for Fio {
    fn run(
        &self,
        _: Purpose,
        spec: &JobSpec,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Report, Error> {
        let begun = Instant::now();
        // fio says what it did at its end only: nothing is measured before.
        let mut wait = || {
            progress(Progress {
                phase: Phase::Ramp,
                elapsed: begun.elapsed(),
                fraction: 0.0,
                eta: None,
                iops: [0.0; 3],
                bytes_per_second: [0.0; 3],
                failed: 0,
            });
        };
        let Some(output) = self.output(spec, stop, &mut wait)? else {
            let mut report = weft_bench::agents::merged(&self.url, self.geometry, spec, &[]);
            report.stopped = true;
            return Ok(report);
        };
        let report = fio_run::report(&output, &self.url, self.geometry, spec);
        report.map_err(|e| weft_block::Error::new(ErrorKind::Io, e.to_string()).into())
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn is_here(&self) -> bool {
        true
    }

    fn shortest(&self) -> Duration {
        Duration::from_secs(FIO_SLICE_S)
    }

    fn twin(&self) -> Option<&str> {
        self.twin.as_deref()
    }

    fn command(&self, spec: &JobSpec) -> Option<String> {
        Some(format!("fio {}", fio_run::arguments(&self.engine, spec).join(" ")))
    }
}

/// How fio reaches a device, if it is there and can.
pub fn engine(url: &str) -> Result<Engine, Failure> {
    let usage = |text: String| Failure::of(ErrorKind::Usage, text);
    let path = grammar::path(url);
    if path.is_none() && !url.starts_with("nbd://") {
        let shown = without_secret(url);
        return Err(usage(format!(
            "fio has no engine for {shown}: give it a disk that the kernel attached (fio:/dev/nvme1n1), a file, or an nbd:// URL"
        )));
    }
    let known = engines()?;
    let has = |name: &str| known.iter().any(|it| it == name);
    let engines = match path {
        None => vec![Engine::Nbd(url.to_owned())],
        Some(path) => vec![Engine::IoUring(path.to_owned()), Engine::Libaio(path.to_owned())],
    };
    let names = engines.iter().map(Engine::name).collect::<Vec<_>>().join(" or ");
    engines.into_iter().find(|engine| has(engine.name())).ok_or_else(|| {
        usage(format!(
            "fio lacks the engine {names}, which the lane fio:{} takes: install a fio that has it",
            without_secret(url)
        ))
    })
}

/// The engines that the installed fio has.
fn engines() -> Result<Vec<String>, Failure> {
    let mut command = programs::system("fio");
    command.arg("--enghelp");
    let failed = |e: &io::Error| Failure::of(ErrorKind::Usage, not_started(e).to_string());
    let mut running = Running::start(command).map_err(|e| failed(&e))?;
    let begun = Instant::now();
    while !running.is_over() {
        if begun.elapsed() > Duration::from_secs(FIO_LATE_S) {
            return Err(Failure::of(
                ErrorKind::Io,
                format!("fio --enghelp did not end within {FIO_LATE_S} s"),
            ));
        }
    }
    let (_, output, _) = running.end().map_err(|e| failed(&e))?;
    Ok(output.lines().map(|line| line.trim().to_owned()).collect())
}

fn not_started(error: &io::Error) -> weft_block::Error {
    match error.kind() {
        io::ErrorKind::NotFound => weft_block::Error::new(
            ErrorKind::Unsupported,
            "fio is not installed: install it, or leave the lane of fio out",
        ),
        _ => weft_block::Error::new(ErrorKind::Usage, format!("fio cannot be started: {error}")),
    }
}

/// fio while it runs. It ends with this.
struct Running {
    child: Child,
    /// What comes from its two pipes, once each has ended.
    output: Receiver<Vec<u8>>,
    said: Receiver<Vec<u8>>,
    all: Option<Vec<u8>>,
}

impl Running {
    fn start(mut command: std::process::Command) -> io::Result<Self> {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = reading(child.stdout.take(), FIO_OUTPUT_BYTES_MAX);
        let said = reading(child.stderr.take(), FIO_OUTPUT_BYTES_MAX);
        Ok(Self { child, output, said, all: None })
    }

    /// Whether it has written all; waits a little otherwise.
    fn is_over(&mut self) -> bool {
        match self.output.recv_timeout(PROGRESS_EVERY) {
            Ok(output) => self.all = Some(output),
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => {}
        }
        true
    }

    /// How it ended, what it wrote, and the last line of what it said beside that.
    fn end(mut self) -> io::Result<(ExitStatus, String, Option<String>)> {
        let status = self.child.wait()?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let said = text(self.said.recv().unwrap_or_default());
        let line = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        let line = line.map(|line| line.chars().take(FIO_LINE_CHARS_MAX).collect());
        Ok((status, text(self.all.take().unwrap_or_default()), line))
    }
}

impl Drop for Running {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fio_cannot_reach_is_refused() {
        for url in ["nvme+tcp://h/n", "iscsi://h/t/0", "ram:1MiB", "nbds://h/x"] {
            let said = engine(url).unwrap_err().to_string();
            assert!(
                said.starts_with("fio has no engine for ") && said.contains("/dev/nvme1n1"),
                "{url}: {said}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_is_not_there_and_one_that_does_not_end() {
        let missing = Running::start(programs::system("weft-no-such-program"))
            .err()
            .map(|e| not_started(&e).to_string());
        assert_eq!(
            missing.as_deref(),
            Some("fio is not installed: install it, or leave the lane of fio out")
        );
        let mut command = programs::system("cat");
        command.arg("/dev/zero");
        let mut running = Running::start(command).unwrap();
        let output = std::mem::replace(&mut running.output, mpsc::channel().1);
        drop(running);
        assert!(
            output.recv().is_ok_and(|output| output.len() as u64 <= FIO_OUTPUT_BYTES_MAX),
            "it was ended"
        );
    }
}
