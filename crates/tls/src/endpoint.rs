//! The client and the server: what both ends of connections are set up with (RFC 8446 §1).

use crate::key::{Keys, Psk};
use crate::openssl::{Context, Secrets, Unavailable, library};
use crate::optional::OptionalTls;
use crate::peer::Peer;
use crate::reason::TlsRole;
use crate::secured::SecuredStream;
use std::sync::Arc;
use weft_io::stream::Stream;

/// Checks that this machine has TLS. Loads the library.
///
/// # Errors
/// What is missing.
pub fn available() -> Result<(), Unavailable> {
    library().map(drop)
}

/// Encrypts accepted connections.
#[derive(Clone)]
pub struct TlsAcceptor(Arc<Context>, bool);

impl TlsAcceptor {
    /// One whose clients know one of these keys.
    ///
    /// # Errors
    /// Why there is no TLS here.
    pub fn new(keys: Arc<dyn Keys>) -> Result<Self, Unavailable> {
        Ok(Self(Arc::new(Context::new(Secrets::Server(keys))?), true))
    }

    /// The same, with the records in user space even where the kernel would take them.
    #[must_use]
    pub fn in_user_space(self) -> Self {
        Self(self.0, false)
    }

    /// Encrypts a connection that was accepted. No byte of it may have been received.
    ///
    /// # Errors
    /// The library refuses one more.
    pub fn wrap(&self, stream: Box<dyn Stream>) -> Result<(Box<dyn Stream>, Peer), Unavailable> {
        let (stream, peer) = SecuredStream::wrap(stream, &self.0, TlsRole::Server, self.1)?;
        Ok((Box::new(stream), peer))
    }

    /// Encrypts a connection that was accepted if its other end begins with TLS, and leaves it as
    /// it is otherwise: then the peer has no identity, also when bytes have come. No byte of it may
    /// have been received.
    pub fn wrap_if_asked(&self, stream: Box<dyn Stream>) -> (Box<dyn Stream>, Peer) {
        let stream = OptionalTls::new(stream, &self.0, self.1);
        let peer = stream.whom().clone();
        (Box::new(stream), peer)
    }
}

/// Encrypts outgoing connections.
#[derive(Clone)]
pub struct TlsConnector(Arc<Context>, bool);

impl TlsConnector {
    /// One that has this key, under this identity.
    ///
    /// # Errors
    /// Why there is no TLS here.
    pub fn new(identity: &[u8], psk: Psk) -> Result<Self, Unavailable> {
        Ok(Self(Arc::new(Context::new(Secrets::Client(identity.to_vec(), psk))?), true))
    }

    /// The same, with the records in user space even where the kernel would take them.
    #[must_use]
    pub fn in_user_space(self) -> Self {
        Self(self.0, false)
    }

    /// Encrypts a connection that was made. No byte of it may have been sent.
    ///
    /// # Errors
    /// The library refuses one more.
    pub fn wrap(&self, stream: Box<dyn Stream>) -> Result<(Box<dyn Stream>, Peer), Unavailable> {
        let (stream, peer) = SecuredStream::wrap(stream, &self.0, TlsRole::Client, self.1)?;
        Ok((Box::new(stream), peer))
    }
}
