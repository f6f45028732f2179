//! NVMe over RDMA as a transport of hosts: a queue pair with the host's engine.
//!
//! Data is copied through the queue pair's own memory, which is all that a controller gets access
//! to. Where that cannot be had, the command that needs it waits, and all behind it, until that of
//! another command is free.

use crate::source::nvme::transport::{CommandEngine, CommandEvent, CommandOwner, ControllerLink};
use std::collections::BTreeMap;
use weft_connection::capture::{CapsuleTap, Capture, Start};
use weft_connection::nvme::rdma::{FAILED, NoMemoryNow, Turn, Wire};
use weft_io::rdma::SlotData;
use weft_io::{Activity, DriverId, Handle};
use weft_proto::capture::End;
use weft_proto::nvme::host::{HostData, SubmitError};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Cid;
use weft_proto::nvme_rdma::violation::Violation;
use weft_proto::nvme_rdma::{
    HostQueuePair, QueuePairEngine, RdmaHostEvent, Work, WorkId, WorkKind,
};
use weft_proto::stream::Tag;

/// The commands of one connection.
#[doc(hidden)]
pub struct RdmaHostEngine {
    pub(super) queue: HostQueuePair,
    /// Those that may be outstanding: one less than the queue has entries.
    commands: u16,
}

impl CommandEngine for RdmaHostEngine {
    #[inline]
    fn submit(&mut self, sqe: Sqe, data: HostData) -> Result<Tag, SubmitError> {
        if self.queue.outstanding() >= usize::from(self.commands) && !self.queue.is_closed() {
            return Err(SubmitError::Full);
        }
        self.queue.submit(sqe, data)
    }

    #[inline]
    fn release(&mut self, tag: Tag) {
        self.queue.release(tag);
    }

    #[inline]
    fn outstanding(&self) -> usize {
        self.queue.outstanding()
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    fn cid(&self, tag: Tag) -> Option<Cid> {
        self.queue.cid(tag)
    }

    fn never_sent(&self, tag: Tag) -> bool {
        self.queue.never_sent(tag)
    }
}

/// One connection.
pub struct RdmaLink {
    pub(super) wire: Wire,
    pub(super) engine: RdmaHostEngine,
    /// What passes is captured, and bytes of commands that the controller reads, by tag.
    tap: Option<(Box<CapsuleTap>, BTreeMap<usize, u32>)>,
}

impl RdmaLink {
    pub(super) fn new(
        wire: Wire,
        queue: HostQueuePair,
        commands: u16,
        capture: Option<Capture>,
    ) -> Self {
        let (local, peer) = (wire.pair.local(), wire.pair.peer());
        let tap = capture.and_then(|capture| {
            CapsuleTap::begin(&capture, End::Host, [&local, &peer], Start::First)
        });
        let tap = tap.map(|tap| (tap, BTreeMap::new()));
        Self { wire, engine: RdmaHostEngine { queue, commands }, tap }
    }
}

impl RdmaLink {
    /// So many bytes of a command are there for the controller to read.
    fn note_exposed(&mut self, tag: Tag, bytes: u32) {
        if let Some((_, readable)) = &mut self.tap {
            readable.insert(tag.index(), bytes);
        }
    }

    /// Shows a command that was sent, and its data.
    fn show_command(
        &mut self,
        commands: &impl CommandOwner<RdmaHostEngine>,
        tag: Tag,
        in_capsule_bytes: u32,
    ) {
        let Some((tap, readable)) = &mut self.tap else { return };
        tap.command(tag, &self.engine.queue.capsule(tag).0);
        let exposed = readable.remove(&tag.index()).unwrap_or(0);
        let bytes = in_capsule_bytes.max(exposed);
        if bytes > 0 {
            tap.data(End::Host, tag, (0, bytes, true), |at, len, into| {
                let piece = commands.memory(tag, at, len);
                into.extend_from_slice(piece);
                piece.len() as u32
            });
        }
    }
}

impl<C: CommandOwner<RdmaHostEngine>> Turn<C> for RdmaLink {
    type Queue = HostQueuePair;

    #[inline]
    fn parts(&mut self) -> (&mut Wire, &mut HostQueuePair) {
        (&mut self.wire, &mut self.engine.queue)
    }

    #[inline]
    fn tell(&mut self, on: &Handle, commands: &mut C) -> bool {
        let mut some = false;
        while let Some(RdmaHostEvent::Response { tag, cqe, received_bytes }) =
            self.engine.queue.poll_event()
        {
            some = true;
            if self.wire.has_memory(tag) {
                let mut at = 0;
                while at < received_bytes
                    && let Some(piece) = commands.memory_mut(tag, at, received_bytes - at)
                {
                    self.wire.pair.copy_out(tag.0, at, piece);
                    at += piece.len() as u32;
                }
                self.wire.release(tag);
            }
            if let Some((tap, _)) = &mut self.tap {
                if received_bytes > 0 {
                    tap.data(End::Target, tag, (0, received_bytes, true), |at, len, into| {
                        let piece = commands.memory_mut(tag, at, len);
                        piece.map_or(0, |piece| {
                            into.extend_from_slice(piece);
                            piece.len() as u32
                        })
                    });
                }
                tap.response(&cqe.encode());
            }
            commands.event(
                on,
                &mut self.engine,
                CommandEvent::Response { tag, cqe, received_bytes },
            );
        }
        some
    }

