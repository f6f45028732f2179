//! The controller's side of NVMe over Fabrics: subsystems, their controllers, and their queues. It
//! knows no transport and moves no bytes.
//!
//! * [`Subsystem`] is what controllers share: identity, namespaces, who may connect. It admits
//!   queues ([`Subsystem::connect`], [`Subsystem::connect_io`]); what comes before that on a
//!   connection is [`before_connect`].
//! * [`ControllerCore`] is one controller. It lives with the admin connection and executes its
//!   commands.
//! * [`IoQueue`] is one I/O queue, on whatever loop its connection lives. It turns commands into
//!   [`IoRequest`]s for devices and outcomes into completions, and allocates nothing per command.
//!
//! A discovery controller is a [`ControllerCore`] of a subsystem of [`ControllerKind::Discovery`].
//!
//! # Driving an association
//!
//! 1. The first command of a connection goes to [`before_connect`]. With its data the subsystem is
//!    found ([`subsystem_name`]) and admits the queue. What goes wrong becomes a [`ConnectRefusal`]
//!    or, where there is no such subsystem, one made of [`ConnectError::Subsystem`].
//! 2. Commands go to [`ControllerCore::start`] or [`IoQueue::start`]; each is answered exactly
//!    once.
//!    Behind each call of a control value its events are taken, behind each call of a queue its
//!    orphan.
//! 3. [`ControlEvent::Quiesce`]: the I/O connections that the subsystem knows
//!    ([`Subsystem::io_queues`]) are ended, what devices still have is waited for, each queue is
//!    given back ([`Subsystem::release_io`]), and [`ControllerCore::quiesced`] makes the reset or
//!    shutdown visible.
//! 4. When the admin connection ends, or on [`ControlEvent::KeepAliveExpired`], the same happens to
//!    all queues, and then [`Subsystem::release`] frees the controller.
//!
//! # Known needs of hosts
//!
//! * Linux reads CRTO wherever CAP.CRMS is set; asks for CNS 06h and 08h and lives without them;
//!   sends Dataset Management with room for 256 ranges; waits for RTD3E when it shuts a controller
//!   down; sends Keep Alive at half the timeout. It wants only the Namespace Attribute Notices of
//!   the asynchronous events, as ESXi does.
//! * ESXi wants Compare and Write as a fused operation (ONCS bit 0 and FUSES bit 0), which it uses
//!   on single blocks between reads and writes of other sizes; 512-byte blocks; and an NGUID, after
//!   which it names the disk.
//! * Windows probes the mandatory features, log page 00h and CNS 06h, and also features and log
//!   pages that are the vendor's (D0h, C1h): it takes a refusal, as long as the status is the
//!   proper one. It may not enable Namespace Attribute Notices, and then learns of new namespaces
//!   only when it connects again.

mod access;
mod admin;
mod ana_states;
mod authentication;
mod connect;
mod control;
mod discovery;
mod fault;
mod identity;
mod instance;
mod io;
mod link;
mod namespace;
mod revocation;
mod statistics;
mod subsystem;

pub use admin::{
    event::{AbortTicket, ControlEvent, Next, QueueTicket, ReservationTicket},
    support::ControllerKind,
};
pub use ana_states::AnaStates;
pub use authentication::AuthenticationCommand;
pub use connect::{
    CONNECT_BYTES, ConnectError, ConnectRefusal, before_connect, connect_names, subsystem_name,
};
pub use control::{ControllerCore, cross_reset::CrossReset};
pub use discovery::{Audience, DiscoveryLog, DiscoveryRecord, TransportAddress};
pub use identity::{CNTLID_MAX, CameBy, ControllerModel, HostIdentity, Port, SubsystemConfig};
pub use io::{
    command::{IoRequest, IoRequestKind},
    next::{AbortTarget, DeviceOutcome, Half, IoNext},
    queue::{IoQueue, reservation::reservation_status},
};
pub use namespace::{Namespace, NamespaceError, NamespaceMap, Preferred, Support};
pub use statistics::{Health, HealthCounts, IoStatistics};
pub use subsystem::{Connected, Subsystem};
