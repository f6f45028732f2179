//! A lane that fio puts the load on.

use super::program::{self, RunningProgram, Waited};
use super::watched::WatchedProcesses;
use crate::limits::{FIO_LATE_S, FIO_SLICE_S};
use crate::process::exit::Failure;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use weft_bench::study::{Generator, Purpose};
use weft_bench::{Error, JobSpec, Progress, RunReport};
use weft_block::{ErrorKind, Geometry, grammar};
use weft_endpoint::url::without_secret;
use weft_formats::import::measured::fio_run::{self, FioAccess};
use weft_server::programs;

/// The prefix of the device in `--lane NAME=fio:DEVICE`.
const SCHEME: &str = "fio:";

/// The device of a lane that fio measures.
pub fn device(url: &str) -> Option<&str> {
    url.strip_prefix(SCHEME)
}

/// fio, on a device.
pub struct Fio {
    engine: FioAccess,
    /// The device, without secrets.
    url: String,
    geometry: Geometry,
    twin: Option<String>,
    /// The target's processes.
    target: WatchedProcesses,
}

impl Fio {
    /// On a device of which weft knows the size; `twin` is the lane on which weft measures it.
    pub fn new(engine: FioAccess, url: &str, geometry: Geometry, twin: Option<String>) -> Self {
        Self {
            engine,
            url: without_secret(url),
            geometry,
            twin,
            target: WatchedProcesses::default(),
        }
    }

    /// The same, which also measures the processor time of a target on this machine.
    #[cfg(target_os = "linux")]
    pub fn watching(self, target: WatchedProcesses) -> Self {
        Self { target, ..self }
    }

    /// Starts fio, and waits for it.
    fn output(
        &self,
        spec: &JobSpec,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<String>, weft_block::Error> {
        let mut command = programs::system("fio");
        command.args(fio_run::arguments(&self.engine, spec));
        let mut running = RunningProgram::start(command).map_err(|e| not_started(&e))?;
        let most =
            spec.ramp_time + spec.runtime.unwrap_or_default() + Duration::from_secs(FIO_LATE_S);
        match running.wait(most, stop, progress) {
            Waited::Over => {}
            Waited::Stopped => return Ok(None),
            Waited::Late => {
                let text = format!(
                    "fio on {} did not end within {} s of its time; it was ended",
                    self.url, FIO_LATE_S
                );
                return Err(weft_block::Error::new(ErrorKind::Io, text));
            }
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
    fn title(&self) -> &str {
        "fio"
    }

    fn run(
        &self,
        _: Purpose,
        spec: &JobSpec,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RunReport, Error> {
        let watching = self.target.start();
        let Some(output) = self.output(spec, stop, progress)? else {
            let mut report = weft_bench::agents::merged(&self.url, self.geometry, spec, &[]);
            report.stopped = true;
            return Ok(report);
        };
        let report = fio_run::report(&output, &self.url, self.geometry, spec)
            .map_err(|e| weft_block::Error::new(ErrorKind::Io, e.to_string()))?;
        let watched = watching.end(report.all().runtime, spec.ramp_time);
        Ok(RunReport { watched, ..report })
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

/// The engine with which fio reaches a device, if fio is installed and has one.
pub fn engine(url: &str) -> Result<FioAccess, Failure> {
    let usage = |text: String| Failure::of(ErrorKind::Usage, text);
    let path = grammar::path(url);
    let is_iscsi = url.starts_with("iscsi://");
    let weft = weft_engine(url)?;
    if path.is_none() && !is_iscsi && !url.starts_with("nbd://") {
        let shown = without_secret(url);
        return weft.ok_or_else(|| usage(format!(
            "fio has no engine for {shown}: give it a disk that the kernel attached (fio:/dev/nvme1n1), a file, or an nbd:// or iscsi:// URL, \
             or set {ENGINE} to the path of libfio-weft.so (docs/library.md)"
        )));
    }
    let known = engines()?;
    let has = |name: &str| name == "external" || known.iter().any(|it| it == name);
    let engines = match path {
        None if is_iscsi => [FioAccess::Libiscsi(url.to_owned())].into_iter().chain(weft).collect(),
        None => vec![FioAccess::Nbd(url.to_owned())],
        Some(path) => vec![FioAccess::IoUring(path.to_owned()), FioAccess::Libaio(path.to_owned())],
    };
    let names = engines.iter().map(FioAccess::name).collect::<Vec<_>>().join(" or ");
    engines.into_iter().find(|engine| has(engine.name())).ok_or_else(|| {
        usage(format!(
            "fio lacks the engine {names}, which reaches devices like this one: install a fio that has it"
        ))
    })
}

/// The variable that names weft's engine for fio.
const ENGINE: &str = "WEFT_FIO_ENGINE";

/// weft's engine for fio, if its library is named.
fn weft_engine(url: &str) -> Result<Option<FioAccess>, Failure> {
    let Some(library) = std::env::var_os(ENGINE) else { return Ok(None) };
    let path = Path::new(&library);
    match library.to_str() {
        Some(library) if path.is_absolute() && path.is_file() => {
            Ok(Some(FioAccess::Weft { library: library.to_owned(), url: url.to_owned() }))
        }
        _ => Err(Failure::of(
            ErrorKind::Usage,
            format!("{ENGINE} is {}: give the absolute path of libfio-weft.so", path.display()),
        )),
    }
}

/// The engines that the installed fio has.
fn engines() -> Result<Vec<String>, Failure> {
    let mut command = programs::system("fio");
    command.arg("--enghelp");
    let failed = |e: &io::Error| Failure::of(ErrorKind::Usage, not_started(e).to_string());
    let running = RunningProgram::start(command).map_err(|e| failed(&e))?;
    let output = program::ended("fio --enghelp", running, Duration::from_secs(FIO_LATE_S))
        .map_err(|text| Failure::of(ErrorKind::Io, text))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fio_cannot_reach_is_refused() {
        for url in ["nvme+tcp://h/n", "ram:1MiB", "nbds://h/x"] {
            let said = engine(url).unwrap_err().to_string();
            assert!(
                said.starts_with("fio has no engine for ") && said.contains("/dev/nvme1n1"),
                "{url}: {said}"
            );
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let missing = RunningProgram::start(programs::system("weft-no-such-program"))
            .err()
            .map(|e| not_started(&e).to_string());
        assert_eq!(
            missing.as_deref(),
            Some("fio is not installed: install it, or leave the lane of fio out")
        );
    }
}
