//! A leg that can be reserved, with its target.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use uuid::Uuid;
use weft_block::mirror::{LegSource, admin};
use weft_block::testing::{Rig, TestPlan};
use weft_block::{
    BlockDevice, BlockQueue, Completion, Device, Error, ErrorKind, Features, Geometry, Op, OpKind,
    OpenOptions, Opening, Outcome, Presence, ReservationKind, ReserveAction, Status, StatusKind,
    open,
};
use weft_io::{DriverId, Handle};

pub(super) const LEG_BYTES: u64 = 9 << 20;
const CONFLICT: Outcome = Outcome::Done(Status::new(StatusKind::ReservationConflict));

/// A target's state of reservations.
#[derive(Default)]
pub(super) struct Table {
    /// The key of each host.
    pub(super) keys: BTreeMap<u128, u64>,
    pub(super) holder: Option<u128>,
    /// Writes that came when nobody had reserved the leg.
    pub(super) unguarded: u32,
    /// Only who holds it changes the reservation, as with LIO for sessions of one host.
    pub(super) is_by_name: bool,
}

impl Table {
    pub(super) fn change(&mut self, host: u128, action: ReserveAction) -> Outcome {
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
pub(super) struct Leg {
    pub(super) disk: Device,
    pub(super) table: Arc<Mutex<Table>>,
    pub(super) is_here: Arc<AtomicBool>,
    /// Host that cannot connect.
    pub(super) shut_out: Arc<Mutex<Option<u128>>>,
    /// Connections end when this changes.
    pub(super) epoch: Arc<AtomicU32>,
    pub(super) has_reservations: bool,
}

impl Leg {
    pub(super) fn new(area: &[u8], has_reservations: bool) -> Self {
        let disk = open(&format!("ram:{LEG_BYTES}"), &OpenOptions::default()).unwrap();
        let rig = Rig::new(&disk, TestPlan::default());
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
    pub(super) fn source(&self, host: Option<u128>) -> LegSource {
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
    pub(super) fn cut(&self) {
        self.is_here.store(false, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn back(&self) {
        self.is_here.store(true, Ordering::SeqCst);
    }

    /// A host that has nothing to do with the mirror reserves it.
    pub(super) fn reserve_for_another(&self) {
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

    pub(super) fn holder(&self) -> Option<u128> {
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

    fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
        self.leg.disk.renew_size()
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
    /// Returns the immediate answer of the target, if there is one.
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
