//! Work on its way, and the ways in which it ends.

use super::{Pair, PairEnd, Phase, Posted, Step, Work};
use crate::rdma::{QueuePairEvent, WorkError, WorkOutcome};
use crate::sim::net::Net;
use core::time::Duration;

/// Waiting time of a SEND that found no receive.
const NOT_READY: Duration = Duration::from_micros(640);

/// Delay of a late acknowledgement, as a multiple of others.
const LATE: u32 = 20;

/// Effect of work at the other end.
#[derive(Default)]
struct Effect {
    /// Bytes that got across from each end.
    bytes: [u64; 2],
    /// Event of the other end.
    heard: Option<(QueuePairEvent, Vec<u8>)>,
    /// Returned data.
    brought: Vec<u8>,
}

impl Net {
    pub(super) fn rdma_post(&mut self, id: u64, end: usize, number: u64, what: Posted) {
        let due = self.now() + self.delay();
        let Some(of) = self.rdma.end(id, end) else { return };
        if of.phase == Phase::Over {
            return self.rdma_report(
                id,
                end,
                QueuePairEvent::WorkEnded { id: number, ended: WorkOutcome::Flushed },
                Vec::new(),
            );
        }
        let room = usize::from(of.config.expect("it was created").send_queue);
        assert!(of.queue.len() + of.unacknowledged.len() < room, "the send queue overflows");
        let due = of.queue.back().map_or(due, |last| last.due.max(due));
        of.queue.push_back(Work { id: number, what, due, refused: false, brought: Vec::new() });
        self.rdma_kick(id, end);
    }

    pub(super) fn rdma_post_receive(&mut self, id: u64, end: usize, buffer: u16) {
        let Some(of) = self.rdma.end(id, end) else { return };
        if of.phase == Phase::Over {
            return self.rdma_report(
                id,
                end,
                QueuePairEvent::ReceiveEnded { buffer, error: None },
                Vec::new(),
            );
        }
        of.receives.push_back(buffer);
    }

    /// Has what an end has posted, and what comes back to it, go on.
    pub(super) fn rdma_kick(&mut self, id: u64, end: usize) {
        let now = self.now();
        let Some(of) = self.rdma.end(id, end).filter(|of| of.is_open()) else { return };
        let scheduled = core::mem::replace(&mut of.execution_scheduled, true);
        match of.queue.front() {
            Some(work) if !scheduled => {
                let at = work.due.max(now);
                self.at_rdma(at, Step::Execute(id, end));
            }
            Some(_) => {}
            None => of.execution_scheduled = scheduled,
        }
        let Some(of) = self.rdma.end(id, end) else { return };
        if let Some(work) = of.unacknowledged.front()
            && !core::mem::replace(&mut of.acknowledgement_scheduled, true)
        {
            let at = work.due.max(now);
            self.at_rdma(at, Step::Acknowledge(id, end));
        }
    }

    pub(super) fn rdma_execute(&mut self, id: u64, end: usize) {
        let now = self.now();
        let Some(of) = self.rdma.end(id, end) else { return };
        of.execution_scheduled = false;
        if !of.is_open() {
            return;
        }
        let Some(mut work) = of.queue.pop_front_if(|work| work.due <= now) else {
            return self.rdma_kick(id, end);
        };
        if work.what.is_local() {
            self.rdma_execute_locally(id, end, &work);
            return self.rdma_kick(id, end);
        }
        let lost = self.rdma_is_cut_off(id, 1 - end);
        let is_refused = matches!(work.what, Posted::Send { .. }) && !work.refused;
        let is_refused = is_refused && self.rng.one_in(self.rdma.config.not_ready_one_in);
        let Some(pair) = self.rdma.pairs.get_mut(&id) else { return };
        if lost || !pair.ends[1 - end].is_open() {
            pair.ends[end].queue.push_front(work);
            return self.rdma_lose_patience(id, end);
        }
        let finds_none =
            matches!(work.what, Posted::Send { .. }) && pair.ends[1 - end].receives.is_empty();
        if is_refused || finds_none {
            self.rdma.counts.not_ready += u64::from(finds_none);
            (work.due, work.refused) = (now + NOT_READY, true);
            pair.ends[end].queue.push_front(work);
            self.record("rdma refused", id, end as u64);
            return self.rdma_kick(id, end);
        }
        match perform(pair, end, &work.what) {
            Ok(effect) => self.rdma_executed(id, end, work, effect),
            Err(error) => {
                pair.ends[end].queue.push_front(work);
                // Both queue pairs go to their error state.
                let theirs = matches!(error, WorkError::RemoteAccess | WorkError::RemoteInvalid);
                self.rdma_end_work(id, end, error);
                if theirs {
                    self.rdma_fail(id, 1 - end);
                }
            }
        }
    }

