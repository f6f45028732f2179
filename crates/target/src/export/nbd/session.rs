//! Requests of a connection that has chosen its export become operations of the device, completions
//! become replies.
//!
//! Memory is taken when a request needs it and there is some; a request that finds none waits
//! ("starved"). A write that waits stops receiving on its connection. The other requests of the
//! connection end in the meantime and give their memory back.

use super::partial_block::Next;
use super::request::{Request, part_of, user};
use crate::export::budget::Budget;
use crate::export::device_side::DeviceSide;
use crate::export::devices::OpenDevices;
use crate::export::dialect::Dialect;
use crate::inventory::Namespace;
use smallvec::SmallVec;
use std::sync::Arc;
use weft_block::limit::Rate;
use weft_block::{Completion, Error, Op, OpKind, Outcome};
use weft_connection::memory::{add_pieces, piece, piece_mut};
use weft_connection::pump::{Flow, Pieces};
use weft_connection::statistics::{CommandName, Meter, OperationKind};
use weft_connection::status::nbd::to_nbd;
use weft_io::limits::BUF_BYTES_MAX;
use weft_io::{DriverId, Handle, Segment};
use weft_proto::nbd::NbdEngine;
use weft_proto::nbd::code::ErrorCode;
use weft_proto::nbd::server::{CommandKind, ServerCommand};
use weft_proto::reservation::{Effect, Reservations};
use weft_proto::stream::Tag;

/// The one device of a connection.
pub(super) const DEVICE: usize = 0;

/// The transmission phase of one connection: its requests, their memory and their operations.
pub(super) struct Session {
    pub(super) side: DeviceSide<Tag>,
    /// A client registers nowhere, so it is kept out by every reservation.
    reservations: Option<Arc<Reservations>>,
    pub(super) block_bytes: u32,
    /// Bytes of one operation, at most: a multiple of the block size.
    pub(super) part_bytes: u32,
    /// By tag; grows up to the maximum in progress at a time.
    pub(super) requests: Vec<Request>,
    /// Requests that were answered with an error, as the end is near.
    refused: usize,
}

impl Session {
    /// Opens a queue of the namespace's device on this loop, for a client at `peer` that may use so
    /// much.
    pub(super) fn open(
        namespace: &Namespace,
        rate: Option<Arc<Rate>>,
        on: &Handle,
        owner: DriverId,
        peer: &str,
        meter: Meter,
    ) -> Result<Self, Error> {
        let device = &namespace.device;
        let geometry = device.geometry();
        let most = geometry.max_transfer_bytes.min(BUF_BYTES_MAX as u32);
        Ok(Self {
            side: DeviceSide::new(
                OpenDevices::open(&[Some(Arc::clone(device))], rate, on, owner)?,
                0,
                Budget::new(on, peer),
                meter,
            ),
            reservations: namespace.reservations.as_ref().map(|of| Arc::clone(of.shared())),
            block_bytes: geometry.block_bytes,
            part_bytes: (most - most % geometry.block_bytes).max(geometry.block_bytes),
            requests: Vec::new(),
            refused: 0,
        })
    }

