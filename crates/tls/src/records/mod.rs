//! The records of TLS 1.3 in user space (RFC 8446 §5), after the handshake.
//!
//! * [`key`]: the key of one direction, the nonces of its records, and AES-GCM.
//! * [`layout`]: the header of a record, and what limits its length.
//! * [`opener`]: records that have come into data where the caller wants it.
//! * [`stream`]: both over a socket, with what records say that are not data.
//! * [`forge`]: records of any content, for tests and the fuzzer.
//! * [`spare`]: buffers, which a connection has only while something is in them.
//!
//! Data is copied once in each direction, and encrypted and decrypted in place in the buffers: the
//! caller's memory never holds what is not authentic.

mod forge;
mod key;
mod layout;
mod opener;
mod spare;
mod stream;
#[cfg(test)]
mod tests;

pub use forge::Forger;
pub(crate) use stream::RecordStream;