    fn rdma_executed(&mut self, id: u64, end: usize, mut work: Work, effect: Effect) {
        let late = if self.rng.one_in(self.rdma.config.late_one_in) { LATE } else { 1 };
        let due = self.now() + self.delay() * late;
        let Some(pair) = self.rdma.pairs.get_mut(&id) else { return };
        for (sum, bytes) in pair.carried.iter_mut().zip(effect.bytes) {
            *sum += bytes;
        }
        let of = &mut pair.ends[end];
        of.progress += 1;
        work.due = of.unacknowledged.back().map_or(due, |last| last.due.max(due));
        work.brought = effect.brought;
        self.trace.bytes(&work.brought);
        of.unacknowledged.push_back(work);
        self.record(
            ["rdma to server", "rdma to client"][end],
            id,
            effect.bytes[end].max(effect.bytes[1 - end]),
        );
        if let Some((event, bytes)) = effect.heard {
            self.trace.bytes(&bytes);
            self.rdma_report(id, 1 - end, event, bytes);
        }
        self.rdma_kick(id, end);
        (0..2).for_each(|end| self.rdma_cut_if_due(id, end));
    }

    fn rdma_execute_locally(&mut self, id: u64, end: usize, work: &Work) {
        let Some(of) = self.rdma.end(id, end) else { return };
        match work.what {
            Posted::Bind { slot } => {
                if let Some(exposed) = &mut of.slots[usize::from(slot)].exposed {
                    exposed.in_force = true;
                }
            }
            Posted::Invalidate { slot } => {
                of.slots[usize::from(slot)].exposed = None;
                self.rdma_report(
                    id,
                    end,
                    QueuePairEvent::WorkEnded { id: work.id, ended: WorkOutcome::Done },
                    Vec::new(),
                );
            }
            _ => {}
        }
    }

    pub(super) fn rdma_acknowledge(&mut self, id: u64, end: usize) {
        let (now, lost) = (self.now(), self.rdma_is_cut_off(id, end));
        let Some(of) = self.rdma.end(id, end) else { return };
        of.acknowledgement_scheduled = false;
        if !of.is_open() {
            return;
        }
        if lost && of.has_work() {
            return self.rdma_lose_patience(id, end);
        }
        if let Some(work) = of.unacknowledged.pop_front_if(|work| work.due <= now) {
            of.progress += 1;
            if let Posted::Read { into, .. } = work.what
                && let Ok(memory) = of.slice(into)
            {
                memory.copy_from_slice(&work.brought);
            }
            if !matches!(work.what, Posted::Write { signaled: false, .. }) {
                self.rdma_report(
                    id,
                    end,
                    QueuePairEvent::WorkEnded { id: work.id, ended: WorkOutcome::Done },
                    Vec::new(),
                );
            }
        }
        self.rdma_kick(id, end);
    }

