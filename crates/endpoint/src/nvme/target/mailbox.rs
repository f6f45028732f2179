//! What the connections of one controller, each on a loop of its own, tell each other. Nothing of it is used per command.

use super::subsystems::View;
use crate::export::mailbox;
use crate::export::members::Message;
use std::sync::Arc;
use weft_proto::nvme::controller::{AbortTicket, DiscoveryLog};
use weft_proto::nvme::types::{Cid, Qid};

/// What connections tell each other.
pub(crate) enum Told {
    /// To an I/O queue: abort a command, tell the admin queue what came of it.
    Abort { ticket: AbortTicket, cid: Cid, reply_to: Arc<Mailbox> },
    /// The host sees other namespaces, or there are other devices behind them.
    Namespaces(View),
    /// To an admin queue of a discovery controller: the log has changed.
    Discovery(Arc<DiscoveryLog>),
    /// To an admin queue: what came of an abort.
    Aborted { ticket: AbortTicket, aborted: bool },
    /// To an admin queue: no device holds anything of this I/O queue, and its connection is gone.
    Quiet(Qid),
    /// To a connection whose Connect waits: an association has ended.
    AssociationEnded,
}

/// The mailbox of one connection.
pub(crate) type Mailbox = mailbox::Mailbox<Message<Told>>;