    #[inline]
    pub(super) fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        let request = self.requests.get_mut(tag.index())?;
        let (part, at) = request.place(offset, self.part_bytes);
        piece_mut(request.parts.get_mut(part)?, at, len)
    }

    #[inline]
    pub(super) fn pieces_mut<'a>(
        &'a mut self,
        tag: Tag,
        offset: u32,
        len: u32,
        into: &mut Pieces<'a>,
    ) {
        let Some(request) = self.requests.get_mut(tag.index()) else { return };
        let (part, at) = request.place(offset, self.part_bytes);
        if let Some(memory) = request.parts.get_mut(part) {
            add_pieces(memory, at, len, into);
        }
    }

    #[inline]
    pub(super) fn memory(&self, tag: Tag, offset: u32, len: u32) -> Option<&[u8]> {
        let request = self.requests.get(tag.index())?;
        let (part, at) = request.place(offset, self.part_bytes);
        piece(request.parts.get(part)?, at, len)
    }

    /// Answers a request.
    #[inline]
    pub(super) fn answer(&mut self, engine: &mut NbdEngine, tag: Tag, error: ErrorCode) {
        self.side.meter.end(tag, error != ErrorCode::SUCCESS);
        engine.complete(tag, error);
    }

    /// A request has come.
    #[inline]
    pub(super) fn request(
        &mut self,
        on: &Handle,
        engine: &mut NbdEngine,
        tag: Tag,
        command: ServerCommand,
    ) -> Flow {
        if self.requests.len() <= tag.index() {
            self.requests.resize_with(tag.index() + 1, Request::default);
        }
        self.requests[tag.index()].begin(command, self.block_bytes);
        self.side.meter.turn(on.now());
        let kind = match command.kind {
            CommandKind::Read => OperationKind::Read,
            CommandKind::Write { .. } => OperationKind::Write,
            _ => OperationKind::Other,
        };
        self.side.meter.start(tag, kind);
        self.side.meter.called(tag, || CommandName::Nbd(command.kind.word(), engine.cookie(tag)));
        self.side.meter.of(tag, kind, DEVICE, command.length);
        let write = matches!(command.kind, CommandKind::Write { .. });
        if self.side.is_draining() {
            self.refused += 1;
            // The payload of a write is thrown away, as it has no memory; then it is answered.
            if !write {
                self.answer(engine, tag, ErrorCode::ESHUTDOWN);
            }
            return Flow::Continue;
        }
        if self.is_kept_out(command.kind) {
            self.requests[tag.index()].error = Some(ErrorCode::EPERM);
            if !write {
                self.answer(engine, tag, ErrorCode::EPERM);
            }
            return Flow::Continue;
        }
        match command.kind {
            CommandKind::Read | CommandKind::Write { .. } => self.provide(on, engine, tag),
            CommandKind::Flush => {
                self.requests[tag.index()].flush = true;
                self.go_on(engine, tag);
                Flow::Continue
            }
            CommandKind::WriteZeroes { .. }
                if !self.requests[tag.index()].partial_blocks.is_empty() =>
            {
                self.provide(on, engine, tag)
            }
            CommandKind::Trim { .. } | CommandKind::WriteZeroes { .. } => {
                self.go_on(engine, tag);
                Flow::Continue
            }
        }
    }

    /// Whether a reservation forbids a request.
    #[inline]
    pub(super) fn is_kept_out(&self, kind: CommandKind) -> bool {
        let effect = if kind == CommandKind::Read { Effect::Reads } else { Effect::Writes };
        self.reservations
            .as_ref()
            .is_some_and(|reservations| !reservations.allows_strangers(effect))
    }

    /// Has the device do all parts of a request, but for those of a read that are there already.
    #[inline]
    pub(super) fn submit_parts(&mut self, engine: &mut NbdEngine, tag: Tag) {
        self.side.meter.submitted(
            tag,
            DEVICE,
            self.requests[tag.index()].touched(self.block_bytes),
        );
        let request = &mut self.requests[tag.index()];
        let kind = request.op_kind();
        let whole = usize::from(request.has_head());
        let parts = request.bytes.div_ceil(self.part_bytes) as usize;
        for (n, memory) in request.parts.iter_mut().skip(whole).take(parts).enumerate() {
            if matches!(memory.first(), Some(Segment::Lent(_))) {
                continue;
            }
            let at = n as u32 * self.part_bytes;
            let blocks = self.part_bytes.min(request.bytes - at) / self.block_bytes;
            let (lba, data) =
                (request.first + u64::from(at / self.block_bytes), core::mem::take(memory));
            self.side.push(DEVICE, Op::new(kind, lba, blocks, user(tag, whole + n), data));
            request.pending += 1;
        }
        for partial_block in &mut request.partial_blocks {
            let name = user(tag, partial_block.part);
            self.side.push(DEVICE, partial_block.read(name));
            request.pending += 1;
        }
        if request.pending == 0 {
            self.answer(engine, tag, ErrorCode::SUCCESS);
        }
    }

    /// The data of a write is there.
    #[inline]
    pub(super) fn data_arrived(&mut self, on: &Handle, engine: &mut NbdEngine, tag: Tag) {
        self.side.meter.turn(on.now());
        let request = &self.requests[tag.index()];
        let error = match self.side.placed(tag) {
            Some(Some(outcome)) => error_of(request.op_kind(), &outcome),
            Some(None) => ErrorCode::EPERM,
            None if request.parts.is_empty() => request.error.unwrap_or(ErrorCode::ESHUTDOWN),
            None if self.is_kept_out(CommandKind::Write { fua: false }) => {
                self.free(tag);
                ErrorCode::EPERM
            }
            None => return self.submit_parts(engine, tag),
        };
        self.answer(engine, tag, error);
    }

    /// Has the device do the next operation of a request without data, or answers the request.
    fn go_on(&mut self, engine: &mut NbdEngine, tag: Tag) {
        let request = &mut self.requests[tag.index()];
        if let Some(op) = request.next_bare(tag) {
            request.pending = 1;
            self.side.meter.submitted(tag, DEVICE, request.touched(self.block_bytes));
            return self.side.push(DEVICE, op);
        }
        let error = request.error.unwrap_or(ErrorCode::SUCCESS);
        self.free(tag);
        self.answer(engine, tag, error);
    }

    pub(super) fn free(&mut self, tag: Tag) {
        let request = &mut self.requests[tag.index()];
        request.parts.drain(..).for_each(|part| self.side.memory.give(part));
        request
            .partial_blocks
            .iter_mut()
            .for_each(|partial_block| partial_block.free(&mut self.side.memory));
    }

    /// The client has the memory's content.
    #[inline]
    pub(super) fn released(&mut self, on: &Handle, engine: &mut NbdEngine, tag: Tag) {
        self.side.meter.sent(on, tag);
        self.free(tag);
        engine.sent(tag);
    }

    /// The device is done with something for a block that is written in part.
    #[cold]
    fn partial_block_completed(
        &mut self,
        engine: &mut NbdEngine,
        tag: Tag,
        at: usize,
        completion: &mut Completion,
    ) {
        let request = &mut self.requests[tag.index()];
        let (kind, fua) = (request.op_kind(), request.fua());
        let partial_block = &mut request.partial_blocks[at];
        if self.side.is_stopping() {
            partial_block.take_back(&mut completion.op);
        } else {
            let ours = request
                .parts
                .get(partial_block.part)
                .and_then(|part| part.first())
                .map(|block| &block[..]);
            match partial_block.next(completion, ours, fua) {
                Next::Submit(op) => return self.side.push(DEVICE, op),
                Next::Done(outcome) if outcome.is_success() => {}
                Next::Done(outcome) => _ = request.error.get_or_insert(to_nbd(kind, &outcome)),
            }
        }
        request.pending -= 1;
        self.settled(engine, tag);
    }

    /// An operation of a request is over: so is the request when it was the last.
    #[inline]
    fn settled(&mut self, engine: &mut NbdEngine, tag: Tag) {
        let request = &self.requests[tag.index()];
        if request.pending > 0 {
            return;
        }
        if self.side.is_stopping() {
            return self.free(tag);
        }
        if !request.has_payload() {
            return self.go_on(engine, tag);
        }
        let error = request.error.unwrap_or(ErrorCode::SUCCESS);
        if request.is_write() || error != ErrorCode::SUCCESS {
            self.free(tag);
        }
        self.answer(engine, tag, error);
    }

    /// Whether a write waits, whose data stops the connection.
    pub(super) fn is_stuck(&self) -> bool {
        self.side.waiting().iter().any(|tag| self.requests[tag.index()].is_write())
    }

    /// Requests that were refused because the end is near.
    #[inline]
    pub(super) fn refused(&self) -> usize {
        self.refused
    }

    /// Takes no more requests; asks the device to end what it has.
    pub(super) fn stop(&mut self) {
        if !self.side.stop() {
            return;
        }
        self.side.drop_waiting();
        let under_way: SmallVec<[u64; 16]> = (0..)
            .map(Tag)
            .zip(&self.requests)
            .filter(|(_, request)| request.pending > 0)
            .flat_map(|(tag, request)| request.users(tag))
            .collect();
        under_way.iter().for_each(|user| self.side.cancel(*user));
    }
}

#[inline]
fn error_of(kind: OpKind, outcome: &Outcome) -> ErrorCode {
    if outcome.is_success() { ErrorCode::SUCCESS } else { to_nbd(kind, outcome) }
}

impl Dialect<NbdEngine> for Session {
    type Waiting = Tag;

    #[inline]
    fn side(&mut self) -> &mut DeviceSide<Tag> {
        &mut self.side
    }

    #[inline]
    fn completed(
        &mut self,
        _: &Handle,
        engine: &mut NbdEngine,
        tag: Tag,
        completion: &mut Completion,
        _: bool,
    ) {
        let (part, kind) = (part_of(completion.op.user), completion.op.kind);
        let request = &mut self.requests[tag.index()];
        if !request.partial_blocks.is_empty()
            && kind.data_factor() > 0
            && let Some(at) =
                request.partial_blocks.iter().position(|partial_block| partial_block.part == part)
        {
            return self.partial_block_completed(engine, tag, at, completion);
        }
        let error = error_of(kind, &completion.outcome);
        request.came_back(part, completion, error);
        self.settled(engine, tag);
    }

    fn retry(&mut self, on: &Handle, engine: &mut NbdEngine, tag: Tag) {
        let _ = self.provide(on, engine, tag);
    }
}
