//! The key of one direction (RFC 8446 §5.3).

use super::layout::{Header, TAG_BYTES};
use crate::key::PskHash;
use crate::schedule::TrafficSecret;
use core::hint::black_box;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::error::Unspecified;
use zeroize::Zeroizing;

const NONCE_BYTES: usize = ring::aead::NONCE_LEN;

/// A key, and the number of the next record under it. It is overwritten when it is dropped.
pub(super) struct RecordKey {
    /// In a box, so that it is not copied about.
    key: Box<LessSafeKey>,
    nonce: Zeroizing<[u8; NONCE_BYTES]>,
    number: u64,
}

impl RecordKey {
    /// That of a secret, of which no record was made yet.
    pub(super) fn of(secret: &TrafficSecret) -> Self {
        let (key, nonce) = secret.record_keys();
        let mut own = Zeroizing::new([0; NONCE_BYTES]);
        own.copy_from_slice(&nonce);
        Self { key: Box::new(expanded(secret.hash(), &key)), nonce: own, number: 0 }
    }

    /// Records that were made with it.
    pub(super) fn records(&self) -> u64 {
        self.number
    }

    /// As if so many records had been made with it.
    #[cfg(test)]
    pub(super) fn skip_to(&mut self, number: u64) {
        self.number = number;
    }

    /// The nonce of the next record. None comes twice: keys are changed long before the numbers are
    /// used up.
    fn next_nonce(&mut self) -> Nonce {
        let mut nonce = *self.nonce;
        let numbered = nonce[NONCE_BYTES - size_of::<u64>()..].iter_mut();
        numbered.zip(self.number.to_be_bytes()).for_each(|(byte, of_number)| *byte ^= of_number);
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Encrypts in place; the tag goes behind it.
    ///
    /// # Errors
    /// It is longer than AES-GCM allows, which no record is.
    pub(super) fn seal(
        &mut self,
        header: Header,
        bytes: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], Unspecified> {
        let nonce = self.next_nonce();
        let made = self.key.seal_in_place_separate_tag(nonce, Aad::from(header), bytes)?;
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(made.as_ref());
        Ok(tag)
    }

    /// Decrypts in place; gives the bytes without the tag.
    ///
    /// # Errors
    /// They are not authentic.
    pub(super) fn open<'a>(
        &mut self,
        header: Header,
        bytes: &'a mut [u8],
    ) -> Result<&'a mut [u8], Unspecified> {
        let nonce = self.next_nonce();
        self.key.open_in_place(nonce, Aad::from(header), bytes)
    }
}

impl Drop for RecordKey {
    fn drop(&mut self) {
        // A key of zeros in place of it, the longer one, which leaves none of its bytes. That it is
        // looked at keeps the compiler from leaving this out.
        *self.key = expanded(PskHash::Sha384, &[0; 32]);
        black_box(&self.key);
    }
}

/// A key of AES-GCM.
fn expanded(hash: PskHash, key: &[u8]) -> LessSafeKey {
    let suite = match hash {
        PskHash::Sha256 => &AES_128_GCM,
        PskHash::Sha384 => &AES_256_GCM,
    };
    let key = UnboundKey::new(suite, key).expect("a key of the suite's length");
    LessSafeKey::new(key)
}
