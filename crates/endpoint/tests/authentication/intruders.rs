//! Strangers at a target whose hosts authenticate, each with a secret of its own.

use super::strangers::authenticate;
use super::{Demanding, knows, secret, subsystem};
use crate::hostile::tcp::Tcp;
use crate::intruder::{Door, OWNER, STRANGER, nobody_takes_what_is_anothers};
use crate::wire::Who;
use std::collections::BTreeMap;
use weft_endpoint::inventory::Authentication;
use weft_proto::nvme::auth::{Concatenation, Group, Hash, HostKeys};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::ConnectResponse;
use weft_proto::nvme::types::Nqn;

fn own(name: &str) -> u8 {
    if name == OWNER { 1 } else { 2 }
}

impl Door for Demanding {
    type Peer = Tcp;

    const PROVES: bool = true;

    fn subsystem(&self) -> Nqn {
        subsystem()
    }

    fn dial(&self, _: &str) -> Tcp {
        Tcp::new(self.target.addresses()[0])
    }

    fn prove(&self, peer: &mut Tcp, connected: &Cqe, really: &str, claimed: &Who) -> bool {
        let connected = ConnectResponse::decode(connected.result as u32);
        assert_eq!(connected.authentication, ConnectResponse::AUTHENTICATION_REQUIRED);
        let keys = HostKeys {
            hostnqn: claimed.host.nqn.as_str().to_owned(),
            subnqn: claimed.subsystem.as_str().to_owned(),
            secret: secret(own(really)),
            controller: None,
            hashes: Hash::ALL.to_vec(),
            groups: vec![Group::Null],
            concatenation: Concatenation::None,
        };
        let is_in = authenticate(peer, keys, true, |_| ()).is_ok();
        if !is_in {
            peer.wait_for_end();
        }
        is_in
    }
}

#[test]
fn nobody_takes_what_is_anothers_where_hosts_authenticate() {
    let hosts = [OWNER, STRANGER].map(|name| (Nqn::new(name).unwrap(), vec![secret(own(name))]));
    let target = Demanding::new(Authentication { hosts: BTreeMap::from(hosts), ..knows(&[]) });
    nobody_takes_what_is_anothers(&target);
}
