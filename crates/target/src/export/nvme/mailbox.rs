//! Messages between the connections of one controller, each on its own loop. Not used per command.

use super::subsystems::ControllerView;
use crate::export::mailbox;
use crate::export::members::Message;
use crate::reservations::PendingChange;
use std::sync::Arc;
use weft_proto::nvme::auth::Computed;
use weft_proto::nvme::controller::{AbortTicket, DiscoveryLog, ReservationTicket};
use weft_proto::nvme::cross_reset::CrossControllerReset;
use weft_proto::nvme::types::{Cid, Nsid, Qid};
use weft_proto::reservation::{Notice, ReservationRefusal};
use weft_proto::stream::Tag;

/// Messages between connections.
pub(crate) enum NvmeMessage {
    /// To an I/O queue: abort a command, and report the result to the admin queue.
    Abort { cid: Cid, answer: AbortAnswer },
    /// The visible namespaces, or the devices behind them, have changed.
    Namespaces(ControllerView),
    /// To an admin queue of a discovery controller: the log has changed.
    Discovery(Arc<DiscoveryLog>),
    /// To an admin queue: the result of an abort.
    Aborted { ticket: AbortTicket, aborted: bool },
    /// To an admin queue: no device holds any operation of this I/O queue, and its connection is
    /// gone.
    Quiet(Qid),
    /// To an admin queue: no device holds a write of this controller any more, which its host
    /// wanted reset.
    CrossResetOver(CrossControllerReset),
    /// To an I/O queue: the operation on reservations of this command has ended.
    Reserved { tag: Tag, outcome: Result<(), ReservationRefusal> },
    /// To an I/O queue: another host has preempted a reservation on the namespace, and aborted the
    /// commands of this one. Without an identifier the host does not see the namespace any more,
    /// but may have.
    Preempted { nsid: Option<Nsid>, pending: Arc<PendingChange> },
    /// To an admin queue: the reservations of a namespace have changed.
    Notice { nsid: Nsid, notice: Notice },
    /// To an admin queue: reservations outlast a restart from now on, or not, or could not be made
    /// to.
    Persisted { ticket: ReservationTicket, outcome: Result<(), ReservationRefusal> },
    /// What the authentication of this queue waits for; `None`: it could not be computed.
    Computed(Option<Computed>),
    /// To a connection whose Connect waits: an association has ended.
    AssociationEnded,
}

/// The mailbox of one connection.
pub(crate) type Mailbox = mailbox::Mailbox<Message<NvmeMessage>>;

/// The answer to an Abort, for the admin queue. If it is dropped, as the I/O queue ends, the
/// command was not aborted.
pub(crate) struct AbortAnswer {
    ticket: AbortTicket,
    to: Option<Arc<Mailbox>>,
}

impl AbortAnswer {
    pub(super) fn new(ticket: AbortTicket, to: &Arc<Mailbox>) -> Self {
        Self { ticket, to: Some(Arc::clone(to)) }
    }

    /// Gives the answer.
    pub(super) fn give(mut self, aborted: bool) {
        self.post(aborted);
    }

    fn post(&mut self, aborted: bool) {
        if let Some(to) = self.to.take() {
            to.post(Message::Own(NvmeMessage::Aborted { ticket: self.ticket, aborted }));
        }
    }
}

impl Drop for AbortAnswer {
    fn drop(&mut self) {
        self.post(false);
    }
}
