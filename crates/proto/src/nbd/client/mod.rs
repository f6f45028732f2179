//! The client's end of a connection: negotiation, then requests and replies.
//!
//! The client requests TLS if configured, the best form of headers that the server supports, its
//! metadata context base:allocation, and the export. Then [`NbdClient::submit`] submits requests;
//! each ends with one [`ClientEvent::Response`], after which [`NbdClient::release`] frees its tag.

mod command;
mod negotiate;
mod negotiation_stage;
mod replies;
mod rest;
mod slot;

use super::code::{CommandCode, CommandFlags, TransmissionFlags};
use super::export::{BlockSizes, ExportInfo};
use super::message::{Header, Request};
use super::wire::transmit_bytes;
use super::{Form, Violation};
use crate::capture::{End, Protocol, Role};
use crate::limits::{NBD_EXTENTS_MAX, NBD_REQUESTS_MAX};
use crate::nbd::code::{ChunkType, ExtentFlags};
use crate::nbd::wire::Reader;
use crate::slab::Slab;
use crate::stream::{Rx, StreamEngine, Tag, Transmit};
pub use command::{ClientCommand, ClientEvent, SubmitError};
use core::time::Duration;
use negotiation_stage::NegotiationStage;
pub use negotiation_stage::OptionRefusal;
use rest::Rest;
use slot::{RequestSlot, RequestState};
use std::collections::VecDeque;

/// Configuration of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The export; empty for the default one.
    pub export: String,
    /// True if TLS has to be used.
    pub tls: bool,
    /// The best form of headers to ask for.
    pub form: Form,
    /// Maximum outstanding requests; see [`NBD_REQUESTS_MAX`].
    pub requests_max: u16,
}

impl ClientConfig {
    /// An export without TLS.
    pub fn new(export: impl Into<String>) -> Self {
        Self {
            export: export.into(),
            tls: false,
            form: Form::Extended,
            requests_max: NBD_REQUESTS_MAX,
        }
    }
}

/// Where the connection is, once it is negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Negotiation(NegotiationStage),
    Transmission,
    /// DISC was sent.
    Leaving,
    Closed,
}

/// The action after payload was moved or discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Nothing,
    /// A chunk of this request is over, and perhaps the reply.
    Chunk {
        tag: Tag,
        last: bool,
    },
}

/// The client's end of a connection.
pub struct NbdClient {
    config: ClientConfig,
    phase: Phase,
    form: Form,
    /// Data of the current reply.
    reply_data: Vec<u8>,
    /// Output of the negotiation, and how much of it is sent.
    said: Vec<u8>,
    said_from: usize,
    no_zeroes: bool,
    export: ExportInfo,
    refusal: Option<OptionRefusal>,
    strange_sizes: Option<BlockSizes>,
    slots: Slab<RequestSlot>,
    /// Submitted and in no gather list yet.
    queue: VecDeque<Tag>,
    after: After,
    rest: Rest,
    /// The server's number of base:allocation, if it has that.
    allocation: Option<u32>,
    violation: Option<Violation>,
}

/// Result of one step of parsing.
enum Step {
    /// This many bytes were used up; there may be more to parse.
    Used(usize),
    /// This many bytes were used up, and this is next.
    Next(usize, Rx<ClientEvent>),
}

impl NbdClient {
    /// A connection that waits for the server's greeting.
    pub fn new(config: ClientConfig) -> Self {
        let requests = config.requests_max.clamp(1, NBD_REQUESTS_MAX);
        Self {
            config,
            phase: Phase::Negotiation(NegotiationStage::Greeting),
            form: Form::Simple,
            reply_data: Vec::new(),
            said: Vec::new(),
            said_from: 0,
            no_zeroes: false,
            export: ExportInfo {
                size_bytes: 0,
                flags: TransmissionFlags::default(),
                sizes: BlockSizes::DEFAULT,
            },
            refusal: None,
            strange_sizes: None,
            slots: Slab::new(requests),
            queue: VecDeque::with_capacity(requests.into()),
            after: After::Nothing,
            rest: Rest::Nothing,
            allocation: None,
            violation: None,
        }
    }

    /// Returns the export's properties, after [`ClientEvent::Ready`].
    pub fn export(&self) -> &ExportInfo {
        &self.export
    }

    /// Block sizes that the server stated against the rules, and that are not counted.
    pub fn strange_sizes(&self) -> Option<BlockSizes> {
        self.strange_sizes
    }

