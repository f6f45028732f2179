//! Both ends of a queue pair, and what happens between them.

use super::Counts;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weft_io::rdma::{Ended, Event, Exposure, Memory, QueuePairConfig, Remote as Place, WorkError};
use weft_io::sim::Rng;
use weft_io::{DriverId, Remote, Time};

/// The longest that anything takes, nanoseconds.
const DELAY_NS: u64 = 20_000;

/// How often a SEND that finds no receive is tried again.
const RETRIES: u32 = 7;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Posted to a send queue.
pub(super) enum Posted {
    Send { message: Vec<u8>, data: Option<Memory>, invalidate: Option<u32> },
    Read { into: Memory, from: Place },
    Write { from: Memory, to: Place, signaled: bool },
    Bind,
    Invalidate { slot: u16 },
}

pub(super) struct Work {
    pub id: u64,
    pub what: Posted,
    /// When it is executed; none before the queue pair is looked at.
    pub due: Option<Time>,
    pub retries: u32,
}

impl Work {
    fn uses(&self, of: u16) -> bool {
        match &self.what {
            Posted::Send { data, .. } => data.is_some_and(|data| data.slot == of),
            Posted::Read { into, .. } => into.slot == of,
            Posted::Write { from, .. } => from.slot == of,
            Posted::Bind => false,
            Posted::Invalidate { slot } => *slot == of,
        }
    }
}

/// What the other end may do with a slot.
#[derive(Clone, Copy)]
pub(super) struct Exposed {
    pub key: u32,
    pub bytes: u32,
    pub writable: bool,
}

/// One end.
#[derive(Default)]
pub(super) struct Side {
    pub home: Option<(Remote, DriverId)>,
    pub config: Option<QueuePairConfig>,
    pub private: Vec<u8>,
    pub receives: VecDeque<u16>,
    pub buffers: Vec<Vec<u8>>,
    pub slots: Vec<Option<Vec<u8>>>,
    pub exposed: Vec<Option<Exposed>>,
    pub queue: VecDeque<Work>,
    /// Reports on messages and the connection, and those on work.
    pub messages: VecDeque<(Time, Event)>,
    pub ends: VecDeque<(Time, Event)>,
    /// What is posted is flushed.
    pub failed: bool,
    pub destroyed: bool,
    /// It was told that the connection is over.
    pub told: bool,
    now: Time,
    keys: u32,
}

impl Side {
    /// When its driver looked at it last.
    pub fn last_seen(&self) -> Time {
        self.now
    }
}

/// A queue pair.
pub(super) struct Pair {
    pub sides: [Side; 2],
    pub has_windows: bool,
    pub rng: Rng,
    pub counts: Arc<Counts>,
    pub asked: Option<Box<dyn FnOnce() + Send>>,
}

/// The address of a slot.
fn base(slot: usize) -> u64 {
    (slot as u64 + 1) << 32
}

impl Pair {
    pub fn new(rng: Rng, has_windows: bool, counts: Arc<Counts>) -> Self {
        let mut sides = [Side::default(), Side::default()];
        sides[0].messages.push_back((Time::ZERO, Event::Resolved));
        Self { sides, has_windows, rng, counts, asked: None }
    }

    fn later(&mut self, now: Time) -> Time {
        now + Duration::from_nanos(self.rng.below(DELAY_NS))
    }

    pub fn wake(&self, side: usize) {
        if let Some((remote, driver)) = &self.sides[side].home {
            remote.wake(*driver);
        }
    }

    /// Reports something to an end.
    pub fn report(&mut self, side: usize, now: Time, event: Event) {
        let at = self.later(now);
        let of = &mut self.sides[side];
        let to = if matches!(event, Event::WorkEnded { .. }) { &mut of.ends } else { &mut of.messages };
        let at = to.back().map_or(at, |(last, _)| at.max(*last));
        to.push_back((at, event));
        self.wake(side);
    }

