//! One gateway's part, in each order in which things can happen.

mod several;

use super::*;
use crate::limits::{RESERVATION_CONFLICTS_MAX, RESERVATION_FAILURES_MAX};
use uuid::Uuid;
use weft_proto::nvme::types::Id128;
use weft_proto::reservation::{
    Action, KeyCheck, Kind, Registrant, ReservationRefusal, ReservationRequest,
};

type Orders = Vec<ReservationOrder<u32, u32>>;

fn host(n: u8) -> Registrant {
    Registrant::Host(Id128([n; 16]))
}

fn step(by: u8, action: Action) -> ReservationStep {
    ReservationStep::Operation {
        operation: ReservationRequest { by: host(by), action, persist: None },
        proven: None,
    }
}

fn register(by: u8) -> ReservationStep {
    step(by, Action::Register { check: KeyCheck::Ignore, key: by.into(), all_ports: false })
}

fn preempt(by: u8, whom: u8) -> ReservationStep {
    let kind = Kind::WriteExclusiveRegistrantsOnly;
    step(by, Action::Preempt { key: by.into(), target: whom.into(), kind, abort: true })
}

fn token(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

/// The record after one more change.
fn after(record: &ReservationRecord, step: &ReservationStep, by: u128) -> ReservationRecord {
    let mut state = record.state.clone();
    let changes = step.apply(&mut state).unwrap();
    record.after(state, token(by), changes)
}

/// Two hosts are registered.
fn both() -> ReservationRecord {
    after(&after(&ReservationRecord::default(), &register(1), 101), &register(2), 102)
}

fn orders(of: &mut SharedNamespace<u32, u32>) -> Orders {
    std::iter::from_fn(|| of.next()).collect()
}

/// The same without what is put in force, whose aborted commands leave the devices at once.
fn others(of: &mut SharedNamespace<u32, u32>) -> Orders {
    let mut all = Vec::new();
    while let Some(order) = of.next() {
        match order {
            ReservationOrder::Install(change) => of.aborted(change.number),
            other => all.push(other),
        }
    }
    all
}

/// One that has this record in force, of which all know.
fn settled(record: &ReservationRecord) -> SharedNamespace<u32, u32> {
    let mut of = SharedNamespace::default();
    of.execute(None, token(1), 0);
    of.ended(StoreLane::Operations, LaneOutcome::Read(record.number, record.clone()));
    others(&mut of);
    of.ended(StoreLane::Operations, LaneOutcome::Announced);
    assert_eq!(others(&mut of), [ReservationOrder::Settled, ReservationOrder::Answer(0, Ok(()))]);
    of
}

fn read(record: &ReservationRecord) -> LaneOutcome {
    LaneOutcome::Read(record.number, record.clone())
}

fn failed() -> LaneOutcome {
    LaneOutcome::Failed("no".to_owned())
}

const READ: ReservationOrder<u32, u32> = ReservationOrder::Read(StoreLane::Operations);

#[test]
fn an_operation_is_answered_when_all_have_it_in_force_and_its_commands_are_out_of_devices() {
    for told_first in [true, false] {
        let mut of = settled(&both());
        of.execute(Some(preempt(1, 2)), token(7), 1);
        assert_eq!(orders(&mut of), [READ]);
        of.ended(StoreLane::Operations, read(&both()));
        let next = after(&both(), &preempt(1, 2), 7);
        assert_eq!(orders(&mut of), [ReservationOrder::Replace { before: 2, next: next.clone() }]);
        of.ended(StoreLane::Operations, LaneOutcome::Replaced);
        let all = orders(&mut of);
        let [ReservationOrder::Install(change), ReservationOrder::Tell] = &all[..] else {
            panic!("{all:?}")
        };
        assert_eq!((change.number, change.is_ahead, &change.state), (3, true, &next.state));
        assert_eq!(change.changes.aborted, [host(2)]);
        if told_first {
            of.ended(StoreLane::Operations, LaneOutcome::Announced);
            assert_eq!(orders(&mut of), [ReservationOrder::Settled]);
            of.aborted(3);
            assert_eq!(orders(&mut of), [ReservationOrder::Answer(1, Ok(()))]);
        } else {
            of.aborted(3);
            assert_eq!(orders(&mut of), []);
            of.ended(StoreLane::Operations, LaneOutcome::Announced);
            assert_eq!(
                orders(&mut of),
                [ReservationOrder::Settled, ReservationOrder::Answer(1, Ok(()))]
            );
        }
    }
}

#[test]
fn whoever_waits_for_a_change_waits_for_those_before_it() {
    let mut of = settled(&both());
    let (third, fourth) = (
        after(&both(), &preempt(1, 2), 7),
        after(&after(&both(), &preempt(1, 2), 7), &register(2), 8),
    );
    for record in [&third, &fourth] {
        of.follow(record.number as u32);
        of.ended(StoreLane::Readings, read(record));
    }
    orders(&mut of);
    of.aborted(4);
    assert_eq!(orders(&mut of), []);
    of.aborted(3);
    assert_eq!(orders(&mut of), [ReservationOrder::Done(3), ReservationOrder::Done(4)]);
}

#[test]
fn a_refusal_waits_for_those_who_do_not_know_yet_and_the_next_operation_for_it() {
    let mut of = settled(&both());
    // Another gateway has preempted the host, and nobody knows whether others were told.
    let third = after(&both(), &preempt(1, 2), 107);
    let kind = Kind::WriteExclusiveRegistrantsOnly;
    of.execute(Some(step(2, Action::Release { key: 2, kind })), token(7), 1);
    of.execute(Some(register(2)), token(8), 2);
    assert_eq!(others(&mut of), [READ]);
    of.ended(StoreLane::Operations, read(&third));
    assert_eq!(others(&mut of), [ReservationOrder::Tell]);
    of.ended(StoreLane::Operations, LaneOutcome::Announced);
    assert_eq!(
        others(&mut of),
        [
            ReservationOrder::Settled,
            ReservationOrder::Answer(1, Err(ReservationRefusal::Conflict)),
            READ
        ]
    );
}

#[test]
fn a_report_has_others_told_only_of_what_they_may_not_know() {
    let mut of = settled(&both());
    of.execute(None, token(7), 1);
    assert_eq!(others(&mut of), [READ]);
    of.ended(StoreLane::Operations, read(&both()));
    assert_eq!(others(&mut of), [ReservationOrder::Answer(1, Ok(()))]);
    of.execute(None, token(8), 2);
    others(&mut of);
    of.ended(StoreLane::Operations, read(&after(&both(), &register(3), 103)));
    assert_eq!(others(&mut of), [ReservationOrder::Tell]);
}

#[test]
fn what_was_never_changed_everybody_knows() {
    let mut of = SharedNamespace::default();
    of.execute(None, token(7), 1);
    of.ended(StoreLane::Operations, LaneOutcome::Read(0, ReservationRecord::default()));
    let all = orders(&mut of);
    assert!(matches!(
        &all[..],
        [READ, ReservationOrder::Install(NumberedChange { number: 0, is_ahead: false, .. })]
    ));
    of.aborted(0);
    assert_eq!(orders(&mut of), [ReservationOrder::Answer(1, Ok(()))]);
}

#[test]
fn an_operation_that_failed_and_was_executed_all_the_same_is_not_executed_again() {
    let mut of = settled(&both());
    of.execute(Some(preempt(1, 2)), token(7), 1);
    of.ended(StoreLane::Operations, read(&both()));
    others(&mut of);
    of.ended(StoreLane::Operations, failed());
    assert_eq!(others(&mut of), [ReservationOrder::Pause(StoreLane::Operations)]);
    of.ended(StoreLane::Operations, LaneOutcome::Paused);
    assert_eq!(others(&mut of), [READ]);
    // Another gateway has changed something behind it.
    let fourth = after(&after(&both(), &preempt(1, 2), 7), &register(3), 103);
    of.ended(StoreLane::Operations, read(&fourth));
    assert_eq!(others(&mut of), [ReservationOrder::Tell]);
    of.ended(StoreLane::Operations, LaneOutcome::Announced);
    assert_eq!(others(&mut of), [ReservationOrder::Settled, ReservationOrder::Answer(1, Ok(()))]);
}

#[test]
fn an_operation_that_failed_and_was_not_executed_is_executed_then() {
    let mut of = settled(&both());
    of.execute(Some(preempt(1, 2)), token(7), 1);
    of.ended(StoreLane::Operations, read(&both()));
    of.ended(StoreLane::Operations, failed());
    of.ended(StoreLane::Operations, LaneOutcome::Paused);
    others(&mut of);
    of.ended(StoreLane::Operations, read(&both()));
    let next = after(&both(), &preempt(1, 2), 7);
    assert_eq!(others(&mut of), [ReservationOrder::Replace { before: 2, next }]);
}

#[test]
fn an_operation_that_goes_on_failing_is_given_up_at_any_stage_and_the_next_one_begins() {
    // Where it fails: reading, replacing, telling. Failures of all stages count together.
    for stage in 0..3 {
        let mut of = settled(&both());
        of.execute(Some(preempt(1, 2)), token(7), 1);
        of.execute(Some(register(3)), token(8), 2);
        for failure in 1..=RESERVATION_FAILURES_MAX {
            if stage > 0 && (stage < 2 || failure == 1) {
                of.ended(StoreLane::Operations, read(&both()));
            }
            if stage > 1 && failure == 1 {
                of.ended(StoreLane::Operations, LaneOutcome::Replaced);
            }
            others(&mut of);
            of.ended(StoreLane::Operations, failed());
            if failure < RESERVATION_FAILURES_MAX {
                assert_eq!(
                    others(&mut of),
                    [ReservationOrder::Pause(StoreLane::Operations)],
                    "stage {stage}"
                );
                of.ended(StoreLane::Operations, LaneOutcome::Paused);
            }
        }
        let given_up = ReservationOrder::Answer(1, Err(ReservationRefusal::NotStored));
        assert_eq!(others(&mut of), [given_up, READ], "stage {stage}");
    }
}

#[test]
fn whoever_was_not_first_reads_again_without_a_pause_and_gives_up_in_the_end() {
    let mut of = settled(&both());
    of.execute(Some(preempt(1, 2)), token(7), 1);
    let mut record = both();
    for conflict in 1..=RESERVATION_CONFLICTS_MAX {
        assert_eq!(others(&mut of), [READ]);
        of.ended(StoreLane::Operations, read(&record));
        let next = after(&record, &preempt(1, 2), 7);
        assert_eq!(others(&mut of), [ReservationOrder::Replace { before: record.number, next }]);
        of.ended(StoreLane::Operations, LaneOutcome::Conflict);
        record = after(&record, &register(3), u128::from(conflict) + 1000);
    }
    assert_eq!(others(&mut of), [ReservationOrder::Answer(1, Err(ReservationRefusal::NotStored))]);
}

#[test]
fn an_operation_and_a_reading_do_not_wait_for_each_other() {
    let mut of = settled(&both());
    of.follow(11);
    of.execute(Some(register(3)), token(7), 1);
    assert_eq!(others(&mut of), [ReservationOrder::Read(StoreLane::Readings), READ]);
    // The operation is told to others while the reading is under way.
    of.ended(StoreLane::Operations, read(&both()));
    of.ended(StoreLane::Operations, LaneOutcome::Replaced);
    let mine = after(&both(), &register(3), 7);
    assert_eq!(
        others(&mut of),
        [ReservationOrder::Replace { before: 2, next: mine.clone() }, ReservationOrder::Tell]
    );
    // What was read is older than what is in force, and is not put in its place.
    of.ended(StoreLane::Readings, read(&both()));
    assert_eq!(orders(&mut of), [ReservationOrder::Done(11)]);
    // Those who come now are answered though this gateway waits for others.
    of.follow(12);
    assert_eq!(others(&mut of), [ReservationOrder::Read(StoreLane::Readings)]);
    of.ended(StoreLane::Readings, read(&mine));
    assert_eq!(others(&mut of), [ReservationOrder::Done(12)]);
}

#[test]
fn what_was_read_before_a_newer_change_came_in_force_is_read_again() {
    let mut of = settled(&both());
    of.execute(Some(register(3)), token(7), 1);
    of.follow(11);
    others(&mut of);
    let third = after(&both(), &preempt(1, 2), 107);
    of.ended(StoreLane::Readings, read(&third));
    assert_eq!(others(&mut of), [ReservationOrder::Done(11)]);
    of.ended(StoreLane::Operations, read(&both()));
    assert_eq!(others(&mut of), [READ]);
    of.ended(StoreLane::Operations, read(&third));
    let next = after(&third, &register(3), 7);
    assert_eq!(others(&mut of), [ReservationOrder::Replace { before: 3, next }]);
}

#[test]
fn an_older_state_that_stays_is_refused_and_never_put_in_force() {
    let mut of = settled(&both());
    let old = after(&ReservationRecord::default(), &register(1), 101);
    of.execute(Some(register(3)), token(7), 1);
    for _ in 0..RESERVATION_CONFLICTS_MAX {
        assert_eq!(orders(&mut of), [READ]);
        of.ended(StoreLane::Operations, read(&old));
    }
    assert_eq!(orders(&mut of), [ReservationOrder::Answer(1, Err(ReservationRefusal::NotStored))]);
    of.follow(11);
    of.ended(StoreLane::Readings, read(&old));
    assert_eq!(
        orders(&mut of),
        [ReservationOrder::Read(StoreLane::Readings), ReservationOrder::Done(11)]
    );
}

#[test]
fn a_change_that_came_in_force_while_others_were_told_of_another_one_is_not_settled() {
    let mut of = settled(&both());
    of.execute(Some(register(3)), token(7), 1);
    of.ended(StoreLane::Operations, read(&both()));
    of.ended(StoreLane::Operations, LaneOutcome::Replaced);
    others(&mut of);
    of.follow(11);
    let fourth = after(&after(&both(), &register(3), 7), &preempt(1, 2), 107);
    of.ended(StoreLane::Readings, read(&fourth));
    assert_eq!(
        others(&mut of),
        [ReservationOrder::Read(StoreLane::Readings), ReservationOrder::Done(11)]
    );
    of.ended(StoreLane::Operations, LaneOutcome::Announced);
    assert_eq!(others(&mut of), [ReservationOrder::Answer(1, Ok(()))]);
    // A report of it tells others before.
    of.execute(None, token(8), 2);
    of.ended(StoreLane::Operations, read(&fourth));
    assert_eq!(others(&mut of), [READ, ReservationOrder::Tell]);
}

#[test]
fn a_change_that_came_while_the_object_was_read_is_read_after_that() {
    let mut of = settled(&both());
    of.follow(11);
    of.follow(12);
    of.follow(13);
    assert_eq!(orders(&mut of), [ReservationOrder::Read(StoreLane::Readings)]);
    of.ended(StoreLane::Readings, read(&both()));
    assert_eq!(
        orders(&mut of),
        [ReservationOrder::Done(11), ReservationOrder::Read(StoreLane::Readings)]
    );
    of.ended(StoreLane::Readings, read(&both()));
    assert_eq!(orders(&mut of), [ReservationOrder::Done(12), ReservationOrder::Done(13)]);
}

#[test]
fn what_cannot_be_read_is_read_again_for_as_long_as_the_namespace_is_served() {
    let mut of = settled(&both());
    of.follow(11);
    orders(&mut of);
    for _ in 0..RESERVATION_FAILURES_MAX * 10 {
        of.ended(StoreLane::Readings, failed());
        assert_eq!(orders(&mut of), [ReservationOrder::Pause(StoreLane::Readings)]);
        of.ended(StoreLane::Readings, LaneOutcome::Paused);
        assert_eq!(orders(&mut of), [ReservationOrder::Read(StoreLane::Readings)]);
    }
    of.follow(12);
    assert_eq!((orders(&mut of), of.abandon()), (vec![], vec![11, 12]));
    // Both wait for one reading after a pause.
    let mut of = settled(&both());
    of.follow(11);
    of.follow(12);
    of.ended(StoreLane::Readings, failed());
    of.ended(StoreLane::Readings, LaneOutcome::Paused);
    orders(&mut of);
    of.ended(StoreLane::Readings, read(&both()));
    assert_eq!(orders(&mut of), [ReservationOrder::Done(11), ReservationOrder::Done(12)]);
}

#[test]
fn the_first_reading_is_given_up_on_unless_a_change_by_others_is_read() {
    let mut of = SharedNamespace::<u32, u32>::default();
    for attempt in 1..RESERVATION_FAILURES_MAX {
        of.load();
        let first = [ReservationOrder::Read(StoreLane::Load)].into_iter().filter(|_| attempt == 1);
        assert!(orders(&mut of).into_iter().eq(first), "it is read once for all");
        of.ended(StoreLane::Load, failed());
        assert_eq!(orders(&mut of), [ReservationOrder::Pause(StoreLane::Load)]);
        of.ended(StoreLane::Load, LaneOutcome::Paused);
        assert_eq!(orders(&mut of), [ReservationOrder::Read(StoreLane::Load)]);
    }
    of.ended(StoreLane::Load, failed());
    assert_eq!(orders(&mut of), [ReservationOrder::Loaded(Err("no".to_owned()))]);
    of.load();
    of.follow(11);
    assert_eq!(
        orders(&mut of),
        [ReservationOrder::Read(StoreLane::Load), ReservationOrder::Read(StoreLane::Readings)]
    );
    of.ended(StoreLane::Readings, read(&both()));
    assert_eq!(others(&mut of), [ReservationOrder::Loaded(Ok(())), ReservationOrder::Done(11)]);
    of.ended(StoreLane::Load, read(&ReservationRecord::default()));
    assert_eq!(orders(&mut of), []);
    of.load();
    assert_eq!(orders(&mut of), [ReservationOrder::Loaded(Ok(()))]);
}
