//! iSCSI (RFC 7143) at error recovery level 0: sessions of one connection each, both ends.
//!
//! * [`pdu`]: the PDUs; [`text`]: `key=value` text, the keys and their negotiation; [`chap`]:
//!   authentication; [`digest`]: CRC32C;
//!   [`serial`]: wrapping sequence numbers.
//! * [`deviation`]: deviations of peers from the standard that are tolerated.
//! * [`target`]: the target's end of a connection, a [`StreamEngine`](crate::stream::StreamEngine).
//! * [`initiator`]: the initiator's end of a session.

pub mod chap;
pub mod deviation;
pub mod digest;
pub mod initiator;
mod link;
pub mod pdu;
pub mod serial;
pub mod target;
pub mod text;
