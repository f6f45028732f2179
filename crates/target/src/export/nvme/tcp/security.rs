//! Security of NVMe/TCP connections: with TLS, without, or as the host chooses.

use crate::export::nvme::generated::GeneratedKeys;
use std::net::SocketAddr;
use std::sync::Arc;
use weft_block::Error;
use weft_connection::psk;
use weft_connection::tls::TlsFiles;
use weft_proto::nvme::controller::TransportAddress;
use weft_proto::nvme_tcp::{
    concatenating_transport_address, secure_transport_address, transport_address,
};
use weft_tls::TlsAcceptor;

/// What connections begin with.
#[derive(Clone, Default)]
pub(crate) enum ConnectionSecurity {
    /// NVMe/TCP.
    #[default]
    None,
    /// TLS.
    Tls(TlsAcceptor),
    /// TLS, or NVMe/TCP with which a host authenticates, and gets a key for TLS.
    Either(TlsAcceptor),
}

impl ConnectionSecurity {
    /// By the keys of a configuration; those that authentications generate are in `generated`.
    ///
    /// # Errors
    /// This system cannot do TLS, or a key is not usable.
    pub(in crate::export::nvme) fn new(
        tls: &TlsFiles,
        generated: &Arc<GeneratedKeys>,
    ) -> Result<Self, Error> {
        Ok(match &tls.psk {
            Some(psk) => Self::Tls(psk.server()?),
            None if tls.concat => {
                let server = psk::server(Arc::<GeneratedKeys>::clone(generated))?;
                let in_user_space = tls.concat_in_user_space;
                Self::Either(if in_user_space { server.in_user_space() } else { server })
            }
            None => Self::None,
        })
    }

    /// What discovery says of a port at this address that begins so.
    pub(in crate::export::nvme) fn address(&self, at: SocketAddr) -> TransportAddress {
        match self {
            Self::None => transport_address(at),
            Self::Tls(_) => secure_transport_address(at),
            Self::Either(_) => concatenating_transport_address(at),
        }
    }
}
