//! The traffic secrets of a connection, which the library tells in the words of `SSLKEYLOGFILE`.

use crate::key::PskHash;
use crate::schedule::TrafficSecret;
use zeroize::Zeroizing;

/// The secrets of the data of both directions, once they are known.
#[derive(Default)]
pub(super) struct TrafficSecrets {
    pub(super) of_client: Option<TrafficSecret>,
    pub(super) of_server: Option<TrafficSecret>,
}

impl TrafficSecrets {
    /// Takes a line: a name, the client's random number, and the secret.
    pub(super) fn take(&mut self, line: &str) {
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
fn secret(text: &str) -> Option<TrafficSecret> {
    let digits = text.as_bytes();
    let hash = [PskHash::Sha256, PskHash::Sha384]
        .into_iter()
        .find(|hash| digits.len() == 2 * hash.bytes())?;
    let mut bytes = Zeroizing::new(vec![0; hash.bytes()]);
    let value = |digit: u8| char::from(digit).to_digit(16);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = (value(pair[0])? << 4 | value(pair[1])?) as u8;
    }
    Some(TrafficSecret::new(&bytes, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_those_of_the_data() {
        let mut traffic = TrafficSecrets::default();
        let (random, short, long) = ("ab".repeat(32), "0f".repeat(32), "f1".repeat(48));
        traffic.take(&format!("CLIENT_HANDSHAKE_TRAFFIC_SECRET {random} {short}"));
        assert!(traffic.of_client.is_none() && traffic.of_server.is_none());
        traffic.take(&format!("CLIENT_TRAFFIC_SECRET_0 {random} {short}"));
        traffic.take(&format!("SERVER_TRAFFIC_SECRET_0 {random} {long}"));
        let hash = |secret: &Option<TrafficSecret>| secret.as_ref().map(TrafficSecret::hash);
        assert_eq!(
            (hash(&traffic.of_client), hash(&traffic.of_server)),
            (Some(PskHash::Sha256), Some(PskHash::Sha384))
        );
        for wrong in ["", "0", &"0g".repeat(32), &"00".repeat(33)] {
            traffic.take(&format!("CLIENT_TRAFFIC_SECRET_0 {random} {wrong}"));
            assert!(traffic.of_client.is_none(), "{wrong}");
        }
    }
}
