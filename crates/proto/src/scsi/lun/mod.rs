//! The target's side of SCSI: targets, their logical units, and the nexuses of initiators to them.
//!
//! * [`Target`] is what initiators log in to. [`UnitTable`] lists the logical units; each initiator
//!   may see different ones.
//! * [`LogicalUnit`] is one of them: its configuration and mode. All nexuses share it, on any loop.
//!   Its reservations are those of the namespace ([`crate::reservation`]).
//! * [`Nexus`] is the session of one initiator. It lives on one loop, converts commands into
//!   [`UnitRequest`]s for devices and outcomes into replies, and allocates nothing for reads and
//!   writes.
//!
//! # Driving a command
//!
//! The owner keeps a [`Task`] for each command, and memory if needed. [`Nexus::start`] returns the
//! first [`Step`]; the owner executes it and calls [`Nexus::data`], [`Nexus::respond`],
//! [`Nexus::finished`] or [`Nexus::reserved`], until a [`Step::Reply`] ends the command. After a
//! task management function the owner calls [`Nexus::take_wake`], which returns connections of
//! other nexuses whose commands must be aborted; [`crate::reservation::Changes`] names those of a
//! PREEMPT AND ABORT. When these are woken, they call [`Nexus::take_abort`].

mod access;
mod address;
mod attention;
mod blocks;
mod config;
mod inquiry;
mod mode;
mod name;
mod nexus;
mod nexus_units;
mod provisioning;
mod report;
mod reservation;
mod reserve;
mod table;
mod target;
mod task;
mod task_management;
mod unit;
mod writer;

pub use access::{AccessState, PortAccess};
pub use address::{lun_of, unit_number};
pub use config::{UnitConfig, UnitFeatures, UnitGeometry, UnitIdentity};
pub use name::{NexusName, TRANSPORT_ID_BYTES_MAX, TransportId};
pub use nexus::Nexus;
pub use table::{UnitError, UnitTable};
pub use target::{Arrival, Target};
pub use task::{DeviceOutcome, Reply, Step, Task, UnitRequest, UnitRequestKind};
pub use unit::{LogicalUnit, NexusId};
