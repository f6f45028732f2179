//! libiscsi's conformance suite (`iscsi-test-cu`) on `weft serve`, and on tgt beside it.
//!
//! Every test of every suite passes or is skipped for a reason that stands in [`expected`]; a
//! reason that does not hold any more fails the test as well. Each suite has a target of its own,
//! as some count on blocks that nobody has written.
#![cfg(unix)]

mod expected;
mod outcome;
#[allow(dead_code, reason = "shared with the tests of the iSCSI source")]
#[path = "../../endpoint/tests/iscsi_tgt/tgt.rs"]
mod tgt;

use crate::support::{Scratch, Server};
use expected::{FAILS, SKIPS, means};
use outcome::{Outcome, Verdict, is_installed, run, suites};
use std::collections::BTreeMap;
use tgt::Tgt;

/// Outcomes by the name of the test.
type Outcomes = BTreeMap<String, Outcome>;

/// All suites on weft.
fn on_weft() -> Outcomes {
    let dir = Scratch::new("iscsi-conformance");
    let mut outcomes = Outcomes::new();
    for suite in suites() {
        let server = Server::start(dir.path(), &["ram:64MiB", "--listen", "iscsi://127.0.0.1:0"]);
        outcomes.extend(run(&suite, server.url()));
    }
    outcomes
}

/// All suites on tgt; `None` where it is not installed.
fn on_tgt() -> Option<Outcomes> {
    let mut outcomes = Outcomes::new();
    for suite in suites() {
        outcomes.extend(run(&suite, &Tgt::start()?.url()));
    }
    Some(outcomes)
}

fn count(outcomes: &Outcomes) -> String {
    let of = |verdict| outcomes.values().filter(|outcome| outcome.verdict == verdict).count();
    let (passed, failed, skipped) =
        (of(Verdict::Passed), of(Verdict::Failed), of(Verdict::Skipped));
    format!("{passed:>4} pass, {failed:>3} fail, {skipped:>3} do not apply, of {}", outcomes.len())
}

/// What is not as the tables say.
fn surprises(outcomes: &Outcomes) -> Vec<String> {
    let listed =
        |table: &[(&str, &str)], name: &str| table.iter().any(|(entry, _)| means(entry, name));
    let mut surprises = Vec::new();
    for (name, Outcome { verdict, why }) in outcomes {
        let expected = match (listed(SKIPS, name), listed(FAILS, name)) {
            (true, _) => Verdict::Skipped,
            (_, true) => Verdict::Failed,
            _ => Verdict::Passed,
        };
        if *verdict != expected {
            surprises.push(format!("{name}: {verdict:?}, not {expected:?}: {why}"));
        }
    }
    let missing = SKIPS
        .iter()
        .chain(FAILS)
        .filter(|(entry, _)| !outcomes.keys().any(|name| means(entry, name)));
    surprises.extend(missing.map(|(name, _)| format!("{name}: listed, but there is no such test")));
    surprises
}

#[test]
fn every_family_passes() {
    if !is_installed() {
        return;
    }
    let beside = std::thread::spawn(on_tgt);
    let outcomes = on_weft();
    println!("weft: {}", count(&outcomes));
    match beside.join().expect("the run on tgt") {
        Some(outcomes) => println!("tgt:  {}", count(&outcomes)),
        None => println!("tgt:  not installed"),
    }
    for (name, why) in SKIPS.iter().chain(FAILS) {
        println!("  {name}: {why}");
    }
    let surprises = surprises(&outcomes);
    assert!(outcomes.len() > 200, "only {} tests ran", outcomes.len());
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}
