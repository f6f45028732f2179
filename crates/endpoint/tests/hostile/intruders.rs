//! Strangers where names are not proved: a name opens what is its host's, and nothing else.

use crate::hostile::tcp::{NQN, Served, Tcp};
use crate::intruder::{Door, nobody_takes_what_is_anothers};
use crate::wire::Who;
use weft_endpoint::export::nvme::TargetLimits;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::types::Nqn;

impl Door for Served {
    type Peer = Tcp;

    const PROVES: bool = false;

    fn subsystem(&self) -> Nqn {
        Nqn::new(NQN).unwrap()
    }

    fn dial(&self, _: &str) -> Tcp {
        self.connect()
    }

    fn prove(&self, _: &mut Tcp, _: &Cqe, _: &str, _: &Who) -> bool {
        true
    }
}

#[test]
fn nobody_takes_what_is_anothers_by_identifiers_alone() {
    nobody_takes_what_is_anothers(&Served::new(TargetLimits::default()));
}
