//! Mirrors over legs that can be reserved: whoever opens one shuts out whoever had it, gives the
//! legs back when it closes, and leaves the reservations of others alone.

mod leg;

use crate::closing::close;
use leg::{LEG_BYTES, Leg, Table};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use uuid::Uuid;
use weft_block::mirror::HotLimit;
use weft_block::mirror::{self, LegSource, MirrorOptions, admin};
use weft_block::path::PathState;
use weft_block::testing::{Rig, TestPlan};
use weft_block::{
    Device, Error, OpKind, OpenOptions, Opening, Outcome, Presence, ReservationKind, ReserveAction,
    StatusKind, open,
};
use weft_io::event_loop::spawn;
use weft_io::{LoopConfig, RemoteLoop};
use weft_testing::wait::until;

struct Bench {
    legs: Vec<Leg>,
    state: Option<Device>,
    home: RemoteLoop,
    /// The only host identifier that targets accept; otherwise each opener has its own.
    host: Option<u128>,
}

type Mirror = (Device, mpsc::Receiver<()>);

impl Bench {
    /// Legs of which these can be reserved.
    fn new(can_reserve: &[bool], with_state: bool) -> Self {
        let block = open(&format!("ram:{LEG_BYTES}"), &OpenOptions::default())
            .unwrap()
            .geometry()
            .block_bytes;
        let sizes = vec![LEG_BYTES; can_reserve.len()];
        let areas =
            admin::create(Uuid::from_u128(5), &sizes, None, block, 3, admin::Holding::TheSame)
                .unwrap();
        let legs = can_reserve.iter().zip(areas).map(|(can, area)| Leg::new(&area, *can)).collect();
        let (_, home, _) = spawn(LoopConfig::default(), |_| ()).unwrap();
        let state = || open(&format!("ram:64KiB,block={block}"), &OpenOptions::default()).unwrap();
        Self { legs, state: with_state.then(state), home, host: None }
    }

    fn begin(&self, opener: u128, force: bool) -> (Result<Device, Error>, mpsc::Receiver<()>) {
        let (guard, closed) = mpsc::channel();
        let state = self.state.clone().map(|disk| LegSource {
            url: "state".into(),
            is_remote: false,
            open: Box::new(move |_| Ok(Opening::ready(Ok(Arc::clone(&disk))))),
        });
        let options = MirrorOptions {
            url: "mirror:test".into(),
            legs: self.legs.iter().map(|leg| leg.source(self.host)).collect(),
            state,
            force,
            settle: Duration::ZERO,
            patience: None,
            opener: Uuid::from_u128(opener),
            host: "testhost".into(),
            time: 1_700_000_000,
            seed: opener as u64,
            hot: HotLimit::default(),
            guard: Box::new(guard),
        };
        (mirror::begin(&self.home, options).and_then(Opening::wait), closed)
    }

    fn open(&self, opener: u128, force: bool) -> Mirror {
        let (device, closed) = self.begin(opener, force);
        (device.unwrap_or_else(|e| panic!("{e}")), closed)
    }

    fn holders(&self) -> Vec<Option<u128>> {
        self.legs.iter().map(Leg::holder).collect()
    }

    fn unguarded(&self) -> u32 {
        self.legs.iter().map(|leg| leg.table.lock().unwrap().unguarded).sum()
    }
}

fn write(rig: &Rig, lba: u64, byte: u8) -> StatusKind {
    let data = vec![byte; rig.block_bytes()];
    let answer = rig.run(0, vec![rig.request(OpKind::Write { fua: false }, lba, data)]).remove(0);
    if answer.outcome.is_success() { StatusKind::Success } else { answer.outcome.status().kind }
}

