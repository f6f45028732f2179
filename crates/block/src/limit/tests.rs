//! On virtual time, so that every time is exact.

use super::{Limit, Rate};
use crate::limits::LIMIT_BURST_MS;
use crate::testing::{Rig, TestPlan};
use crate::{OpKind, OpenOptions, Refusal, open};
use core::time::Duration;
use weft_io::Time;

const S: u64 = 1_000_000_000;

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

#[test]
fn so_many_operations_begin_in_a_second_after_a_burst() {
    let rate = Rate::new(Limit { operations: 1000, bytes: 0 });
    let begin = at(100 * S);
    let times: Vec<Time> = (0..2000).map(|_| rate.admit(begin, 0)).collect();
    let within = |time: u64| {
        times.iter().filter(|at| **at <= begin + Duration::from_nanos(time)).count() as u64
    };
    assert!(times.is_sorted());
    assert_eq!(within(0), LIMIT_BURST_MS + 1);
    assert_eq!(within(S) - within(0), 1000);
    // What was not used is lost, but for a burst.
    let later = at(200 * S);
    assert_eq!(
        (0..100).filter(|_| rate.admit(later, 0) == later).count() as u64,
        LIMIT_BURST_MS + 1
    );
}

#[test]
fn both_limits_apply_and_each_can_be_changed() {
    let rate = Rate::new(Limit { operations: 1000, bytes: 1 << 20 });
    let begin = at(100 * S);
    assert_eq!(rate.admit(begin, 1 << 20), begin);
    let next = rate.admit(begin, 1 << 20);
    assert_eq!(next, begin + Duration::from_millis(1000 - LIMIT_BURST_MS));
    rate.set(Limit::NONE);
    let last = rate.admit(at(103 * S), 1 << 20);
    assert_eq!((last, rate.admit(at(103 * S), 1 << 30)), (at(103 * S), at(103 * S)));
}

#[test]
fn limits_are_written_as_everywhere() {
    assert_eq!(
        Limit::parse("iops=10k,bw=100MB"),
        Ok(Limit { operations: 10_000, bytes: 100_000_000 })
    );
    assert_eq!(Limit::parse("bw=1MiB"), Ok(Limit { operations: 0, bytes: 1 << 20 }));
    assert_eq!(Limit::parse("iops=2M"), Ok(Limit { operations: 2_000_000, bytes: 0 }));
    for wrong in
        ["", "iops", "iops=", "iops=0", "iops=-1", "iops=1.5k", "bw=0", "bw=fast", "speed=9"]
    {
        assert!(Limit::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn it_takes_more_when_there_is_room_again() {
    let device = open("limit:iops=1M,ram:1MiB", &OpenOptions::default()).unwrap();
    let rig = Rig::new(&device, TestPlan::default());
    let reads = (0..5000).map(|n| rig.request(OpKind::Read, n % 2048, vec![0; 512])).collect();
    assert!(rig.run(0, reads).iter().all(|answer| answer.outcome.is_success()));
    rig.end();
}

#[test]
fn a_longer_burst_begins_at_once() {
    let rate = Rate::with_burst(Limit { operations: 1000, bytes: 0 }, Duration::from_secs(1));
    let begin = at(100 * S);
    assert_eq!((0..3000).filter(|_| rate.admit(begin, 0) == begin).count(), 1001);
}

/// The writes that wait would take a thousand seconds.
#[test]
fn reads_do_not_wait_for_writes_that_exceed_their_own_limit() {
    let device =
        open("limit:write-iops=1,read-bw=100MB,ram:1MiB", &OpenOptions::default()).unwrap();
    let rig = Rig::new(&device, TestPlan::default());
    let write = OpKind::Write { fua: false };
    let writes = rig.start(0, (0..100).map(|n| rig.request(write, n, vec![1; 512])).collect());
    assert!(
        rig.run(0, vec![rig.request(OpKind::Read, 0, vec![0; 512])]).remove(0).outcome.is_success()
    );
    writes.iter().for_each(|&name| rig.cancel(0, name));
    let ended = rig.wait(0, &writes);
    assert!(ended.iter().any(|answer| !answer.outcome.is_success()), "some had to wait");
    rig.end();
}

#[test]
fn mistakes_are_told() {
    let refusal =
        |url: &str| open(url, &OpenOptions::default()).err().unwrap().refusal().cloned().unwrap();
    assert!(matches!(refusal("limit:ram:1MiB"), Refusal::OptionMissing { name: "iops", .. }));
    assert!(matches!(
        refusal("limit:iops=fast,ram:1MiB"),
        Refusal::OptionValue { name: "iops", .. }
    ));
    assert!(matches!(refusal("limit:bw=0,ram:1MiB"), Refusal::OptionValue { name: "bw", .. }));
    assert!(
        matches!(refusal("limit:iops=1,rate=9,ram:1MiB"), Refusal::UnknownOption { name, .. } if name == "rate")
    );
}
