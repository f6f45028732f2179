//! Kernel TLS of Linux (ULP `tls`): the kernel encrypts and decrypts the records of a connected TCP
//! socket, so that the socket is sent to and received from like any other.
//!
//! * [`system`]: its system calls, the only ones here with unsafe code.
//! * [`KeyBytes`]: what the kernel takes of a direction (`linux/tls.h`).

mod direction;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod unsupported;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use unsupported as system;

pub(crate) use direction::TlsDirection;
pub(crate) use system::Socket;

use crate::key::PskHash;
use crate::schedule::TrafficSecret;
use std::io;
use zeroize::Zeroizing;

/// `EIO`: the next record is not data, and the call cannot take its type.
pub(crate) const OTHER_RECORD: i32 = 5;
/// `EBADMSG`: a record that is not authentic.
pub(crate) const BAD_RECORD: i32 = 74;
/// `EMSGSIZE`: a record that is too long.
pub(crate) const LONG_RECORD: i32 = 90;

/// `TLS_1_3_VERSION`.
const VERSION: u16 = 0x0304;
/// `TLS_CIPHER_AES_GCM_128`, `TLS_CIPHER_AES_GCM_256`.
const CIPHERS: [u16; 2] = [51, 52];

/// Bytes of the part of the nonce that the kernel calls the salt.
const SALT_BYTES: usize = 4;
/// Bytes of the number of the next record.
const NUMBER_BYTES: usize = 8;

/// Bytes of the largest `tls12_crypto_info_aes_gcm_*`.
const BYTES_MAX: usize = 4 + 8 + 32 + SALT_BYTES + NUMBER_BYTES;

/// A `tls12_crypto_info_aes_gcm_128` or `_256`: version and cipher, both 16 bits, the last eight
/// bytes of the nonce, the key, the first four of the nonce, and the number of the next record in
/// the order of the network. It has no gaps. It is wiped when it is dropped.
pub(crate) struct KeyBytes {
    bytes: Zeroizing<[u8; BYTES_MAX]>,
    len: usize,
}

impl KeyBytes {
    /// Of a direction of which no record was sent yet.
    pub(crate) fn of(secret: &TrafficSecret) -> Self {
        let (key, nonce) = secret.record_keys();
        let (salt, rest) = nonce.split_at(SALT_BYTES);
        let mut all = Self::empty(secret.hash());
        let mut at = 0;
        let cipher = CIPHERS[usize::from(secret.hash() == PskHash::Sha384)];
        for part in [
            &VERSION.to_ne_bytes()[..],
            &cipher.to_ne_bytes(),
            rest,
            &key,
            salt,
            &[0; NUMBER_BYTES],
        ] {
            all.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        all
    }

    /// Room for those of a cipher, which is all that the kernel looks at in it.
    fn empty(hash: PskHash) -> Self {
        let key_bytes = if hash == PskHash::Sha384 { 32 } else { 16 };
        Self { bytes: Zeroizing::new([0; BYTES_MAX]), len: BYTES_MAX - 32 + key_bytes }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    fn number(&self) -> u64 {
        let mut number = [0; NUMBER_BYTES];
        number.copy_from_slice(&self.bytes[self.len - NUMBER_BYTES..self.len]);
        u64::from_be_bytes(number)
    }
}

/// Records that were sent or received with the present keys.
///
/// # Errors
/// The system's.
pub(crate) fn records(
    socket: Socket<'_>,
    direction: TlsDirection,
    hash: PskHash,
) -> io::Result<u64> {
    let mut bytes = KeyBytes::empty(hash);
    system::keys(socket, direction, bytes.room())?;
    Ok(bytes.number())
}

/// Has the kernel use new keys for a direction, from record 0 on.
///
/// # Errors
/// `ResourceBusy`: it had keys before, and this kernel does not change them. Otherwise the
/// system's.
pub(crate) fn set_keys(
    socket: Socket<'_>,
    direction: TlsDirection,
    secret: &TrafficSecret,
) -> io::Result<()> {
    system::set_keys(socket, direction, KeyBytes::of(secret).bytes())
}

pub(crate) use system::{attach, expect_no_padding, receive, send, socket};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_kernel() {
        for (hash, len, cipher) in [(PskHash::Sha256, 40, 51_u16), (PskHash::Sha384, 56, 52)] {
            let secret = TrafficSecret::new(&[9; 48][..hash.bytes()], hash);
            let (key, nonce) = secret.record_keys();
            let made = KeyBytes::of(&secret);
            let bytes = made.bytes();
            assert_eq!((bytes.len(), made.number()), (len, 0));
            assert_eq!(
                (&bytes[..2], &bytes[2..4]),
                (&0x0304_u16.to_ne_bytes()[..], &cipher.to_ne_bytes()[..])
            );
            assert_eq!(
                (&bytes[4..12], &bytes[12..len - 12], &bytes[len - 12..len - 8]),
                (&nonce[4..], &key[..], &nonce[..4])
            );
        }
    }
}
