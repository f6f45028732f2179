//! The host side of NVMe over Fabrics: what it takes to connect to a subsystem, to keep the
//! association alive and to end it.
//!
//! [`HostControl`] is the control value of one association. It knows no transport and no clock:
//! [`HostControl::poll`] returns the next action, and the driver reports its outcome. A driver
//!
//! 1. connects the admin queue, then submits every [`HostAction::Admin`] on it and reports its
//!    completion;
//! 2. for each [`HostAction::OpenQueue`] makes a connection, submits the Connect that
//!    [`HostControl::io_connect`] gives, and reports the completion
//!    ([`HostControl::queue_opened`]);
//! 3. from [`HostAction::Ready`] to [`HostAction::StopIo`] submits I/O on these queues
//!    ([`command`]);
//! 4. calls `poll` until it returns `None` after each input, and at the time that
//!    [`HostControl::deadline`] says;
//! 5. ends it all at [`HostAction::Failed`] or [`HostAction::Closed`], whichever comes; nothing
//!    comes after it.
//!
//! Commands that are outstanding at that point are completed by the driver: as not executed after
//! now where the action says `confirmed` (the controller has stopped), as possibly executed at any
//! time where it does not.

pub mod command;
pub(crate) mod command_id;
mod config;
mod control;
mod error;
mod namespace;
mod remote;
mod request;
mod submit;
mod timer;

pub use config::{AdminData, DiscoveryResult, HostAction, HostConfig};
pub use control::HostControl;
pub use error::{FaultSide, HostError, Incompatibility, Parameter, Violation};
pub use namespace::{Deallocate, Difference, NamespaceProblem, RemoteNamespace, WriteZeroes};
pub use remote::RemoteController;
pub use request::{AssociationStep, RequestId};
pub use submit::{HostData, SubmitError};