    pub(super) fn rdma_lose_patience(&mut self, id: u64, end: usize) {
        let Some(of) = self.rdma.end(id, end).filter(|of| of.is_open() && of.has_work()) else {
            return;
        };
        if !core::mem::replace(&mut of.impatient, true) {
            let progress = of.progress;
            self.after_rdma(self.rdma.config.patience, Step::GiveUp(id, end, progress));
        }
    }

    pub(super) fn rdma_give_up(&mut self, id: u64, end: usize, progress: u64) {
        let Some(of) = self.rdma.end(id, end) else { return };
        of.impatient = false;
        if !of.is_open() || !of.has_work() {
            return;
        }
        let goes_on = of.execution_scheduled || of.acknowledgement_scheduled;
        match of.progress == progress {
            true if !goes_on => self.rdma_end_work(id, end, WorkError::RetriesExceeded),
            true => {}
            false => self.rdma_lose_patience(id, end),
        }
    }

    /// The first work that is posted fails, and the queue pair with it.
    pub(super) fn rdma_end_work(&mut self, id: u64, end: usize, error: WorkError) {
        let Some(of) = self.rdma.end(id, end) else { return };
        if let Some(work) = of.unacknowledged.pop_front().or_else(|| of.queue.pop_front()) {
            self.record("rdma failed", id, end as u64);
            self.rdma_report(
                id,
                end,
                QueuePairEvent::WorkEnded { id: work.id, ended: WorkOutcome::Failed(error) },
                Vec::new(),
            );
        }
        self.rdma_fail(id, end);
    }

    /// The queue pair of an end goes to its error state: what is posted is flushed.
    pub(super) fn rdma_fail(&mut self, id: u64, end: usize) {
        let Some(of) = self.rdma.end(id, end).filter(|of| of.phase != Phase::Over) else { return };
        of.phase = Phase::Over;
        let PairEnd { unacknowledged, queue, receives, .. } = of;
        let work: Vec<u64> =
            unacknowledged.drain(..).chain(queue.drain(..)).map(|work| work.id).collect();
        let receives: Vec<u16> = receives.drain(..).collect();
        for number in work {
            self.rdma_report(
                id,
                end,
                QueuePairEvent::WorkEnded { id: number, ended: WorkOutcome::Flushed },
                Vec::new(),
            );
        }
        for buffer in receives {
            self.rdma_report(
                id,
                end,
                QueuePairEvent::ReceiveEnded { buffer, error: None },
                Vec::new(),
            );
        }
    }
}

/// Does work of an end at the other one.
fn perform(pair: &mut Pair, end: usize, what: &Posted) -> Result<Effect, WorkError> {
    let [client, server] = &mut pair.ends;
    let (own, other) = if end == 0 { (client, server) } else { (server, client) };
    let mut effect = Effect::default();
    match what {
        Posted::Bind { .. } | Posted::Invalidate { .. } => {}
        Posted::Send { message, data, invalidate } => {
            let mut bytes = message.clone();
            if let Some(data) = data {
                bytes.extend(own.source(*data)?);
            }
            let room = other.config.map_or(0, |config| config.receive_bytes);
            let buffer = other.receives.pop_front().ok_or(WorkError::ReceiverNotReady)?;
            if bytes.len() > room as usize {
                return Err(WorkError::RemoteInvalid);
            }
            if let Some(key) = invalidate {
                other.invalidate(*key)?;
            }
            effect.bytes[end] = bytes.len() as u64;
            effect.heard = Some((
                QueuePairEvent::Received { buffer, immediate: None, invalidated: *invalidate },
                bytes,
            ));
        }
        Posted::Read { into, from } => {
            effect.brought = other.reached(*from, into.bytes, false)?.to_vec();
            effect.bytes[1 - end] = into.bytes.into();
        }
        Posted::Write { from, to, .. } => {
            let data = own.source(*from)?;
            other.reached(*to, from.bytes, true)?.copy_from_slice(&data);
            effect.bytes[end] = from.bytes.into();
        }
    }
    Ok(effect)
}
