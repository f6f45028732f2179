//! Futex calls: nothing is shared for each operation, so nobody waits for anybody.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use xtask::sh::{self, Missing};

use super::{
    super::{contestant::Target, process, setting::Setting},
    check::Check,
};

/// Futex calls for each operation that count as none: starting and ending a run takes some dozens,
/// more on a busy machine.
const LIMIT: f64 = 0.005;

/// Operations of each job: many against the calls of a run's start and end. A time instead would be
/// few of them on a busy machine.
const OPERATIONS: u32 = 40_000;

/// Futex calls of both ends in one run.
#[derive(Clone, Copy, Debug)]
struct Futexes {
    /// Count of the initiator, from its start to its end.
    pub initiator: u64,
    /// Count of the target, in the same time.
    pub target: u64,
    /// Operations.
    pub ios: u64,
}

/// One loop, and two.
pub fn check(setting: &Setting) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for loops in [1, 2] {
        let Futexes { initiator, target, ios } = futexes(setting, loops)?;
        for (end, calls) in [("initiator", initiator), ("target", target)] {
            let what = format!("{loops} loops, {end}, {calls} in {ios} operations");
            checks.push(Check::at_most(
                what,
                calls as f64 / ios as f64,
                LIMIT,
                "for each operation",
            ));
        }
    }
    Ok(checks)
}

/// Counts them with `strace`, with so many loops at each end and two connections for each.
fn futexes(setting: &Setting, loops: u32) -> Result<Futexes> {
    if !sh::have("strace") {
        return Err(Missing("there is no strace".into()).into());
    }
    let source = format!("ram:{}", setting.memory_bytes);
    let threads = loops.to_string();
    let target =
        Target::with(setting, &source, "nvme+tcp://127.0.0.1:0", &["--threads", &threads])?;
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let (of_target, of_initiator) =
        (directory.path().join("target"), directory.path().join("initiator"));
    let pid = target.process.pid().to_string();
    let mut tracer = strace(&of_target).args(["-p", &pid]).stderr(Stdio::piped()).spawn()?;
    // It says that it has attached; what it traces is quiet until then. Its output is ours as long
    // as it runs.
    let mut said = BufReader::new(tracer.stderr.take().context("strace without output")?)
        .lines()
        .map_while(Result::ok);
    if !said.any(|line| line.ends_with("attached") || line.contains(" attached with ")) {
        return Err(Missing(format!("strace may not trace here ({})", tracer.wait()?)).into());
    }
    let jobs = 2 * loops;
    let bench = setting.weft(&[
        "bench",
        &target.url,
        "--rw=randread",
        "--bs=4k",
        "--iodepth=16",
        "--output-format=json",
    ]);
    let mut traced = strace(&of_initiator);
    traced.arg(bench.get_program()).args(bench.get_args());
    traced.args([
        format!("--numjobs={jobs}"),
        format!("--threads={loops}"),
        format!("--number_ios={OPERATIONS}"),
        "--norandommap".into(),
    ]);
    for (name, value) in bench.get_envs() {
        traced.env(name, value.unwrap_or_default());
    }
    let report: Value = serde_json::from_str(&process::output(&mut traced)?)?;
    let ios: u64 = report["jobs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|job| job["read"]["total_ios"].as_u64())
        .sum();
    ensure!(ios > 0, "nothing was read");
    process::output(Command::new("kill").args(["-INT", &tracer.id().to_string()]))?;
    tracer.wait()?;
    Ok(Futexes { initiator: calls(&of_initiator)?, target: calls(&of_target)?, ios })
}

fn strace(output: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-e", "trace=futex", "-o"]).arg(output).stdin(Stdio::null());
    command
}

/// The calls in a summary of `strace -c`; a call that never happened has no line.
fn calls(path: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("strace wrote no {}", path.display()))?;
    Ok(summed(&text))
}

fn summed(text: &str) -> u64 {
    let line = text.lines().find(|line| line.trim_end().ends_with(" futex"));
    line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_summary_is_read() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.000123          61        17         3 futex\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.000123          61        17         3 total\n";
        assert_eq!(super::summed(text), 17);
        assert_eq!(super::summed(""), 0);
    }
}
