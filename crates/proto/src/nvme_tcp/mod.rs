//! NVMe/TCP: PDU framing, digests and flow control of both ends of a connection (NVMe TCP Transport
//! Specification 1.0 and 1.1).
//!
//! * [`target`]: the controller's end. It turns command capsules into events, fetches the host's
//!   data from the capsule or by R2Ts, and sends C2HData and response capsules.
//! * [`host`]: the host's end. It turns commands into capsules, answers R2Ts and collects C2HData
//!   and responses.
//! * [`pdu`]: the PDUs; [`digest`]: CRC32C; [`term`]: termination of a connection; [`violation`]:
//!   the possible violations by a peer, and the answers to them.
//!
//! Both ends are [`StreamEngine`](crate::stream::StreamEngine)s. They compute and check header
//! digests; the pump computes and checks data digests. A wrong header digest, like every violation,
//! ends the connection with a TermReq; a wrong data digest only fails its command (§3.5).
//!
//! These deviations of existing peers are tolerated: reserved flag bits that are set, DDGSTF on a
//! PDU with or without data, any PDO on a PDU without data, a final H2CData or C2HData PDU without
//! LAST_PDU, H2CData PDUs without data, more padding than CPDA requires.

mod address;
pub mod digest;
pub mod host;
mod link;
pub mod pdu;
pub mod target;
pub mod term;
pub mod violation;

pub use address::{concatenating_transport_address, secure_transport_address, transport_address};
pub use host::{HostConnection, HostData, TcpHostConfig, TcpHostEvent};
pub use link::Negotiated;
pub use target::{TcpTargetConfig, TcpTargetConnection, TcpTargetEvent};
