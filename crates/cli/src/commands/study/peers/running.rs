//! A running target of another project, under the supervision of `weft study-peer`.

use super::super::program;
use super::super::serving::list;
use super::device::PeerDevice;
use super::installed::find;
use super::peer::{DeviceWish, TargetPlan};
use crate::commands::internal::study_peer::descendants;
use crate::limits::PEER_START_S;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::DirBuilder;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use weft_bench::study::ForeignTarget;
use weft_block::waiting;
use weft_server::programs;

/// Time between two attempts to connect.
const KNOCK: Duration = Duration::from_millis(10);

/// Time limit of one attempt.
const ANSWER: Duration = Duration::from_millis(500);

/// Looks for processes of a target whose supervisor is gone.
const LOOKS_MAX: u32 = 100;

/// Time limit for the supervisor to end everything.
const END: Duration = Duration::from_secs(10);

/// A target. It ends when this is dropped.
pub struct RunningTarget {
    /// Its supervisor, whose standard input ends it.
    supervisor: Child,
    lines: Receiver<String>,
    directory: PathBuf,
    /// URL of its device.
    pub url: String,
    /// Commands and configuration, without what differs from run to run.
    pub setup: Vec<String>,
    /// Its processor time is not known from outside.
    pub forks: bool,
    /// It uses its cores even while it is idle.
    pub polls: bool,
    /// Holds the port, so that nobody else is given it.
    _port: OwnedFd,
    /// Holds the memory until the target has opened it, and as long as it serves it.
    _memory: OwnedFd,
}

