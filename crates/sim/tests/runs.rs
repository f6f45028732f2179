//! A seed is one history, and sound products pass.

use weft_sim::journal::Journal;
use weft_sim::run::{Report, run};
use weft_sim::wanted::Wanted;

fn traced(seed: u64) -> Report {
    run(seed, Wanted::default(), &Journal::new(true))
}

#[test]
fn a_seed_is_one_history_byte_for_byte() {
    for seed in 0..6 {
        let (first, second) = (traced(seed), traced(seed));
        assert!(first.trace.len() > 100, "seed {seed} tells {} lines", first.trace.len());
        assert!(first.trace == second.trace, "seed {seed} has two histories");
        assert_eq!(first.hash, second.hash);
    }
}

#[test]
fn who_listens_changes_nothing() {
    for seed in 0..6 {
        assert_eq!(traced(seed).hash, run(seed, Wanted::default(), &Journal::new(false)).hash, "seed {seed}");
    }
}

#[test]
fn nothing_is_wrong() {
    for seed in 100..120 {
        let report = run(seed, Wanted::default(), &Journal::new(false));
        assert_eq!(report.violation, None, "seed {seed}: {}", report.setup);
        assert!(report.operations[0] > 0);
    }
}
