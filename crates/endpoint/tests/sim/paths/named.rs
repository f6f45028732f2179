//! Hosts that are known by name: every attempt looks the name up again, and tries all addresses,
//! IPv4 and IPv6.

use super::rig::{Rig, S};
use crate::devices::Testing;
use crate::sim::protocols::PROTOCOLS;
use crate::sim::scene::{options, port};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use weft_block::path::PathState;
use weft_endpoint::{ConnectOptions, PathOptions};
use weft_io::sim::PortAnswer;

/// Where the target goes.
const ELSEWHERE: [&str; 2] = ["10.0.0.77", "fd00::77"];

fn at(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), port().port())
}

#[test]
fn a_target_that_moves_is_found_by_its_name_again() {
    for protocol in PROTOCOLS {
        for ip in ELSEWHERE {
            let mut rig = Rig::new(protocol, PathOptions::default());
            let write = rig.write(1, 7);
            rig.succeed(write);
            rig.kill_target();
            rig.start_target_at(at(ip), Testing::over(Arc::clone(&rig.store)));
            let read = rig.read(1);
            rig.run_for(30 * S);
            assert_eq!(
                rig.outcome(read),
                None,
                "{protocol:?}: nothing is at the address of the name"
            );
            // For a while there is no such name at all.
            rig.scene.names.set("target", Vec::new());
            rig.run_for(30 * S);
            assert_eq!(rig.outcome(read), None);
            let why = rig.paths()[0].why.clone().unwrap_or_default();
            assert!(why.contains("cannot find the host \"target\""), "{protocol:?}: {why}");
            rig.scene.names.set("target", vec![at(ip).ip()]);
            rig.succeed(read);
            assert_eq!(rig.value(read), 7, "{protocol:?} at {ip}");
            assert_eq!(rig.paths()[0].state, PathState::Live);
            rig.close();
        }
    }
}

#[test]
fn all_addresses_of_a_name_are_tried() {
    for protocol in PROTOCOLS {
        for (first, answer) in [("10.0.0.99", PortAnswer::Refuse), ("fd00::99", PortAnswer::Never)]
        {
            let mut rig = Rig::new(protocol, PathOptions::default());
            rig.scene.world.set_answer(at(first), answer);
            rig.kill_target();
            rig.start_target_at(at(ELSEWHERE[1]), Testing::over(Arc::clone(&rig.store)));
            let addresses: Vec<IpAddr> = [first, ELSEWHERE[1]].map(|ip| at(ip).ip()).into();
            rig.scene.names.set("target", addresses);
            let read = rig.read(1);
            let took = rig.succeed(read);
            assert!(took < 30 * S, "{protocol:?}, {first} first: {took:?}");
            rig.close();
        }
    }
}

#[test]
fn urls_hold_addresses_of_ipv6() {
    for protocol in PROTOCOLS {
        let mut rig = Rig::new(protocol, PathOptions::default());
        rig.start_target_at(at(ELSEWHERE[1]), Testing::over(Arc::clone(&rig.store)));
        let url = protocol.url_at(&format!("[{}]", ELSEWHERE[1]), port().port());
        let device = rig
            .scene
            .open_url(&url, &ConnectOptions { paths: PathOptions::default(), ..options() })
            .unwrap();
        assert_eq!(device.geometry().blocks, 2048, "{protocol:?}");
        drop(device);
        rig.close();
    }
}
