use super::*;
use weft_block::{Status, StatusKind};

fn holds(oracle: &mut Oracle, version: Version) -> bool {
    let ticket = oracle.begin_read(0, 1);
    let mut block = [0; UNIT_BYTES];
    if version != 0 {
        stamp::write(&mut block, 0, version);
    }
    oracle.end_read(0, &block, &ticket).is_ok()
}

fn write(oracle: &mut Oracle, outcome: Outcome) -> Version {
    let ticket = oracle.begin_write(0, 1, false);
    oracle.end_write(0, 1, &ticket, false, &outcome);
    ticket.version
}

const LOST: Outcome = Outcome::settled(Status::new(StatusKind::Gone));

#[test]
fn an_acknowledged_write_is_all_there_is() {
    let mut oracle = Oracle::new(1, false, Replay::Never);
    assert!(holds(&mut oracle, 0));
    let first = write(&mut oracle, Outcome::SUCCESS);
    let second = write(&mut oracle, Outcome::SUCCESS);
    assert!(!holds(&mut oracle, 0) && !holds(&mut oracle, first) && holds(&mut oracle, second));
    let unsent = write(&mut oracle, Outcome::NotSent(Status::new(StatusKind::Gone)));
    assert!(!holds(&mut oracle, unsent) && holds(&mut oracle, second));
}

#[test]
fn a_read_decides_between_the_possibilities() {
    let mut oracle = Oracle::new(1, false, Replay::Never);
    let first = write(&mut oracle, Outcome::SUCCESS);
    let lost = write(&mut oracle, LOST);
    assert!(holds(&mut oracle.clone_for_tests(), lost));
    assert!(holds(&mut oracle, first));
    assert!(!holds(&mut oracle, lost), "it was not executed, and cannot be any more");
}

#[test]
fn a_power_failure_leaves_what_was_flushed_or_written_since() {
    let mut oracle = Oracle::new(1, true, Replay::Never);
    write(&mut oracle, Outcome::SUCCESS);
    let flushed = write(&mut oracle, Outcome::SUCCESS);
    let ticket = oracle.begin_flush(0, 1);
    oracle.end_flush(0, 1, &ticket);
    let cached = write(&mut oracle, Outcome::SUCCESS);
    assert!(!holds(&mut oracle, flushed));
    oracle.power_failed();
    for possible in [flushed, cached] {
        assert!(holds(&mut oracle.clone_for_tests(), possible));
    }
    assert!(!holds(&mut oracle, 1) && !holds(&mut oracle, 0));
}

#[test]
fn an_initiator_that_writes_again_loses_nothing() {
    let mut oracle = Oracle::new(1, true, Replay::Always);
    let first = write(&mut oracle, Outcome::SUCCESS);
    oracle.power_failed();
    assert!(!holds(&mut oracle, 0) && holds(&mut oracle, first));
}

#[test]
fn a_flush_across_a_power_failure_that_nobody_tells_of_covers_nothing() {
    let mut oracle = Oracle::new(1, true, Replay::Never);
    write(&mut oracle, Outcome::SUCCESS);
    let ticket = oracle.begin_flush(0, 1);
    oracle.power_failed();
    oracle.end_flush(0, 1, &ticket);
    assert!(holds(&mut oracle, 0), "the write was gone when the flush was executed");
}

#[test]
fn zeroes_are_a_write_as_well() {
    let mut oracle = Oracle::new(1, false, Replay::Never);
    write(&mut oracle, Outcome::SUCCESS);
    let ticket = oracle.begin_write(0, 1, true);
    oracle.end_write(0, 1, &ticket, false, &Outcome::SUCCESS);
    assert!(holds(&mut oracle, 0));
}

#[test]
fn zeroes_do_not_tell_whose_they_are() {
    let mut oracle = Oracle::new(1, true, Replay::Bounded);
    let ticket = oracle.begin_write(0, 1, true);
    oracle.power_failed();
    oracle.end_write(0, 1, &ticket, false, &Outcome::SUCCESS);
    assert!(holds(&mut oracle, 0));
    let ticket = oracle.begin_flush(0, 1);
    oracle.end_flush(0, 1, &ticket);
    assert!(holds(&mut oracle, 0), "the block never held anything else");
}

#[test]
fn what_is_written_again_comes_back_over_a_write_that_failed() {
    let mut oracle = Oracle::new(1, false, Replay::Always);
    let first = write(&mut oracle, Outcome::SUCCESS);
    let failed = write(&mut oracle, Outcome::Done(Status::new(StatusKind::Media)));
    assert!(
        holds(&mut oracle, failed) && holds(&mut oracle, first),
        "the first one was written again in between"
    );
    let ticket = oracle.begin_flush(0, 1);
    oracle.end_flush(0, 1, &ticket);
    assert!(
        holds(&mut oracle, first) && !holds(&mut oracle, failed),
        "nothing is written again after a flush"
    );
}

impl Oracle {
    fn clone_for_tests(&self) -> Self {
        Self { blocks: self.blocks.clone(), several: None, landed: None, ..*self }
    }
}

#[test]
fn a_loss_beyond_the_limit_is_told_by_the_next_flush() {
    for flush_succeeds in [true, false] {
        let mut oracle = Oracle::new(1, true, Replay::Bounded);
        let first = write(&mut oracle, Outcome::SUCCESS);
        oracle.power_failed();
        assert!(
            holds(&mut oracle.clone_for_tests(), 0) && holds(&mut oracle.clone_for_tests(), first)
        );
        let ticket = oracle.begin_flush(0, 1);
        match flush_succeeds {
            true => oracle.end_flush(0, 1, &ticket),
            false => oracle.fail_flush(0, 1, 0),
        }
        let ticket = oracle.begin_flush(0, 1);
        oracle.end_flush(0, 1, &ticket);
        assert_eq!(
            holds(&mut oracle, 0),
            !flush_succeeds,
            "a flush that succeeds promises that nothing is lost"
        );
    }
}

#[test]
fn a_write_that_is_executed_late_counts_until_the_next_acknowledged_one() {
    let mut oracle = Oracle::new(1, false, Replay::Always);
    let old = write(&mut oracle, Outcome::SUCCESS);
    let new = write(&mut oracle, Outcome::SUCCESS);
    assert!(!holds(&mut oracle, old), "nobody has said that it was executed late");
    let landed = oracle.expect_late();
    landed.lock().push((0, Seen::Written(old)));
    // A read that was begun before that returns what there was.
    assert!(holds(&mut oracle, new) && holds(&mut oracle, old));
    let ticket = oracle.begin_flush(0, 1);
    oracle.end_flush(0, 1, &ticket);
    assert!(holds(&mut oracle, old));
    let next = write(&mut oracle, Outcome::SUCCESS);
    assert!(!holds(&mut oracle, old) && !holds(&mut oracle, new) && holds(&mut oracle, next));
    // One that is executed while another write is under way may be executed behind it.
    let ticket = oracle.begin_write(0, 1, false);
    landed.lock().push((0, Seen::Written(old)));
    oracle.end_write(0, 1, &ticket, false, &Outcome::SUCCESS);
    assert!(
        holds(&mut oracle, old) && holds(&mut oracle, ticket.version) && !holds(&mut oracle, next)
    );
}