#[test]
fn who_is_superseded_by_force_acknowledges_nothing_any_more() {
    for can_reserve in [&[true, true][..], &[true, false], &[true, true, true]] {
        let bench = Bench::new(can_reserve, false);
        let first = bench.open(1, false);
        let old = Rig::new(&first.0, TestPlan::default());
        assert_eq!(write(&old, 7, 1), StatusKind::Success);
        let second = bench.open(2, true);
        let new = Rig::new(&second.0, TestPlan::default());
        assert_eq!(write(&new, 7, 2), StatusKind::Success);
        assert_eq!(write(&old, 7, 3), StatusKind::ReservationConflict, "{can_reserve:?}");
        assert_eq!(write(&old, 8, 3), StatusKind::ReservationConflict);
        assert_eq!(
            old.run(0, vec![old.request(OpKind::Read, 7, vec![0; old.block_bytes()])])[0]
                .outcome
                .status()
                .kind,
            StatusKind::ReservationConflict
        );
        assert_eq!(first.0.presence(), Presence::Gone);
        assert_eq!(new.read(0, 7, 1)[0], 2);
        old.end();
        close(first.0, &first.1);
        assert_eq!(
            write(&new, 8, 2),
            StatusKind::Success,
            "the end of the old one disturbs nobody"
        );
        new.end();
        close(second.0, &second.1);
        assert_eq!(bench.unguarded(), 0);
    }
}

#[test]
fn an_orderly_end_gives_the_legs_back() {
    let bench = Bench::new(&[true, true], true);
    let mirror = bench.open(1, false);
    assert_eq!(bench.holders(), [Some(1), Some(1)]);
    close(mirror.0, &mirror.1);
    assert!(
        bench
            .legs
            .iter()
            .all(|leg| leg.table.lock().unwrap().keys.is_empty() && leg.holder().is_none())
    );
}

#[test]
fn a_start_with_the_state_file_takes_what_a_killed_owner_has_reserved() {
    let bench = Bench::new(&[true, true], true);
    let killed = bench.open(1, false);
    let mirror = bench.open(2, false);
    assert_eq!(bench.holders(), [Some(2), Some(2)]);
    assert!(bench.legs.iter().all(|leg| leg.table.lock().unwrap().keys.len() == 1));
    let rig = Rig::new(&mirror.0, TestPlan::default());
    assert_eq!(write(&rig, 0, 1), StatusKind::Success);
    rig.end();
    close(mirror.0, &mirror.1);
    drop(killed);
}

#[test]
fn a_start_under_the_identifier_of_a_killed_owner_replaces_its_key() {
    let bench = Bench { host: Some(7), ..Bench::new(&[true, true], true) };
    let killed = bench.open(1, false);
    let key = || bench.legs[0].table.lock().unwrap().keys.clone();
    let old = key();
    let mirror = bench.open(2, false);
    assert_eq!((bench.holders(), old.len(), key().len()), (vec![Some(7), Some(7)], 1, 1));
    assert_ne!(key(), old);
    close(mirror.0, &mirror.1);
    assert_eq!(bench.holders(), [None, None]);
    drop(killed);
}

#[test]
fn a_start_takes_legs_of_targets_that_let_only_the_holder_change_a_reservation() {
    let bench = Bench::new(&[true, true], true);
    bench.legs.iter().for_each(|leg| leg.table.lock().unwrap().is_by_name = true);
    let killed = bench.open(1, false);
    let mirror = bench.open(2, false);
    assert_eq!(bench.holders(), [Some(2), Some(2)]);
    assert!(bench.legs.iter().all(|leg| leg.table.lock().unwrap().keys.len() == 1));
    let old = Rig::new(&killed.0, TestPlan::default());
    assert_ne!(write(&old, 9, 1), StatusKind::Success);
    old.end();
    close(mirror.0, &mirror.1);
    assert_eq!((bench.unguarded(), bench.holders()), (0, vec![None, None]));
    drop(killed);
}

#[test]
fn a_leg_that_another_host_has_reserved_stays_absent_until_that_is_released() {
    let bench = Bench::new(&[true, true, true], false);
    bench.legs[2].reserve_for_another();
    let mirror = bench.open(1, false);
    let why = || mirror.0.paths().get(2).and_then(|leg| leg.why.clone());
    until("the leg tells why it is absent", || why().is_some());
    let why = why().unwrap_or_default();
    assert!(
        why.contains("another host has reserved it")
            && why.contains("0xabc")
            && why.contains("00000063"),
        "{why}"
    );
    assert_eq!(bench.holders(), [Some(1), Some(1), Some(99)]);
    bench.legs[2].table.lock().unwrap().change(99, ReserveAction::Unregister { key: 0xabc });
    until("the leg is in sync", || mirror.0.paths().iter().all(|leg| leg.state == PathState::Live));
    assert_eq!(bench.holders(), [Some(1), Some(1), Some(1)]);
    close(mirror.0, &mirror.1);
    assert_eq!((bench.unguarded(), bench.holders()), (0, vec![None, None, None]));
}

