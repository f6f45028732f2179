//! Running a suite of `iscsi-test-cu` and reading what it prints.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};
use weft_testing::programs;

/// How long a suite may take. Those that wait for silence take some ten seconds.
const PATIENCE: Duration = Duration::from_secs(240);

pub const PROGRAM: &str = "iscsi-test-cu";

/// The verdict on a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed,
    /// It asks for something that the target does not have, and says so.
    Skipped,
}

/// The verdict on a test, and its own words about that.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub verdict: Verdict,
    pub why: String,
}

/// The suites of SCSI and iSCSI, as FAMILY.SUITE. (The other families repeat some of them.)
pub fn suites() -> BTreeSet<String> {
    let list = programs::command(PROGRAM).arg("--list").output().unwrap();
    let list =
        String::from_utf8_lossy(&list.stdout).into_owned() + &String::from_utf8_lossy(&list.stderr);
    let suite = |line: &str| {
        let mut parts = line.trim().split('.');
        let (family, suite) = (parts.next()?, parts.next()?);
        matches!(family, "SCSI" | "iSCSI").then(|| format!("{family}.{suite}"))
    };
    list.lines().filter_map(suite).collect()
}

/// Runs one suite on a target by two sessions; gives the outcome of each test by the name
/// SUITE.TEST.
pub fn run(suite: &str, url: &str) -> Vec<(String, Outcome)> {
    let log = tempfile(suite);
    let output = std::fs::File::create(&log).unwrap();
    let mut child = programs::command(PROGRAM)
        .args([
            "--dataloss",
            "--allow-sanitize",
            "--ignore",
            "-V",
            &format!("--test={suite}"),
            url,
            url,
        ])
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .unwrap();
    let until = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    let text = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
    std::fs::remove_file(&log).unwrap();
    let outcomes = read(&text);
    if outcomes.is_empty() {
        let why = text
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("it says nothing")
            .to_owned();
        return vec![(suite.to_owned(), Outcome { verdict: Verdict::Failed, why })];
    }
    outcomes
}

fn tempfile(suite: &str) -> std::path::PathBuf {
    let thread = std::thread::current().id();
    std::env::temp_dir().join(format!("weft-{suite}-{}-{thread:?}.log", std::process::id()))
}

/// Reads the log: `Suite: NAME`, then `Test: NAME ...` and what the test says, up to the next one.
fn read(text: &str) -> Vec<(String, Outcome)> {
    let (mut suite, mut outcomes) = (String::new(), Vec::new());
    let mut test: Option<(String, String)> = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("Suite: ") {
            outcomes.extend(test.take().map(judge));
            suite = name.to_owned();
        } else if let Some((name, rest)) =
            line.strip_prefix("Test: ").and_then(|line| line.split_once(" ..."))
        {
            outcomes.extend(test.take().map(judge));
            test = Some((format!("{suite}.{name}"), format!("{rest}\n")));
        } else if line.starts_with("Run Summary:") {
            outcomes.extend(test.take().map(judge));
        } else if let Some((_, said)) = &mut test {
            said.push_str(line);
            said.push('\n');
        }
    }
    outcomes.extend(test.map(judge));
    outcomes
}

fn judge((name, said): (String, String)) -> (String, Outcome) {
    let first = |what: &str| {
        said.lines().map(str::trim).find(|line| line.contains(what)).unwrap_or_default().to_owned()
    };
    let passed = said.lines().any(|line| line.trim().starts_with("passed"));
    let outcome = if !passed {
        Outcome { verdict: Verdict::Failed, why: format!("{} {}", first("[FAILED]"), first("CU_")) }
    } else if said.contains("[SKIPPED]") {
        Outcome { verdict: Verdict::Skipped, why: first("[SKIPPED]") }
    } else {
        Outcome { verdict: Verdict::Passed, why: String::new() }
    };
    (name, outcome)
}
