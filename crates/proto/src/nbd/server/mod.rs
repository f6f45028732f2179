//! The server's end of a connection: negotiation, then requests and replies.
//!
//! The layer above answers [`ServerEvent::Select`] at once with [`NbdEngine::answer`], and each
//! [`ServerEvent::Request`] once with [`NbdEngine::complete`], in any order. Requests that violate
//! a rule never reach it.

mod negotiate;
mod options;
mod requests;
mod slot;
mod transmit;

pub use options::{ExportOffer, Listed};

use super::code::{ErrorCode, OptionCode, ReplyCode};
use super::export::ExportInfo;
use super::wire::put_option_reply;
use super::{Form, Violation};
use crate::capture::{End, Protocol, Role};
use crate::limits::{HANDSHAKE_S, NBD_NEGOTIATION_BYTES, NBD_REQUESTS_MAX};
use crate::slab::Slab;
use crate::stream::{Rx, StartLimit, StreamEngine, Tag, Transmit};
use core::time::Duration;
use options::Wanted;
use slot::{RequestSlot, RequestState};
use std::collections::VecDeque;
use std::sync::Arc;

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Exports for LIST. The first is also the default export, whose name is empty.
    pub exports: Arc<[Listed]>,
    /// True if clients have to start TLS before anything else. Without it TLS is not offered.
    pub tls: bool,
    /// Maximum requests in progress; see [`NBD_REQUESTS_MAX`].
    pub requests_max: u16,
    /// From the first tick until the client has chosen its export. Slower ones lose their
    /// connection.
    pub negotiation_limit: Duration,
}

impl ServerConfig {
    /// Exports without TLS.
    pub fn new(exports: Arc<[Listed]>) -> Self {
        Self {
            exports,
            tls: false,
            requests_max: NBD_REQUESTS_MAX,
            negotiation_limit: Duration::from_secs(HANDSHAKE_S),
        }
    }
}

/// A command of a client. Offset and length are bytes, inside of the export, multiples of its
/// smallest block, not 0 except for a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerCommand {
    /// Its kind.
    pub kind: CommandKind,
    /// First byte.
    pub offset: u64,
    /// Bytes; of a read or write at most the payload limit of the export.
    pub length: u64,
}

/// See [`ServerCommand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Read; completed with all of the data in the memory of the tag.
    Read,
    /// Write; execute it when [`ServerEvent::DataArrived`] reports that the data is in the memory
    /// of the tag.
    Write {
        /// Durable before it is completed.
        fua: bool,
    },
    /// Make durable what was written.
    Flush,
    /// The bytes are not needed.
    Trim {
        /// Durable before it is completed.
        fua: bool,
    },
    /// The bytes read as zeroes from now on.
    WriteZeroes {
        /// Their space may be freed.
        may_free: bool,
        /// Durable before it is completed.
        fua: bool,
    },
}

impl CommandKind {
    /// Its name (NBD protocol, "Request types").
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Write { .. } => "Write",
            Self::Flush => "Flush",
            Self::Trim { .. } => "Trim",
            Self::WriteZeroes { .. } => "Write Zeroes",
        }
    }
}

/// Events for the layer above a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// The client starts TLS. Once everything is sent, replace the stream, then call
    /// [`NbdEngine::secured`]; nothing may be received until then.
    StartTls,
    /// The client wants an export: [`NbdEngine::wanted`] names it, [`NbdEngine::answer`] has to be
    /// called at once.
    Select,
    /// Do this.
    Request {
        /// Names the request until it is completed and, where it has data, sent.
        tag: Tag,
        /// The command.
        command: ServerCommand,
    },
    /// The data of a write is there.
    DataArrived {
        /// The write.
        tag: Tag,
    },
    /// Nothing more is taken until something is completed or sent: see [`NbdEngine::is_full`].
    Full,
    /// The client disconnects: end the requests in progress, then close the connection.
    Disconnect,
}

