//! Operations under way on one connection: from block operations to NBD requests and back.

use crate::source::idle::Idle;
use crate::source::queue::{Commands, Watchdog};
use std::sync::Arc;
use std::time::Duration;
use weft_block::{
    Completion, DeviceChange, Features, Geometry, Op, OpKind, Outcome, Status, StatusKind,
};
use weft_connection::memory::{add_pieces, piece, piece_mut};
use weft_connection::pump::{Flow, Handler, Pieces, StreamPump};
use weft_connection::settle::lost_writes::{GONE, LostWrites};
use weft_connection::status::nbd::from_nbd;
use weft_io::segment::{pieces_mut, total_len};
use weft_io::{DriverId, Handle, Time};
use weft_proto::nbd::client::{ClientCommand, SubmitError};
use weft_proto::nbd::code::{CommandCode, CommandFlags, ErrorCode, TransmissionFlags};
use weft_proto::nbd::{ClientEvent, NbdClient};
use weft_proto::stream::Tag;

/// An operation, in the slot of the request that is under way for it.
struct Running {
    op: Op,
    started: Time,
    /// Blocks that earlier requests of this operation have dealt with, and those of the request
    /// under way.
    done_blocks: u32,
    asked_blocks: u32,
    /// The data is written; what is under way makes it durable, as the server does not do both in
    /// one.
    flushing: bool,
}

/// All operations of one connection.
pub(super) struct Table {
    /// Where the connection came from.
    idle: Arc<Idle<NbdClient>>,
    geometry: Geometry,
    features: Features,
    /// The server makes a write durable before it answers, if told to.
    fua: bool,
    /// Blocks of one trim or write zeroes, at most.
    effect_blocks_max: u32,
    /// By tag; grows up to the most that are under way at a time.
    slots: Vec<Option<Running>>,
    running: usize,
    done: Vec<Completion>,
    watchdog: Watchdog,
    patience: Patience,
    /// After the connection has ended: when the server executes nothing of it any more.
    settled_at: Time,
}

/// How long the server may take.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// For an operation.
    pub(super) io_timeout: Duration,
    /// To end what it has when its connection was lost.
    pub(super) quiesce: Duration,
}

/// What came of a request.
enum Start {
    /// It is under way.
    Taken,
    /// There is no room.
    Full(Running),
    /// The connection is closed.
    Closed(Running),
}

impl Table {
    pub(super) fn new(
        on: &Handle,
        engine: &NbdClient,
        idle: Arc<Idle<NbdClient>>,
        geometry: Geometry,
        features: Features,
        patience: Patience,
    ) -> Self {
        let effect = engine.effect_bytes_max() / u64::from(geometry.block_bytes);
        Self {
            idle,
            geometry,
            features,
            fua: engine.export().flags.has(TransmissionFlags::SEND_FUA),
            effect_blocks_max: u32::try_from(effect).unwrap_or(u32::MAX),
            slots: Vec::new(),
            running: 0,
            done: Vec::new(),
            watchdog: Watchdog::new(on, patience.io_timeout),
            patience,
            settled_at: on.now(),
        }
    }

    /// What an operation ends with that is not worth asking the server for, or not allowed.
    #[inline]
    fn at_once(&self, op: &Op) -> Option<Status> {
        let refuse = |kind| Some(Status::new(kind));
        if op.lba.checked_add(op.blocks.into()).is_none_or(|end| end > self.geometry.blocks) {
            return refuse(StatusKind::OutOfRange);
        }
        match op.kind {
            kind if kind.is_write() && (!self.features.write || self.padding(op) > 0) => {
                refuse(StatusKind::WriteProtected)
            }
            OpKind::Compare
            | OpKind::CompareAndWrite { .. }
            | OpKind::Reserve(_)
            | OpKind::ReservationReport => refuse(StatusKind::Unsupported),
            OpKind::WriteZeroes { .. } if !self.features.write_zeroes => {
                refuse(StatusKind::Unsupported)
            }
            OpKind::Discard if !self.features.discard => Some(Status::SUCCESS),
            OpKind::Flush if !self.features.volatile_cache => Some(Status::SUCCESS),
            _ => None,
        }
    }

    /// Bytes at the end of the operation's blocks that the export does not have.
    #[inline]
    fn padding(&self, op: &Op) -> u32 {
        self.geometry.padding_of(op.lba, op.blocks)
    }

