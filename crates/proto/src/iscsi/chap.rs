//! CHAP (RFC 1994) as used by iSCSI (RFC 7143 §12.1.3): the calculations of both ends.
//!
//! The algorithms are MD5, which the standard requires, and SHA-256 and SHA3-256, which are
//! registered for iSCSI and preferred.

use md5::Digest;
use zeroize::Zeroizing;

use super::text::{binary, number};

/// Bytes of a challenge, at most (§12.1.3).
pub const CHALLENGE_BYTES_MAX: usize = 1024;

/// Bytes of the challenges that weft makes.
pub const CHALLENGE_BYTES: usize = 32;

/// Bytes of a response, at most: those of the longest digest.
pub const RESPONSE_BYTES_MAX: usize = 32;

/// Bytes of a secret, at least: the 96 bits of §12.1.3.
pub const SECRET_BYTES_MIN: usize = 12;

/// An algorithm, by its number in the registry "PPP Authentication Algorithms".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Algorithm(pub u8);

impl Algorithm {
    /// MD5.
    pub const MD5: Self = Self(5);
    /// SHA-256.
    pub const SHA256: Self = Self(7);
    /// SHA3-256.
    pub const SHA3_256: Self = Self(8);

    /// Supported algorithms, the preferred first.
    pub const SUPPORTED: [Self; 3] = [Self::SHA3_256, Self::SHA256, Self::MD5];

    /// First offer of an initiator. SHA-256 comes last, as some targets (tgt, IET) take its number
    /// for that of SHA-1 and would choose it.
    pub const OFFERED: [Self; 3] = [Self::SHA3_256, Self::MD5, Self::SHA256];

    /// Offer to targets that read one number instead of a list, and refuse the above.
    pub const ONLY_MD5: [Self; 1] = [Self::MD5];

    /// The first one of a list `CHAP_A` that is spoken here.
    pub fn choose(list: &str) -> Option<Self> {
        list.split(',').find_map(|text| {
            Self::SUPPORTED.into_iter().find(|known| number(text) == Some(known.0.into()))
        })
    }

    /// A list of algorithms, for `CHAP_A`.
    pub fn list(algorithms: &[Self]) -> String {
        let numbers: Vec<String> = algorithms.iter().map(|one| one.0.to_string()).collect();
        numbers.join(",")
    }
}

/// A response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Response {
    bytes: [u8; RESPONSE_BYTES_MAX],
    len: usize,
}

impl Response {
    fn new(digest: &[u8]) -> Self {
        let mut bytes = [0; RESPONSE_BYTES_MAX];
        bytes[..digest.len()].copy_from_slice(digest);
        Self { bytes, len: digest.len() }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// As `CHAP_R`.
    pub fn text(&self) -> String {
        binary::encode(self.bytes())
    }

    /// Returns whether `CHAP_R` is this. Takes as long for a wrong one as for the right one.
    pub fn matches(&self, text: &str) -> bool {
        let Some(given) = binary::decode(text, RESPONSE_BYTES_MAX) else { return false };
        given.len() == self.len
            && self.bytes().iter().zip(&given).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

impl core::fmt::Debug for Response {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Response(…)")
    }
}

/// The response to a challenge: the digest of identifier, secret and challenge. `None`: the
/// algorithm is not spoken here.
pub fn respond(
    algorithm: Algorithm,
    identifier: u8,
    secret: &[u8],
    challenge: &[u8],
) -> Option<Response> {
    fn over<D: Digest>(identifier: u8, secret: &[u8], challenge: &[u8]) -> Response {
        Response::new(
            &D::new()
                .chain_update([identifier])
                .chain_update(secret)
                .chain_update(challenge)
                .finalize(),
        )
    }
    match algorithm {
        Algorithm::MD5 => Some(over::<md5::Md5>(identifier, secret, challenge)),
        Algorithm::SHA256 => Some(over::<sha2::Sha256>(identifier, secret, challenge)),
        Algorithm::SHA3_256 => Some(over::<sha3::Sha3_256>(identifier, secret, challenge)),
        _ => None,
    }
}

/// The value of `CHAP_I`.
pub fn identifier(text: &str) -> Option<u8> {
    u8::try_from(number(text)?).ok()
}

/// The value of `CHAP_C`; `None`: it is not a challenge, or empty.
pub fn challenge(text: &str) -> Option<Vec<u8>> {
    binary::decode(text, CHALLENGE_BYTES_MAX).filter(|bytes| !bytes.is_empty())
}

/// A secret. It is never printed, and wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct ChapSecret(Zeroizing<Vec<u8>>);

impl core::fmt::Debug for ChapSecret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Secret").finish_non_exhaustive()
    }
}

