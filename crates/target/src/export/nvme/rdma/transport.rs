//! NVMe over RDMA as a transport of controllers: a queue pair with the target's engine.
//!
//! The result of a read that is in memory of its device is lent to the queue pair, until the host
//! has it. Other data is copied through the queue pair's own memory. Where that cannot be had, the
//! work that needs it waits, and all behind it, until that of another command is free.

use super::receives::Receives;
use crate::export::nvme::session::NvmeLink;
use crate::export::nvme::session::NvmeSession;
use crate::export::nvme::transport::{Engine, Event};
use weft_connection::capture::{CapsuleTap, Capture, Start};
use weft_connection::limits::RDMA_LENT_PIECES;
use weft_connection::nvme::rdma::{NoMemoryNow, Turn, Wire, limits};
use weft_connection::pump::Link;
use weft_io::rdma::{QueuePair, QueuePairConfig, SlotData};
use weft_io::{Activity, DriverId, Handle};
use weft_proto::capture::End;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::deviation::Deviations;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme_rdma::{
    QueuePairEngine, RdmaTargetConfig, RdmaTargetEvent, TargetQueuePair, Work,
};
use weft_proto::stream::Tag;

/// The commands of one connection.
pub(crate) struct RdmaEngine {
    queue: TargetQueuePair,
    /// Bytes of data of each command, by tag.
    bytes: Vec<u32>,
    /// Entries that the host asked for with the connection.
    entries: u16,
    receives: Receives,
}

impl Engine for RdmaEngine {
    #[inline]
    fn sqe(&self) -> &Sqe {
        self.queue.sqe()
    }

    #[inline]
    fn fetch(&mut self, tag: Tag, bytes: u32) -> Result<(), Status> {
        self.bytes[tag.index()] = bytes;
        self.queue.fetch(tag, bytes)
    }

    fn ignore_data(&mut self, tag: Tag) {
        self.queue.ignore_data(tag);
    }

    #[inline]
    fn complete(&mut self, tag: Tag, cqe: Cqe, data_bytes: u32) {
        self.bytes[tag.index()] = data_bytes;
        self.queue.complete(tag, cqe, data_bytes);
    }

    fn queued(&self) -> u64 {
        self.queue.queued()
    }

    #[inline]
    fn sent(&mut self, tag: Tag) {
        self.queue.sent(tag);
    }

    fn abandon(&mut self, tag: Tag) {
        self.queue.abandon(tag);
    }

    fn drop_pending(&mut self) {
        self.queue.drop_pending();
    }

    fn begin_queue(&mut self, entries: u16, _: bool) {
        self.receives.admitted();
        self.queue.set_queue_entries(entries.min(self.entries));
    }

    /// Data in capsules may wait for memory, that of several commands at a time, and comes later
    /// than its command.
    fn checks_data(&self) -> bool {
        true
    }
}

/// One connection.
pub(crate) struct RdmaLink {
    wire: Wire,
    engine: RdmaEngine,
    /// What passes is captured.
    tap: Option<Box<CapsuleTap>>,
}

/// Bytes of the largest command capsule.
fn capsule_bytes(config: &RdmaTargetConfig) -> u32 {
    config.in_capsule_bytes + Sqe::default().0.len() as u32
}

impl RdmaLink {
    /// Bytes of all receives of a queue.
    pub(super) fn receive_bytes(config: &RdmaTargetConfig) -> usize {
        usize::from(config.receives) * capsule_bytes(config) as usize
    }

    /// Accepts the connection that was asked for, with receives posted.
    ///
    /// # Errors
    /// Why that is impossible; the queue pair can still be rejected.
    pub(super) fn accept(
        mut pair: Box<dyn QueuePair>,
        config: RdmaTargetConfig,
        receives: Receives,
    ) -> Result<Self, (Box<dyn QueuePair>, std::io::Error)> {
        let (entries, device) = (config.receives, pair.device_limits());
        // For each command an RDMA WRITE and a response, and RDMA READs besides.
        let send_queue = (entries * 2 + u16::from(device.reads)).min(device.send_queue);
        let queues = QueuePairConfig {
            send_queue,
            receives: entries,
            receive_bytes: capsule_bytes(&config),
            message_bytes: Cqe::BYTES as u32,
            slots: entries,
            reads: device.reads,
            exposure: None,
            lent_pieces: RDMA_LENT_PIECES,
        };
        if let Err(e) = pair.create(&queues) {
            return Err((pair, e));
        }
        let mut queue = TargetQueuePair::new(RdmaTargetConfig {
            limits: limits(&device, send_queue),
            ..config
        });
        let answer = queue.accept().encode();
        while let Some(Work::PostReceive(buffer)) = queue.next_work() {
            pair.post_receive(buffer.0);
        }
        if let Err(e) = pair.open(&answer) {
            return Err((pair, e));
        }
        let engine = RdmaEngine { queue, bytes: vec![0; entries.into()], entries, receives };
        Ok(Self { wire: Wire::new(pair, entries), engine, tap: None })
    }