    /// The next request of an operation.
    #[inline]
    fn command(&self, running: &mut Running) -> ClientCommand {
        let block = u64::from(self.geometry.block_bytes);
        let offset = (running.op.lba + u64::from(running.done_blocks)) * block;
        let left = running.op.blocks - running.done_blocks;
        let fua = |fua: bool| CommandFlags::default().with_if(CommandFlags::FUA, fua && self.fua);
        let (code, flags) = match running.op.kind {
            OpKind::Read => (CommandCode::READ, CommandFlags::default()),
            OpKind::Write { .. } if running.flushing => {
                (CommandCode::FLUSH, CommandFlags::default())
            }
            OpKind::WriteZeroes { .. } if running.flushing => {
                (CommandCode::FLUSH, CommandFlags::default())
            }
            OpKind::Write { fua: durable } => (CommandCode::WRITE, fua(durable)),
            OpKind::WriteZeroes { deallocate, fua: durable } => (
                CommandCode::WRITE_ZEROES,
                fua(durable).with_if(CommandFlags::NO_HOLE, !deallocate),
            ),
            OpKind::Discard => (CommandCode::TRIM, CommandFlags::default()),
            // All but flushes were refused before.
            OpKind::Flush
            | OpKind::Compare
            | OpKind::CompareAndWrite { .. }
            | OpKind::Reserve(_)
            | OpKind::ReservationReport => (CommandCode::FLUSH, CommandFlags::default()),
        };
        running.asked_blocks = match code {
            CommandCode::FLUSH => 0,
            CommandCode::TRIM | CommandCode::WRITE_ZEROES => left.min(self.effect_blocks_max),
            _ => left,
        };
        let offset = if code == CommandCode::FLUSH { 0 } else { offset };
        // Of what reaches the end only reads get here.
        let padding = if code == CommandCode::READ { self.padding(&running.op) } else { 0 };
        let length = u64::from(running.asked_blocks) * block - u64::from(padding);
        ClientCommand { code, flags, offset, length }
    }

    #[inline]
    fn start(&mut self, engine: &mut NbdClient, mut running: Running) -> Start {
        let command = self.command(&mut running);
        match engine.submit(command) {
            Ok(tag) => {
                if self.slots.len() <= tag.index() {
                    self.slots.resize_with(tag.index() + 1, || None);
                }
                self.slots[tag.index()] = Some(running);
                Start::Taken
            }
            Err(SubmitError::Full) => Start::Full(running),
            Err(SubmitError::Closed) => Start::Closed(running),
        }
    }

    /// Whether a write has to be followed by a flush, as it is to be durable and the server does
    /// not do that by itself.
    fn wants_flush(&self, running: &Running) -> bool {
        let durable = matches!(
            running.op.kind,
            OpKind::Write { fua: true } | OpKind::WriteZeroes { fua: true, .. }
        );
        durable && !self.fua && self.features.volatile_cache && !running.flushing
    }

    #[inline]
    fn response(&mut self, engine: &mut NbdClient, tag: Tag, error: ErrorCode) {
        engine.release(tag);
        let Some(mut running) = self.slots.get_mut(tag.index()).and_then(Option::take) else {
            return;
        };
        if error != ErrorCode::SUCCESS {
            let status = from_nbd(error, running.op.kind);
            return self.finish(running.op, Outcome::Done(status));
        }
        running.done_blocks += running.asked_blocks;
        let more = running.asked_blocks > 0 && running.done_blocks < running.op.blocks;
        if !more {
            if !self.wants_flush(&running) {
                self.fill_padding(&mut running.op);
                return self.finish(running.op, Outcome::SUCCESS);
            }
            running.flushing = true;
        }
        // The tag that was just released is free.
        if let Start::Full(running) | Start::Closed(running) = self.start(engine, running) {
            self.finish(running.op, Outcome::settled(GONE));
        }
    }

    /// Fills the end of a read's memory with zeroes that the export does not have.
    #[inline]
    fn fill_padding(&self, op: &mut Op) {
        let padding = self.padding(op) as usize;
        if padding > 0 && op.kind == OpKind::Read {
            let read = total_len(&op.data) - padding;
            pieces_mut(&mut op.data, read, padding).for_each(|piece| piece.fill(0));
        }
    }

    fn finish(&mut self, op: Op, outcome: Outcome) {
        self.running -= 1;
        self.done.push(op.done(outcome));
    }

    #[inline]
    fn op(&mut self, tag: Tag) -> Option<&mut Op> {
        Some(&mut self.slots.get_mut(tag.index())?.as_mut()?.op)
    }

