//! The controller's side of NVMe over Fabrics: subsystems, their controllers, and their queues. It knows no transport and moves no
//! bytes.
//!
//! * [`Subsystem`] is what controllers share: identity, namespaces, who may connect. It admits queues ([`Subsystem::connect`],
//!   [`Subsystem::connect_io`]); what comes before that on a connection is [`before_connect`].
//! * [`Control`] is one controller. It lives with the admin connection and executes its commands.
//! * [`IoQueue`] is one I/O queue, on whatever loop its connection lives. It turns commands into [`Request`]s for devices and
//!   outcomes into completions, and allocates nothing per command.
//!
//! A discovery controller is a [`Control`] of a subsystem of [`ControllerKind::Discovery`].
//!
//! What hosts are known to need, and get:
//!
//! * Linux reads CRTO wherever CAP.CRMS is set; asks for CNS 06h and 08h and lives without them; sends Dataset Management with
//!   room for 256 ranges; waits for RTD3E when it shuts a controller down; sends Keep Alive at half the timeout.
//! * ESXi wants Compare and Write as a fused operation (ONCS bit 0 and FUSES bit 0), which it uses on single blocks; 512-byte
//!   blocks; an NGUID, after which it names the disk; and only the Namespace Attribute Notices of the asynchronous events.
//! * Windows initiators probe the mandatory features and log page 00h, which is one reason for keeping those complete.
mod admin;
mod connect;
mod control;
mod discovery;
mod error_log;
mod events;
mod fault;
mod features;
mod fused;
mod identify_data;
mod identity;
mod io_command;
mod io_queue;
mod io_slot;
mod io_steps;
mod keep_alive;
mod link;
mod log_request;
mod namespace;
mod registers;
mod statistics;
mod subsystem;
mod support;

pub use connect::{CONNECT_BYTES, ConnectError, Refusal, before_connect, subsystem_name};
pub use control::{AbortTicket, Control, ControlEvent, Next};
pub use discovery::{DiscoveryLog, DiscoveryRecord};
pub use identity::{ControllerModel, HostIdentity, Port, SubsystemConfig};
pub use io_command::{Request, RequestKind};
pub use io_queue::{AbortTarget, DeviceOutcome, IoNext, IoQueue};
pub use namespace::{Namespace, NamespaceError, NamespaceTable, Preferred, Support};
pub use statistics::{Health, IoStatistics};
pub use subsystem::{Connected, Subsystem};
pub use support::ControllerKind;
