//! The process of a step: started at its priority, watched, ended with all that it has started.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::times;

/// Time without a line after which a line reports the progress of a running step.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Interval at which a running step is checked.
const LOOK: Duration = Duration::from_millis(20);

/// Programs that start another one which gives way to others, the best first: one that runs only
/// while a processor is idle (sched(7)), or gets a hundredth.
const GIVING_WAY: [&[&str]; 2] = [&["chrt", "--idle", "0"], &["nice", "-n", "19"]];

/// The steps that run just now, for whoever must end them.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// How a step's process ended.
pub struct Ended {
    /// None: it did not start, or its limit ended it.
    pub status: Option<ExitStatus>,
    pub elapsed: Duration,
    /// Processor time of it and of all that it has waited for.
    pub cpu: Duration,
}

/// Runs a command to its end, with its output in a file.
pub fn run(name: &str, mut command: Command, limit: Duration, log: &Path) -> Result<Ended> {
    let output = File::create(log)?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    own_group(&mut command);
    let start = Instant::now();
    let (status, cpu) = match command.spawn() {
        Ok(mut child) => {
            running().push(child.id());
            let ended = wait(&mut child, name, limit, log, start);
            running().retain(|id| *id != child.id());
            ended?
        }
        Err(error) => {
            fs::write(log, format!("cannot start {command:?}: {error}\n"))?;
            (None, Duration::ZERO)
        }
    };
    Ok(Ended { status, elapsed: start.elapsed(), cpu })
}

/// The same command, which gives way to others where the system has a program for that.
pub(super) fn giving_way(command: Command) -> Command {
    let start = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command
    };
    let works = |words: &&[&str]| {
        start(words).arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let Some(words) = GIVING_WAY.into_iter().find(works) else {
        return command;
    };
    let mut lowered = start(words);
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

/// Ends all that runs.
pub(super) fn end_all() {
    running().drain(..).for_each(end_group);
}

fn running() -> std::sync::MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a step's end, with a sign of life now and then; no status when the limit ended it.
fn wait(
    child: &mut Child,
    name: &str,
    limit: Duration,
    log: &Path,
    start: Instant,
) -> Result<(Option<ExitStatus>, Duration)> {
    let mut spoken = start;
    loop {
        if may_have_ended(child.id()) {
            let cpu = times::cpu_of(child.id());
            if let Some(status) = child.try_wait()? {
                return Ok((Some(status), cpu));
            }
        }
        if start.elapsed() > limit {
            end_group(child.id());
            let cpu = times::cpu_of(child.id());
            child.wait()?;
            let mut log = File::options().append(true).open(log)?;
            writeln!(log, "\nended after {} s, the step's limit", limit.as_secs())?;
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

/// Whether to ask a child for its end, after which nobody tells what it took.
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
