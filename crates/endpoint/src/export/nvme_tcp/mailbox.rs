//! How the connections of one controller, each on a loop of its own, tell each other things. Nothing of it is used per command.

use crate::export::mailbox;
use std::sync::Arc;
use weft_proto::nvme::controller::{AbortTicket, NamespaceTable};
use weft_proto::nvme::types::{Cid, Qid};

/// Messages between connections.
pub(super) enum Message {
    /// Take no more commands, end what the devices have, then close.
    Stop,
    /// To an I/O queue: take no more commands, let those under way end, then close.
    Drain,
    /// To an I/O queue: abort a command, tell the admin queue what came of it.
    Abort { ticket: AbortTicket, cid: Cid, reply_to: Arc<Mailbox> },
    /// The namespaces have changed.
    Namespaces(Arc<NamespaceTable>),
    /// To an admin queue: what came of an abort.
    Aborted { ticket: AbortTicket, aborted: bool },
    /// To an admin queue: no device holds anything of this I/O queue, and its connection is gone.
    Quiet(Qid),
}

/// The mailbox of one connection.
pub(super) type Mailbox = mailbox::Mailbox<Message>;