impl core::ops::Deref for ChapSecret {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Zeroizing<Vec<u8>>> for ChapSecret {
    fn from(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }
}

impl From<String> for ChapSecret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text.into_bytes()))
    }
}

impl From<&[u8]> for ChapSecret {
    fn from(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }
}

impl From<&str> for ChapSecret {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

/// A name and its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// `CHAP_N`.
    pub name: String,
    /// The secret.
    pub secret: ChapSecret,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out with Python's hashlib over 0x27, "secret-of-weft", "challenge".
    #[test]
    fn known_responses() {
        let of =
            |algorithm| respond(algorithm, 0x27, b"secret-of-weft", b"challenge").unwrap().text();
        assert_eq!(of(Algorithm::MD5), "0x35978609f0c115e5956f74b3c7cecb8f");
        assert_eq!(
            of(Algorithm::SHA256),
            "0xbd37964b3c47633ff16576e42993db75a16873f4234a10c0b2fd4a723e62c536"
        );
        assert_eq!(
            of(Algorithm::SHA3_256),
            "0x871a1a9ad8298d6e120e830d1ab1cde164acdc7befdc7f9577cd7832f2d97627"
        );
        assert_eq!(respond(Algorithm(6), 0, b"", b""), None);
    }

    #[test]
    fn responses_are_compared_whole() {
        let response = respond(Algorithm::MD5, 1, b"secret", b"challenge").unwrap();
        assert!(response.matches(&response.text()));
        assert!(response.matches(&response.text().to_uppercase()));
        assert!(!response.matches(&response.text()[..32]));
        assert!(!response.matches(&format!("{}00", response.text())));
        assert!(!response.matches("0x00"));
        assert!(!response.matches(""));
    }

    #[test]
    fn the_first_that_is_spoken_here_is_chosen() {
        assert_eq!(Algorithm::choose("5"), Some(Algorithm::MD5));
        assert_eq!(Algorithm::choose("6,7,5"), Some(Algorithm::SHA256));
        assert_eq!(Algorithm::choose("6"), None);
        assert_eq!(
            Algorithm::choose(&Algorithm::list(&Algorithm::OFFERED)),
            Some(Algorithm::SHA3_256)
        );
    }

    #[test]
    fn values_have_bounds() {
        assert_eq!(
            [identifier("255"), identifier("256"), identifier("0x10"), identifier("")],
            [Some(255), None, Some(16), None]
        );
        assert_eq!(
            challenge(&binary::encode(&[7; CHALLENGE_BYTES_MAX])).map(|bytes| bytes.len()),
            Some(CHALLENGE_BYTES_MAX)
        );
        assert_eq!(challenge(&binary::encode(&[7; CHALLENGE_BYTES_MAX + 1])), None);
        assert_eq!(challenge("0x"), None);
    }

    #[test]
    fn secrets_are_not_printed() {
        let credentials = Credentials { name: "me".into(), secret: "hidden".into() };
        assert!(
            !format!("{credentials:?}").contains("hidden")
                && !format!("{credentials:?}").contains("104")
        );
    }
}
