//! A group of gateways: processes on several machines that serve one inventory as controllers of
//! the same subsystems, and what they agree on by a store that all of them reach (a Ceph cluster).
//! No I/O, no clock, no thread: [`Gateway`] returns requests to the store, and receives the
//! answers.
//!
//! * [`GroupRecord`] is the one object that all gateways of a group change, by compare-and-set: who
//!   belongs to the group, and which gateway is optimized for which ANA group.
//! * [`placement`] is the rule by which ANA groups are given to gateways.
//! * [`reservations`] are those of hosts, which all gateways act by.
//! * [`Announcement`] notifies all gateways of a change.
//! * [`Gateway`] is one gateway's part: it joins, proves that it is alive (beats), follows the
//!   record, and replaces gateways that have died.
//! * [`GatewayProcess`] is what its process does around that: it carries out administrators'
//!   orders, and ends when it has lost the cluster.
//!
//! # Guarantees
//! * At most one gateway whose I/O the store still accepts is optimized for an ANA group. A group
//!   changes hands in two ways only: its owner gives it away after it has stopped being optimized,
//!   or its owner has been fenced: the store has confirmed that no write of that process can
//!   arrive.
//! * No clock is trusted for that. Clocks decide only *when* a gateway is taken for dead, and when
//!   one that cannot reach the store stops serving ([`GatewaySettings::lease`]).
#![forbid(unsafe_code)]

mod announcement;
mod exchange;
mod gateway;
mod isolation;
pub mod limits;
mod liveness;
mod name;
pub mod placement;
mod process;
mod record;
pub mod reservations;
mod rules;

pub use announcement::{Announcement, AnnouncementStep};
pub use exchange::{
    AnaAccess, Ending, GatewayOutput, GatewayRole, GatewaySettings, GroupAnswer, GroupRequest,
    Other, Wish,
};
pub use gateway::Gateway;
pub use liveness::Beat;
pub use name::{GatewayName, InvalidName};
pub use process::{GatewayEvent, GatewayOrder, GatewayProcess};
pub use record::{AnaGroup, FORMAT, GatewayRecord, GroupRecord, Member, RecordError};
