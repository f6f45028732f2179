//! Secrets in the form in which administrators hold them: `DHHC-1:HH:BASE64:` (Base §8.3.4.5.7).

use super::algorithm::Hash;
use super::digest::hmac;
use base64ct::{Base64, Encoding};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Prefix of every secret.
const PREFIX: &str = "DHHC-1:";

/// Bytes of the CRC behind the key.
const CRC_BYTES: usize = 4;

/// Lengths that a key may have, bytes.
const KEY_BYTES: [usize; 3] = [32, 48, 64];

/// Longest text of a secret, bytes.
const TEXT_BYTES_MAX: usize = 128;

/// Suffix of a name when a key is bound to it.
const BOUND_TO: &str = "NVMe-over-Fabrics";

/// Reason why a text cannot be a secret. No message repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It does not begin like one.
    #[error("it does not have the form DHHC-1:HH:BASE64:")]
    Form,
    /// The number of the transformation is not known.
    #[error(
        "the number behind DHHC-1: must be 00 (none), 01 (SHA-256), 02 (SHA-384) or 03 (SHA-512)"
    )]
    Hash,
    /// The key is not valid base64.
    #[error("the key is not base64")]
    Base64,
    /// The key has another length.
    #[error("the key has a length other than 32, 48 or 64 bytes")]
    Length,
    /// The key was changed or cut.
    #[error("the CRC of the key is wrong: it was not copied whole")]
    Crc,
}

/// A secret that two parties share.
#[derive(Clone)]
pub struct DhchapSecret {
    key: Zeroizing<Vec<u8>>,
    transformation: Option<Hash>,
}

impl DhchapSecret {
    /// Of random bytes. `None`: a length that no secret has.
    pub fn of_key(key: &[u8], transformation: Option<Hash>) -> Option<Self> {
        KEY_BYTES
            .contains(&key.len())
            .then(|| Self { key: Zeroizing::new(key.to_vec()), transformation })
    }

    /// Of random bytes that are transformed for this name already. Whoever uses it transforms it
    /// again, as the text says: nvme-cli makes its secrets so.
    pub fn bound(key: &[u8], transformation: Hash, nqn: &str) -> Option<Self> {
        let raw = Self::of_key(key, Some(transformation))?;
        Some(Self { key: raw.transformed(nqn), transformation: Some(transformation) })
    }

    /// Reads a text; white space around it is ignored.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let (transformation, base64) = parts(PREFIX, text)?;
        Ok(Self { key: checked(base64)?, transformation })
    }

    /// The text of [`Self::parse`].
    pub fn text(&self) -> Zeroizing<String> {
        text_of(PREFIX, self.transformation, &self.key)
    }

    /// Bytes of the key.
    pub fn key_bytes(&self) -> usize {
        self.key.len()
    }

    /// The hash function of the transformation; `None`: the key is used as it is.
    pub fn transformation(&self) -> Option<Hash> {
        self.transformation
    }

    /// Returns whether another one has the same key, however it is transformed.
    pub fn has_key_of(&self, other: &Self) -> bool {
        self.key.ct_eq(&other.key).into()
    }

    /// The CRC-32 of the key, as it is in the text.
    pub fn crc(&self) -> u32 {
        crc(&self.key)
    }

    /// The key of the entity with this name: the host of its NQN, or the controllers of a
    /// subsystem's.
    pub(super) fn transformed(&self, nqn: &str) -> Zeroizing<Vec<u8>> {
        match self.transformation {
            None => self.key.clone(),
            Some(with) => Zeroizing::new(
                hmac(with, &self.key, &[nqn.as_bytes(), BOUND_TO.as_bytes()]).as_bytes().to_vec(),
            ),
        }
    }
}

impl PartialEq for DhchapSecret {
    fn eq(&self, other: &Self) -> bool {
        self.transformation == other.transformation && bool::from(self.key.ct_eq(&other.key))
    }
}

