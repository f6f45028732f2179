//! An I/O queue as its driver (`source::queue`) sees it: its operations, and the messages from and
//! to its association.

use super::association::{Association, IoConnection, ToAdmin};
use super::table::Table;
use super::transport::{
    CommandEngine, CommandEvent, CommandOwner as TransportCommands, ControllerLink as TransportLink,
};
use crate::source::link::DeviceLink;
use crate::source::queue::{Commands, QueueGate, Watchdog};
use std::sync::Arc;
use std::time::Duration;
use weft_block::{AccessState, Completion, DeviceChange, Op, Presence};
use weft_connection::limits::SETTLE_S;
use weft_connection::settle::lost_writes::LostWrites;
use weft_io::{Activity, DriverId, Handle, RemoteLoop, Time};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::RemoteNamespace;
use weft_proto::nvme::status::Status as NvmeStatus;
use weft_proto::nvme::types::{Nsid, Qid};
use weft_proto::stream::Tag;

/// An I/O queue of an association: its operations, and messages to and from the association.
pub(super) struct IoQueue<L> {
    table: Table,
    association: Arc<Association<L>>,
    nsid: Nsid,
    qid: Qid,
    /// The driver of the connection, and its loop.
    user: (RemoteLoop, DriverId),
    changes_seen: u64,
    blocks: u64,
    is_away: bool,
    access: AccessState,
    watchdog: Watchdog,
    /// When operations that were lost with the connection end, whatever the association knows of
    /// them then.
    settled_at: Time,
}

impl<L: TransportLink> IoQueue<L> {
    /// The queue of a connection that the driver `driver` of this loop has, for operations on
    /// `namespace`.
    pub(super) fn new(
        on: &Handle,
        driver: DriverId,
        association: &Arc<Association<L>>,
        (qid, commands): (Qid, u16),
        namespace: RemoteNamespace,
    ) -> Self {
        association.enter(on.remote(), driver);
        Self {
            nsid: namespace.nsid,
            blocks: namespace.blocks,
            table: Table::new(namespace, commands),
            association: Arc::clone(association),
            qid,
            user: (on.remote(), driver),
            // What has changed before is told at once.
            changes_seen: u64::MAX,
            is_away: false,
            access: AccessState::default(),
            watchdog: Watchdog::new(on, association.options.io_timeout),
            settled_at: on.now(),
        }
    }
}

impl<L> Drop for IoQueue<L> {
    fn drop(&mut self) {
        let (remote, driver) = &self.user;
        self.association.leave(remote, *driver);
    }
}

impl<L: TransportLink> Commands for IoQueue<L> {
    type Link = IoConnection<L>;

    #[inline]
    fn gate(&self) -> QueueGate {
        match self.association.gate() {
            // The others hear of it in their next turn.
            QueueGate::Open if self.table.missing => QueueGate::Held,
            gate => gate,
        }
    }

    #[inline]
    fn offer(&mut self, engine: &mut L::Engine, on: &Handle, op: Op) -> Option<Op> {
        self.table.offer(engine, on.now(), op)
    }

    #[inline]
    fn done(&mut self) -> &mut Vec<Completion> {
        &mut self.table.done
    }

    #[inline]
    fn running(&self) -> usize {
        self.table.running()
    }

    fn cancel(&mut self, engine: &mut L::Engine, user: u64) {
        let Some(tag) = self.table.find(user) else { return };
        if let Some(cid) = engine.cid(tag) {
            self.association.tell(ToAdmin::Cancelled(self.qid, cid));
        }
    }

