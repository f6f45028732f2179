//! Configuration of a host, and actions for its driver.

use core::time::Duration;

use super::error::HostError;
use super::request::RequestId;
use crate::nvme::cross_reset::CrossControllerReset;
use crate::nvme::feature::AsyncEvent;
use crate::nvme::log_page::DiscoveryEntry;
use crate::nvme::sqe::Sqe;
use crate::nvme::types::{Cntlid, Id128, Nqn, Nsid, Qid};

/// A discovery log that was the same from its first to its last byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryResult {
    /// Generation counter (GENCTR).
    pub generation: u64,
    /// Entries, at most [`DISCOVERY_ENTRIES_MAX`](crate::limits::DISCOVERY_ENTRIES_MAX).
    pub entries: Vec<DiscoveryEntry>,
}

/// Whom to connect to, as whom, and how long to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Host NQN.
    pub host_nqn: Nqn,
    /// Host identifier; the same for the same host NQN always.
    pub host_id: Id128,
    /// The subsystem.
    pub subsystem: Nqn,
    /// Read the discovery log instead of opening I/O queues.
    pub discovery: bool,
    /// Keep alive timeout in milliseconds (KATO); 0 for none. A discovery controller with one stays
    /// connected, and the log is read again whenever it changes.
    pub keep_alive_ms: u32,
    /// The controller to ask for: [`Cntlid::DYNAMIC`], [`Cntlid::STATIC`] or a number.
    pub cntlid: Cntlid,
    /// I/O queues to ask for; at least 1 is taken. The controller may grant fewer.
    pub io_queues: u16,
    /// Entries of each I/O queue, 2 to [`crate::limits::QUEUE_ENTRIES_MAX`]. The controller may
    /// support fewer.
    pub queue_entries: u16,
    /// Look at this namespace only; at all active ones where there is none.
    pub namespace: Option<Nsid>,
    /// Time limit of an admin command, of opening the I/O queues, and of an I/O command that is
    /// being aborted.
    pub command_timeout: Duration,
    /// Time limit of the controller for stopping in a reset, if CAP.TO is not shorter.
    pub reset_timeout: Duration,
    /// Time limit of a whole orderly shutdown.
    pub shutdown_timeout: Duration,
}

impl HostConfig {
    /// One I/O queue of 128 entries to a controller of the subsystem's choice, with the 5 s keep
    /// alive of nvme-cli.
    pub fn new(host_nqn: Nqn, host_id: Id128, subsystem: Nqn) -> Self {
        Self {
            host_nqn,
            host_id,
            subsystem,
            discovery: false,
            keep_alive_ms: 5_000,
            cntlid: Cntlid::DYNAMIC,
            io_queues: 1,
            queue_entries: 128,
            namespace: None,
            command_timeout: Duration::from_secs(10),
            reset_timeout: Duration::from_secs(15),
            shutdown_timeout: Duration::from_secs(5),
        }
    }

    /// Reads the log of a discovery controller under the well-known name once.
    pub fn discovery(host_nqn: Nqn, host_id: Id128) -> Self {
        Self { discovery: true, keep_alive_ms: 0, ..Self::new(host_nqn, host_id, Nqn::discovery()) }
    }

    /// Entries of the admin queue.
    pub const ADMIN_ENTRIES: u16 = 32;

    /// Admin commands that may be outstanding: one entry of a queue stays free (Base §3.3.1.4).
    pub const ADMIN_COMMANDS: u16 = Self::ADMIN_ENTRIES - 1;

    /// Those of them that are for commands which do not come from the association's state machine.
    /// It always has room for its own: an association must not end because a Keep Alive had to
    /// wait.
    pub const ADMIN_COMMANDS_OF_OTHERS: u16 = 8;

    /// Returns whether the association lasts beyond its first purpose, so that events matter.
    pub(super) fn lasts(&self) -> bool {
        !self.discovery || self.keep_alive_ms != 0
    }
}

/// Data of an admin command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminData {
    /// None.
    None,
    /// Data for the controller.
    Out(Box<[u8; 1024]>),
    /// Data from the controller.
    In {
        /// Bytes, at most 64 KiB.
        len: u32,
    },
}

/// Action for the driver of a [`super::HostControl`].
#[derive(Clone, Debug, PartialEq)]
pub enum HostAction {
    /// Submit a command on the admin queue and report its completion under `id`. The driver sets
    /// command identifier and data pointer.
    Admin {
        /// Its name.
        id: RequestId,
        /// The command.
        sqe: Sqe,
        /// Its data.
        data: AdminData,
    },
    /// Make a connection for an I/O queue and submit [`super::HostControl::io_connect`] on it.
    OpenQueue {
        /// The queue.
        qid: Qid,
        /// Its entries. One fewer commands may be outstanding.
        entries: u16,
    },
    /// Namespaces are known and queues are open: I/O may begin. Sent once.
    Ready,
    /// The namespaces are others than before: see [`super::HostControl::namespaces`].
    NamespacesChanged,
    /// The access states are others than before: see [`super::HostControl::access`].
    AccessChanged,
    /// Outcome of [`super::HostControl::cross_reset`].
    CrossReset {
        /// The controller for which a reset was requested.
        lost: CrossControllerReset,
        /// It was reset: none of its commands will be executed.
        stopped: bool,
    },
    /// The discovery log was read.
    Discovered(DiscoveryResult),
    /// The controller reported this, for the log. The host has already reacted to it.
    Event(AsyncEvent),
    /// Submit no more I/O: the association is about to end. Completions may still come.
    StopIo,
    /// The association is over: close all connections.
    Failed {
        /// Why.
        error: HostError,
        /// True if the controller certainly executes nothing more of this association.
        confirmed: bool,
    },
    /// The association was shut down as asked: close all connections.
    Closed {
        /// True if the controller said that it has shut down.
        confirmed: bool,
    },
}
