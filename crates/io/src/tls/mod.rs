//! TLS over any stream, by rustls. Streams without TLS know nothing of it.
//!
//! A [`TlsServer`] or [`TlsClient`] is created once, from files, and wraps connections; the
//! handshake runs as the stream is used. Versions 1.2 and 1.3; certificates, but no pre-shared
//! keys.

mod files;

pub use files::{TlsClient, TlsError, TlsServer};
