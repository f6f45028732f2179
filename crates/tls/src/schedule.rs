//! Keys of records from traffic secrets (RFC 8446 §7.1 to §7.3).

use crate::key::PskHash;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha384};
use zeroize::Zeroizing;

/// A secret that one direction's keys are made of. It is wiped when it is dropped, and has no
/// `Debug`.
pub(crate) struct TrafficSecret {
    bytes: Zeroizing<Vec<u8>>,
    hash: PskHash,
}

/// Bytes of a nonce of AES-GCM.
const NONCE_BYTES: usize = 12;

impl TrafficSecret {
    /// One that the handshake has given.
    pub(crate) fn new(bytes: &[u8], hash: PskHash) -> Self {
        Self { bytes: Zeroizing::new(bytes.to_vec()), hash }
    }

    pub(crate) fn hash(&self) -> PskHash {
        self.hash
    }

    /// Key and nonce of its records.
    pub(crate) fn record_keys(&self) -> (Zeroizing<Vec<u8>>, Zeroizing<Vec<u8>>) {
        let key_bytes = if self.hash == PskHash::Sha256 { 16 } else { 32 };
        (self.expand(b"key", key_bytes), self.expand(b"iv", NONCE_BYTES))
    }

    /// The secret after a KeyUpdate.
    pub(crate) fn next(&self) -> Self {
        Self { bytes: self.expand(b"traffic upd", self.hash.bytes()), hash: self.hash }
    }

    /// HKDF-Expand-Label without a context. The results here are never longer than the hash, so one
    /// block is enough.
    fn expand(&self, label: &[u8], len: usize) -> Zeroizing<Vec<u8>> {
        let label_bytes = b"tls13 ".len() + label.len();
        let head = [0, len as u8, label_bytes as u8];
        let info: [&[u8]; 5] = [&head, b"tls13 ", label, &[0], &[1]];
        let mut block = match self.hash {
            PskHash::Sha256 => mac::<Hmac<Sha256>>(&self.bytes, &info),
            PskHash::Sha384 => mac::<Hmac<Sha384>>(&self.bytes, &info),
        };
        block.truncate(len);
        block
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    // HMAC takes keys of any length.
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else { return Zeroizing::default() };
    parts.iter().for_each(|part| mac.update(part));
    Zeroizing::new(mac.finalize().into_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// RFC 8448 §3: the server's application traffic secret and its keys.
    #[test]
    fn the_keys_are_those_of_the_published_trace() {
        let secret = TrafficSecret::new(
            &hex("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643"),
            PskHash::Sha256,
        );
        let (key, nonce) = secret.record_keys();
        assert_eq!(*key, hex("9f02283b6c9c07efc26bb9f2ac92e356"));
        assert_eq!(*nonce, hex("cf782b88dd83549aadf1e984"));
        assert_ne!(secret.next().bytes, secret.bytes);
        assert_eq!(TrafficSecret::new(&[1; 48], PskHash::Sha384).next().bytes.len(), 48);
    }
}