    /// Fills a part of a read's memory with zeroes.
    fn fill_hole(&mut self, tag: Tag, mut offset: u32, len: u32) {
        let end = offset + len;
        while let Some(piece) =
            self.op(tag).and_then(|op| piece_mut(&mut op.data, offset, end - offset))
        {
            piece.fill(0);
            offset += piece.len() as u32;
            if offset == end {
                return;
            }
        }
    }
}

impl Commands for Table {
    type Link = StreamPump<NbdClient>;

    #[inline]
    fn offer(&mut self, engine: &mut NbdClient, on: &Handle, op: Op) -> Option<Op> {
        if let Some(status) = self.at_once(&op) {
            self.done.push(op.done(Outcome::Done(status)));
            return None;
        }
        let running =
            Running { op, started: on.now(), done_blocks: 0, asked_blocks: 0, flushing: false };
        match self.start(engine, running) {
            Start::Taken => self.running += 1,
            Start::Full(running) => return Some(running.op),
            Start::Closed(running) => self.done.push(running.op.done(Outcome::NotSent(GONE))),
        }
        None
    }

    #[inline]
    fn done(&mut self) -> &mut Vec<Completion> {
        &mut self.done
    }

    #[inline]
    fn running(&self) -> usize {
        self.running
    }

    fn cancel(&mut self, _: &mut NbdClient, _: u64) {
        // The protocol knows no such thing: the operation ends by itself.
    }

    fn connection_ended(&mut self, engine: &NbdClient, on: &Handle, lost: &mut LostWrites) {
        // The protocol has no timers: a server may go on for as long as the user says.
        self.settled_at = on.now() + self.patience.quiesce;
        for n in 0..self.slots.len() {
            let Some(running) = self.slots[n].take() else { continue };
            let untouched = running.done_blocks == 0 && !running.flushing;
            self.running -= 1;
            self.done.extend(lost.take(running.op, engine.never_sent(Tag(n as u16)), untouched));
        }
    }

    /// The protocol has no way to learn more.
    fn settled_at(&self) -> Time {
        self.settled_at
    }

    #[inline]
    fn watch(&mut self, _: &mut NbdClient, on: &Handle, driver: DriverId) -> Result<(), String> {
        if self.running == 0 {
            return Ok(());
        }
        let Some(oldest) = self.watchdog.due(on, driver) else { return Ok(()) };
        if self.slots.iter().flatten().any(|running| running.started < oldest) {
            return Err(format!(
                "the server has not answered within {} s",
                self.patience.io_timeout.as_secs_f32()
            ));
        }
        Ok(())
    }

    fn change(&mut self) -> Option<DeviceChange> {
        None
    }

    fn violation(&self, engine: &NbdClient) -> Option<String> {
        engine.violation().map(|violation| violation.to_string())
    }

    fn give_back(&mut self, connection: StreamPump<NbdClient>) {
        self.idle.give(connection);
    }

    fn lost(&mut self, why: String) {
        self.idle.lost(why);
    }
}

impl Drop for Table {
    /// The loop ends.
    fn drop(&mut self) {
        self.slots.drain(..).flatten().for_each(|running| running.op.give_up());
    }
}

impl Handler<NbdClient> for Table {
    #[inline]
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        piece_mut(&mut self.op(tag)?.data, offset, len)
    }

    #[inline]
    fn pieces_mut<'a>(&'a mut self, tag: Tag, offset: u32, len: u32, into: &mut Pieces<'a>) {
        if let Some(op) = self.op(tag) {
            add_pieces(&mut op.data, offset, len, into);
        }
    }

    #[inline]
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        let running = self.slots.get(tag.index()).and_then(Option::as_ref);
        running
            .and_then(|running| piece(&running.op.data, offset, len))
            .expect("the engine sends what was submitted")
    }

    #[inline]
    fn event(&mut self, _: &Handle, engine: &mut NbdClient, event: ClientEvent) -> Flow {
        match event {
            ClientEvent::Response { tag, error } => self.response(engine, tag, error),
            ClientEvent::Hole { tag, offset, len } => self.fill_hole(tag, offset, len),
            ClientEvent::Extent { .. }
            | ClientEvent::StartTls
            | ClientEvent::Ready
            | ClientEvent::Refused => {}
        }
        Flow::Continue
    }

    #[inline]
    fn released(&mut self, on: &Handle, engine: &mut NbdClient, tag: Tag) {
        if let Some(event) = engine.sent(tag) {
            let _ = self.event(on, engine, event);
        }
    }
}
