//! The target's side of SCSI: targets, their logical units, and the nexuses of initiators to them.
//!
//! * [`Target`] is what initiators log in to. [`UnitTable`] says which logical units there are; each initiator may see others.
//! * [`LogicalUnit`] is one of these: what it is, its mode, its reservations. It is shared by all nexuses, on any loop.
//! * [`Nexus`] is one initiator's session. It lives on one loop, turns commands into [`Request`]s for devices and outcomes into
//!   replies, and allocates nothing for reads and writes.
//!
//! # How an owner drives a command
//!
//! It keeps a [`Task`] for each command, and memory where one is needed. [`Nexus::start`] gives the first [`Step`]; what it asks for is
//! answered by [`Nexus::data`], [`Nexus::respond`] or [`Nexus::finished`], until a [`Step::Reply`] ends the command. Behind each call the
//! owner asks for [`Nexus::take_wake`]: connections of other nexuses whose commands are to be aborted. Those ask for [`Nexus::take_abort`]
//! when they are woken.

mod attention;
mod blocks;
mod config;
mod inquiry;
mod mode;
mod name;
mod nexus;
mod provisioning;
mod report;
mod reservation;
mod table;
mod target;
mod task;
mod unit;
mod writer;

pub use config::{UnitConfig, UnitFeatures, UnitGeometry, UnitIdentity};
pub use name::{NexusName, TRANSPORT_ID_BYTES_MAX, TransportId};
pub use nexus::Nexus;
pub use table::{UnitError, UnitTable};
pub use target::{Arrival, Target, lun_of, unit_number};
pub use task::{DeviceOutcome, Reply, Request, RequestKind, Step, Task};
pub use unit::{AccessState, LogicalUnit, NexusId};
