//! Posting work, and its outcome.

use super::{Queues, VerbsQueuePair};
use crate::rdma::verbs::errors::{WorkStatus, status};
use crate::rdma::verbs::ffi::{
    RecvWr, SendWr, Sge, WC_WITH_IMM, WC_WITH_INV, WC_WITH_INV_OF_KERNEL, Wc, opcode,
};
use crate::rdma::verbs::queues::Posted;
use crate::rdma::verbs::slots::Exposed;
use crate::rdma::{QueuePairEvent, RemoteMemory, SlotData, WorkError, WorkOutcome};
use core::ffi::c_int;
use core::ptr::null_mut;
use std::io;

/// Marks the numbers of receives.
const RECEIVE: u64 = 1 << 63;

impl VerbsQueuePair {
    pub(super) fn do_post_receive(&mut self, buffer: u16) {
        let mut entry = self.queues().receives.post(buffer);
        let mut wr = RecvWr {
            wr_id: RECEIVE | u64::from(buffer),
            next: null_mut(),
            sg_list: &raw mut entry,
            num_sge: 1,
        };
        if self.is_destroyed() || !self.give_receive(&mut wr) {
            self.queues().receives.end(buffer, None);
            self.own.push_back(QueuePairEvent::ReceiveEnded {
                buffer,
                error: Some(WorkError::NotPosted),
            });
        }
    }

    fn give_receive(&mut self, wr: &mut RecvWr) -> bool {
        let Some(device) = self.device else { return false };
        // SAFETY: the context stays open, and its functions are not replaced.
        let Some(post) = (unsafe { (*device.context.as_ptr()).ops.post_recv }) else {
            return false;
        };
        let (qp, mut bad) = (self.queues().qp, null_mut());
        // SAFETY: the queue pair is not destroyed; the request is read during the call, and its
        // memory belongs to the receives until it has ended.
        unsafe { post(qp.as_ptr(), wr, &raw mut bad) == 0 }
    }

    pub(super) fn do_expose(
        &mut self,
        id: u64,
        slot: u16,
        bytes: u32,
        writable: bool,
    ) -> io::Result<RemoteMemory> {
        if self.is_destroyed() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if self.queues().sends.next().is_none() {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the send queue is full"));
        }
        let exposed = self.queues().slots.expose(slot, bytes, writable)?;
        self.queues().traffic.exposed(bytes, writable);
        match exposed {
            Exposed::Now(remote) => Ok(remote),
            Exposed::ByBind(remote, bind) => {
                let mut wr = SendWr::new(0, opcode::BIND_MW, false);
                wr.bind = bind;
                self.post(wr, Posted { id, slot: Some(slot), invalidates: None, message: None });
                self.queues().slots.bind_posted(slot);
                Ok(remote)
            }
        }
    }

    pub(super) fn post_invalidate(&mut self, id: u64, slot: u16) {
        let Some(key) = self.queues().slots.window_key(slot) else { return self.not_posted(id) };
        let mut wr = SendWr::new(0, opcode::LOCAL_INV, true);
        wr.invalidate_rkey = key;
        self.post(wr, Posted { id, slot: None, invalidates: Some(slot), message: None });
    }

    pub(super) fn post_send(
        &mut self,
        id: u64,
        message: &[u8],
        data: Option<SlotData>,
        invalidate: Option<u32>,
    ) {
        let data = data.filter(|data| data.bytes > 0);
        let mut list = match data.map(|data| self.queues().slots.entries(data)) {
            Some(None) => return self.not_posted(id),
            other => other.flatten().unwrap_or_default(),
        };
        let Some((number, first)) = self.queues().sends.message(message) else {
            return self.not_posted(id);
        };
        list.insert(0, first);
        self.queues().traffic.sent(message.len() as u32 + data.map_or(0, |data| data.bytes));
        let kind = if invalidate.is_some() { opcode::SEND_WITH_INV } else { opcode::SEND };
        let mut wr = SendWr::new(0, kind, true);
        wr.invalidate_rkey = invalidate.unwrap_or(0);
        gather(&mut wr, &mut list);
        self.post(
            wr,
            Posted {
                id,
                slot: data.map(|data| data.slot),
                invalidates: None,
                message: Some(number),
            },
        );
    }

    pub(super) fn post_read(&mut self, id: u64, into: SlotData, from: RemoteMemory) {
        if self.queues().slots.is_lent(into.slot) {
            return self.not_posted(id);
        }
        self.queues().traffic.received(into.bytes);
        self.post_transfer(id, opcode::RDMA_READ, into, from, true);
    }

    pub(super) fn post_write(&mut self, id: u64, from: SlotData, to: RemoteMemory, signaled: bool) {
        self.queues().traffic.sent(from.bytes);
        self.post_transfer(id, opcode::RDMA_WRITE, from, to, signaled);
    }

