//! The process of a step: started at its priority, watched, ended with all that it has started.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::times;

/// Time without a line after which a line reports the progress of a running step.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Interval at which a running step is checked.
const LOOK: Duration = Duration::from_millis(20);

/// A step that has written nothing for so long is ended: it hangs. How long it runs is no reason,
/// as that depends on the machine and on what else runs there.
const SILENCE: Duration = Duration::from_secs(30 * 60);

/// The program that starts another one which gives way to others. Programs that run only while a
/// processor is idle would not run at all beside an editor's own builds.
const GIVING_WAY: [&str; 3] = ["nice", "-n", "10"];

/// The processes that run just now, for whoever must end them.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Set before the running processes are ended: none is started after that.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Outcome of a step's process.
pub struct Ended {
    /// None: it did not start, it was silent for too long, or the run was interrupted.
    pub status: Option<ExitStatus>,
    /// Time on the clock.
    pub elapsed: Duration,
    /// Processor time of it and of all that it has waited for.
    pub cpu: Duration,
}

/// The reason for which a process is ended.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// It has written nothing for so long.
    Silence(Duration),
    /// It runs for so long.
    Time(Duration),
}

/// Runs a step to its end, with its output in a file.
pub fn run(name: &str, command: Command, log: &Path) -> Result<Ended> {
    run_limited(name, command, Limit::Silence(SILENCE), log)
}

/// Runs a command to its end or to a limit, with its output in a file.
pub fn run_limited(name: &str, mut command: Command, limit: Limit, log: &Path) -> Result<Ended> {
    let output = File::create(log)?;
    command.stdout(output.try_clone()?).stderr(output);
    let start = Instant::now();
    let (status, cpu) = match start_group(&mut command) {
        Ok(None) => (None, Duration::ZERO),
        Ok(Some(mut child)) => watch(&mut child, name, limit, log, start)?,
        Err(error) => {
            fs::write(log, format!("cannot start {command:?}: {error}\n"))?;
            (None, Duration::ZERO)
        }
    };
    Ok(Ended { status, elapsed: start.elapsed(), cpu })
}

/// Runs a command to its end, with each line of its standard output to `line`, and what it reports
/// in a file.
pub fn run_lines(
    name: &str,
    mut command: Command,
    log: &Path,
    mut line: impl FnMut(&str) + Send,
) -> Result<Ended> {
    command.stdout(Stdio::piped()).stderr(File::create(log)?);
    let start = Instant::now();
    let (status, cpu) = match start_group(&mut command) {
        Ok(None) => (None, Duration::ZERO),
        Ok(Some(mut child)) => {
            let lines = child.stdout.take().map(BufReader::new);
            thread::scope(|scope| {
                let lines = lines.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
                scope.spawn(move || lines.for_each(|text| line(&text)));
                watch(&mut child, name, Limit::Silence(SILENCE), log, start)
            })?
        }
        Err(error) => {
            fs::write(log, format!("cannot start {command:?}: {error}\n"))?;
            (None, Duration::ZERO)
        }
    };
    Ok(Ended { status, elapsed: start.elapsed(), cpu })
}

/// Starts a command as the head of a process group; none if the run was interrupted.
fn start_group(command: &mut Command) -> std::io::Result<Option<Child>> {
    own_group(command.stdin(Stdio::null()));
    // Held while it starts: it either sees the interruption or is seen by it.
    let mut running = running();
    if interrupted() {
        return Ok(None);
    }
    let child = command.spawn()?;
    running.push(child.id());
    Ok(Some(child))
}

fn watch(
    child: &mut Child,
    name: &str,
    limit: Limit,
    log: &Path,
    start: Instant,
) -> Result<(Option<ExitStatus>, Duration)> {
    let ended = wait(child, name, limit, log, start);
    running().retain(|id| *id != child.id());
    let (status, cpu) = ended?;
    Ok((status.filter(|_| !interrupted()), cpu))
}

/// The same command, which gives way to others where the system has a program for that.
pub fn giving_way(command: Command) -> Command {
    let start = || {
        let mut command = Command::new(GIVING_WAY[0]);
        command.args(&GIVING_WAY[1..]).stdin(Stdio::null());
        command
    };
    let works = start().arg("true").stderr(Stdio::null()).status();
    if !works.is_ok_and(|status| status.success()) {
        return command;
    }
    let mut lowered = start();
    lowered.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => lowered.env(name, value),
            None => lowered.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        lowered.current_dir(directory);
    }
    lowered
}