/// Stage of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The client flags are to come.
    Flags,
    /// An option is to come.
    Option,
    /// This many bytes of an option's data are expected.
    OptionData {
        option: OptionCode,
        left: u32,
    },
    /// The layer above has to answer.
    Answer,
    /// TLS has to be set up.
    Tls,
    /// Requests are to come.
    Requests,
    /// The payload of a write must be announced.
    Payload(Tag),
    /// The client took its leave.
    Leaving,
    Closed,
}

/// The action after payload was moved or discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Nothing,
    /// Tell the layer above.
    Arrived(Tag),
    /// Send the reply with the error that the request has earned.
    Refused(Tag),
    /// Tell the client that its option was too big.
    TooBig(OptionCode),
}

/// The server's end of a connection.
pub struct NbdEngine {
    config: ServerConfig,
    phase: Phase,
    form: Form,
    /// TLS is in use.
    secure: bool,
    /// The client wanted something without it.
    bare: bool,
    no_zeroes: bool,
    /// Data of the current option.
    option_data: Vec<u8>,
    /// Output of the negotiation, and how much of it is sent.
    said: Vec<u8>,
    said_from: usize,
    wanted: Wanted,
    /// The export for which the client selected base:allocation.
    context: Option<String>,
    /// Block status may be asked for.
    block_status: bool,
    export: ExportInfo,
    slots: Slab<RequestSlot>,
    /// Requests with a reply to be sent.
    ready: VecDeque<Tag>,
    after: After,
    violation: Option<Violation>,
    /// For the negotiation.
    start: StartLimit,
}

/// Result of one step of parsing.
enum Step {
    /// This many bytes were used up; there may be more to parse.
    Used(usize),
    /// This many bytes were used up, and this is next.
    Next(usize, Rx<ServerEvent>),
}

impl NbdEngine {
    /// A connection whose first transmit is the greeting.
    pub fn new(config: ServerConfig) -> Self {
        let requests_max = config.requests_max.clamp(1, NBD_REQUESTS_MAX);
        let mut server = Self {
            start: StartLimit::new(config.negotiation_limit),
            config,
            phase: Phase::Flags,
            form: Form::Simple,
            secure: false,
            bare: false,
            no_zeroes: false,
            option_data: Vec::new(),
            said: Vec::new(),
            said_from: 0,
            wanted: Wanted::default(),
            context: None,
            block_status: false,
            export: ExportInfo {
                size_bytes: 0,
                flags: Default::default(),
                sizes: super::BlockSizes::DEFAULT,
            },
            slots: Slab::new(requests_max),
            ready: VecDeque::new(),
            after: After::Nothing,
            violation: None,
        };
        server.greet();
        server
    }

    /// Returns whether the client has chosen an export and sends requests.
    pub fn is_transmitting(&self) -> bool {
        matches!(self.phase, Phase::Requests | Phase::Payload(_) | Phase::Leaving)
    }

    #[inline]
    fn is_negotiating(&self) -> bool {
        !self.is_transmitting() && self.phase != Phase::Closed
    }

    /// Requests that are not completed, or whose reply is not sent.
    pub fn outstanding(&self) -> usize {
        self.slots.in_use()
    }

    /// Returns whether nothing more is taken: every slot is in use, or the client does not take its
    /// answers.
    #[inline]
    pub fn is_full(&self) -> bool {
        if self.is_transmitting() {
            self.slots.is_full()
        } else {
            self.said.len() >= NBD_NEGOTIATION_BYTES
        }
    }

    /// A request has been done, or not. A read that succeeded is answered with the memory of the
    /// tag, which is free once the pump has told [`NbdEngine::sent`]; every other request is over
    /// with this.
    #[inline]
    pub fn complete(&mut self, tag: Tag, error: ErrorCode) {
        let Some(slot) = self.slots.at(tag).filter(|slot| slot.state == RequestState::Busy) else {
            return;
        };
        slot.error = error;
        slot.state = RequestState::Ready;
        self.ready.push_back(tag);
    }

