//! Pre-shared keys for TLS, of NVMe/TCP (TCP transport 1.1 §3.6.1): who is let in, and who the
//! other end of a connection is.

use crate::renewal::Renewed;
use std::fmt;
use std::sync::Arc;
use weft_base::lock::SharedLock;
use weft_block::{Error, ErrorKind};
use weft_proto::nvme::auth::{
    Derivation, GeneratedPsk, Hash, IdentityVersion, Named, PskIdentity, PskKeys,
};
use weft_proto::nvme::controller::{CONNECT_BYTES, ConnectError};
use weft_proto::nvme::fabrics::ConnectData;
use weft_proto::nvme::types::Nqn;
use weft_tls::keyring::Keyring;
use weft_tls::{Peer, Psk, TlsAcceptor, TlsConnector, Unavailable};

/// TLS for NVMe/TCP: every connection must be encrypted, and both ends know one of these keys.
#[derive(Clone)]
pub struct TlsPsk {
    /// Those of a file. They may change while connections come and go; all clones have the same.
    keys: Arc<SharedLock<Arc<PskKeys>>>,
    /// For a host: where they are read anew before each association.
    renewal: Option<Renewed<PskKeys>>,
    keyring: Option<Keyring>,
    /// The records stay in user space even where the kernel would take them.
    is_in_user_space: bool,
    /// For a host, once it is known who it is and to whom it connects.
    client: Option<TlsConnector>,
}

impl fmt::Debug for TlsPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsPsk").field("keyring", &self.keyring).finish_non_exhaustive()
    }
}

impl weft_tls::Keys for TlsPsk {
    fn find(&self, identity: &[u8]) -> Option<Psk> {
        let of_file =
            || self.keys().find(identity).and_then(|found| psk(found.psk.as_bytes(), found.hash));
        of_file().or_else(|| {
            let hash = Named::parse(identity)?.hash;
            psk(&self.keyring?.find(core::str::from_utf8(identity).ok()?)?, hash)
        })
    }
}

/// A key for TLS, if there is a cipher suite with the hash function.
#[doc(hidden)]
pub fn psk(key: &[u8], hash: Hash) -> Option<Psk> {
    let hash = match hash {
        Hash::Sha256 => weft_tls::PskHash::Sha256,
        Hash::Sha384 => weft_tls::PskHash::Sha384,
        Hash::Sha512 => return None,
    };
    Some(Psk::new(key, hash))
}

fn unavailable(why: &Unavailable) -> Error {
    Error::new(ErrorKind::Unsupported, why.to_string())
}

/// Encrypts accepted connections whose hosts know one of these keys.
#[doc(hidden)]
pub fn server(keys: Arc<dyn weft_tls::Keys>) -> Result<TlsAcceptor, Error> {
    TlsAcceptor::new(keys).map_err(|why| unavailable(&why))
}

impl TlsPsk {
    /// With these keys. Looks whether this machine has TLS.
    ///
    /// # Errors
    /// That it has none, or that there is no key.
    pub fn new(keys: PskKeys) -> Result<Self, Error> {
        if keys.is_empty() {
            let text = "TLS needs a pre-shared key: give --tls-key-file FILE; `weft gen-tls-key` makes keys";
            return Err(Error::new(ErrorKind::Usage, text));
        }
        weft_tls::available().map_err(|why| unavailable(&why))?;
        Ok(Self {
            keys: Arc::new(SharedLock::new(Arc::new(keys))),
            renewal: None,
            keyring: None,
            is_in_user_space: false,
            client: None,
        })
    }

    /// With the keys in a keyring of Linux, which are looked up when they are needed.
    ///
    /// # Errors
    /// That there is no such keyring, or no TLS.
    pub fn of_keyring(name: &str) -> Result<Self, Error> {
        weft_tls::available().map_err(|why| unavailable(&why))?;
        let keyring =
            Keyring::open(name).map_err(|why| Error::new(ErrorKind::NotFound, why.to_string()))?;
        Ok(Self {
            keys: Arc::default(),
            renewal: None,
            keyring: Some(keyring),
            is_in_user_space: false,
            client: None,
        })
    }

    /// The same, whose connections keep their records in user space even where the kernel would
    /// take them.
    #[must_use]
    pub fn in_user_space(self) -> Self {
        Self { is_in_user_space: true, ..self }
    }

    /// Returns the same, for a host that reads the keys again before each association. A server
    /// gets other keys by [`Self::set_keys`].
    #[must_use]
    pub fn renewed(self, renewal: Option<Renewed<PskKeys>>) -> Self {
        Self { renewal, ..self }
    }

    /// The keys of a file, as they are now.
    pub fn keys(&self) -> Arc<PskKeys> {
        Arc::clone(&self.keys.read())
    }

    /// Takes other keys, for connections that begin from now on.
    pub fn set_keys(&self, keys: Arc<PskKeys>) {
        *self.keys.write() = keys;
    }