/// Ends all that runs, and lets nothing start.
pub(super) fn interrupt() {
    let groups = {
        let running = running();
        INTERRUPTED.store(true, Ordering::SeqCst);
        running.clone()
    };
    let ends = groups.into_iter().map(|id| thread::spawn(move || end_group(id)));
    ends.collect::<Vec<_>>().into_iter().for_each(|end| _ = end.join());
}

/// Returns whether the run was interrupted.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

fn running() -> std::sync::MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a step's end, with a sign of life now and then; no status when a limit ended it.
fn wait(
    child: &mut Child,
    name: &str,
    limit: Limit,
    log: &Path,
    start: Instant,
) -> Result<(Option<ExitStatus>, Duration)> {
    let (mut spoken, mut written) = (start, (0, start));
    loop {
        if may_have_ended(child.id()) {
            let cpu = times::cpu_of(child.id());
            if let Some(status) = child.try_wait()? {
                return Ok((Some(status), cpu));
            }
        }
        let length = fs::metadata(log).map_or(0, |log| log.len());
        if length != written.0 {
            written = (length, Instant::now());
        }
        let reason = match limit {
            Limit::Silence(limit) if written.1.elapsed() > limit => "it wrote nothing",
            Limit::Time(limit) if start.elapsed() > limit => "it ran",
            _ => "",
        };
        if !reason.is_empty() {
            end_group(child.id());
            let cpu = times::cpu_of(child.id());
            child.wait()?;
            let mut log = File::options().append(true).open(log)?;
            writeln!(log, "\nended: {reason} for longer than {limit:?}")?;
            return Ok((None, cpu));
        }
        if spoken.elapsed() > HEARTBEAT {
            spoken = Instant::now();
            println!("  … {name}, {} s: {}", start.elapsed().as_secs(), last_line(log));
        }
        thread::sleep(LOOK);
    }
}

/// The last line in a log that says something.
fn last_line(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(4096)..]).into_owned();
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing yet");
    line.trim().chars().take(100).collect()
}

/// Returns whether to ask a child for its end, after which nobody tells what it took.
#[cfg(unix)]
fn may_have_ended(id: u32) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_))))
}

#[cfg(not(unix))]
fn may_have_ended(_: u32) -> bool {
    true
}

/// Makes the command the head of a process group, so that all that it starts can be ended with it.
#[cfg(unix)]
fn own_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
fn own_group(_: &mut Command) {}

/// Ends a process group: asks first, insists two seconds later.
#[cfg(unix)]
fn end_group(id: u32) {
    use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
    let Some(group) = i32::try_from(id).ok().and_then(Pid::from_raw) else {
        return;
    };
    // Failure means that the group has ended.
    let _ = kill_process_group(group, Signal::TERM);
    let insist = Instant::now() + Duration::from_secs(2);
    while Instant::now() < insist && test_kill_process_group(group).is_ok() {
        thread::sleep(LOOK);
    }
    let _ = kill_process_group(group, Signal::KILL);
}

#[cfg(not(unix))]
fn end_group(id: u32) {
    // Failure means that the process has ended.
    let _ = Command::new("taskkill").args(["/T", "/F", "/PID", &id.to_string()]).status();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_end_a_process() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        for limit in [Limit::Silence(Duration::ZERO), Limit::Time(Duration::ZERO)] {
            let mut command = Command::new("sleep");
            command.arg("600");
            let ended = run_limited("sleep", command, limit, &log).unwrap();
            assert!(ended.status.is_none());
            assert!(fs::read_to_string(&log).unwrap().contains("ended: it "));
        }
    }

    #[test]
    fn lines_arrive_while_the_rest_is_in_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; echo three"]);
        let mut lines = Vec::new();
        let ended = run_lines("lines", command, &log, |line| lines.push(line.to_owned())).unwrap();
        assert!(ended.status.unwrap().success());
        assert_eq!(lines, ["one", "three"]);
        assert_eq!(fs::read_to_string(&log).unwrap(), "two\n");
    }
}
