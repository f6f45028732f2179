//! Messages between the connections of one controller, each on its own loop. Not used per command.

use super::subsystems::View;
use crate::export::mailbox;
use crate::export::members::Message;
use std::sync::Arc;
use weft_proto::nvme::controller::{AbortTicket, DiscoveryLog};
use weft_proto::nvme::types::{Cid, Qid};

/// Messages between connections.
pub(crate) enum Told {
    /// To an I/O queue: abort a command, and report the result to the admin queue.
    Abort { ticket: AbortTicket, cid: Cid, reply_to: Arc<Mailbox> },
    /// The visible namespaces, or the devices behind them, have changed.
    Namespaces(View),
    /// To an admin queue of a discovery controller: the log has changed.
    Discovery(Arc<DiscoveryLog>),
    /// To an admin queue: the result of an abort.
    Aborted { ticket: AbortTicket, aborted: bool },
    /// To an admin queue: no device holds any operation of this I/O queue, and its connection is gone.
    Quiet(Qid),
    /// To a connection whose Connect waits: an association has ended.
    AssociationEnded,
}

/// The mailbox of one connection.
pub(crate) type Mailbox = mailbox::Mailbox<Message<Told>>;
