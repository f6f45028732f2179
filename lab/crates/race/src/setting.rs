//! Common settings of all measurements of a race: the program, the cores, the sizes and the times.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::{Context, Result};
use xtask::{built, sh};

/// The program and how it is measured.
#[derive(Clone, Debug)]
pub struct Setting {
    /// weft, built for release.
    pub weft: PathBuf,
    /// Core of the target.
    pub target_cpu: usize,
    /// Core of the initiator.
    pub initiator_cpu: usize,
    /// Bytes of the devices, and of the ceiling's region.
    pub memory_bytes: u64,
    /// Duration of each measurement.
    pub runtime: Duration,
    /// Warm-up before it.
    pub ramp: Duration,
    /// Rounds over each point.
    pub rounds: u32,
    /// Everything is tiny, since it is only to be seen whether it works.
    pub small: bool,
}

impl Setting {
    /// Builds weft and looks at the machine.
    pub fn new(small: bool, runtime: Option<f64>, rounds: Option<u32>) -> Result<Self> {
        let weft = built::release_build()?;
        let (target_cpu, initiator_cpu) = cores()?;
        let (seconds, usual_rounds) = if small { (0.1, 1) } else { (1.0, 5) };
        let runtime =
            Duration::try_from_secs_f64(runtime.unwrap_or(seconds)).context("--runtime")?;
        Ok(Self {
            weft,
            target_cpu,
            initiator_cpu,
            memory_bytes: if small { 32 << 20 } else { 512 << 20 },
            runtime,
            ramp: runtime.mul_f64(0.2).min(Duration::from_millis(250)),
            rounds: rounds.unwrap_or(usual_rounds).max(1),
            small,
        })
    }

    /// A weft command.
    pub fn weft(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.weft);
        command.args(args).env("WEFT_STATE_DIR", sh::target_dir().join("xtask/race-state"));
        command
    }

    /// A command of another program, pinned to a core.
    pub fn pinned(cpu: usize, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &cpu.to_string(), program]).args(args);
        command
    }
}

/// The first two cores that this process may use.
fn cores() -> Result<(usize, usize)> {
    #[cfg(target_os = "linux")]
    {
        let set =
            rustix::thread::sched_getaffinity(None).context("cannot ask for the affinity mask")?;
        let mut allowed = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
        let first = allowed.next().unwrap_or(0);
        Ok((first, allowed.next().unwrap_or(first)))
    }
    #[cfg(not(target_os = "linux"))]
    Err(sh::Missing("the race needs Linux".into()).into())
}