#[test]
fn a_start_that_is_refused_for_one_leg_gives_the_other_one_back() {
    let bench = Bench::new(&[true, true], false);
    bench.legs[0].reserve_for_another();
    let said = bench.begin(1, false).0.err().expect("it is refused").to_string();
    assert!(said.contains("another host has reserved it"), "{said}");
    assert_eq!(bench.holders(), [Some(99), None]);
    assert!(bench.legs[1].table.lock().unwrap().keys.is_empty());
}

#[test]
fn a_leg_whose_target_forgot_the_reservation_is_reserved_before_it_is_written_to() {
    let bench = Bench::new(&[true, true], true);
    let mirror = bench.open(1, false);
    bench.legs[1].cut();
    *bench.legs[1].table.lock().unwrap() = Table::default();
    let rig = Rig::new(&mirror.0, TestPlan::default());
    assert_eq!(write(&rig, 9, 1), StatusKind::Success);
    bench.legs[1].back();
    until("the leg is in sync", || mirror.0.paths().iter().all(|leg| leg.state == PathState::Live));
    assert_eq!((bench.holders(), bench.unguarded()), (vec![Some(1), Some(1)], 0));
    rig.end();
    close(mirror.0, &mirror.1);
}

#[test]
fn who_lost_all_legs_and_finds_them_used_by_another_process_ends() {
    for can_reserve in [true, false] {
        let bench = Bench::new(&[can_reserve, can_reserve], false);
        let first = bench.open(1, false);
        let old = Rig::new(&first.0, TestPlan::default());
        assert_eq!(write(&old, 9, 1), StatusKind::Success);
        let is_shut_out = |it| bench.legs.iter().for_each(|leg| *leg.shut_out.lock().unwrap() = it);
        is_shut_out(Some(1));
        bench.legs.iter().for_each(Leg::cut);
        bench.legs.iter().for_each(Leg::back);
        // It waits for the legs.
        let held = old.start(
            0,
            vec![old.request(OpKind::Write { fua: false }, 9, vec![2; old.block_bytes()])],
        );
        until("the first one has no leg", || first.0.presence() == Presence::Away);
        let second = bench.open(2, true);
        let new = Rig::new(&second.0, TestPlan::default());
        assert_eq!(write(&new, 9, 3), StatusKind::Success);
        new.end();
        close(second.0, &second.1);
        is_shut_out(None);
        assert_eq!(old.wait(0, &held)[0].outcome.status().kind, StatusKind::ReservationConflict);
        until("the first one ends", || first.0.presence() == Presence::Gone);
        old.end();
        close(first.0, &first.1);
        let third = bench.open(3, false);
        let rig = Rig::new(&third.0, TestPlan::default());
        assert_eq!(rig.read(0, 9, 1)[0], 3, "what the second one was told is there");
        rig.end();
        close(third.0, &third.1);
    }
}

#[test]
fn who_lost_a_leg_and_finds_it_taken_over_ends() {
    let bench = Bench::new(&[true, true], false);
    let first = bench.open(1, false);
    bench.legs[1].cut();
    let old = Rig::new(&first.0, TestPlan::default());
    assert_eq!(write(&old, 9, 1), StatusKind::Success);
    bench.legs[1].table.lock().unwrap().change(2, ReserveAction::Register { key: 5 << 32 | 2 });
    let preempt =
        |of| ReserveAction::Preempt { key: 5 << 32 | 2, of, kind: ReservationKind::WriteExclusive };
    assert_eq!(
        bench.legs[1].table.lock().unwrap().change(2, preempt(5 << 32 | 1)),
        Outcome::SUCCESS
    );
    bench.legs[1].back();
    until("the old one notices", || first.0.presence() == Presence::Gone);
    assert_eq!(write(&old, 9, 2), StatusKind::ReservationConflict);
    assert_eq!(bench.legs[1].holder(), Some(2));
    old.end();
    close(first.0, &first.1);
}
