//! Mirrors over legs that can be reserved: whoever opens one shuts out whoever had it, gives the
//! legs back when it closes, and leaves the reservations of others alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use uuid::Uuid;
use weft_block::mirror::{self, LegSource, Options, admin};
use weft_block::path::PathState;
use weft_block::testing::{Plan, Rig};
use weft_block::{
    BlockDevice, BlockQueue, Completion, Device, Error, ErrorKind, Features, Geometry, Op, OpKind,
    OpenOptions, Opening, Outcome, Presence, ReservationKind, ReserveAction, Status, StatusKind,
    open,
};
use weft_io::event_loop::spawn;
use weft_io::{DriverId, Handle, LoopConfig, RemoteLoop};

const LEG_BYTES: u64 = 9 << 20;
const CONFLICT: Outcome = Outcome::Done(Status::new(StatusKind::ReservationConflict));

/// What a target knows of reservations.
#[derive(Default)]
struct Table {
    /// The key of each host.
    keys: BTreeMap<u128, u64>,
    holder: Option<u128>,
    /// Writes that came when nobody had reserved the leg.
    unguarded: u32,
    /// Only who holds it changes the reservation, as with LIO for sessions of one host.
    is_by_name: bool,
}

impl Table {
    fn change(&mut self, host: u128, action: ReserveAction) -> Outcome {
        let registered = |table: &Self, key| table.keys.get(&host) == Some(&key);
        let is_other = self.holder.is_some_and(|holder| holder != host);
        match action {
            ReserveAction::Register { key } => drop(self.keys.insert(host, key)),
            ReserveAction::Unregister { key } if registered(self, key) => {
                self.keys.remove(&host);
                self.holder = self.holder.filter(|holder| *holder != host);
            }
            ReserveAction::Acquire { key, .. }
                if registered(self, key) && self.holder.is_none_or(|holder| holder == host) =>
            {
                self.holder = Some(host);
            }
            ReserveAction::Preempt { .. } if self.is_by_name && is_other => return CONFLICT,
            ReserveAction::Preempt { key, of, .. }
                if registered(self, key) && self.keys.values().any(|key| *key == of) =>
            {
                if self.holder.is_some_and(|holder| self.keys[&holder] == of) {
                    self.holder = Some(host);
                }
                self.keys.retain(|_, key| *key != of);
            }
            _ => return CONFLICT,
        }
        Outcome::SUCCESS
    }

    /// The extended data structure of NVMe.
    fn report(&self) -> Vec<u8> {
        let mut bytes = vec![0; weft_block::limits::RESERVATION_REPORT_BYTES];
        bytes[4] = u8::from(self.holder.is_some());
        bytes[5] = self.keys.len() as u8;
        for ((host, key), entry) in self.keys.iter().zip(bytes[64..].chunks_mut(64)) {
            entry[2] = u8::from(self.holder == Some(*host));
            entry[8..16].copy_from_slice(&key.to_le_bytes());
            entry[16..32].copy_from_slice(&host.to_be_bytes());
        }
        bytes
    }
}

/// A leg that can be reserved, with its target.
#[derive(Clone)]
struct Leg {
    disk: Device,
    table: Arc<Mutex<Table>>,
    is_here: Arc<AtomicBool>,
    /// Who cannot connect.
    shut_out: Arc<Mutex<Option<u128>>>,
    /// Connections end when this changes.
    epoch: Arc<AtomicU32>,
    has_reservations: bool,
}

impl Leg {
    fn new(area: &[u8], has_reservations: bool) -> Self {
        let disk = open(&format!("ram:{LEG_BYTES}"), &OpenOptions::default()).unwrap();
        let rig = Rig::new(&disk, Plan::default());
        rig.write(
            0,
            admin::area(LEG_BYTES).unwrap().0 / u64::from(disk.geometry().block_bytes),
            area,
        );
        rig.end();
        let is_here = Arc::new(AtomicBool::new(true));
        Self {
            disk,
            table: Arc::default(),
            shut_out: Arc::default(),
            is_here,
            epoch: Arc::default(),
            has_reservations,
        }
    }

    /// As the host of that identifier, if it is the only one that may be used.
    fn source(&self, host: Option<u128>) -> LegSource {
        let leg = self.clone();
        let open = move |opener: Uuid| match leg.is_here.load(Ordering::SeqCst)
            && *leg.shut_out.lock().unwrap() != Some(opener.as_u128())
        {
            true => Ok(Opening::ready(Ok(Arc::new(Seat {
                leg: leg.clone(),
                host: host.unwrap_or(opener.as_u128()),
                epoch: leg.epoch.load(Ordering::SeqCst),
            }) as Device))),
            false => Err(Error::new(ErrorKind::NotFound, "the leg is away")),
        };
        LegSource { url: "a leg".into(), is_remote: false, open: Box::new(open) }
    }

