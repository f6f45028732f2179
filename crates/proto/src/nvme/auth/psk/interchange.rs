//! The PSK interchange format (TCP transport 1.1 §3.6.1): `NVMeTLSkey-1:HH:BASE64:`.

use super::{Derivation, expand_label, extract};
use crate::nvme::auth::algorithm::Hash;
use crate::nvme::auth::digest::Digest;
use crate::nvme::auth::secret::{SecretError, checked, parts, text_of};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Prefix of a key.
const PREFIX: &str = "NVMeTLSkey-1:";

/// Reason why a text cannot be a key. No message repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It does not begin like one, or does not end like one.
    #[error("it does not have the form NVMeTLSkey-1:HH:BASE64:")]
    Form,
    /// The number of the hash function is not known.
    #[error("the number behind NVMeTLSkey-1: must be 00 (none), 01 (SHA-256) or 02 (SHA-384)")]
    Hash,
    /// The key is not valid base64.
    #[error("the key is not base64")]
    Base64,
    /// The key has another length.
    #[error("the key has the wrong length: 32 bytes go with 01, 48 with 02, and either with 00")]
    Length,
    /// The key was changed or cut.
    #[error("the CRC of the key is wrong: it was not copied whole")]
    Crc,
}

impl From<SecretError> for KeyError {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::Form => Self::Form,
            SecretError::Hash => Self::Hash,
            SecretError::Base64 => Self::Base64,
            SecretError::Length => Self::Length,
            SecretError::Crc => Self::Crc,
        }
    }
}

/// A configured PSK.
#[derive(Clone)]
pub struct InterchangeKey {
    key: Zeroizing<Vec<u8>>,
    hash: Option<Hash>,
}

impl PartialEq for InterchangeKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && bool::from(self.key.ct_eq(&other.key))
    }
}

impl InterchangeKey {
    /// Of random bytes: 32 for SHA-256, 48 for SHA-384, either without a hash function. `None`:
    /// another length or hash.
    pub fn of_key(key: &[u8], hash: Option<Hash>) -> Option<Self> {
        let fits = match hash {
            None => [32, 48].contains(&key.len()),
            Some(Hash::Sha256) => key.len() == 32,
            Some(Hash::Sha384) => key.len() == 48,
            Some(Hash::Sha512) => false,
        };
        fits.then(|| Self { key: Zeroizing::new(key.to_vec()), hash })
    }

    /// Reads a text; white space around it is ignored.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        Self::parse_with(PREFIX, text)
    }

    /// Reads a text with another prefix.
    pub(super) fn parse_with(prefix: &str, text: &str) -> Result<Self, KeyError> {
        let (hash, base64) = parts(prefix, text)?;
        if hash == Some(Hash::Sha512) {
            return Err(KeyError::Hash);
        }
        Self::of_key(&checked(base64)?, hash).ok_or(KeyError::Length)
    }

    /// The text of [`Self::parse`].
    pub fn text(&self) -> Zeroizing<String> {
        text_of(PREFIX, self.hash, &self.key)
    }

    /// The hash function that the text names, by which the key is bound to the host's name; `None`:
    /// it is not.
    pub fn hash(&self) -> Option<Hash> {
        self.hash
    }

    /// Bytes of the key.
    pub fn key_bytes(&self) -> usize {
        self.key.len()
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The hash function of the cipher suite that the key is for: SHA-256 for 32 bytes, SHA-384
    /// for 48.
    pub fn cipher_hash(&self) -> Hash {
        if self.key.len() == 32 { Hash::Sha256 } else { Hash::Sha384 }
    }

    /// The retained PSK: the configured one, bound to the host's name unless the text says 00.
    /// `None`: the name is longer than that of any host.
    pub fn retained(&self, hostnqn: &str, derivation: Derivation) -> Option<Digest> {
        match self.hash {
            None => Some(Digest::new(&self.key)),
            Some(hash) => expand_label(
                hash,
                &extract(hash, &self.key),
                "HostNQN",
                hostnqn.as_bytes(),
                derivation,
            ),
        }
    }
}
