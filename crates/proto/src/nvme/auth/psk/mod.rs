//! Pre-shared keys for TLS 1.3 (TCP transport 1.1 §3.6.1; Base §8.3.4.5.9): what comes out of an
//! authentication, what administrators hold, and the identities and keys that TLS is given.
//!
//! * [`InterchangeKey`]: the configured PSK, as administrators hold it.
//! * [`PskIdentity`]: the name of a PSK for one host and one subsystem, and the key itself;
//!   [`Named`] reads such a name.
//! * [`PskKeys`]: all keys of one end, from a file.
//!
//! HKDF-Expand-Label is that of RFC 8446. Its context has a length of one byte, so an identity of
//! version 0, which is a context as a whole, may not be longer than 255 bytes; there is no key for
//! a longer one, here as in libnvme. Versions of libnvme before 1.15 encoded label and context
//! without their lengths, and the length of the output in the order of the machine:
//! [`Derivation::Compat`].

mod identity;
mod interchange;
mod keys;
#[cfg(test)]
mod tests;

pub use identity::{IdentityVersion, Named, PskIdentity, psk_digest};
pub use interchange::{InterchangeKey, KeyError};
pub use keys::{KeyFileError, KeyFileProblem, PskKeys};

use super::algorithm::Hash;
use super::digest::{Digest, hmac};

/// Prefix of each label.
const LABEL: &str = "tls13 ";

/// Longest context of HKDF-Expand-Label, bytes.
const CONTEXT_BYTES_MAX: usize = 255;

/// Derivation of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Derivation {
    /// As the specification has it.
    #[default]
    Standard,
    /// As libnvme did before version 1.15, on machines that store the low byte first.
    Compat,
}

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

/// HKDF-Extract without a salt (RFC 5869 §2.2).
fn extract(hash: Hash, key: &[u8]) -> Digest {
    hmac(hash, &[0; 64][..hash.bytes()], &[key])
}

/// HKDF-Expand-Label of TLS 1.3 (RFC 8446 §7.1) for one block of output, which is all that is
/// needed. `None`: the context is too long.
fn expand_label(
    hash: Hash,
    key: &Digest,
    label: &str,
    context: &[u8],
    derivation: Derivation,
) -> Option<Digest> {
    let bytes = hash.bytes() as u16;
    let context_len = u8::try_from(context.len()).ok()?;
    let key = key.as_bytes();
    Some(match derivation {
        Derivation::Standard => {
            let label_len = [(LABEL.len() + label.len()) as u8];
            let parts: [&[u8]; 7] = [
                &bytes.to_be_bytes(),
                &label_len,
                LABEL.as_bytes(),
                label.as_bytes(),
                &[context_len],
                context,
                &[1],
            ];
            hmac(hash, key, &parts)
        }
        Derivation::Compat => {
            let parts: [&[u8]; 5] =
                [&bytes.to_le_bytes(), LABEL.as_bytes(), label.as_bytes(), context, &[1]];
            hmac(hash, key, &parts)
        }
    })
}
