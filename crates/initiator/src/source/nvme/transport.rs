//! Interface of a transport to a host: connections to controllers, whatever carries the capsules.
//!
//! A command's data is in the memory that the host keeps under the command's [`Tag`], from
//! [`CommandEngine::submit`] to [`CommandEvent::Response`] or [`CommandEvent::DataFailed`]: until
//! then the transport, or the controller through it, may read or write it at any time. A transport
//! that names the memory in the command (by key and address, say) does so in `submit`. The
//! transport keeps what cannot be sent now.

use crate::source::ConnectOptions;
pub use crate::source::opening::TimeLimit;
use weft_block::Error;
use weft_io::{Activity, DriverId, Handle};
use weft_proto::nvme::auth::GeneratedPsk;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::{HostData, SubmitError};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Cid;
use weft_proto::stream::Tag;

/// An event of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEvent {
    /// A command is answered, and its memory not touched any more. So many bytes of data have come.
    Response { tag: Tag, cqe: Cqe, received_bytes: u32 },
    /// The same, but the data that came is damaged.
    DataFailed { tag: Tag, cqe: Cqe },
}

/// The commands of one connection.
pub trait CommandEngine {
    /// Submits a command; its identifier and data pointer are filled in. Commands are sent in the
    /// order in which they were submitted.
    fn submit(&mut self, sqe: Sqe, data: HostData) -> Result<Tag, SubmitError>;

    /// The host has done with a command that was answered: the tag may name another one.
    fn release(&mut self, tag: Tag);

    /// Commands that were submitted and not released.
    fn outstanding(&self) -> usize;

    /// Whether no more commands are taken.
    fn is_closed(&self) -> bool;

    /// The identifier under which the controller knows a command, for Abort.
    fn cid(&self, tag: Tag) -> Option<Cid>;

    /// Whether nothing of a command can have reached the controller.
    fn never_sent(&self, tag: Tag) -> bool;
}

/// The owner of commands: keeps their memory, and takes their outcomes.
pub trait CommandOwner<E> {
    /// The memory of `tag` from `offset` on, to write to: at least one and at most `len` contiguous
    /// bytes. `None`: it has none.
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]>;

    /// The same, to read from.
    ///
    /// # Panics
    /// May panic where there is none: a transport sends what was submitted.
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8];

    /// Something happened to a command.
    fn event(&mut self, on: &Handle, engine: &mut E, event: CommandEvent);
}

/// The plan of a connection.
pub struct LinkPlan<P> {
    /// URL or address, for messages.
    pub name: String,
    pub place: P,
    pub options: ConnectOptions,
    /// Commands that may be outstanding.
    pub commands: u16,
    /// The plan of an I/O queue, or of an admin queue on which a host only authenticates.
    pub io: Option<IoPlan>,
    pub channel: ConcatenationState,
    pub limit: TimeLimit,
}

/// The part of a connection in secure channel concatenation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcatenationState {
    /// Nothing.
    Other,
    /// A key for TLS is to come of its authentication, over plain text.
    Making,
    /// It is encrypted with such a key.
    Keyed,
}

/// The further plan of an I/O queue.
pub struct IoPlan {
    /// Connect, and its data.
    pub connect: (Sqe, Box<[u8; 1024]>),
    /// Bytes of data that fit into a capsule of the queue, once Connect has succeeded.
    pub in_capsule_bytes: u32,
}

/// The answer to a Connect.
#[derive(Default)]
pub struct ConnectResult {
    /// The answer to Connect, if one was sent.
    pub answer: Option<Cqe>,
    /// The key for TLS that came of the authentication.
    pub psk: Option<GeneratedPsk>,
}

/// A connection that stands, and what was said on it.
pub type Opened<L> = (L, ConnectResult);

/// Opens connections to controllers.
pub trait OpenLink: Sized + 'static {
    /// Where controllers are.
    type Place: Clone + Send + 'static;

    /// Starts to open a connection; `then` gets it, registered with no loop, on this loop and
    /// within the limit.
    fn open(
        on: &Handle,
        plan: LinkPlan<Self::Place>,
        then: impl FnOnce(&Handle, Result<Opened<Self>, Error>) + 'static,
    );
}

/// One connection to a controller. It is opened on one loop and may move to another, while nothing
/// is on its way.
pub trait ControllerLink: OpenLink + Send {
    /// Its commands.
    type Engine: CommandEngine;

    /// Its commands.
    fn engine(&mut self) -> &mut Self::Engine;

    /// Has the loop wake `driver` when something comes.
    fn register(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()>;

    /// Undoes that: the connection may move.
    fn deregister(&mut self, on: &Handle, driver: DriverId) -> std::io::Result<()>;

    /// Takes what has come, for one turn.
    fn receive(&mut self, on: &Handle, commands: &mut impl CommandOwner<Self::Engine>) -> Activity;

    /// Sends what there is, for one turn.
    fn send(&mut self, on: &Handle, commands: &mut impl CommandOwner<Self::Engine>) -> Activity;

    /// Sends what there is and then closes; takes nothing more.
    fn close(&mut self);

    /// Gives it up without sending what is left.
    fn abort(&mut self);

    /// Whether it has ended: nobody touches the memory of any command any more.
    fn has_ended(&self) -> bool;

    /// What the controller did to end it, if it did: "ended the connection: why".
    fn complaint(&self) -> Option<String>;

    /// Why it has ended, for people.
    fn why_ended(&self) -> String {
        self.complaint().map_or_else(
            || "it was closed".into(),
            |complaint| format!("the controller {complaint}"),
        )
    }

    /// Whether nothing is on its way in either direction.
    fn is_quiet(&self) -> bool;
}
