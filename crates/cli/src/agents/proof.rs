//! The proofs: each end shows that it has the key, for this one connection and for its own role.
//!
//! A proof is HMAC-SHA-256 with the key over a name, the role and a value that TLS derives from the
//! secrets of the connection (RFC 8446 §7.5, RFC 5705). Somebody in the middle has another value at
//! each end, so that a proof is worth nothing elsewhere; and as the roles differ, it cannot be sent
//! back.

use ring::hmac;

use super::key::AgentKey;
use crate::output::hex::{BYTES, hex, unhex};

/// What the exported value is for.
const LABEL: &[u8] = b"EXPORTER-weft-agent-proof-1";

/// Begins what is authenticated.
const NAME: &[u8] = b"weft agent proof 1";

/// An end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofSide {
    Study,
    Agent,
}

impl ProofSide {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Study => b"study",
            Self::Agent => b"agent",
        }
    }
}

/// The keying material that TLS exports for this connection.
pub struct Exported([u8; BYTES]);

impl Exported {
    /// Of a connection whose handshake is complete.
    pub fn of(tls: &rustls::Connection) -> Result<Self, rustls::Error> {
        tls.export_keying_material([0; BYTES], LABEL, None).map(Self)
    }

    fn text(&self, role: ProofSide) -> Vec<u8> {
        // The parts have fixed lengths or end with a byte that no part has.
        [NAME, &[0], role.name(), &[0], &self.0].concat()
    }

    /// The proof of one end, hexadecimal.
    pub fn proof(&self, key: &AgentKey, role: ProofSide) -> String {
        hex(hmac::sign(key.hmac(), &self.text(role)).as_ref())
    }

    /// Returns whether a proof is that of this end; takes the same time whatever is wrong with it.
    pub fn is_proof(&self, key: &AgentKey, role: ProofSide, proof: &str) -> bool {
        unhex(proof).is_some_and(|proof| hmac::verify(key.hmac(), &self.text(role), &proof).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_for_one_key_one_connection_and_one_role() {
        let key = |byte: u8| AgentKey::of(&[byte; 32]).unwrap();
        let (here, elsewhere) = (Exported([1; BYTES]), Exported([2; BYTES]));
        let proof = here.proof(&key(b'k'), ProofSide::Study);
        assert!(here.is_proof(&key(b'k'), ProofSide::Study, &proof));
        assert!(!here.is_proof(&key(b'l'), ProofSide::Study, &proof));
        assert!(!here.is_proof(&key(b'k'), ProofSide::Agent, &proof), "it cannot be sent back");
        assert!(!elsewhere.is_proof(&key(b'k'), ProofSide::Study, &proof), "nor be passed on");
        for wrong in
            ["", "00", &proof[1..], &format!("{proof}0"), &"é".repeat(32), &"+f".repeat(32)]
        {
            assert!(!here.is_proof(&key(b'k'), ProofSide::Study, wrong), "{wrong}");
        }
    }
}