    /// All connections are lost, and none is possible.
    fn cut(&self) {
        self.is_here.store(false, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    fn back(&self) {
        self.is_here.store(true, Ordering::SeqCst);
    }

    /// A host that has nothing to do with the mirror reserves it.
    fn reserve_for_another(&self) {
        let mut table = self.table.lock().unwrap();
        table.change(99, ReserveAction::Register { key: 0xabc });
        assert_eq!(
            table.change(
                99,
                ReserveAction::Acquire { key: 0xabc, kind: ReservationKind::WriteExclusive }
            ),
            Outcome::SUCCESS
        );
    }

    fn holder(&self) -> Option<u128> {
        self.table.lock().unwrap().holder
    }
}

/// A host's connection to a leg.
struct Seat {
    leg: Leg,
    host: u128,
    epoch: u32,
}

impl BlockDevice for Seat {
    fn url(&self) -> &str {
        "a leg"
    }

    fn geometry(&self) -> Geometry {
        self.leg.disk.geometry()
    }

    fn features(&self) -> Features {
        Features { reservations: self.leg.has_reservations, ..self.leg.disk.features() }
    }

    fn presence(&self) -> Presence {
        if self.leg.epoch.load(Ordering::SeqCst) == self.epoch {
            Presence::Here
        } else {
            Presence::Gone
        }
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let (queue, on) = (self.leg.disk.open_queue(on, owner)?, on.clone());
        Ok(Box::new(SeatQueue {
            queue,
            on,
            owner,
            leg: self.leg.clone(),
            host: self.host,
            epoch: self.epoch,
            ready: Vec::new(),
        }))
    }
}

struct SeatQueue {
    queue: Box<dyn BlockQueue>,
    on: Handle,
    owner: DriverId,
    leg: Leg,
    host: u128,
    epoch: u32,
    ready: Vec<Completion>,
}

impl SeatQueue {
    /// What the target answers at once, if it does.
    fn answer(&self, op: &mut Op) -> Option<Outcome> {
        if self.leg.epoch.load(Ordering::SeqCst) != self.epoch {
            return Some(Outcome::NotSent(Status::new(StatusKind::Gone)));
        }
        if !self.leg.has_reservations {
            return None;
        }
        let mut table = self.leg.table.lock().unwrap();
        match op.kind {
            OpKind::Reserve(action) => Some(table.change(self.host, action)),
            OpKind::ReservationReport => {
                op.data[0].copy_from_slice(&table.report());
                Some(Outcome::SUCCESS)
            }
            kind if kind.is_write() || kind == OpKind::Flush => {
                table.unguarded += u32::from(table.holder.is_none());
                table.holder.is_some_and(|holder| holder != self.host).then_some(CONFLICT)
            }
            _ => None,
        }
    }
}

impl BlockQueue for SeatQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let mut passing = VecDeque::new();
        while let Some(mut op) = ops.pop_front() {
            match self.answer(&mut op) {
                Some(outcome) => self.ready.push(op.done(outcome)),
                None => passing.push_back(op),
            }
        }
        self.queue.submit(&mut passing);
        *ops = passing;
        self.on.wake(self.owner);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.ready);
        self.queue.reap(done);
    }

    fn cancel(&mut self, user: u64) {
        self.queue.cancel(user);
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight() + self.ready.len()
    }
}

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
        let options = Options {
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

fn close((device, closed): Mirror) {
    drop(device);
    assert!(
        closed
            .recv_timeout(Duration::from_secs(60))
            .is_err_and(|e| e == mpsc::RecvTimeoutError::Disconnected)
    );
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn who_is_superseded_by_force_acknowledges_nothing_any_more() {
    for can_reserve in [&[true, true][..], &[true, false], &[true, true, true]] {
        let bench = Bench::new(can_reserve, false);
        let first = bench.open(1, false);
        let old = Rig::new(&first.0, Plan::default());
        assert_eq!(write(&old, 7, 1), StatusKind::Success);
        let second = bench.open(2, true);
        let new = Rig::new(&second.0, Plan::default());
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
        close(first);
        assert_eq!(
            write(&new, 8, 2),
            StatusKind::Success,
            "the end of the old one disturbs nobody"
        );
        new.end();
        close(second);
        assert_eq!(bench.unguarded(), 0);
    }
}

#[test]
fn an_orderly_end_gives_the_legs_back() {
    let bench = Bench::new(&[true, true], true);
    let mirror = bench.open(1, false);
    assert_eq!(bench.holders(), [Some(1), Some(1)]);
    close(mirror);
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
    let rig = Rig::new(&mirror.0, Plan::default());
    assert_eq!(write(&rig, 0, 1), StatusKind::Success);
    rig.end();
    close(mirror);
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
    close(mirror);
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
    let old = Rig::new(&killed.0, Plan::default());
    assert_ne!(write(&old, 9, 1), StatusKind::Success);
    old.end();
    close(mirror);
    assert_eq!((bench.unguarded(), bench.holders()), (0, vec![None, None]));
    drop(killed);
}

#[test]
fn a_leg_that_another_host_has_reserved_stays_absent_until_that_is_released() {
    let bench = Bench::new(&[true, true, true], false);
    bench.legs[2].reserve_for_another();
    let mirror = bench.open(1, false);
    let why = || mirror.0.paths().get(2).and_then(|leg| leg.why.clone());
    wait_until("the leg tells why it is absent", || why().is_some());
    let why = why().unwrap_or_default();
    assert!(
        why.contains("another host has reserved it")
            && why.contains("0xabc")
            && why.contains("00000063"),
        "{why}"
    );
    assert_eq!(bench.holders(), [Some(1), Some(1), Some(99)]);
    bench.legs[2].table.lock().unwrap().change(99, ReserveAction::Unregister { key: 0xabc });
    wait_until("the leg is in sync", || {
        mirror.0.paths().iter().all(|leg| leg.state == PathState::Live)
    });
    assert_eq!(bench.holders(), [Some(1), Some(1), Some(1)]);
    close(mirror);
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
    let rig = Rig::new(&mirror.0, Plan::default());
    assert_eq!(write(&rig, 9, 1), StatusKind::Success);
    bench.legs[1].back();
    wait_until("the leg is in sync", || {
        mirror.0.paths().iter().all(|leg| leg.state == PathState::Live)
    });
    assert_eq!((bench.holders(), bench.unguarded()), (vec![Some(1), Some(1)], 0));
    rig.end();
    close(mirror);
}

#[test]
fn who_lost_all_legs_and_finds_them_used_by_another_process_ends() {
    for can_reserve in [true, false] {
        let bench = Bench::new(&[can_reserve, can_reserve], false);
        let first = bench.open(1, false);
        let old = Rig::new(&first.0, Plan::default());
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
        wait_until("the first one has no leg", || first.0.presence() == Presence::Away);
        let second = bench.open(2, true);
        let new = Rig::new(&second.0, Plan::default());
        assert_eq!(write(&new, 9, 3), StatusKind::Success);
        new.end();
        close(second);
        is_shut_out(None);
        assert_eq!(old.wait(0, &held)[0].outcome.status().kind, StatusKind::ReservationConflict);
        wait_until("the first one ends", || first.0.presence() == Presence::Gone);
        old.end();
        close(first);
        let third = bench.open(3, false);
        let rig = Rig::new(&third.0, Plan::default());
        assert_eq!(rig.read(0, 9, 1)[0], 3, "what the second one was told is there");
        rig.end();
        close(third);
    }
}

#[test]
fn who_lost_a_leg_and_finds_it_taken_over_ends() {
    let bench = Bench::new(&[true, true], false);
    let first = bench.open(1, false);
    bench.legs[1].cut();
    let old = Rig::new(&first.0, Plan::default());
    assert_eq!(write(&old, 9, 1), StatusKind::Success);
    bench.legs[1].table.lock().unwrap().change(2, ReserveAction::Register { key: 5 << 32 | 2 });
    let preempt =
        |of| ReserveAction::Preempt { key: 5 << 32 | 2, of, kind: ReservationKind::WriteExclusive };
    assert_eq!(
        bench.legs[1].table.lock().unwrap().change(2, preempt(5 << 32 | 1)),
        Outcome::SUCCESS
    );
    bench.legs[1].back();
    wait_until("the old one notices", || first.0.presence() == Presence::Gone);
    assert_eq!(write(&old, 9, 2), StatusKind::ReservationConflict);
    assert_eq!(bench.legs[1].holder(), Some(2));
    old.end();
    close(first);
}
