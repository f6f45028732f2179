//! Keys and where they come from.

use zeroize::Zeroizing;

/// The hash function that a key is for, and with it the cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PskHash {
    /// `TLS_AES_128_GCM_SHA256`.
    Sha256,
    /// `TLS_AES_256_GCM_SHA384`.
    Sha384,
}

impl PskHash {
    /// Bytes of what it gives.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
        }
    }

    /// The number of the cipher suite.
    pub(crate) const fn suite(self) -> [u8; 2] {
        match self {
            Self::Sha256 => [0x13, 0x01],
            Self::Sha384 => [0x13, 0x02],
        }
    }

    /// The name of the cipher suite.
    pub(crate) const fn suite_name(self) -> &'static core::ffi::CStr {
        match self {
            Self::Sha256 => c"TLS_AES_128_GCM_SHA256",
            Self::Sha384 => c"TLS_AES_256_GCM_SHA384",
        }
    }
}

/// A pre-shared key. It is wiped when it is dropped, and has no `Debug`.
#[derive(Clone)]
pub struct Psk {
    /// The key.
    pub key: Zeroizing<Vec<u8>>,
    /// Its hash function.
    pub hash: PskHash,
}

impl Psk {
    /// A key of these bytes.
    pub fn new(key: &[u8], hash: PskHash) -> Self {
        Self { key: Zeroizing::new(key.to_vec()), hash }
    }
}

/// Keys of a server.
pub trait Keys: Send + Sync {
    /// The key of an identity that a client offers. Called on the thread of the connection, at most
    /// [`TLS_IDENTITIES_MAX`](crate::limits::TLS_IDENTITIES_MAX) times for each of its hellos.
    fn find(&self, identity: &[u8]) -> Option<Psk>;
}