    /// The form of headers that was agreed on.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Returns whether the server answers block status, with which ranges are zeroes.
    pub fn tells_extents(&self) -> bool {
        self.allocation.is_some()
    }

    /// Longest range of a trim, write zeroes or block status, bytes.
    pub fn effect_bytes_max(&self) -> u64 {
        if self.form == Form::Extended { u64::MAX } else { u32::MAX.into() }
    }

    /// Why the server refused, after [`ClientEvent::Refused`].
    pub fn refusal(&self) -> Option<&OptionRefusal> {
        self.refusal.as_ref()
    }

    /// Why this end closed the connection, if it did.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// Requests that were submitted and not released.
    pub fn outstanding(&self) -> usize {
        self.slots.in_use()
    }

    /// Submits a command. Requests are sent in the order in which they were submitted; data is sent
    /// from the memory of the tag, or received into it.
    #[inline]
    pub fn submit(&mut self, command: ClientCommand) -> Result<Tag, SubmitError> {
        if self.phase != Phase::Transmission {
            return Err(SubmitError::Closed);
        }
        let (tag, slot) = self.slots.take().ok_or(SubmitError::Full)?;
        slot.command = command;
        self.queue.push_back(tag);
        Ok(tag)
    }

    /// Returns whether no byte of a request can have reached the server, as it was never part of a
    /// gather list.
    pub fn never_sent(&self, tag: Tag) -> bool {
        self.slots.peek(tag).is_some_and(|slot| slot.state == RequestState::Submitted)
    }

    /// The pump has sent everything before a [`Part::Release`](crate::stream::Part::Release) of
    /// `tag`. Gives the response that waited for this, if any.
    #[inline]
    pub fn sent(&mut self, tag: Tag) -> Option<ClientEvent> {
        let slot = self.slots.at(tag)?;
        slot.unsent = false;
        (slot.state == RequestState::Answered).then(|| slot.answer(tag))
    }

    /// The layer above has handled the response of `tag`: its memory is free, and the tag may name
    /// another request.
    #[inline]
    pub fn release(&mut self, tag: Tag) {
        if self.slots.at(tag).is_some_and(|slot| slot.state == RequestState::Done) {
            self.slots.give_back(tag);
        }
    }

    /// Takes leave: DISC is sent behind what was submitted, and nothing may be submitted after
    /// that. Close the stream once everything is sent.
    pub fn disconnect(&mut self) {
        if self.phase == Phase::Transmission {
            self.phase = Phase::Leaving;
        }
    }

    fn violate(&mut self, violation: Violation) -> Step {
        self.violation = Some(violation);
        self.phase = Phase::Closed;
        Step::Next(0, Rx::Closed)
    }

    #[inline]
    fn transmit_requests(&mut self, out: &mut Transmit) {
        while !out.is_full() {
            let Some(tag) = self.queue.pop_front() else { break };
            let Some(slot) = self.slots.at(tag) else { continue };
            slot.state = RequestState::Active;
            put_request(self.form, slot, tag, out);
        }
        if self.phase == Phase::Leaving && self.queue.is_empty() && !out.is_full() {
            let (flags, command) = (CommandFlags::default(), CommandCode::DISC);
            let mut header = Header::default();
            Request { flags, command, cookie: 0, offset: 0, length: 0 }.put(self.form, &mut header);
            out.header(header.as_bytes());
            self.phase = Phase::Closed;
        }
    }
}

#[inline]
fn put_request(form: Form, slot: &mut RequestSlot, tag: Tag, out: &mut Transmit) {
    let ClientCommand { code, flags, offset, length } = slot.command;
    let write = code == CommandCode::WRITE;
    let flags = flags.with_if(CommandFlags::PAYLOAD_LEN, write && form == Form::Extended);
    let mut header = Header::default();
    Request { flags, command: code, cookie: slot.cookie, offset, length }.put(form, &mut header);
    out.header(header.as_bytes());
    if write {
        out.payload(tag, 0, length as u32, false);
        out.release(tag);
        slot.unsent = true;
    }
}

impl StreamEngine for NbdClient {
    type Event = ClientEvent;

    const ROLE: Option<Role> = Some(Role { protocol: Protocol::Nbd, end: End::Host });

