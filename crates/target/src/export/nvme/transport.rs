//! A controller's interface to a transport: the connections of its hosts, whatever carries their
//! capsules.
//!
//! The transport gives each command a [`Tag`], under which the controller keeps the command's
//! memory. It reports the command ([`Event::Command`]); the controller asks for the host's data if
//! there is some ([`Engine::fetch`], answered by [`Event::DataArrived`] or [`Event::DataFailed`]),
//! and answers with or without data ([`Engine::complete`]). All three complete asynchronously;
//! until then the transport may access the memory: a fetch until its event, an answer until
//! [`NvmeSession::released`]. If something cannot be sent now (a peer that has posted no receive, a
//! full socket), the transport keeps it and tries again.

use super::session::NvmeSession;
use std::net::SocketAddr;
use weft_connection::pump;
use weft_proto::nvme::controller::TransportAddress;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::deviation::Deviations;
use weft_proto::nvme::sqe::{HostMemory, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::stream::Tag;

/// What a transport tells of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A command came: [`Engine::sqe`] has it until the next event. So many bytes of data came in
    /// its capsule.
    Command { tag: Tag, in_capsule_bytes: u32 },
    /// All data that was asked for is in the memory of the command.
    DataArrived { tag: Tag },
    /// It arrived damaged, or was unavailable. No more of it will arrive.
    DataFailed { tag: Tag },
    /// The memory of a command that was given up while its data arrived is not written to any more.
    /// The tag names no command now.
    Dropped { tag: Tag },
}

/// The commands of one connection.
pub(crate) trait Engine {
    /// The command that the last [`Event::Command`] told of.
    fn sqe(&self) -> &Sqe;

    /// Asks for the first `bytes` (more than zero) of the host's data of a command, to be put into
    /// its memory. The error is the status to answer the command with.
    fn fetch(&mut self, tag: Tag, bytes: u32) -> Result<(), Status>;

    /// Throws the data in the capsule of a command away: at once after its event, if at all.
    fn ignore_data(&mut self, tag: Tag);

    /// Answers a command with the first `data_bytes` of its memory and `cqe`. Not between a fetch
    /// and its end.
    fn complete(&mut self, tag: Tag, cqe: Cqe, data_bytes: u32);

    /// Returns the value that [`NvmeLink::sent`] has reached when all answers so far are sent.
    fn queued(&self) -> u64;

    /// The controller has heard that the answer is out: the tag may name another command.
    fn sent(&mut self, tag: Tag);

    /// Gives a command up that was not answered. Where its data is arriving, [`Event::Dropped`]
    /// follows.
    fn abandon(&mut self, tag: Tag);

    /// Gives up every command whose data is awaited, for a queue that is stopped.
    fn drop_pending(&mut self);

    /// Connect has succeeded: the queue has so many entries. With SQ flow control every command has
    /// to be answered by a completion, as the host learns the head of its queue from it.
    fn begin_queue(&mut self, entries: u16, flow_control: bool);

    /// Whether data is known to be intact only when all of it has come, so that nothing may be done
    /// with it before; or data in a capsule may come later than right behind its command.
    fn checks_data(&self) -> bool;
}

/// The port of a listener, as its transport describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortAddress {
    /// What discovery says of it; of a listener at all addresses of this machine, but for the
    /// address.
    pub(crate) address: TransportAddress,
    /// The address that the listener was given, if it has one.
    pub(crate) listener: Option<SocketAddr>,
    /// The kind of descriptor by which hosts name their memory.
    pub(crate) host_memory: HostMemory,
    /// Data that a command may carry in its capsule, in bytes.
    pub(crate) in_capsule_bytes: u32,
}

/// One connection of a host, which hands its commands to a [`NvmeSession`].
pub(crate) trait NvmeLink: pump::Link<NvmeSession, Engine: Engine> + Send + 'static {
    /// The transport's name in URLs, for statistics.
    const PROTOCOL: &'static str;

    /// Who encrypts the connection, if it is encrypted.
    fn encrypted_by(&self) -> Option<&'static str> {
        None
    }

    /// How far answers have been sent, in a count of the transport's own. It grows while there are
    /// answers, also where there always are further ones.
    fn sent(&self) -> u64;

    /// What the host did against the transport's rules, if this end closed the connection for it.
    fn violation(&self) -> Option<String>;

    /// What the host does against the transport's rules that is let pass, since the last call.
    fn take_deviations(&mut self) -> Deviations;
}