impl RunningTarget {
    /// Starts a target on a free port, and configures it. `target` is its name.
    ///
    /// # Errors
    /// The reason, without a full stop.
    pub fn start(
        target: &str,
        plan: impl FnOnce(&DeviceWish<'_>) -> Result<TargetPlan, String>,
        device: &PeerDevice,
        address: IpAddr,
        cpus: &[usize],
    ) -> Result<Self, String> {
        let failed = |e: std::io::Error| format!("{target} cannot be started: {e}");
        let name = uuid::Uuid::new_v4().to_string();
        let (port, address) = hold(address).map_err(|e| failed(e.into()))?;
        let memory = memory(device).map_err(|e| failed(e.into()))?;
        let path = std::env::temp_dir().join(format!("weft-peer-{name}"));
        DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        let place = Place { memory: memory_path(&memory), directory: path.display().to_string() };
        let wish = DeviceWish {
            device,
            memory: &place.memory,
            address,
            directory: &place.directory,
            name: &name,
            cpus,
        };
        let outcome = plan(&wish).and_then(|plan| {
            let (supervisor, lines) = supervised(&plan, &place, cpus).map_err(failed)?;
            let setup = place.shown(&plan, cpus);
            let (directory, url) = (path.clone(), plan.url.clone());
            let running = Self {
                supervisor,
                lines,
                directory,
                url,
                setup,
                forks: plan.forks,
                polls: plan.polls,
                _port: port,
                _memory: memory,
            };
            running.wait_for(address).map_err(|why| format!("{target} {why}"))?;
            plan.then.iter().try_for_each(|command| configure(command, &plan))?;
            Ok(running)
        });
        if outcome.is_err() {
            // Nothing is left in it: a supervisor has ended before.
            let _ = std::fs::remove_dir_all(&path);
        }
        outcome
    }

    /// Its processes.
    pub fn pids(&self) -> Vec<u32> {
        descendants(self.supervisor.id())
    }

    /// Waits until it accepts connections.
    fn wait_for(&self, address: SocketAddr) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs(PEER_START_S);
        let _waiting = waiting::begin(|| format!("{address} to listen"));
        while Instant::now() < until {
            match self.lines.recv_timeout(KNOCK) {
                Ok(line) => {
                    let why = line.strip_prefix("ended: ").unwrap_or(&line);
                    return Err(format!("did not start: {why}"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("did not start: its supervisor ended".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if TcpStream::connect_timeout(&address, ANSWER).is_ok() {
                return Ok(());
            }
        }
        Err(format!("does not listen after {PEER_START_S} s"))
    }
}

impl ForeignTarget for RunningTarget {
    fn wake(&self) {
        if self.polls {
            self.pids().into_iter().for_each(|pid| signal(pid, Signal::CONT));
        }
    }

    fn rest(&self) {
        if self.polls {
            self.pids().into_iter().for_each(|pid| signal(pid, Signal::STOP));
        }
    }
}

impl Drop for RunningTarget {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let until = Instant::now() + END;
        while matches!(self.supervisor.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.supervisor.kill();
        if !self.supervisor.wait().is_ok_and(|status| status.success()) {
            // Somebody killed the supervisor, or it hung: the target is ended from here.
            for _ in 0..LOOKS_MAX {
                let left = processes_in(&self.directory);
                if left.is_empty() {
                    break;
                }
                left.into_iter().for_each(|pid| signal(pid, Signal::KILL));
                std::thread::sleep(KNOCK);
            }
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The processes whose current directory this is.
fn processes_in(directory: &Path) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_in = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|place| place == directory)
    };
    pids.filter(is_in).collect()
}

/// Signals a process, which may have ended in the meantime.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// The paths of a target that differ from run to run.
struct Place {
    memory: String,
    directory: String,
}

impl Place {
    /// Commands and configuration with words in place of these paths.
    fn shown(&self, plan: &TargetPlan, cpus: &[usize]) -> Vec<String> {
        let environment: String =
            plan.environment.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        let command = |words: &Vec<String>| format!("{environment}{}", words.join(" "));
        let mut shown = vec![match cpus {
            [] => command(&plan.command),
            cpus => format!("taskset -c {} {}", list(cpus), command(&plan.command)),
        }];
        for (name, text) in &plan.files {
            shown.extend(text.lines().map(|line| format!("DIRECTORY/{name}: {line}")));
        }
        shown.extend(plan.then.iter().map(command));
        let named = |line: String| {
            line.replace(&self.directory, "DIRECTORY").replace(&self.memory, "MEMORY")
        };
        shown.into_iter().map(named).collect()
    }
}

/// Starts the supervisor, which starts the target.
fn supervised(
    plan: &TargetPlan,
    place: &Place,
    cpus: &[usize],
) -> std::io::Result<(Child, Receiver<String>)> {
    for (name, text) in &plan.files {
        weft_io::output::write(&PathBuf::from(&place.directory).join(name), text)?;
    }
    let mut command = programs::this_program()?;
    command.args(["study-peer", "--directory", &place.directory]);
    if !cpus.is_empty() {
        command.args(["--cpus_allowed", &list(cpus)]);
    }
    let [program, arguments @ ..] = &plan.command[..] else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    command.arg("--").arg(find(program).unwrap_or_else(|| program.into())).args(arguments);
    command.envs(plan.environment.iter().map(|(name, value)| (*name, value)));
    // Ctrl-C is for the study, which ends its targets after its report.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut supervisor = command.spawn()?;
    let (give, lines) = mpsc::channel();
    if let Some(out) = supervisor.stdout.take() {
        std::thread::spawn(move || {
            let all = BufReader::new(out).lines().map_while(Result::ok);
            all.for_each(|line| drop(give.send(line)));
        });
    }
    Ok((supervisor, lines))
}

/// Runs a command that configures a target.
fn configure(words: &[String], plan: &TargetPlan) -> Result<(), String> {
    let [program, arguments @ ..] = words else { return Ok(()) };
    let path = find(program).unwrap_or_else(|| program.into());
    let mut command = programs::system(&path.to_string_lossy());
    command.args(arguments).envs(plan.environment.iter().map(|(name, value)| (*name, value)));
    program::output(program, command, Duration::from_secs(PEER_START_S)).map(drop)
}

/// Holds a free port: others are not given it, and a server that asks for it gets it.
pub fn hold(address: IpAddr) -> rustix::io::Result<(OwnedFd, SocketAddr)> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let held = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&held, true)?;
    bind(&held, &SocketAddr::new(address, 0))?;
    let address =
        SocketAddr::try_from(getsockname(&held)?).map_err(|_| rustix::io::Errno::INVAL)?;
    Ok((held, address))
}

/// A file in memory, as large as a RAM disk, which takes memory only where it is written. It has no
/// name, so nothing is left of it however the study ends.
fn memory(device: &PeerDevice) -> rustix::io::Result<OwnedFd> {
    let memory = memfd_create("weft-study", MemfdFlags::CLOEXEC)?;
    if let PeerDevice::Ram(bytes) = device {
        ftruncate(&memory, *bytes)?;
    }
    Ok(memory)
}

/// The path by which another process of the same user opens it.
fn memory_path(memory: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd())
}
