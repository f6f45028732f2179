//! A seed is one history, and sound products pass.

use weft_sim::journal::SimJournal;
use weft_sim::run::{SimReport, run};
use weft_sim::scene::Scene;
use weft_sim::wanted::Wanted;

fn traced(seed: u64) -> SimReport {
    run(seed, Wanted::default(), &SimJournal::new(true))
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

fn mirror() -> Wanted {
    Wanted { scene: Some(Scene::Mirror), ..Wanted::default() }
}

#[test]
fn mirrors_keep_their_promises_and_have_one_history() {
    for seed in 0..10 {
        let (first, second) = (
            run(seed, mirror(), &SimJournal::new(true)),
            run(seed, mirror(), &SimJournal::new(false)),
        );
        assert_eq!(first.violation, None, "seed {seed}: {}", first.setup);
        assert!(first.operations[0] > 0 && first.opened > 0, "seed {seed}");
        assert_eq!(first.hash, second.hash, "seed {seed} has two histories");
    }
}

#[test]
fn groups_keep_their_promises_and_have_one_history() {
    let wanted = Wanted { scene: Some(Scene::Group), ..Wanted::default() };
    for seed in 0..10 {
        let (first, second) =
            (run(seed, wanted, &SimJournal::new(true)), run(seed, wanted, &SimJournal::new(false)));
        assert_eq!(first.violation, None, "seed {seed}: {}", first.setup);
        assert!(
            first.operations[0] > 0 && first.trace.iter().any(|line| line.contains("is Optimized")),
            "seed {seed}"
        );
        assert_eq!(first.hash, second.hash, "seed {seed} has two histories");
    }
}

/// The rule of `weft_group` runs here that ends a gateway, and the others go on.
#[test]
fn gateways_that_lose_the_cluster_end() {
    let wanted = Wanted { scene: Some(Scene::Group), ..Wanted::default() };
    let reports: Vec<_> = (0..7).map(|seed| run(seed, wanted, &SimJournal::new(false))).collect();
    assert!(reports.iter().any(|report| report.losses > 0));
    assert!(reports.iter().all(|report| report.violation.is_none()));
}

#[test]
fn who_listens_changes_nothing() {
    for seed in 0..6 {
        assert_eq!(
            traced(seed).hash,
            run(seed, Wanted::default(), &SimJournal::new(false)).hash,
            "seed {seed}"
        );
    }
}

#[test]
fn nothing_is_wrong() {
    for seed in 100..120 {
        let report = run(seed, Wanted::default(), &SimJournal::new(false));
        assert_eq!(report.violation, None, "seed {seed}: {}", report.setup);
        assert!(report.operations[0] > 0);
    }
}
