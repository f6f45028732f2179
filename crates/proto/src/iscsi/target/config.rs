//! Configuration of a target, and the events that it reports.

use crate::iscsi::chap::Credentials;
use crate::iscsi::pdu::{Isid, ScsiCommand, TaskFunction, TaskRequest};
use crate::iscsi::serial::Serial;
use crate::iscsi::text::{Name, OfferedParameters, Parameters};
use crate::limits::{HANDSHAKE_S, PING_AFTER_S, PING_TIMEOUT_S, SESSION_COMMANDS_MAX};
use crate::scsi::status::ScsiStatus;
use crate::stream::Tag;
use core::time::Duration;
use std::sync::Arc;

/// A user who may log in with CHAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChapUser {
    /// Name and secret.
    pub credentials: Credentials,
    /// The initiator names of this user; empty: all names that belong to no other user.
    pub initiators: Vec<Name>,
}

/// Users that may log in, by CHAP.
#[derive(Clone, Debug)]
pub struct ChapPolicy {
    /// The users.
    pub users: Vec<ChapUser>,
    /// Credentials of the target for initiators that ask for them.
    pub target: Option<Credentials>,
}

impl ChapPolicy {
    /// Returns whether a user may log in under an initiator's name.
    pub fn may_use(&self, user: &ChapUser, initiator: &Name) -> bool {
        match user.initiators.is_empty() {
            true => !self.users.iter().any(|other| other.initiators.contains(initiator)),
            false => user.initiators.contains(initiator),
        }
    }
}

/// Bounds how often secrets may be guessed.
pub trait Guard: Send + Sync {
    /// The initiator has answered a challenge as `user`, rightly or not, at this time. `false`: its
    /// login is refused, and it does not learn whether the answer was right.
    fn heeds(&self, user: &str, right: bool, now: Duration) -> bool;
}

/// Where a connection came in, and where else the target is reached.
#[derive(Clone, Debug)]
pub struct Portals {
    /// TargetPortalGroupTag of the portal that the connection came in by: a session belongs to one
    /// group.
    pub group: u16,
    /// Portals for discovery: `HOST:PORT` and portal group tag of each.
    pub own: Arc<[(String, u16)]>,
    /// Portals of other machines at which the target is reached; they come after those of this one.
    /// One list may be that of many connections.
    pub others: Arc<[(String, u16)]>,
}

impl Portals {
    /// One portal, at `HOST:PORT`.
    pub fn one(address: &str) -> Self {
        Self { group: 1, own: Arc::new([(address.to_owned(), 1)]), others: Arc::default() }
    }
}

/// A target, as its connections know it.
#[derive(Clone, Debug)]
pub struct IscsiTargetConfig {
    /// TargetName.
    pub name: Name,
    /// TargetAlias; empty for none.
    pub alias: String,
    /// Initiators that may log in; `None`: all.
    pub allow: Option<Vec<Name>>,
    /// Authentication of initiators; `None`: not required.
    pub chap: Option<ChapPolicy>,
    /// Upper limits of the negotiation.
    pub offer: OfferedParameters,
    /// Commands that a session may have outstanding.
    pub commands: u16,
    /// From the first tick until the session is let in. Slower initiators lose their connection.
    pub login_limit: Duration,
    /// Silence after which an initiator is pinged; zero: never.
    pub ping_after: Duration,
    /// Time that it gets to answer, or to send anything else.
    pub ping_timeout: Duration,
}

impl IscsiTargetConfig {
    /// A target without access control.
    pub fn new(name: Name) -> Self {
        Self {
            name,
            alias: String::new(),
            allow: None,
            chap: None,
            offer: OfferedParameters::default(),
            commands: SESSION_COMMANDS_MAX,
            login_limit: Duration::from_secs(HANDSHAKE_S),
            ping_after: Duration::from_secs(PING_AFTER_S),
            ping_timeout: Duration::from_secs(PING_TIMEOUT_S),
        }
    }
}

/// Purpose of a session (§4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionKind {
    /// SCSI commands.
    #[default]
    Normal,
    /// SendTargets only.
    Discovery,
}

/// A successful login. Complete from [`TargetEvent::Login`] on.
#[derive(Clone, Debug)]
pub struct Login {
    /// InitiatorName.
    pub initiator: Name,
    /// The initiator's part of the session's name.
    pub isid: Isid,
    /// The session that the connection wants to be in; 0: a new one.
    pub tsih: u16,
    /// The connection's name in the session.
    pub cid: u16,
    /// Its purpose.
    pub kind: SessionKind,
    /// The user that it has proven to be, by CHAP.
    pub user: Option<String>,
}

/// An attempt to log in, as far as it came: nothing of it is proven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginAttempt {
    /// Name that the initiator gave.
    pub initiator: Option<String>,
    /// The CHAP name that it gave.
    pub user: Option<String>,
}

/// State of a session that survives when another connection takes it over (connection
/// reinstatement, §6.3.4).
#[derive(Clone, Copy, Debug)]
pub struct Reinstatement {
    /// The next command that is expected.
    pub exp_cmd_sn: Serial,
    /// Negotiated parameters of the session.
    pub parameters: Parameters,
}

/// Events for the layer above a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetEvent {
    /// Everything was negotiated and proven: see [`super::TargetConnection::login`]. The layer
    /// above answers with [`super::TargetConnection::admit`] or
    /// [`super::TargetConnection::refuse`], and pauses until then.
    Login,
    /// A command. Its unsolicited data, immediate or not, is discarded unless
    /// [`super::TargetConnection::fetch`] is called before the next `receive`.
    Command {
        /// Names the command from now on.
        tag: Tag,
        /// The command.
        command: ScsiCommand,
    },
    /// All data that was fetched is in the tag's memory.
    DataArrived {
        /// Its tag.
        tag: Tag,
    },
    /// A data digest was wrong: the command must fail. No more of its data will arrive.
    DataFailed {
        /// Its tag.
        tag: Tag,
    },
    /// The memory of a command that was given up while data arrived is no longer written to.
    Dropped {
        /// Its tag, which no longer names a command.
        tag: Tag,
    },
    /// A task management function that the layer above carries out, and answers with
    /// [`super::TargetConnection::complete_task`].
    Task {
        /// Names the request from now on.
        tag: Tag,
        /// The function.
        function: TaskFunction,
        /// The whole request.
        request: TaskRequest,
        /// The command concerned, if it is outstanding.
        referenced: Option<Tag>,
    },
    /// The initiator wants to end the session. The layer above ends all tasks, then calls
    /// [`super::TargetConnection::logged_out`].
    Logout,
    /// The answer to a ping of this end.
    Pong,
}

/// Outcome of a command.
#[derive(Clone, Copy, Debug)]
pub struct TargetResponse<'a> {
    /// SCSI status.
    pub status: ScsiStatus,
    /// Sense data, at most [`SENSE_BYTES_MAX`](crate::scsi::sense::SENSE_BYTES_MAX) bytes.
    pub sense: &'a [u8],
    /// Bytes at the start of the command's memory that the initiator gets, as far as it expects
    /// them.
    pub data_bytes: u32,
    /// Bytes that the command would have moved in all: what the residual is counted from.
    pub total_bytes: u32,
}

impl TargetResponse<'_> {
    /// GOOD, without data.
    pub const GOOD: Self =
        Self { status: ScsiStatus::GOOD, sense: &[], data_bytes: 0, total_bytes: 0 };
}