    fn post_transfer(
        &mut self,
        id: u64,
        kind: u32,
        memory: SlotData,
        remote: RemoteMemory,
        signaled: bool,
    ) {
        let Some(mut list) = self.queues().slots.entries(memory) else {
            return self.not_posted(id);
        };
        let mut wr = SendWr::new(0, kind, signaled);
        (wr.remote_address, wr.rkey) = (remote.address, remote.key);
        gather(&mut wr, &mut list);
        self.post(wr, Posted { id, slot: Some(memory.slot), invalidates: None, message: None });
    }

    /// Posts work whose lists are those of the caller, or says that it was not.
    fn post(&mut self, mut wr: SendWr, posted: Posted) {
        let destroyed = self.is_destroyed();
        let queues = self.queues.as_mut().expect("the queues were made");
        if let Some(number) = queues.sends.next().filter(|_| !destroyed) {
            wr.wr_id = number;
            let device = self.device.expect("queues are those of a device");
            let mut bad = null_mut();
            // SAFETY: the context stays open, and its functions are not replaced. The queue pair is
            // not destroyed. The request and its list are read during the call, and its memory
            // belongs to slots and messages until it has ended.
            let taken = unsafe {
                (*device.context.as_ptr())
                    .ops
                    .post_send
                    .is_some_and(|post| post(queues.qp.as_ptr(), &raw mut wr, &raw mut bad) == 0)
            };
            if taken {
                if let Some(slot) = posted.slot {
                    queues.slots.posted(slot);
                }
                return queues.sends.push(posted);
            }
        }
        if let Some(message) = posted.message {
            queues.sends.free(message);
        }
        self.not_posted(posted.id);
    }

    #[cold]
    fn not_posted(&mut self, id: u64) {
        self.own.push_back(QueuePairEvent::WorkEnded {
            id,
            ended: WorkOutcome::Failed(WorkError::NotPosted),
        });
    }

    /// The next event of the completion queue.
    #[inline]
    pub(super) fn next_completion(&mut self) -> io::Result<Option<QueuePairEvent>> {
        let Some(queues) = &mut self.queues else { return Ok(None) };
        while let Some(completion) = queues.completions.next()? {
            let event = if completion.wr_id & RECEIVE != 0 {
                received(queues, &completion)
            } else {
                worked(queues, &completion)
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }
}

/// The list stays where it is until the work was posted.
fn gather(wr: &mut SendWr, list: &mut [Sge]) {
    wr.num_sge = list.len() as c_int;
    wr.sg_list = list.as_mut_ptr();
}

fn received(queues: &mut Queues, completion: &Wc) -> Option<QueuePairEvent> {
    let buffer = completion.wr_id as u16;
    let error = match status(completion.status) {
        WorkStatus::Success => {
            let has = |flag| completion.flags & flag != 0;
            let key = completion.immediate;
            let invalidated = has(WC_WITH_INV)
                || (has(WC_WITH_INV_OF_KERNEL) && queues.slots.bound(key).is_some());
            let invalidated = invalidated.then_some(key);
            if let Some(key) = invalidated {
                queues.slots.invalidated(key);
            }
            let immediate = has(WC_WITH_IMM).then(|| u32::from_be(completion.immediate));
            queues.traffic.received(completion.byte_len);
            let known = queues.receives.end(buffer, Some(completion.byte_len));
            return known.then_some(QueuePairEvent::Received { buffer, immediate, invalidated });
        }
        WorkStatus::Flushed => None,
        WorkStatus::Failed(error) => Some(error),
    };
    queues.receives.end(buffer, None).then_some(QueuePairEvent::ReceiveEnded { buffer, error })
}

/// Work of the send queue has ended, and so has all before it.
fn worked(queues: &mut Queues, completion: &Wc) -> Option<QueuePairEvent> {
    let ended = match status(completion.status) {
        WorkStatus::Success => WorkOutcome::Done,
        WorkStatus::Flushed => WorkOutcome::Flushed,
        WorkStatus::Failed(error) => WorkOutcome::Failed(error),
    };
    let mut event = None;
    while let Some((number, posted)) = queues.sends.pop(completion.wr_id) {
        if let Some(slot) = posted.slot {
            queues.slots.ended(slot);
        }
        if let Some(message) = posted.message {
            queues.sends.free(message);
        }
        if number == completion.wr_id {
            if let (Some(slot), WorkOutcome::Done) = (posted.invalidates, ended) {
                queues.slots.unbound(slot);
            }
            event = Some(QueuePairEvent::WorkEnded { id: posted.id, ended });
        }
    }
    event
}