    fn now(&self) -> Time {
        self.sides[0].now.max(self.sides[1].now)
    }

    /// An end's queue pair goes to its error state, and the other end hears of it.
    pub fn fail(&mut self, side: usize) {
        if core::mem::replace(&mut self.sides[side].failed, true) {
            return;
        }
        let now = self.now();
        self.flush(side, now);
        let other = &mut self.sides[1 - side];
        if !core::mem::replace(&mut other.told, true) && !other.destroyed {
            self.report(1 - side, now, Event::Disconnected);
        }
    }

    /// Ends what is posted to a queue pair that has failed.
    pub fn flush(&mut self, side: usize, now: Time) {
        let of = &mut self.sides[side];
        if !of.failed || of.destroyed {
            return;
        }
        let work: Vec<u64> = of.queue.drain(..).map(|work| work.id).collect();
        let receives: Vec<u16> = of.receives.drain(..).collect();
        work.into_iter().for_each(|id| self.report(side, now, Event::WorkEnded { id, ended: Ended::Flushed }));
        receives.into_iter().for_each(|buffer| self.report(side, now, Event::ReceiveEnded { buffer, error: None }));
    }

    /// Ends the connection: both ends hear of it, or the work of one fails, or its device is gone.
    pub fn cut(&mut self, how: u64) {
        let now = self.now();
        let side = self.rng.below(2) as usize;
        match how {
            0 => (0..2).for_each(|side| {
                self.sides[side].told = true;
                self.report(side, now, Event::Disconnected);
            }),
            1 => match self.sides[side].queue.pop_front() {
                Some(work) => self.end_work(side, now, work.id, WorkError::RetriesExceeded),
                None => self.fail(side),
            },
            _ => {
                self.report(side, now, Event::DeviceRemoved);
                self.fail(side);
            }
        }
    }

    fn end_work(&mut self, side: usize, now: Time, id: u64, error: WorkError) {
        self.report(side, now, Event::WorkEnded { id, ended: Ended::Failed(error) });
        self.fail(side);
    }

    /// Executes what is due at an end.
    pub fn execute(&mut self, side: usize, now: Time) {
        self.sides[side].now = now;
        for at in 0..self.sides[side].queue.len() {
            if self.sides[side].queue[at].due.is_none() {
                let due = self.later(now);
                let last = at.checked_sub(1).and_then(|before| self.sides[side].queue[before].due).unwrap_or(due);
                self.sides[side].queue[at].due = Some(due.max(last));
            }
        }
        while let Some(work) = self.sides[side].queue.front()
            && work.due.is_some_and(|due| due <= now)
            && let Some(mut work) = self.sides[side].queue.pop_front()
        {
            match self.perform(side, now, &work.what) {
                Ok(true) => self.report(side, now, Event::WorkEnded { id: work.id, ended: Ended::Done }),
                Ok(false) => {}
                Err(WorkError::ReceiverNotReady) if work.retries < RETRIES => {
                    self.counts.not_ready.fetch_add(1, Ordering::Relaxed);
                    (work.retries, work.due) = (work.retries + 1, Some(self.later(now)));
                    return self.sides[side].queue.push_front(work);
                }
                Err(error) => self.end_work(side, now, work.id, error),
            }
        }
    }

