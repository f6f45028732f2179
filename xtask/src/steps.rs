//! Running steps one after the other: a table while they run, a log for each, one verdict at the end.

use std::{
    env,
    fs::{self, File},
    io::Write,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    count::{Count, Tally},
    excerpt, sh,
    times::{self, Timed},
};

/// Time without a line after which a line reports the progress of the running step.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Interval at which a running step is checked.
const LOOK: Duration = Duration::from_millis(20);

/// A step: a program whose exit status is the result.
pub struct Step {
    /// Its name, also used for its log.
    pub name: &'static str,
    /// The program.
    pub command: Command,
    /// When it is ended and counted as failed.
    pub limit: Duration,
}

/// How a step ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Skipped,
}

/// The step that runs just now, for whoever must end it.
static RUNNING: Mutex<Option<u32>> = Mutex::new(None);

fn set_running(id: Option<u32>) {
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = id;
}

/// Runs all steps, whether or not one fails, prints what each and the slowest tests took, and returns the counts of all.
///
/// Where the environment has `CI` set, what was skipped is counted as failed.
pub fn run(steps: Vec<Step>) -> Result<Count> {
    let logs = sh::target_dir().join("xtask/logs");
    fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    ctrlc::set_handler(interrupted).context("cannot handle Ctrl-C")?;
    println!("logs: {}\n", logs.display());
    println!("{:<22} {:<8} {:>9} {:>9}  tests", "step", "result", "seconds", "processor");
    let strict = env::var_os("CI").is_some_and(|ci| !ci.is_empty());
    let (start, cpu) = (Instant::now(), times::cpu_of_children());
    let mut total = Count::default();
    let mut tests = Vec::new();
    for step in steps {
        total += run_one(step, &logs, strict, &mut tests)?;
    }
    row("all", "", start.elapsed(), times::cpu_of_children() - cpu, "");
    times::print_slowest(tests);
    Ok(total)
}

/// Runs one step and prints its row.
fn run_one(mut step: Step, logs: &Path, strict: bool, tests: &mut Vec<Timed>) -> Result<Count> {
    let path = logs.join(format!("{}.log", step.name));
    let log = File::create(&path)?;
    let (start, cpu) = (Instant::now(), times::cpu_of_children());
    step.command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    own_group(&mut step.command);
    let status = match step.command.spawn() {
        Ok(mut child) => {
            set_running(Some(child.id()));
            let status = wait(&mut child, &step, &path, start)?;
            set_running(None);
            status
        }
        Err(error) => {
            fs::write(&path, format!("cannot start {:?}: {error}\n", step.command))?;
            None
        }
    };
    let log = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    let tally = Tally::of(&log);
    let verdict = verdict(status, tally.count);
    let count = counted(verdict, tally.count, strict);
    report(&step, verdict, start.elapsed(), times::cpu_of_children() - cpu, tally.count);
    tests.extend(times::of(step.name, &log));
    explain(verdict, &tally, &log, &path, strict);
    Ok(count)
}

/// Waits for a step's end, with a sign of life now and then; `None` when the limit ended it.
fn wait(child: &mut Child, step: &Step, log: &Path, start: Instant) -> Result<Option<ExitStatus>> {
    let mut spoken = start;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > step.limit {
            end_group(child.id());
            child.wait()?;
            let mut log = File::options().append(true).open(log)?;
            writeln!(log, "\nended after {} s, the step's limit", step.limit.as_secs())?;
            return Ok(None);
        }
        if spoken.elapsed() > HEARTBEAT {
            spoken = Instant::now();
            println!("  … {}, {} s: {}", step.name, start.elapsed().as_secs(), last_line(log));
        }
        thread::sleep(LOOK);
    }
}

/// What the exit status and the counted tests say together.
fn verdict(status: Option<ExitStatus>, tests: Count) -> Verdict {
    match status.and_then(|status| status.code()) {
        Some(0) if tests.failed == 0 => Verdict::Passed,
        Some(code) if code == i32::from(sh::SKIPPED) => Verdict::Skipped,
        _ => Verdict::Failed,
    }
}

/// The step's tests, or the step itself where it holds none.
fn counted(verdict: Verdict, tests: Count, strict: bool) -> Count {
    let mut count = tests;
    match verdict {
        Verdict::Passed if tests.total() == 0 => count.passed = 1,
        Verdict::Failed if tests.failed == 0 => count.failed = 1,
        Verdict::Skipped if tests.skipped == 0 => count.skipped = 1,
        _ => {}
    }
    if strict {
        count.failed += std::mem::take(&mut count.skipped);
    }
    count
}

/// Prints a step's row of the table.
fn report(step: &Step, verdict: Verdict, elapsed: Duration, cpu: Duration, tests: Count) {
    let word = match verdict {
        Verdict::Passed => "ok",
        Verdict::Failed => "FAILED",
        Verdict::Skipped => "skipped",
    };
    let tests = if tests.total() == 0 { String::new() } else { tests.to_string() };
    row(step.name, word, elapsed, cpu, &tests);
}

fn row(name: &str, word: &str, elapsed: Duration, cpu: Duration, tests: &str) {
    println!("{name:<22} {word:<8} {:>9.1} {:>9.1}  {tests}", elapsed.as_secs_f64(), cpu.as_secs_f64());
}

/// Prints why a step failed, or what it missed.
fn explain(verdict: Verdict, tally: &Tally, log: &str, path: &Path, strict: bool) {
    let consequence = if strict { " (a failure, since CI is set)" } else { "" };
    for reason in &tally.reasons {
        println!("  skipped{consequence}: {reason}");
    }
    if verdict == Verdict::Failed {
        println!("  --- from {} ---", path.display());
        for line in excerpt::of(log) {
            println!("  | {line}");
        }
    }
}

/// The last line in a log that says something.
fn last_line(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(4096)..]).into_owned();
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing yet");
    line.trim().chars().take(100).collect()
}

/// Ends the running step together with this process.
fn interrupted() {
    if let Some(id) = *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) {
        end_group(id);
    }
    eprintln!("interrupted");
    std::process::exit(130);
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