    /// Copies what was read from the host into the memory of its command. Data of a capsule is
    /// there already.
    fn take_out(&mut self, session: &mut NvmeSession, tag: Tag) {
        if !self.wire.has_memory(tag) {
            return;
        }
        let (bytes, mut at) = (self.engine.bytes[tag.index()], 0);
        while at < bytes
            && let Some(piece) = session.memory_mut(tag, at, bytes - at)
        {
            self.wire.pair.copy_out(tag.0, at, piece);
            at += piece.len() as u32;
        }
        self.wire.release(tag);
    }

    /// Takes the memory of a command from the queue pair.
    #[inline]
    fn release(&mut self, session: &mut NvmeSession, tag: Tag) {
        match self.wire.take_back(tag) {
            Some(memory) => session.give_back(tag, memory),
            None => self.wire.release(tag),
        }
    }

    /// Has a command's result sent from where it is, if it is in memory of the device; whether that
    /// is so.
    #[inline]
    fn lends(&mut self, session: &mut NvmeSession, tag: Tag, offset: u32) -> bool {
        // What is captured is read by this process, from wherever it is.
        if offset == 0
            && self.tap.as_ref().is_none_or(|tap| !tap.goes_on())
            && let Some(memory) = session.take_lent(tag)
            && let Err(memory) = self.wire.lend(tag, memory)
        {
            session.give_back(tag, memory);
        }
        self.wire.is_lent(tag)
    }

    /// Gives a command memory for its data with its first piece. `false`: there never will be, and
    /// the work has failed.
    #[inline]
    fn has_place(&mut self, work: Work, tag: Tag, offset: u32) -> Result<bool, NoMemoryNow> {
        if offset > 0 {
            return Ok(true);
        }
        match self.wire.prepare(tag, self.engine.bytes[tag.index()]) {
            Ok(prepared) => prepared.map(|()| true),
            Err(e) => {
                if let Some(id) = work.id() {
                    self.wire.fail(id, e, &mut self.engine.queue);
                }
                Ok(false)
            }
        }
    }
}

impl Turn<NvmeSession> for RdmaLink {
    type Queue = TargetQueuePair;

    #[inline]
    fn parts(&mut self) -> (&mut Wire, &mut TargetQueuePair) {
        (&mut self.wire, &mut self.engine.queue)
    }

    #[inline]
    fn tell(&mut self, on: &Handle, session: &mut NvmeSession) -> bool {
        let mut some = false;
        while let Some(event) = self.engine.queue.poll_event() {
            some = true;
            let event = match event {
                // A capsule keeps its receive until its data is wanted: what waits for memory holds
                // up nobody else.
                RdmaTargetEvent::Command { tag, in_capsule_bytes } => {
                    if let Some(tap) = &mut self.tap {
                        tap.command(tag, &self.engine.queue.sqe().0);
                    }
                    Event::Command { tag, in_capsule_bytes }
                }
                RdmaTargetEvent::DataArrived { tag } => {
                    self.take_out(session, tag);
                    if let Some(tap) = &mut self.tap {
                        let bytes = self.engine.bytes[tag.index()];
                        tap.data(End::Host, tag, (0, bytes, true), |at, len, into| {
                            let piece = session.memory_mut(tag, at, len);
                            piece.map_or(0, |piece| {
                                into.extend_from_slice(piece);
                                piece.len() as u32
                            })
                        });
                    }
                    Event::DataArrived { tag }
                }
                RdmaTargetEvent::DataFailed { tag } => {
                    self.release(session, tag);
                    Event::DataFailed { tag }
                }
                RdmaTargetEvent::Dropped { tag } => {
                    self.release(session, tag);
                    Event::Dropped { tag }
                }
                RdmaTargetEvent::Released { tag } => {
                    self.release(session, tag);
                    session.released(on, &mut self.engine, tag);
                    continue;
                }
            };
            let _ = session.event(on, &mut self.engine, event);
        }
        some
    }

