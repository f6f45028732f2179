//! A target that holds a write back and executes it late: the data is right with the rule, and
//! wrong without it.

use super::rig::{MS, Rig, S};
use crate::sim::protocols::{PROTOCOLS, Protocol};
use crate::sim::scene::{options, port};
use weft_endpoint::paths::{Failover, IoPolicy};
use weft_endpoint::{ConnectOptions, PathOptions};
use weft_io::sim::{Cut, PortAnswer};

/// A write is held back by the first of two targets, whose connections are cut. The same block is
/// written again, and both writes are acknowledged; or it takes too long. Then the first target
/// goes on. What is on the block in the end, and whether the later write was acknowledged before
/// that.
fn late_write(protocol: Protocol, failover: Failover) -> (u8, bool) {
    let paths = PathOptions { failover, io_policy: IoPolicy::Numa, ..PathOptions::default() };
    let mut rig = Rig::with(protocol, ConnectOptions { paths, ..options() }, 2);
    rig.knobs[0].freeze(true);
    rig.knobs[0].honour_cancel(false);
    let _old = rig.write(3, 1);
    assert!(rig.until(S, |rig| rig.knobs[0].held() == 1));
    rig.scene.world.set_answer(port(), PortAnswer::Refuse);
    rig.cut_from(0, Cut::Reset);
    rig.run_for(100 * MS);
    let new = rig.write(3, 2);
    rig.run_for(5 * S);
    let is_acknowledged = rig.outcome(new).is_some();
    rig.knobs[0].freeze(false);
    rig.run_for(60 * S);
    assert!(rig.outcome(new).is_some());
    let stored = rig.stored(3);
    rig.close();
    (stored, is_acknowledged)
}

#[test]
fn with_the_rule_the_later_write_stays() {
    for protocol in PROTOCOLS {
        assert_eq!(late_write(protocol, Failover::Safe), (2, false), "{protocol:?}");
    }
}

#[test]
fn without_it_the_old_write_undoes_an_acknowledged_one() {
    for protocol in PROTOCOLS {
        assert_eq!(
            late_write(protocol, Failover::Fast),
            (1, true),
            "{protocol:?}: this is the risk of --failover=fast"
        );
    }
}
