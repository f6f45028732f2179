//! Messages between a gateway and its driver.

use crate::liveness::Beat;
use crate::name::GatewayName;
use crate::record::RecordError;
use core::time::Duration;
use std::collections::BTreeMap;

/// Settings of a gateway in its group.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// Its name; the same after each start.
    pub name: GatewayName,
    /// A random number of this process.
    pub instance: u64,
    /// By what the store keeps this process out.
    pub client: String,
    /// Where hosts reach it, as URLs.
    pub listeners: Vec<String>,
    /// Interval of its signs of life.
    pub beat: Duration,
    /// Time for which it may serve after its last confirmed beat. The same for all gateways of a
    /// group.
    pub lease: Duration,
}

/// Request to the store. At most one of each kind is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRequest {
    /// The record: [`GroupAnswer::Record`].
    Read,
    /// Replaces the record if it still has this version (0: there is none), and tells all gateways:
    /// [`GroupAnswer::Written`], [`GroupAnswer::Conflict`].
    Write {
        /// The version that was read.
        version: u64,
        /// The new text.
        text: Vec<u8>,
    },
    /// Notes the beat of this gateway, then reads those of all: [`GroupAnswer::Beats`].
    Beat(Beat),
    /// Keeps a client out for good. Answered by [`GroupAnswer::Fenced`] when whatever is done from
    /// then on comes after everything that the client has done.
    Fence(String),
}

/// Answer of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupAnswer {
    /// The record and its version, if there is one.
    Record(Option<(u64, Vec<u8>)>),
    /// The record has this version now.
    Written(u64),
    /// Somebody else has changed the record.
    Conflict,
    /// The version of the record (0: there is none), and the beats of all gateways.
    Beats(u64, BTreeMap<GatewayName, Beat>),
    /// The client is kept out.
    Fenced,
    /// It did not work, and may be tried again. A write that failed may have been executed.
    Failed(String),
    /// This process itself is kept out.
    Blocklisted,
}

/// Access of hosts to the namespaces of an ANA group through this gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnaAccess {
    /// It is the one that serves them.
    Optimized,
    /// Another one serves them; this one can as well.
    NonOptimized,
    /// It must not serve.
    Inaccessible,
}

/// Order of an administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// An ANA group belongs to this gateway, while that is there; `None`: to whom the rule gives
    /// it.
    Pin(u32, Option<GatewayName>),
    /// A gateway that is not there is gone for ever: its slot is free.
    Forget(GatewayName),
}

/// Role of this gateway for hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayRole {
    /// By ANA group, 1 to [`ANA_GROUPS`](crate::limits::ANA_GROUPS).
    pub access: BTreeMap<u32, AnaAccess>,
    /// The other gateways, by name.
    pub others: Vec<Other>,
}

/// Another gateway that serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Where hosts reach it, as URLs.
    pub listeners: Vec<String>,
    /// The first and the last identifier of its controllers.
    pub cntlids: (u16, u16),
}

/// Reason why a gateway must end. Its part no longer belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ending {
    /// It left in order.
    #[error("the gateway has left its group")]
    Left,
    /// The others took it for dead.
    #[error(
        "the other gateways took this one for dead and have replaced it: it has to start again"
    )]
    Condemned,
    /// Another process has its name.
    #[error("another process is the gateway \"{0}\" now: give each gateway a name of its own")]
    Replaced(GatewayName),
    /// The store keeps this process out.
    #[error("the cluster keeps this process out (blocklisted): it has to start again")]
    Blocklisted,
    /// It does not reach the store, and its driver sees no sign that others do not reach it either.
    #[error(
        "the gateway has lost the cluster, and ends so that its hosts turn to other gateways: it has to start again"
    )]
    Lost,
    /// The record cannot be used.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayOutput {
    /// Ask the store.
    Request(GroupRequest),
    /// The gateway belongs to the group; its controllers have these identifiers.
    Joined {
        /// The first and the last one.
        cntlids: (u16, u16),
    },
    /// Serve like this from now on. To be answered by
    /// [`Gateway::released`](crate::Gateway::released) for each group that was optimized and is so
    /// no more.
    Serve(GatewayRole),
    /// The others have what this gateway served, and it may close it: see
    /// [`Gateway::leave`](crate::Gateway::leave).
    Resigned,
    /// End at once.
    End(Ending),
}