    /// The client's name of a request that is in progress; 0 if there is none with this tag.
    pub fn cookie(&mut self, tag: Tag) -> u64 {
        self.slots.at(tag).map_or(0, |slot| slot.cookie)
    }

    /// The pump has sent everything before a [`Part::Release`](crate::stream::Part::Release) of
    /// `tag`.
    #[inline]
    pub fn sent(&mut self, tag: Tag) {
        if self.slots.at(tag).is_some_and(|slot| slot.state == RequestState::Sending) {
            self.slots.give_back(tag);
        }
    }

    /// Why this end closed the connection, if it did.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// Returns whether the client got the answer that it must start TLS first, and has not done so
    /// since.
    pub fn misses_tls(&self) -> bool {
        self.bare && !self.secure
    }

    fn reply(&mut self, option: OptionCode, reply: ReplyCode, data: &[&[u8]]) {
        put_option_reply(&mut self.said, option.0, reply.0, data);
    }

    fn violate(&mut self, violation: Violation) -> Step {
        self.violation = Some(violation);
        self.phase = Phase::Closed;
        Step::Next(0, Rx::Closed)
    }

    #[inline]
    fn step(&mut self, bytes: &[u8]) -> Step {
        match self.phase {
            Phase::Requests => self.request(bytes),
            Phase::Payload(tag) => self.payload(tag),
            Phase::Flags => self.client_flags(bytes),
            Phase::Option => self.option(bytes),
            Phase::OptionData { option, left } => self.option_data(bytes, option, left),
            Phase::Answer => Step::Next(0, Rx::Event(ServerEvent::Select)),
            Phase::Tls if bytes.is_empty() => Step::Next(0, Rx::More { need: 1 }),
            Phase::Tls => self.violate(Violation::PlainTextBeforeTls),
            Phase::Leaving => Step::Next(0, Rx::Event(ServerEvent::Disconnect)),
            Phase::Closed => Step::Next(0, Rx::Closed),
        }
    }
}

impl StreamEngine for NbdEngine {
    type Event = ServerEvent;

    const ROLE: Option<Role> = Some(Role { protocol: Protocol::Nbd, end: End::Target });

    #[inline]
    fn receive(&mut self, bytes: &[u8]) -> (usize, Rx<ServerEvent>) {
        let mut used = 0;
        loop {
            match self.step(&bytes[used..]) {
                Step::Used(n) => used += n,
                Step::Next(n, next) => return (used + n, next),
            }
        }
    }

    fn payload_checked(&mut self, _: bool) -> Option<ServerEvent> {
        None
    }

    #[inline]
    fn payload_received(&mut self) -> Option<ServerEvent> {
        match core::mem::replace(&mut self.after, After::Nothing) {
            After::Nothing => {}
            After::Arrived(tag) => {
                if let Some(slot) = self.slots.at(tag) {
                    slot.state = RequestState::Busy;
                }
                return Some(ServerEvent::DataArrived { tag });
            }
            After::Refused(tag) => self.ready.push_back(tag),
            After::TooBig(option) => self.reply(option, ReplyCode::ERR_TOO_BIG, &[]),
        }
        None
    }

    #[inline]
    fn transmit(&mut self, out: &mut Transmit) {
        self.transmit_all(out);
    }

    #[inline]
    fn wants_transmit(&self) -> bool {
        !self.said.is_empty() || !self.ready.is_empty()
    }

    #[inline]
    fn tick(&mut self, now: Duration) {
        if self.is_negotiating() && self.start.has_passed(now) {
            self.violation = Some(Violation::NegotiationLate(self.start.limit()));
            self.phase = Phase::Closed;
            self.said.clear();
        }
    }

    #[inline]
    fn deadline(&self) -> Option<Duration> {
        self.is_negotiating().then(|| self.start.deadline())
    }

    fn behind_payload(&self) -> Option<usize> {
        matches!(self.phase, Phase::Requests).then_some(0)
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }
}