    #[inline]
    fn act(&mut self, session: &mut NvmeSession, work: Work) -> Result<(), NoMemoryNow> {
        let (wire, queue) = (&mut self.wire, &mut self.engine.queue);
        let number = work.id().map_or(0, weft_proto::nvme_rdma::WorkId::number);
        match work {
            Work::PostReceive(buffer) => wire.pair.post_receive(buffer.0),
            Work::Send { tag, invalidate, .. } => {
                let capsule = queue.capsule(tag);
                wire.pair.send(number, &capsule, None, invalidate);
                if let Some(tap) = &mut self.tap {
                    tap.response(&capsule);
                }
            }
            Work::Read { tag, offset, bytes, from } => {
                if self.has_place(work, tag, offset)? {
                    self.wire.pair.read(number, SlotData { slot: tag.0, offset, bytes }, from);
                }
            }
            Work::Write { tag, offset, bytes, to, signaled } => {
                let lent = self.lends(session, tag, offset);
                if lent || self.has_place(work, tag, offset)? {
                    if !lent {
                        self.wire
                            .copy_in(tag, offset, bytes, |at, len| session.memory(tag, at, len));
                    }
                    self.wire.pair.write(
                        number,
                        SlotData { slot: tag.0, offset, bytes },
                        to,
                        signaled,
                    );
                    if let Some(tap) = &mut self.tap {
                        let is_last = offset + bytes == self.engine.bytes[tag.index()];
                        tap.data(End::Target, tag, (offset, bytes, is_last), |at, len, into| {
                            let piece = session.memory(tag, at, len);
                            into.extend_from_slice(piece);
                            piece.len() as u32
                        });
                    }
                }
            }
            Work::Place { tag, buffer, bytes } => {
                let (data, mut at) = (Sqe::default().0.len() as u32, 0);
                while at < bytes
                    && let Some(piece) = session.memory_mut(tag, at, bytes - at)
                {
                    wire.pair.copy_received(buffer.0, data + at, piece);
                    at += piece.len() as u32;
                }
                queue.placed(tag);
            }
            Work::Disconnect => wire.pair.disconnect(),
            Work::Destroy => wire.destroy(queue),
            // Work of hosts.
            Work::Expose { .. } | Work::Conceal { .. } | Work::Invalidate { .. } => {}
        }
        Ok(())
    }
}

impl Link<NvmeSession> for RdmaLink {
    type Engine = RdmaEngine;

    #[inline]
    fn engine(&mut self) -> &mut RdmaEngine {
        &mut self.engine
    }

    fn register(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()> {
        self.wire.register(on, driver)
    }

    fn deregister(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()> {
        self.wire.deregister(on, driver)
    }

    fn peer(&self) -> String {
        self.wire.pair.peer()
    }

    fn capture(&mut self, capture: &Capture, start: Start) {
        if self.tap.as_ref().is_none_or(|tap| !tap.goes_on()) {
            let (local, peer) = (self.wire.pair.local(), self.wire.pair.peer());
            self.tap = CapsuleTap::begin(capture, End::Target, [&local, &peer], start);
        }
    }

    #[inline]
    fn receive(&mut self, on: &Handle, session: &mut NvmeSession) -> Activity {
        let activity = self.wire.receive(on, &mut self.engine.queue);
        let mut told = self.tell(on, session);
        // Data of capsules is put where it belongs before the session works in this turn.
        while activity.is_some() && self.work(session) {
            told |= self.tell(on, session);
        }
        if activity.is_some() { activity } else { Activity::busy_if(told) }
    }

    #[inline]
    fn send(&mut self, on: &Handle, session: &mut NvmeSession) -> Activity {
        self.turn(on, session)
    }

    #[inline]
    fn has_unsent(&self) -> bool {
        self.wire.held.is_some() || self.engine.queue.has_unsent()
    }

    /// Never: a capsule that finds no memory keeps its receive.
    #[inline]
    fn is_paused(&self) -> bool {
        false
    }

    fn resume(&mut self) {}

    fn close(&mut self) {
        self.engine.queue.close();
    }

    #[inline]
    fn has_ended(&self) -> bool {
        self.engine.queue.has_ended()
    }

    fn error(&self) -> Option<&std::io::Error> {
        self.wire.error.as_ref()
    }
}

impl NvmeLink for RdmaLink {
    const PROTOCOL: &'static str = "nvme+rdma";

    fn sent(&self) -> u64 {
        self.engine.queue.taken()
    }

    fn violation(&self) -> Option<String> {
        self.engine.queue.violation().map(|violation| violation.to_string())
    }

    fn take_deviations(&mut self) -> Deviations {
        Deviations::default()
    }
}