    /// Returns the TLS server that encrypts accepted connections.
    ///
    /// # Errors
    /// Why there is no TLS here.
    pub fn server(&self) -> Result<TlsAcceptor, Error> {
        let server = server(Arc::new(self.clone()))?;
        Ok(if self.is_in_user_space { server.in_user_space() } else { server })
    }

    /// For the connections of this host to a subsystem.
    ///
    /// # Errors
    /// There is no key for them, or no TLS here.
    pub fn bound(&self, hostnqn: &Nqn, subnqn: &Nqn) -> Result<Self, Error> {
        if let Some(renewal) = &self.renewal {
            self.set_keys(Arc::new(renewal.now(&self.keys())));
        }
        let Some((identity, psk)) = self.offer(hostnqn, subnqn) else {
            let text = match self.keyring {
                Some(_) => format!(
                    "the keyring has no TLS PSK of host {hostnqn} for subsystem {subnqn}; `nvme check-tls-key --insert` adds one"
                ),
                None => format!(
                    "--tls-key-file has no key of host {hostnqn} for subsystem {subnqn}; a key alone on its line is one of all hosts and subsystems"
                ),
            };
            return Err(Error::new(ErrorKind::NotFound, text));
        };
        let client =
            TlsConnector::new(identity.as_bytes(), psk).map_err(|why| unavailable(&why))?;
        let client = if self.is_in_user_space { client.in_user_space() } else { client };
        Ok(Self { client: Some(client), ..self.clone() })
    }

    /// For the connections of a host to a subsystem, with the key of which both know by an
    /// authentication.
    #[doc(hidden)]
    pub fn of_generated(
        made: &GeneratedPsk,
        (hostnqn, subnqn): (&Nqn, &Nqn),
        is_in_user_space: bool,
    ) -> Result<Self, Error> {
        let names = (hostnqn.as_str(), subnqn.as_str());
        let identity = PskIdentity::new(
            &made.key,
            made.hash,
            true,
            IdentityVersion::V1,
            names,
            Derivation::Standard,
        );
        let found = identity.and_then(|identity| {
            Some((psk(identity.psk.as_bytes(), identity.hash)?, identity.text))
        });
        let Some((key, text)) = found else {
            let text = format!(
                "no key for TLS can have the names {hostnqn} and {subnqn}: give the host another with --hostnqn"
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        };
        let client = TlsConnector::new(text.as_bytes(), key).map_err(|why| unavailable(&why))?;
        let client = if is_in_user_space { client.in_user_space() } else { client };
        Ok(Self {
            keys: Arc::default(),
            renewal: None,
            keyring: None,
            is_in_user_space,
            client: Some(client),
        })
    }

    /// What a host offers, and the key. Of the keyring: the newer identities first, as Linux's host
    /// does.
    fn offer(&self, hostnqn: &Nqn, subnqn: &Nqn) -> Option<(String, Psk)> {
        if let Some(PskIdentity { text, psk: key, hash }) = self.keys().offer(hostnqn, subnqn) {
            return psk(key.as_bytes(), hash).map(|psk| (text, psk));
        }
        let keyring = self.keyring?;
        ["NVMe1R02", "NVMe1R01", "NVMe0R02", "NVMe0R01"].iter().find_map(|kind| {
            let (text, key) = keyring.find_prefix(&format!("{kind} {hostnqn} {subnqn}"))?;
            let named = Named::parse(text.as_bytes())?;
            let is_meant = (named.hostnqn, named.subnqn) == (hostnqn.as_str(), subnqn.as_str());
            let psk = psk(&key, named.hash).filter(|_| is_meant)?;
            Some((text, psk))
        })
    }

    /// Returns the TLS client that encrypts outgoing connections, if [`Self::bound`] made it.
    pub fn client(&self) -> Option<&TlsConnector> {
        self.client.as_ref()
    }
}

/// The other end of a connection that is encrypted, or may be.
#[derive(Clone)]
#[doc(hidden)]
pub struct Proven {
    /// Its identity.
    pub peer: Peer,
    /// The host must use TLS.
    pub is_required: bool,
}

impl Proven {
    /// Checks that the data of a Connect names the host and the subsystem of the PSK identity.
    ///
    /// # Errors
    /// [`ConnectError::OtherIdentity`].
    #[doc(hidden)]
    pub fn check(&self, data: &[u8; CONNECT_BYTES]) -> Result<(), ConnectError> {
        if self.peer.identity().is_none() && !self.is_required {
            return Ok(());
        }
        let named = self.peer.identity().and_then(Named::parse);
        let is = |field: weft_proto::nvme::wire::NqnField, name: &str| {
            field.nqn().is_ok_and(|nqn| nqn.as_str() == name)
        };
        let data = ConnectData::decode(data).ok();
        let fits = named.zip(data).is_some_and(|(named, data)| {
            is(data.hostnqn, named.hostnqn) && is(data.subnqn, named.subnqn)
        });
        if fits { Ok(()) } else { Err(ConnectError::OtherIdentity) }
    }

    /// The identity of its key, where the connection is encrypted.
    #[doc(hidden)]
    pub fn identity(&self) -> Option<&[u8]> {
        self.peer.identity()
    }
}