/// The hash function and the base64 part of a text `PREFIXHH:BASE64:`; white space around it is
/// ignored.
pub(super) fn parts<'a>(
    prefix: &str,
    text: &'a str,
) -> Result<(Option<Hash>, &'a str), SecretError> {
    let text = text.trim();
    let rest = text
        .strip_prefix(prefix)
        .filter(|_| text.len() <= TEXT_BYTES_MAX)
        .ok_or(SecretError::Form)?;
    let (number, rest) = rest.split_once(':').ok_or(SecretError::Form)?;
    let base64 =
        rest.strip_suffix(':').filter(|base64| !base64.contains(':')).ok_or(SecretError::Form)?;
    let hash = match number {
        "00" => None,
        "01" => Some(Hash::Sha256),
        "02" => Some(Hash::Sha384),
        "03" => Some(Hash::Sha512),
        _ => return Err(SecretError::Hash),
    };
    Ok((hash, base64))
}

/// The text of [`parts`] with a key and its CRC.
pub(super) fn text_of(prefix: &str, hash: Option<Hash>, key: &[u8]) -> Zeroizing<String> {
    let number = hash.map_or(0, Hash::id);
    Zeroizing::new(format!("{prefix}{number:02}:{}:", with_crc(key).as_str()))
}

/// A key and its CRC in base64.
fn with_crc(key: &[u8]) -> Zeroizing<String> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(key.len() + CRC_BYTES));
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&crc(key).to_le_bytes());
    Zeroizing::new(Base64::encode_string(&bytes))
}

/// The key of a base64 text with a CRC.
pub(super) fn checked(base64: &str) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    let mut bytes = Zeroizing::new(Base64::decode_vec(base64).map_err(|_| SecretError::Base64)?);
    let len = bytes
        .len()
        .checked_sub(CRC_BYTES)
        .filter(|len| KEY_BYTES.contains(len))
        .ok_or(SecretError::Length)?;
    let (key, theirs) = bytes.split_at(len);
    if crc(key).to_le_bytes() != *theirs {
        return Err(SecretError::Crc);
    }
    bytes.truncate(len);
    Ok(bytes)
}

fn crc(key: &[u8]) -> u32 {
    crc_fast::crc32_iso_hdlc(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back() {
        for bytes in KEY_BYTES {
            for transformation in [None, Some(Hash::Sha256), Some(Hash::Sha384), Some(Hash::Sha512)]
            {
                let key: Vec<u8> = (0..bytes as u8).map(|byte| byte.wrapping_mul(37)).collect();
                let secret =
                    DhchapSecret::of_key(&key, transformation).expect("a length that is allowed");
                let back = DhchapSecret::parse(&format!(" {}\n", secret.text().as_str()))
                    .expect("its own text");
                assert_eq!((&*back.key, back.transformation), (&key, transformation));
            }
        }
        assert!(DhchapSecret::of_key(&[0; 31], None).is_none());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = DhchapSecret::of_key(&[7; 32], Some(Hash::Sha256))
            .expect("a length that is allowed")
            .text();
        let is = |text: &str| DhchapSecret::parse(text).err();
        assert_eq!(is(&good), None);
        assert_eq!(is(""), Some(SecretError::Form));
        assert_eq!(is(&good[1..]), Some(SecretError::Form));
        assert_eq!(is(&good[..good.len() - 1]), Some(SecretError::Form));
        assert_eq!(is(&good.replace(":01:", ":04:")), Some(SecretError::Hash));
        assert_eq!(is(&good.replace(":01:", ":1:")), Some(SecretError::Hash));
        assert_eq!(is(&good.replacen("Bw", "B*", 1)), Some(SecretError::Base64));
        assert_eq!(is(&good.replacen("BwcH", "", 1)), Some(SecretError::Length));
        assert_eq!(is(&good.replacen("BwcH", "BwcI", 1)), Some(SecretError::Crc));
        assert_eq!(is(&format!("DHHC-1:00:{}:", "A".repeat(200))), Some(SecretError::Form));
    }
}
