//! The number of blocks of a study, and the new setup of each.

use super::*;
use crate::results::Skipped;

/// Each block has devices of its own, the old ones are let go of before, and each relation tells
/// what each block says.
#[test]
fn each_block_is_set_up_anew() {
    let mut suite = short("patterns");
    suite.workloads.retain(|workload| workload.name == "qd1-4k-randwrite");
    suite.times.iter_mut().for_each(|times| times.rounds = Some(6));
    let both = || {
        vec![
            lane(Facts::LOCAL, "ram:16MiB"),
            StudyLane { base: Some(Facts::LOCAL.into()), ..lane("other", "ram:24MiB") },
        ]
    };
    let first = both();
    let old = std::cell::RefCell::new(vec![Arc::downgrade(&first[0].device)]);
    let set_up = || {
        assert!(
            old.borrow().iter().all(|device| device.strong_count() == 0),
            "a block's devices end with it"
        );
        let lanes = both();
        old.borrow_mut().push(Arc::downgrade(&lanes[0].device));
        Ok(LaneSet { lanes, ceiling: None, missing: Vec::new() })
    };
    let budget = Some(Duration::from_secs(600));
    let spec = StudySpec { suite, budget, set_up: Some(Box::new(set_up)), ..spec(first, None) };
    let results = run(spec, &mut |_| ()).unwrap();
    assert_eq!(old.borrow().len(), 3, "six rounds at most are three blocks");
    assert!(
        results.notes.iter().any(|note| note.contains("3 blocks of two rounds, each with targets")),
        "{:?}",
        results.notes
    );
    assert_eq!(results.relations.len(), 4, "rate, latency, CPU and cycles");
    for relation in &results.relations {
        assert_eq!(
            (relation.estimate.blocks, relation.estimate.pairs, relation.of_blocks.len()),
            (3, 6, 3),
            "{relation:?}"
        );
    }
}

/// What was measured until then stays.
#[test]
fn a_block_that_cannot_be_set_up_ends_the_study() {
    let budget = Some(Duration::from_secs(600));
    let fails = || Err(Error::option("lanes", "no memory"));
    let lanes = vec![lane(Facts::LOCAL, "ram:16MiB")];
    let mut suite = short("patterns");
    suite.times.iter_mut().for_each(|times| times.rounds = None);
    let spec = StudySpec { suite, budget, set_up: Some(Box::new(fails)), ..spec(lanes, None) };
    let results = run(spec, &mut |_| ()).unwrap();
    assert_eq!((results.rows.len(), results.lanes[0].url.as_str()), (3, "ram:16MiB"));
    let told = |note: &String| note.contains("ended after one block") && note.contains("no memory");
    assert!(results.notes.iter().any(told), "{:?}", results.notes);
}

/// A lane that cannot be set up again is given up, whatever place it has; the others go on.
#[test]
fn a_lane_that_is_missing_in_a_later_block_costs_only_itself() {
    let mut suite = short("patterns");
    suite.workloads.retain(|workload| workload.name == "qd1-4k-randwrite");
    suite.times.iter_mut().for_each(|times| times.rounds = Some(6));
    let all = || {
        ["first", "gone", "last"]
            .map(|name| lane(name, "ram:16MiB"))
            .into_iter()
            .collect::<Vec<_>>()
    };
    let mut blocks = 1;
    let set_up = || {
        blocks += 1;
        let mut lanes = all();
        lanes.rotate_left(1);
        lanes.retain(|lane| lane.name != "gone" || blocks > 2);
        let missing =
            vec![Skipped { lane: "gone".into(), why: "its program crashed".into(), cell: None }];
        Ok(LaneSet { lanes, ceiling: None, missing })
    };
    let budget = Some(Duration::from_secs(600));
    let spec = StudySpec { suite, budget, set_up: Some(Box::new(set_up)), ..spec(all(), None) };
    let results = run(spec, &mut |_| ()).unwrap();
    let rounds: Vec<(&str, u32)> =
        results.rows.iter().map(|row| (row.lane.as_str(), row.rounds)).collect();
    // A busy machine may leave out a round.
    let [("first", 3..=6), ("gone", 1..=2), ("last", 3..=6)] = rounds[..] else {
        panic!("{rounds:?}: {:?}", results.notes)
    };
    let note = "gone could not be set up again: its program crashed. It is given up.";
    assert!(results.notes.iter().any(|it| it == note), "{:?}", results.notes);
}

/// The number of blocks is decided after the first ones, by the headline: where that is narrow at
/// once there are no more.
#[test]
fn there_are_as_many_blocks_as_the_headline_takes() {
    let mut suite = short("patterns");
    suite.workloads.retain(|workload| workload.name == "qd1-4k-randwrite");
    suite.times.iter_mut().for_each(|times| times.rounds = None);
    // What the slow lane adds is the model's: the same in each block, on any machine.
    let slow = StudyLane {
        base: Some(Facts::LOCAL.into()),
        ..lane("slow", "delay:read=20ms,write=20ms,null:16MiB")
    };
    let lanes = vec![lane(Facts::LOCAL, "null:16MiB"), slow];
    let mut so_far = String::new();
    let spec = StudySpec { suite, budget: Some(Duration::from_secs(20)), ..spec(lanes, None) };
    let results = run(spec, &mut |progress| so_far = progress.so_far.to_owned()).unwrap();
    let added = results
        .relation("slow", Some(Facts::LOCAL), "qd1-4k-randwrite", crate::results::Quantity::Latency)
        .unwrap();
    assert!(added.blocks >= crate::relation::BLOCKS_FIRST && added.value > 19e6, "{added:?}");
    assert!(so_far.starts_with("slow device adds "), "{so_far}");
}
