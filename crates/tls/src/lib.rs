//! TLS 1.3 with external pre-shared keys (RFC 8446 §2.2, §4.2.11) over any stream, by OpenSSL 3,
//! which is loaded when the first [`TlsAcceptor`] or [`TlsConnector`] is made. A build needs
//! nothing of it; on a machine without it the error names the package to install ([`Unavailable`]).
//!
//! * Version 1.3 only; `psk_dhe_ke` only: every connection has a Diffie-Hellman exchange of its
//!   own. No certificates, no early data, no tickets.
//! * The cipher suite follows from the key: AES-128-GCM for a key of SHA-256, AES-256-GCM for one
//!   of SHA-384.
//! * [`Peer`] is the identity of the other end, once it has proved it.
//! * [`keyring`]: keys that Linux keeps.
//! * The handshake is OpenSSL's. Then the records are the kernel's where it takes them (Linux), and
//!   are sealed and opened here otherwise ([`Records`]), with AES-GCM of `ring`.
//! * `openssl`, `kernel` and `keyring::system` are the only modules with unsafe code; the streams,
//!   the records and what is above them are safe.
//!
//! The handshake runs as the stream is used: nothing is sent by [`weft_io::Stream::send`] before it
//! is over. It has no time limit of its own; whoever speaks the protocol above limits how long a
//! peer may take to say its first word.
#![deny(unsafe_code)]

mod control;
mod endpoint;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod in_kernel;
#[allow(unsafe_code, reason = "the system calls of kernel TLS are made here, and nowhere else")]
mod kernel;
mod key;
pub mod keyring;
pub mod limits;
#[allow(unsafe_code, reason = "the functions of OpenSSL are called here, and nowhere else")]
mod openssl;
mod peer;
mod placeholder;
mod reason;
mod records;
mod schedule;
mod secured;
mod state;
#[cfg(test)]
mod tests;

pub use endpoint::{TlsAcceptor, TlsConnector, available};
pub use key::{Keys, Psk, PskHash};
pub use openssl::Unavailable;
pub use peer::{Peer, Records};