    #[inline]
    fn receive(&mut self, bytes: &[u8]) -> (usize, Rx<ClientEvent>) {
        let mut used = 0;
        loop {
            let step = match self.phase {
                Phase::Transmission | Phase::Leaving => self.reply(&bytes[used..]),
                Phase::Negotiation(stage) => self.negotiate(stage, &bytes[used..]),
                Phase::Closed => Step::Next(0, Rx::Closed),
            };
            match step {
                Step::Used(n) => used += n,
                Step::Next(n, next) => return (used + n, next),
            }
        }
    }

    fn payload_checked(&mut self, _: bool) -> Option<ClientEvent> {
        None
    }

    #[inline]
    fn payload_received(&mut self) -> Option<ClientEvent> {
        match core::mem::replace(&mut self.after, After::Nothing) {
            After::Chunk { tag, last: true } => self.reply_ended(tag),
            After::Chunk { .. } | After::Nothing => None,
        }
    }

    #[inline]
    fn transmit(&mut self, out: &mut Transmit) {
        if !self.said.is_empty() {
            transmit_bytes(&mut self.said, &mut self.said_from, out);
        }
        if self.said.is_empty() {
            self.transmit_requests(out);
        }
    }

    #[inline]
    fn wants_transmit(&self) -> bool {
        !self.said.is_empty() || !self.queue.is_empty() || self.phase == Phase::Leaving
    }

    /// The protocol defines no time limits for a client: the caller limits the time.
    fn tick(&mut self, _: Duration) {}

    fn deadline(&self) -> Option<Duration> {
        None
    }

    fn behind_payload(&self) -> Option<usize> {
        matches!(self.phase, Phase::Transmission).then_some(0)
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }
}

// Block status: extents that a server reports, checked against the request one at a time.

impl NbdClient {
    fn rest(&mut self, bytes: &[u8]) -> Step {
        match self.rest {
            Rest::Nothing => Step::Used(0),
            Rest::End(tag) => {
                self.rest = Rest::Nothing;
                self.end_reply(0, tag)
            }
            Rest::Extents { tag, last, left } => self.extent(bytes, tag, last, left),
        }
    }

    /// The front of a chunk: whose context it is, and how many extents follow.
    fn block_status(
        &mut self,
        rest: &[u8],
        used: usize,
        last: bool,
        kind: ChunkType,
        tag: Tag,
        length: u64,
    ) -> Step {
        let is_wide = self.form == Form::Extended;
        if is_wide != (kind == ChunkType::BLOCK_STATUS_EXT) {
            return self.violate(Violation::Chunk(kind));
        }
        let (front, each) = if is_wide { (8, 16) } else { (4, 8) };
        let mut reader = Reader(rest);
        let (context, count) = (reader.u32(), if is_wide { reader.u32() } else { Some(0) });
        let (Some(context), Some(count)) = (context, count) else {
            return Step::Next(0, Rx::More { need: used + front });
        };
        let left = length.saturating_sub(front as u64) / each;
        let fits = (1..=NBD_EXTENTS_MAX).contains(&left) && length == front as u64 + left * each;
        let is_first = self.slots.at(tag).is_some_and(|slot| slot.told == 0);
        let is_ours = self.allocation == Some(context) && (!is_wide || u64::from(count) == left);
        if !fits || !is_first || !is_ours {
            return self.violate(Violation::Extents);
        }
        self.rest = Rest::Extents { tag, last, left };
        Step::Used(used + front)
    }

    fn extent(&mut self, bytes: &[u8], tag: Tag, last: bool, left: u64) -> Step {
        let is_wide = self.form == Form::Extended;
        let mut reader = Reader(bytes);
        let mut number = || if is_wide { reader.u64() } else { reader.u32().map(u64::from) };
        let (Some(length), Some(flags)) = (number(), number()) else {
            return Step::Next(0, Rx::More { need: if is_wide { 16 } else { 8 } });
        };
        let used = bytes.len() - reader.0.len();
        let Some(slot) = self.slots.at(tag) else { return self.violate(Violation::Cookie) };
        // The last one may say more than was asked for.
        let asked = slot.command.length - slot.told;
        if length == 0 || asked == 0 {
            return self.violate(Violation::Extents);
        }
        let length = length.min(asked);
        slot.told += length;
        self.rest = match left {
            1 => Rest::after(tag, last),
            _ => Rest::Extents { tag, last, left: left - 1 },
        };
        let zero = ExtentFlags(flags).has(ExtentFlags::ZERO);
        Step::Next(used, Rx::Event(ClientEvent::Extent { tag, length, zero }))
    }
}
