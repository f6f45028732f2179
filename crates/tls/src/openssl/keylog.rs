//! The traffic secrets of a connection, which the library tells in the words of `SSLKEYLOGFILE`.

use super::context::known;
use super::library::loaded;
use super::types::Ssl;
use crate::key::Hash;
use crate::schedule::Secret;
use core::ffi::{CStr, c_char};
use zeroize::Zeroizing;

/// The secrets of the data of both directions, once they are known.
#[derive(Default)]
pub(super) struct Traffic {
    pub(super) of_client: Option<Secret>,
    pub(super) of_server: Option<Secret>,
}

impl Traffic {
    /// Takes a line: a name, the client's random number, and the secret.
    fn take(&mut self, line: &str) {
        let mut words = line.split(' ');
        let place = match words.next() {
            Some("CLIENT_TRAFFIC_SECRET_0") => &mut self.of_client,
            Some("SERVER_TRAFFIC_SECRET_0") => &mut self.of_server,
            _ => return,
        };
        *place = words.nth(1).and_then(secret);
    }
}

/// A secret from its hexadecimal digits.
fn secret(text: &str) -> Option<Secret> {
    let digits = text.as_bytes();
    let hash =
        [Hash::Sha256, Hash::Sha384].into_iter().find(|hash| digits.len() == 2 * hash.bytes())?;
    let mut bytes = Zeroizing::new(vec![0; hash.bytes()]);
    let value = |digit: u8| char::from(digit).to_digit(16);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = (value(pair[0])? << 4 | value(pair[1])?) as u8;
    }
    Some(Secret::new(&bytes, hash))
}

/// The library has a secret, and wipes its text when this has returned.
pub(super) unsafe extern "C" fn keylog(ssl: *const Ssl, line: *const c_char) {
    let Some(library) = loaded() else { return };
    if line.is_null() {
        return;
    }
    // SAFETY: the library calls this with a connection of ours and a text that ends with zero and
    // stays during the call.
    let (known, line) = unsafe { (known(library, ssl.cast_mut()), CStr::from_ptr(line)) };
    if let (Some(known), Ok(line)) = (known, line.to_str()) {
        known.traffic.borrow_mut().take(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_those_of_the_data() {
        let mut traffic = Traffic::default();
        let (random, short, long) = ("ab".repeat(32), "0f".repeat(32), "f1".repeat(48));
        traffic.take(&format!("CLIENT_HANDSHAKE_TRAFFIC_SECRET {random} {short}"));
        assert!(traffic.of_client.is_none() && traffic.of_server.is_none());
        traffic.take(&format!("CLIENT_TRAFFIC_SECRET_0 {random} {short}"));
        traffic.take(&format!("SERVER_TRAFFIC_SECRET_0 {random} {long}"));
        let hash = |secret: &Option<Secret>| secret.as_ref().map(Secret::hash);
        assert_eq!(
            (hash(&traffic.of_client), hash(&traffic.of_server)),
            (Some(Hash::Sha256), Some(Hash::Sha384))
        );
        for wrong in ["", "0", &"0g".repeat(32), &"00".repeat(33)] {
            traffic.take(&format!("CLIENT_TRAFFIC_SECRET_0 {random} {wrong}"));
            assert!(traffic.of_client.is_none(), "{wrong}");
        }
    }
}