    #[inline]
    fn act(&mut self, commands: &mut C, work: Work) -> Result<(), NoMemoryNow> {
        let (wire, queue) = (&mut self.wire, &mut self.engine.queue);
        match work {
            Work::PostReceive(buffer) => wire.pair.post_receive(buffer.0),
            Work::Expose { tag, bytes, writable } => {
                let exposed = match wire.prepare(tag, bytes) {
                    Ok(prepared) => {
                        prepared?;
                        if !writable {
                            wire.copy_in(tag, 0, bytes, |at, len| commands.memory(tag, at, len));
                        }
                        wire.pair.expose(
                            WorkId { tag, kind: WorkKind::Bind }.number(),
                            tag.0,
                            bytes,
                            writable,
                        )
                    }
                    Err(e) => Err(e),
                };
                self.note_exposed(tag, if writable { 0 } else { bytes });
                let (wire, queue) = (&mut self.wire, &mut self.engine.queue);
                match exposed {
                    Ok(at) => queue.exposed(tag, at.address, at.key),
                    Err(e) => {
                        FAILED.log_now(|| format!("{}: {e}", wire.pair.peer()));
                        wire.release(tag);
                        queue.not_exposed(tag);
                    }
                }
            }
            Work::Conceal { tag } => wire.pair.conceal(tag.0),
            Work::Invalidate { tag, .. } => {
                wire.pair.invalidate(WorkId { tag, kind: WorkKind::Invalidate }.number(), tag.0);
            }
            Work::Send { tag, data_bytes, invalidate } => {
                let id = WorkId { tag, kind: WorkKind::Send };
                let mut data = None;
                if data_bytes > 0 {
                    match wire.prepare(tag, data_bytes) {
                        Ok(prepared) => prepared?,
                        Err(e) => {
                            wire.fail(id, e, queue);
                            return Ok(());
                        }
                    }
                    wire.copy_in(tag, 0, data_bytes, |at, len| commands.memory(tag, at, len));
                    data = Some(SlotData { slot: tag.0, offset: 0, bytes: data_bytes });
                }
                wire.pair.send(id.number(), &queue.capsule(tag).0, data, invalidate);
                self.show_command(commands, tag, data_bytes);
            }
            Work::Disconnect => wire.pair.disconnect(),
            Work::Destroy => wire.destroy(queue),
            // Work of controllers.
            Work::Read { .. } | Work::Write { .. } | Work::Place { .. } => {}
        }
        Ok(())
    }
}

impl ControllerLink for RdmaLink {
    type Engine = RdmaHostEngine;

    #[inline]
    fn engine(&mut self) -> &mut RdmaHostEngine {
        &mut self.engine
    }

    fn register(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()> {
        self.wire.register(on, driver)
    }

    fn deregister(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()> {
        self.wire.deregister(on, driver)
    }

    #[inline]
    fn receive(
        &mut self,
        on: &Handle,
        commands: &mut impl CommandOwner<RdmaHostEngine>,
    ) -> Activity {
        let activity = self.wire.receive(on, &mut self.engine.queue);
        let told = self.tell(on, commands);
        if activity.is_some() {
            // Receives are posted again before the connection may move to another loop.
            self.work(commands);
        }
        if activity.is_some() { activity } else { Activity::busy_if(told) }
    }

    #[inline]
    fn send(&mut self, on: &Handle, commands: &mut impl CommandOwner<RdmaHostEngine>) -> Activity {
        self.turn(on, commands)
    }

    fn close(&mut self) {
        self.engine.queue.close();
    }

    /// A queue pair that ends sends nothing more.
    fn abort(&mut self) {
        self.engine.queue.close();
    }

    #[inline]
    fn has_ended(&self) -> bool {
        self.engine.queue.has_ended()
    }

    fn complaint(&self) -> Option<String> {
        let lost = |why: &dyn std::fmt::Display| format!("can no longer be reached: {why}");
        if let Some(violation) = self.engine.queue.violation() {
            return Some(match violation {
                Violation::Receive(_)
                | Violation::Send(_)
                | Violation::Bind(_)
                | Violation::Invalidate(_)
                | Violation::CloseLate(_) => lost(&violation),
                _ => format!("broke the protocol: {violation}"),
            });
        }
        let error = || self.wire.error.as_ref().map(|error| lost(error));
        self.wire.pair.trouble().map(|trouble| lost(&trouble)).or_else(error)
    }

    fn is_quiet(&self) -> bool {
        self.wire.held.is_none() && self.engine.queue.is_quiet()
    }
}
