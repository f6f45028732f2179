//! Pre-shared keys for TLS 1.3 (TCP transport 1.1 §3.6.1; Base §8.3.4.5.9): what comes out of an authentication, what administrators hold, and the
//! identities and keys that TLS is given.

use super::algorithm::Hash;
use super::digest::{Digest, hmac};
use super::secret::{SecretError, checked, with_crc};
use base64ct::{Base64, Encoding};
use zeroize::Zeroizing;

/// What stands in front of a key in the interchange format.
const PREFIX: &str = "NVMeTLSkey-1:";

/// Longest label of HKDF-Expand-Label here, with its prefix.
const LABEL: &str = "tls13 ";

/// The PSK that an authentication with secure channel concatenation generates: HMAC(KS, C1 ‖ C2).
#[derive(Clone)]
pub struct GeneratedPsk {
    /// The hash function of the authentication.
    pub hash: Hash,
    /// The key.
    pub key: Digest,
}

impl GeneratedPsk {
    pub(super) fn new(hash: Hash, session: &Digest, first: &[u8], second: &[u8]) -> Self {
        Self { hash, key: hmac(hash, session.as_bytes(), &[first, second]) }
    }
}

/// A key in the PSK interchange format: `NVMeTLSkey-1:HH:BASE64:`.
#[derive(Clone)]
pub struct InterchangeKey {
    key: Zeroizing<Vec<u8>>,
    hash: Option<Hash>,
}

impl InterchangeKey {
    /// Of random bytes: 32 for SHA-256, 48 for SHA-384. `None`: another length or hash.
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
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        let rest = text.strip_prefix(PREFIX).filter(|_| text.len() <= super::secret::TEXT_BYTES_MAX).ok_or(SecretError::Form)?;
        let (number, rest) = rest.split_once(':').ok_or(SecretError::Form)?;
        let base64 = rest.strip_suffix(':').filter(|base64| !base64.contains(':')).ok_or(SecretError::Form)?;
        let hash = match number {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            _ => return Err(SecretError::Hash),
        };
        let key = checked(base64)?;
        Self::of_key(&key, hash).ok_or(SecretError::Length)
    }

    /// The text of [`Self::parse`].
    pub fn text(&self) -> Zeroizing<String> {
        let number = self.hash.map_or(0, Hash::id);
        Zeroizing::new(format!("{PREFIX}{number:02}:{}:", with_crc(&self.key).as_str()))
    }

    /// The hash function of the cipher suite that the key is for: SHA-256 for 32 bytes, SHA-384 for 48.
    pub fn cipher_hash(&self) -> Hash {
        if self.key.len() == 32 { Hash::Sha256 } else { Hash::Sha384 }
    }

    /// The retained PSK of these two: the configured one, bound to the host's name unless the text says 00.
    pub fn retained(&self, hostnqn: &str) -> Digest {
        let Some(hash) = self.hash else { return Digest::new(&self.key) };
        let extracted = hmac(hash, &[0; 64][..hash.bytes()], &[&self.key]);
        expand_label(hash, extracted.as_bytes(), "HostNQN", hostnqn.as_bytes())
    }
}

/// An identity and the key that TLS is given with it (TCP transport 1.1 §3.6.1.3).
#[derive(Clone)]
pub struct Identity {
    /// `NVMe1R01 HOSTNQN SUBNQN DIGEST` or the older `NVMe0R01 HOSTNQN SUBNQN`.
    pub text: String,
    /// The TLS PSK.
    pub psk: Digest,
    /// The hash function of the cipher suites that it goes with.
    pub hash: Hash,
}

impl Identity {
    /// Of a retained (`R`) or a generated (`G`) PSK for these two. `version` 0 is that of TCP transport 1.0, without a digest; 1 that of 1.1.
    pub fn new(retained: &Digest, hash: Hash, is_generated: bool, version: u8, hostnqn: &str, subnqn: &str) -> Self {
        let kind = if is_generated { 'G' } else { 'R' };
        let number = hash.id();
        let (text, context) = if version == 0 {
            let text = format!("NVMe0{kind}{number:02} {hostnqn} {subnqn}");
            (text.clone(), text)
        } else {
            let digest = psk_digest(hash, retained.as_bytes(), hostnqn, subnqn);
            (format!("NVMe1{kind}{number:02} {hostnqn} {subnqn} {digest}"), format!("{number:02} {digest}"))
        };
        let extracted = hmac(hash, &[0; 64][..hash.bytes()], &[retained.as_bytes()]);
        let psk = expand_label(hash, extracted.as_bytes(), "nvme-tls-psk", context.as_bytes());
        Self { text, psk, hash }
    }
}

/// The PSK digest: Base64(HMAC(PSK, HOSTNQN ‖ " " ‖ SUBNQN ‖ " " ‖ "NVMe-over-Fabrics")).
pub fn psk_digest(hash: Hash, psk: &[u8], hostnqn: &str, subnqn: &str) -> String {
    let parts: [&[u8]; 5] = [hostnqn.as_bytes(), b" ", subnqn.as_bytes(), b" ", b"NVMe-over-Fabrics"];
    Base64::encode_string(hmac(hash, psk, &parts).as_bytes())
}

/// HKDF-Expand-Label of TLS 1.3 (RFC 8446 §7.1) for one block of output, which is all that is needed.
fn expand_label(hash: Hash, key: &[u8], label: &str, context: &[u8]) -> Digest {
    let length = (hash.bytes() as u16).to_be_bytes();
    let label_len = [(LABEL.len() + label.len()) as u8];
    let context_len = [context.len().min(255) as u8];
    let context = &context[..context.len().min(255)];
    let parts: [&[u8]; 7] = [&length, &label_len, LABEL.as_bytes(), label.as_bytes(), &context_len, context, &[1]];
    hmac(hash, key, &parts)
}
