//! A controller's interface to a transport: the connections of its hosts, whatever carries their
//! capsules.
//!
//! The transport gives each command a [`Tag`], under which the controller keeps the command's
//! memory. It reports the command ([`Event::Command`]); the controller asks for the host's data if
//! there is some ([`Engine::fetch`], answered by [`Event::DataArrived`] or [`Event::DataFailed`]),
//! and answers with or without data ([`Engine::complete`]). All three complete asynchronously;
//! until then the transport may access the memory: a fetch until its event, an answer until
//! [`NvmeSession::released`](super::session::NvmeSession::released). If something cannot be sent now (a peer that has posted no receive, a
//! full socket), the transport keeps it and tries again.

use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::Sqe;
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

    /// Returns the value that [`NvmeLink::sent`](super::session::NvmeLink::sent) has reached when all answers so far are sent.
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
