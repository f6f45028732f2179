//! `weft study gate`, and the script of docs/study/gate.md.

use crate::support::{Ran, Scratch, run, weft};
use serde_json::Value;
use std::path::Path;

/// The script of the page's workflow: what stands below `- run: |`.
#[cfg(unix)]
fn script() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/study/gate.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```yaml\n").unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    let lines: Vec<&str> = block.lines().collect();
    assert!(lines.len() <= 12, "about ten lines of YAML: {block}");
    assert_eq!(lines[..3], ["steps:", "  - uses: actions/checkout@v4", "  - run: |"]);
    let lines = lines[3..].iter().map(|line| line.strip_prefix("      ").unwrap());
    lines.map(|line| format!("{line}\n")).collect()
}

/// A study of the suite `null` with counts, in `dir`.
fn study(dir: &Path, into: &str) -> Value {
    let args = ["study", "--suite", "null", "--quick", "--time-budget", "1s", "--output-dir", into];
    let ran = run(weft(dir, &args));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let text = std::fs::read_to_string(dir.join(into).join("results.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn gate(dir: &Path, args: &[&str]) -> Ran {
    run(weft(dir, &[&["study", "gate"], args].concat()))
}

fn put(dir: &Path, name: &str, value: &Value) {
    std::fs::write(dir.join(name), value.to_string()).unwrap();
}

/// The workflow of the page passes by itself, and a later study that copies more fails.
#[cfg(unix)]
#[test]
fn the_workflow_of_the_page_judges_by_counts() {
    let dir = Scratch::new("study-gate-page");
    let path = dir.path();
    study(path, "ci");
    let bin = path.join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weft"), bin.join("weft")).unwrap();
    let script = script();
    assert!(script.contains("--quick "), "{script}");
    // A test has not the time of a study.
    let short = script.replace("--quick ", "--quick --time-budget 1s ");
    std::fs::write(path.join("script"), short).unwrap();
    let mut all = vec![bin];
    all.extend(std::env::split_paths(&weft_testing::programs::path()));
    let mut command = std::process::Command::new("sh");
    command.args(["-ex", "script"]).current_dir(path);
    command.env("PATH", std::env::join_paths(all).unwrap());
    command.env("GITHUB_STEP_SUMMARY", path.join("summary.md"));
    command.env("WEFT_STATE_DIR", path.join("state")).env("WEFT_RUNTIME_DIR", path.join("run"));
    let ran = run(command);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
    let summary = read("summary.md");
    assert_eq!(summary.matches("### weft study gate: null\n").count(), 2, "{summary}");
    assert!(
        summary.contains("| bytes on the wire | 4.19k | 4.19k | none | not worse |"),
        "{summary}"
    );
    // weft's own gate: what an operation costs does not grow unnoticed.
    let kept =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/study/reports/null/results.json");
    let own =
        ["now/results.json", "--counts-only", "--strict", "--baseline", kept.to_str().unwrap()];
    let ran = gate(path, &own);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let junit = read("now/gate.xml");
    assert!(
        junit.contains("classname=\"weft.study.null.nvme+tcp\"") && !junit.contains("<failure"),
        "{junit}"
    );
}

#[test]
fn a_study_that_costs_more_fails_with_a_status_of_its_own() {
    let dir = Scratch::new("study-gate");
    let path = dir.path();
    let before = study(path, "before");
    let same = ["before/results.json", "--baseline", "before/results.json", "--strict"];
    let ran = gate(path, &[&same[..], &["--counts-only"]].concat());
    assert!(ran.code() == Some(0) && ran.out.contains("Passed: of "), "{ran:?}");
    let mut after = before.clone();
    let rows = after["rows"].as_array_mut().unwrap();
    let row = rows.iter_mut().find(|row| row["lane"] == "nvme+tcp").unwrap();
    let wire = row["counts"]["wire_bytes"].as_f64().unwrap();
    row["counts"]["wire_bytes"] = (wire * 1.2).into();
    put(path, "after.json", &after);
    let worse = ["after.json", "--baseline", "before/results.json", "--counts-only"];
    let ran = gate(path, &[&worse[..], &["--junit", "gate.xml"]].concat());
    assert_eq!(ran.code(), Some(14), "{ran:?}");
    assert!(ran.err.contains("after.json is worse than before/results.json allows"), "{ran:?}");
    assert!(ran.out.contains("bytes on the wire") && ran.out.contains("WORSE"), "{ran:?}");
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    assert!(std::fs::read_to_string(path.join("gate.xml")).unwrap().contains("failures=\"1\""));
    for (args, status) in
        [(["--lose", "25%"], 0), (["--lanes", "iscsi"], 0), (["--lanes", "nvme+tcp"], 14)]
    {
        let ran = gate(path, &[&worse[..], &args].concat());
        assert_eq!(ran.code(), Some(status), "{args:?}: {ran:?}");
    }
}

#[test]
fn a_gate_that_can_judge_nothing_fails_closed() {
    let dir = Scratch::new("study-gate-nothing");
    let path = dir.path();
    let study = study(path, "study");
    let mut other = study.clone();
    other["rows"] = Value::Array(Vec::new());
    other["relations"] = Value::Array(Vec::new());
    put(path, "other.json", &other);
    std::fs::write(path.join("text.json"), "{}").unwrap();
    for (args, status, says) in [
        (
            ["other.json", "--baseline", "study/results.json"],
            2,
            "no relation or count of the same lane",
        ),
        (["study/results.json", "--baseline", "other.json"], 2, "nothing can be judged"),
        (["text.json", "--baseline", "study/results.json"], 2, "it is not a results.json"),
        (["none.json", "--baseline", "study/results.json"], 3, "cannot read none.json"),
    ] {
        let ran = gate(path, &args);
        assert!(ran.code() == Some(status) && ran.err.contains(says), "{args:?}: {ran:?}");
    }
    let ran =
        gate(path, &["study/results.json", "--baseline", "study/results.json", "--lanes", "x"]);
    assert!(ran.code() == Some(2) && ran.err.contains("neither study has the lane x"), "{ran:?}");
    let ran =
        gate(path, &["study/results.json", "--baseline", "study/results.json", "--lose", "5"]);
    assert!(ran.code() == Some(2) && ran.err.contains("write a percentage"), "{ran:?}");
}
