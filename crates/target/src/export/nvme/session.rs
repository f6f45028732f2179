//! Purpose of a connection: its Connect, admin commands, or I/O.

use super::admin_session::AdminSession;
use super::authenticating::Exchange;
use super::authentication_session::AuthenticationSession;
use super::io_session::IoSession;
use super::new_session::NewSession;
use super::subsystems::ControllerId;
use super::transport::{Engine, Event};
use std::io::IoSliceMut;
use weft_connection::pump::{self, Flow, Pieces};
use weft_io::{Handle, Segments};
use weft_proto::nvme::auth::Computed;
use weft_proto::nvme::deviation::Deviations;
use weft_proto::stream::Tag;

/// What the connection is for.
pub(crate) enum NvmeSession {
    /// Before its Connect.
    New(NewSession),
    /// Before its host has proved who it is.
    Authenticating(Box<AuthenticationSession>),
    /// An admin queue.
    Admin(Box<AdminSession>),
    /// An I/O queue.
    Io(Box<IoSession>),
}

impl NvmeSession {
    /// The controller to which the connection belongs, once its host is admitted.
    pub(super) fn controller(&self) -> Option<ControllerId> {
        match self {
            Self::New(_) | Self::Authenticating(_) => None,
            Self::Admin(admin) => Some(admin.id),
            Self::Io(io) => Some(io.controller),
        }
    }
}

/// What a transport asks of a connection's commands.
impl NvmeSession {
    /// The memory of `tag` from `offset` on, to write to: at least one and at most `len` contiguous
    /// bytes. `None`: the bytes are not wanted.
    #[inline]
    pub(crate) fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        match self {
            Self::Io(io) => io.side.memory.piece_mut(tag, offset, len),
            Self::Admin(admin) => admin.memory_mut(tag, offset, len),
            Self::New(new) => new.memory_mut(offset, len),
            Self::Authenticating(it) => it.memory_mut(tag, offset, len),
        }
    }

    /// The same, piece by piece and in order, to be written to at once.
    #[inline]
    pub(crate) fn pieces_mut<'a>(
        &'a mut self,
        tag: Tag,
        offset: u32,
        len: u32,
        into: &mut Pieces<'a>,
    ) {
        match self {
            Self::Io(io) => io.side.memory.pieces_mut(tag, offset, len, into),
            Self::Admin(_) | Self::New(_) | Self::Authenticating(_) => {
                into.extend(self.memory_mut(tag, offset, len).map(IoSliceMut::new))
            }
        }
    }

    /// Returns whether the data of this command must be passed to [`NvmeSession::place`] in one
    /// piece.
    #[inline]
    pub(crate) fn wants_whole(&self, tag: Tag) -> bool {
        matches!(self, Self::Io(io) if io.side.wants_whole(tag))
    }

    /// Takes such data.
    #[inline]
    pub(crate) fn place(&mut self, tag: Tag, payload: &[u8]) {
        if let Self::Io(io) = self {
            io.place(tag, payload);
        }
    }

    /// The memory of `tag`, to read from.
    ///
    /// # Panics
    /// May panic where there is none: a transport sends what a command was answered with.
    #[inline]
    pub(crate) fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        let memory = match self {
            Self::Io(io) => io.side.memory.piece(tag, offset, len),
            Self::Admin(admin) => admin.memory(tag, offset, len),
            Self::Authenticating(it) => it.memory(tag, offset, len),
            Self::New(_) => None,
        };
        memory.expect("the engine sends what a command was completed with")
    }

    /// The result of a command, if all of it is in memory of its device. It comes back with
    /// [`NvmeSession::give_back`].
    #[inline]
    pub(crate) fn take_lent(&mut self, tag: Tag) -> Option<Segments> {
        match self {
            Self::Io(io) => io.side.memory.take_lent(tag),
            Self::Admin(_) | Self::New(_) | Self::Authenticating(_) => None,
        }
    }

    /// Takes the result of a command back.
    #[inline]
    pub(crate) fn give_back(&mut self, tag: Tag, memory: Segments) {
        if let Self::Io(io) = self {
            *io.side.memory.at(tag) = memory;
        }
    }

    /// Something happened to a command.
    #[inline]
    pub(crate) fn event(&mut self, on: &Handle, engine: &mut impl Engine, event: Event) -> Flow {
        match self {
            Self::Io(io) => io.event(on, engine, event),
            Self::Admin(admin) => admin.event(on, engine, event),
            Self::New(new) => new.event(engine, event),
            Self::Authenticating(it) => it.event(on, engine, event),
        }
    }

    /// What the authentication of the queue waits for.
    pub(crate) fn computed(
        &mut self,
        on: &Handle,
        engine: &mut impl Engine,
        computed: Option<Computed>,
    ) {
        match self {
            Self::Io(io) => io.computed(on, engine, computed),
            Self::Admin(admin) => admin.computed(on, engine, computed),
            Self::Authenticating(it) => it.computed(on, engine, computed),
            Self::New(_) => {}
        }
    }

    /// The transport does not touch the memory of an answered command any more.
    #[inline]
    pub(crate) fn released(&mut self, on: &Handle, engine: &mut impl Engine, tag: Tag) {
        match self {
            Self::Io(io) => io.released(on, engine, tag),
            Self::Admin(admin) => admin.released(on, engine, tag),
            Self::New(_) => engine.sent(tag),
            Self::Authenticating(it) => it.released(engine, tag),
        }
    }
}

/// One connection of a host, which hands its commands to a [`NvmeSession`].
pub(crate) trait NvmeLink: pump::Link<NvmeSession, Engine: Engine> + Send + 'static {
    /// The transport's name in URLs, for statistics.
    const PROTOCOL: &'static str;

    /// The implementation of TLS that encrypts the connection, if one does.
    fn encrypted_by(&self) -> Option<&'static str> {
        None
    }

    /// The progress of sending answers, in a count of the transport's own. It grows while there are
    /// answers, even if there is never a moment without one.
    fn sent(&self) -> u64;

    /// The violation of the transport's rules for which this end closed the connection, if it did.
    fn violation(&self) -> Option<String>;

    /// Violations of the transport's rules that were tolerated since the last call.
    fn take_deviations(&mut self) -> Deviations;
}
