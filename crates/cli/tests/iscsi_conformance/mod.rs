//! libiscsi's conformance suite (`iscsi-test-cu`) on `weft serve`, and on tgt as a long proof.
//!
//! Every test of every suite passes or is skipped for a reason that stands in [`expected`]; a
//! reason that does not hold any more fails the test as well. Each suite has a target of its own,
//! as some count on blocks that nobody has written. Several run at a time, as some wait.
#![cfg(unix)]

mod expected;
mod outcome;
#[allow(dead_code, reason = "shared with the tests of the iSCSI source")]
#[path = "../../../endpoint/tests/iscsi_tgt/tgt.rs"]
mod tgt;

use crate::support::{Scratch, Server};
use expected::{FAILS, SKIPS, means};
use outcome::{Outcome, PROGRAM, Verdict, run, suites};
use std::collections::BTreeMap;
use std::sync::Mutex;
use tgt::Tgt;
use weft_testing::programs;

/// Outcomes by the name of the test.
type Outcomes = BTreeMap<String, Outcome>;

/// Suites that run at a time.
const SIDE_BY_SIDE: usize = 4;

/// Runs all suites, each of them as `one` does.
fn all(one: impl Fn(&str) -> Vec<(String, Outcome)> + Sync) -> Outcomes {
    let (left, outcomes) = (Mutex::new(suites()), Mutex::new(Outcomes::new()));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let Some(suite) = left.lock().unwrap().pop_first() else { return };
                    let found = one(&suite);
                    outcomes.lock().unwrap().extend(found);
                }
            });
        }
    });
    outcomes.into_inner().unwrap()
}

/// All suites on weft.
fn on_weft() -> Outcomes {
    let dir = Scratch::new("iscsi-conformance");
    all(|suite| {
        let server = Server::start(dir.path(), &["ram:64MiB", "--listen", "iscsi://127.0.0.1:0"]);
        run(suite, server.url())
    })
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
    if !programs::have(&[PROGRAM]) {
        return;
    }
    let outcomes = on_weft();
    println!("weft: {}", count(&outcomes));
    for (name, why) in SKIPS.iter().chain(FAILS) {
        println!("  {name}: {why}");
    }
    let surprises = surprises(&outcomes);
    assert!(outcomes.len() > 200, "only {} tests ran", outcomes.len());
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

/// Results of the same suites on another target, for comparison.
#[test]
#[ignore = "tests another target: cargo xtask long conformance"]
fn the_families_on_tgt() {
    if !programs::have(&[PROGRAM, "tgtd", "tgtadm"]) {
        return;
    }
    println!("weft: {}", count(&on_weft()));
    let outcomes = all(|suite| run(suite, &Tgt::start().expect("tgt is there").url()));
    println!("tgt:  {}", count(&outcomes));
}