    /// Reports commands that take too long, and those that did and have ended.
    #[inline]
    fn watch(
        &mut self,
        engine: &mut L::Engine,
        on: &Handle,
        driver: DriverId,
    ) -> Result<(), String> {
        for cid in self.table.recovered.drain(..) {
            self.association.tell(ToAdmin::Completed(self.qid, cid));
        }
        if self.association.is_over() {
            return Err(self.association.why_ended());
        }
        if core::mem::take(&mut self.table.missing) {
            self.association.doubt();
        }
        if core::mem::take(&mut self.table.access_refused) {
            self.association.doubt_access();
        }
        if self.table.running() == 0 {
            return Ok(());
        }
        let Some(oldest) = self.watchdog.due(on, driver) else { return Ok(()) };
        while let Some(tag) = self.table.next_overdue(oldest) {
            if let Some(cid) = engine.cid(tag) {
                self.association.tell(ToAdmin::TimedOut(self.qid, cid));
            }
        }
        Ok(())
    }

    #[inline]
    fn change(&mut self) -> Option<DeviceChange> {
        let changes = self.association.changes();
        if changes == self.changes_seen {
            return None;
        }
        let is_away = self.association.presence() != Presence::Here;
        if is_away != self.is_away {
            self.is_away = is_away;
            return Some(if is_away { DeviceChange::Away } else { DeviceChange::Back });
        }
        let access = self.association.access();
        if access != self.access {
            self.access = access;
            return Some(DeviceChange::Access(access));
        }
        self.changes_seen = changes;
        let blocks = self.association.blocks(self.nsid).filter(|blocks| *blocks != self.blocks)?;
        self.blocks = blocks;
        Some(DeviceChange::Resized { blocks })
    }

    fn connection_ended(&mut self, engine: &L::Engine, on: &Handle, lost: &mut LostWrites) {
        self.table.connection_ended(engine, lost);
        self.settled_at =
            on.now() + Duration::from_secs(SETTLE_S) + self.association.settle_bound();
    }

    /// As the association says once it is over.
    fn settled_at(&self) -> Time {
        self.association.settled_at().unwrap_or(self.settled_at)
    }

    fn give_back(&mut self, connection: IoConnection<L>) {
        self.association.give_idle(connection);
    }

    fn lost(&mut self, why: String) {
        if self.association.is_over() {
            return tracing::info!("I/O queue {}: the connection is over: {why}", self.qid);
        }
        tracing::warn!("I/O queue {}: the connection is over: {why}", self.qid);
        self.association.tell(ToAdmin::Lost(self.qid));
    }
}

impl<L: TransportLink> DeviceLink<IoQueue<L>> for IoConnection<L> {
    type Engine = L::Engine;

    #[inline]
    fn engine(&mut self) -> &mut L::Engine {
        self.link.engine()
    }

    fn register(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()> {
        self.link.register(on, driver)
    }

    fn deregister(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()> {
        self.link.deregister(on, driver)
    }

    #[inline]
    fn receive(&mut self, on: &Handle, commands: &mut IoQueue<L>) -> Activity {
        self.link.receive(on, &mut commands.table)
    }

    #[inline]
    fn send(&mut self, on: &Handle, commands: &mut IoQueue<L>) -> Activity {
        self.link.send(on, &mut commands.table)
    }

    #[inline]
    fn has_ended(&self) -> bool {
        self.link.has_ended()
    }

    fn why_ended(&self) -> String {
        self.link.why_ended()
    }

    fn is_quiet(&self) -> bool {
        self.link.is_quiet()
    }
}

impl<E: CommandEngine> TransportCommands<E> for Table {
    #[inline]
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        Self::memory_mut(self, tag, offset, len)
    }

    #[inline]
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        Self::memory(self, tag, offset, len).expect("the engine sends what was submitted")
    }

    #[inline]
    fn event(&mut self, on: &Handle, engine: &mut E, event: CommandEvent) {
        match event {
            CommandEvent::Response { tag, cqe, received_bytes } => {
                self.response(engine, on.now(), tag, cqe, received_bytes)
            }
            CommandEvent::DataFailed { tag, cqe } => {
                let failed = Cqe { status: NvmeStatus::TRANSIENT_TRANSPORT_ERROR, ..cqe };
                self.response(engine, on.now(), tag, failed, 0);
            }
        }
    }
}
