//! Strangers at a target with TLS, each host with a key of its own.

use super::peer::Secure;
use super::{address, is_skipped, key, keys, nqn, psk, serve};
use crate::intruder::{Door, OWNER, STRANGER, nobody_takes_what_is_anothers};
use crate::served::Served;
use crate::wire::Who;
use weft_endpoint::export::Exports;
use weft_proto::nvme::auth::{Hash, PskKeys};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::types::Nqn;

struct Encrypted {
    served: Served<Exports>,
    keys: PskKeys,
}

impl Door for Encrypted {
    type Peer = Secure;

    const PROVES: bool = true;

    fn subsystem(&self) -> Nqn {
        nqn()
    }

    fn dial(&self, really: &str) -> Secure {
        Secure::connect(address(&self.served), &self.keys, &Nqn::new(really).unwrap(), &nqn())
    }

    fn prove(&self, _: &mut Secure, _: &Cqe, _: &str, _: &Who) -> bool {
        // The handshake has done so.
        true
    }
}

#[test]
fn nobody_takes_what_is_anothers_where_connections_are_encrypted() {
    if is_skipped() {
        return;
    }
    let lines = format!("{OWNER} {}\n{STRANGER} {}\n", key(1, Hash::Sha256), key(2, Hash::Sha384));
    nobody_takes_what_is_anothers(&Encrypted { served: serve(psk(&lines)), keys: keys(&lines) });
}