    /// Does work; tells whether its end is reported.
    fn perform(&mut self, side: usize, now: Time, what: &Posted) -> Result<bool, WorkError> {
        let other = 1 - side;
        let gone = |of: &Side| of.failed || of.destroyed;
        if !matches!(what, Posted::Bind | Posted::Invalidate { .. }) && gone(&self.sides[other]) {
            return Err(WorkError::RetriesExceeded);
        }
        match what {
            Posted::Bind => Ok(false),
            Posted::Invalidate { slot } => {
                self.sides[side].exposed[usize::from(*slot)] = None;
                Ok(true)
            }
            Posted::Send { message, data, invalidate } => {
                let mut bytes = message.clone();
                if let Some(data) = data {
                    bytes.extend_from_slice(self.slice(side, *data)?);
                }
                let to = &mut self.sides[other];
                let buffer = to.receives.pop_front().ok_or(WorkError::ReceiverNotReady)?;
                if bytes.len() > to.config.expect("it was created").receive_bytes as usize {
                    return Err(WorkError::RemoteInvalid);
                }
                if let Some(key) = invalidate {
                    let is_it = |exposed: &&mut Option<Exposed>| exposed.is_some_and(|exposed| exposed.key == *key);
                    *to.exposed.iter_mut().find(is_it).ok_or(WorkError::RemoteAccess)? = None;
                }
                to.buffers[usize::from(buffer)] = bytes;
                self.report(other, now, Event::Received { buffer, immediate: None, invalidated: *invalidate });
                Ok(true)
            }
            Posted::Read { into, from } => {
                let data = self.remote(other, *from, into.bytes, false)?.to_vec();
                self.slice(side, *into)?.copy_from_slice(&data);
                Ok(true)
            }
            Posted::Write { from, to, signaled } => {
                let data = self.slice(side, *from)?.to_vec();
                self.remote(other, *to, from.bytes, true)?.copy_from_slice(&data);
                Ok(*signaled)
            }
        }
    }

    fn slice(&mut self, side: usize, memory: Memory) -> Result<&mut [u8], WorkError> {
        let slot = self.sides[side].slots[usize::from(memory.slot)].as_mut().ok_or(WorkError::LocalProtection)?;
        slot.get_mut(memory.offset as usize..(memory.offset + memory.bytes) as usize).ok_or(WorkError::LocalProtection)
    }

    /// An end's memory, as the other one reaches it.
    fn remote(&mut self, side: usize, at: Place, bytes: u32, writes: bool) -> Result<&mut [u8], WorkError> {
        let of = &mut self.sides[side];
        let is_it = |exposed: &Option<Exposed>| exposed.is_some_and(|exposed| exposed.key == at.key);
        let slot = of.exposed.iter().position(is_it).ok_or(WorkError::RemoteAccess)?;
        let exposed = of.exposed[slot].ok_or(WorkError::RemoteAccess)?;
        let offset = at.address.checked_sub(base(slot)).ok_or(WorkError::RemoteAccess)? as usize;
        if exposed.writable != writes || offset + bytes as usize > exposed.bytes as usize {
            return Err(WorkError::RemoteAccess);
        }
        let memory = of.slots[slot].as_mut().ok_or(WorkError::RemoteAccess)?;
        Ok(&mut memory[offset..offset + bytes as usize])
    }

    /// Exposes a slot.
    pub fn expose(&mut self, side: usize, slot: u16, bytes: u32, writable: bool) -> Place {
        let of = &mut self.sides[side];
        of.keys += 1;
        let key = of.keys << 8 | 0x5a;
        of.exposed[usize::from(slot)] = Some(Exposed { key, bytes, writable });
        Place { address: base(slot.into()), key }
    }

    /// Whether something may still touch a slot.
    pub fn is_used(&self, side: usize, slot: u16) -> bool {
        let of = &self.sides[side];
        let is_standing = of.config.is_some_and(|config| config.exposure == Some(Exposure::Standing));
        of.exposed[usize::from(slot)].is_some() && !is_standing || of.queue.iter().any(|work| work.uses(slot))
    }

    /// When something is to happen at an end.
    pub fn next(&self, side: usize) -> Option<Time> {
        let of = &self.sides[side];
        let reports = [of.messages.front(), of.ends.front()].into_iter().flatten().map(|(at, _)| *at);
        reports.chain(of.queue.front().and_then(|work| work.due)).min()
    }
}

/// How an end may give access.
pub(super) fn exposure(config: &QueuePairConfig) -> Exposure {
    config.exposure.expect("this end exposes memory")
}
