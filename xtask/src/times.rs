//! Processor times of steps, and the time of each test according to the logs.
//!
//! A test's line is `test NAME ... ok <1.234s>`: cargo's test programs write it so when they are
//! asked to ([`timed`]), and these chores' own suites write it themselves.

use std::{path::Path, process::Command, time::Duration};

/// A test and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// The program or the step, and the test.
    pub name: String,
    /// From its start to its end, in seconds.
    pub seconds: f64,
    /// True if it failed.
    pub failed: bool,
}

/// Tests that are shown.
const SHOWN: usize = 10;

/// Makes a test program built by cargo report the time of each test. Its harness can, but counts
/// the option among those that may change, and asks for this variable before it takes such a one.
pub fn timed(program: &Path, command: &mut Command) {
    // Programs of documentation's examples have another harness.
    if program.parent().is_some_and(|directory| directory.ends_with("deps")) {
        command.args(["-Zunstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
    }
}

/// Returns the line that reports a test of these chores' own.
pub fn line(name: &str, outcome: &str, elapsed: Duration) -> String {
    format!("test {name} ... {outcome} <{:.3}s>", elapsed.as_secs_f64())
}

/// All tests of a log that say what they took; `step` stands before those that no program is named
/// for.
pub fn of(step: &str, log: &str) -> Vec<Timed> {
    let mut program = step.to_owned();
    let mut found = Vec::new();
    for line in log.lines().map(str::trim) {
        if let Some(name) = program_of(line) {
            program = name.to_owned();
        } else if let Some((test, failed, seconds)) = test_of(line) {
            found.push(Timed { name: format!("{program}: {test}"), seconds, failed });
        }
    }
    found
}

/// The name in `Running tests/x.rs (target/debug/deps/x-0123456789abcdef)`.
fn program_of(line: &str) -> Option<&str> {
    let path = line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once('(')?.1;
    let file = path.rsplit(['/', '\\']).next()?;
    file.rsplit_once('-').map(|(name, _)| name)
}

fn test_of(line: &str) -> Option<(&str, bool, f64)> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = outcome.strip_suffix("s>")?.rsplit_once('<')?.1.parse().ok()?;
    let failed = !["ok", "skipped"].iter().any(|good| outcome.starts_with(good));
    Some((name, failed, seconds))
}

/// The names of those that failed.
pub fn failed(all: &[Timed]) -> Vec<String> {
    all.iter().filter(|test| test.failed).map(|test| test.name.clone()).collect()
}

/// Prints the slowest of all tests.
pub fn print_slowest(mut all: Vec<Timed>) {
    if all.is_empty() {
        return;
    }
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    println!("\n{:<64} {:>9}", format!("the slowest of {} tests", all.len()), "seconds");
    for Timed { name, seconds, .. } in all.iter().take(SHOWN) {
        println!("{name:<64} {seconds:>9.1}");
    }
}

/// Processor time, user and system, of all programs that this one has waited for and that those
/// have waited for. Zero where the system does not tell.
pub fn cpu_of_children() -> Duration {
    // `cutime` and `cstime`.
    ticks("self", 16, 2)
}

/// Processor time of a child that has not been waited for yet, and of all that it has waited for.
/// Zero where the system does not tell.
pub fn cpu_of(child: u32) -> Duration {
    // `utime` and `stime` come before those.
    ticks(&child.to_string(), 14, 4)
}

/// Processor time of this thread. Zero where the system does not tell.
pub fn cpu_of_thread() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
    #[cfg(not(unix))]
    Duration::ZERO
}

/// The sum of some fields of `/proc/PROCESS/stat`, counted from 1, in ticks of 10 ms.
fn ticks(process: &str, first: usize, fields: usize) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The second field, a name in parentheses, may hold anything.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    let ticks: u64 =
        rest.skip(first - 3).take(fields).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_times_are_read() {
        let log = "     Running tests/quiet.rs (target/debug/deps/quiet-0123456789abcdef)\n\
            test a ... ok <0.250s>\ntest b ... FAILED <2.5s>\ntest c ... ok\ntest result: ok. 3 passed; finished in 1s\n";
        let timed = |name: &str, seconds, failed| Timed { name: name.into(), seconds, failed };
        let both = [timed("quiet: a", 0.25, false), timed("quiet: b", 2.5, true)];
        assert_eq!(of("workspace", log), both);
        let own = line("discard", "ok", Duration::from_millis(12_345));
        assert_eq!(of("lab", &own), [timed("lab: discard", 12.345, false)]);
        let failing = line("nbd", "TIMED OUT", Duration::from_secs(1));
        assert_eq!(failed(&of("lab", &format!("{own}\n{failing}"))), ["lab: nbd"]);
    }

    #[test]
    fn children_cost_processor_time() {
        let before = cpu_of_children();
        let burn = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"])
            .status();
        if cfg!(target_os = "linux") && burn.is_ok() {
            assert!(cpu_of_children() > before);
        }
    }
}
