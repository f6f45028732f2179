//! Calculations with the hash functions (Base §8.3.4.5.3 to §8.3.4.5.5).

use super::algorithm::Hash;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Bytes of the longest output.
const BYTES_MAX: usize = 64;

/// The output of a hash function, wiped when it is dropped.
#[derive(Clone)]
pub struct Digest {
    bytes: Zeroizing<[u8; BYTES_MAX]>,
    len: usize,
}

impl Digest {
    pub(crate) fn new(output: &[u8]) -> Self {
        let mut bytes = Zeroizing::new([0; BYTES_MAX]);
        let len = output.len().min(BYTES_MAX);
        bytes[..len].copy_from_slice(&output[..len]);
        Self { bytes, len }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Compares in a time that does not depend on where they differ.
    pub fn is(&self, other: &[u8]) -> bool {
        self.as_bytes().ct_eq(other).into()
    }
}

/// The hash of some bytes.
pub(super) fn hash(with: Hash, data: &[u8]) -> Digest {
    match with {
        Hash::Sha256 => Digest::new(&Sha256::digest(data)),
        Hash::Sha384 => Digest::new(&Sha384::digest(data)),
        Hash::Sha512 => Digest::new(&Sha512::digest(data)),
    }
}

/// HMAC over parts, one after the other.
pub(super) fn hmac(with: Hash, key: &[u8], parts: &[&[u8]]) -> Digest {
    fn of<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Digest {
        let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length");
        parts.iter().for_each(|part| mac.update(part));
        Digest::new(&mac.finalize().into_bytes())
    }
    match with {
        Hash::Sha256 => of::<Hmac<Sha256>>(key, parts),
        Hash::Sha384 => of::<Hmac<Sha384>>(key, parts),
        Hash::Sha512 => of::<Hmac<Sha512>>(key, parts),
    }
}

/// Input of a response, apart from the key.
pub(super) struct Said<'a> {
    /// The challenge as it was sent.
    pub challenge: &'a [u8],
    /// The session key, with a group.
    pub session: Option<&'a Digest>,
    /// The sequence number of the challenge.
    pub sequence: u32,
    /// T_ID.
    pub transaction: u16,
    /// SC_C.
    pub concatenation: u8,
}

/// Responding side.
#[derive(Clone, Copy)]
pub(super) enum Responder {
    /// The host.
    Host,
    /// The controller.
    Controller,
}

/// A response (Base §8.3.4.5.4, R1; §8.3.4.5.5, R2).
pub(super) fn response(
    with: Hash,
    key: &[u8],
    said: &Said<'_>,
    responder: Responder,
    hostnqn: &str,
    subnqn: &str,
) -> Digest {
    let augmented = said.session.map(|session| hmac(with, session.as_bytes(), &[said.challenge]));
    let challenge = augmented.as_ref().map_or(said.challenge, Digest::as_bytes);
    let (role, first, second) = match responder {
        Responder::Host => ("HostHost", hostnqn, subnqn),
        Responder::Controller => ("Controller", subnqn, hostnqn),
    };
    let (sequence, transaction, concatenation) =
        (said.sequence.to_le_bytes(), said.transaction.to_le_bytes(), [said.concatenation]);
    let parts: [&[u8]; 8] = [
        challenge,
        &sequence,
        &transaction,
        &concatenation,
        role.as_bytes(),
        first.as_bytes(),
        &[0],
        second.as_bytes(),
    ];
    hmac(with, key, &parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn hmac_is_that_of_rfc_4231() {
        // Test case 2.
        let of =
            |with| hex(hmac(with, b"Jefe", &[b"what do ya want ", b"for nothing?"]).as_bytes());
        assert_eq!(
            of(Hash::Sha256),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert!(
            of(Hash::Sha384)
                .starts_with("af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e")
        );
        assert!(
            of(Hash::Sha512)
                .starts_with("164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554")
        );
    }

    #[test]
    fn digests_are_compared_whole() {
        let one = Digest::new(&[1; 32]);
        assert!(
            one.is(&[1; 32])
                && !one.is(&[1; 31])
                && !one.is(&[1; 33])
                && !one.is(&[0; 32])
                && !one.is(&[])
        );
    }
}
