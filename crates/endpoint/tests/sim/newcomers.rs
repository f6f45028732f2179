//! Strangers who connect and say nothing, or stay: they do not keep others out.

use crate::devices::Testing;
use crate::sim::protocols::{AnyScene, IQN, PROTOCOLS, Protocol};
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{Connections, Setup, options};
use crate::wire;
use std::time::Duration;
use weft_endpoint::limits::{CONNECTIONS_MAX, NEWCOMERS_MAX};
use weft_io::{Handle, LoopConfig};
use weft_proto::iscsi::pdu::{Isid, LoginFlags, LoginRequest, LoginStage, TaskTag, padding};
use weft_proto::iscsi::serial::Serial;
use weft_proto::limits::HANDSHAKE_S;
use weft_proto::nvme::types::Cntlid;
use weft_proto::nvme_tcp::digest::Digests;

fn scene(protocol: Protocol) -> AnyScene {
    protocol.scene(Setup::new(1, Testing::new("ram:16MiB")))
}

/// A host of its own.
fn stranger(scene: &mut AnyScene) -> Handle {
    let host = scene.world.host("10.0.9.9");
    let on = scene.world.add_loop(host, &LoopConfig::default());
    scene.world.handle(on)
}

/// The beginning of what a peer says first, without its end.
fn half_said(protocol: Protocol) -> &'static [u8] {
    match protocol {
        // An ICReq of 128 bytes.
        Protocol::NvmeTcp => &[0, 0, 128, 0, 128, 0, 0, 0, 0, 0],
        // A Login Request.
        Protocol::Iscsi => &[0x43, 0x87, 0, 0],
        Protocol::Nbd => &[0, 0, 0, 3, b'I', b'H'],
    }
}

#[test]
fn who_says_nothing_leaves_room_and_goes() {
    for protocol in PROTOCOLS {
        let mut scene = scene(protocol);
        let from = stranger(&mut scene);
        // One half says nothing at all, the other begins.
        let crowd: Vec<_> = (0..CONNECTIONS_MAX + 100).map(|_| Puppet::on(from.clone())).collect();
        crowd.iter().step_by(2).for_each(|puppet| puppet.put(half_said(protocol)));
        scene.world.run_for(Duration::from_secs(1));
        assert_eq!(scene.target.connections(), NEWCOMERS_MAX / 4 * 3, "{protocol:?}");
        let device = scene
            .open_url(&protocol.url(), &options())
            .unwrap_or_else(|e| panic!("{protocol:?}: {e}"));
        let own = scene.target.connections() - NEWCOMERS_MAX / 4 * 3;
        scene.world.run_for(Duration::from_secs(HANDSHAKE_S) + Duration::from_secs(7));
        assert_eq!(scene.target.connections(), own, "{protocol:?}: the others are gone");
        assert!(crowd.iter().all(Puppet::has_ended), "{protocol:?}");
        drop(device);
    }
}

/// A connection that gets in, for good.
fn enters(puppet: &Puppet, protocol: Protocol, nth: usize) {
    match protocol {
        Protocol::NvmeTcp => {
            puppet.put(&wire::ic_req(Digests::NONE));
            puppet.put(&wire::connect_capsule(&who(), 0, Cntlid::DYNAMIC, 32));
        }
        Protocol::Iscsi => {
            let text =
                format!("InitiatorName=iqn.2026-01.example.weft:crowd{nth}\0TargetName={IQN}\0");
            let request = LoginRequest {
                immediate: true,
                flags: LoginFlags::new(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE)),
                isid: Isid::random([1, 2, 3], nth as u16),
                task: TaskTag(1),
                cid: 1,
                cmd_sn: Serial(1),
                ..LoginRequest::default()
            };
            let pad = &[0; 3][..padding(text.len() as u32)];
            puppet.put(&[&request.encode(text.len() as u32)[..], text.as_bytes(), pad].concat());
        }
        Protocol::Nbd => {
            puppet.put(
                &[&[0, 0, 0, 3][..], b"IHAVEOPT", &1_u32.to_be_bytes(), &1_u32.to_be_bytes(), b"1"]
                    .concat(),
            );
        }
    }
}

#[test]
fn who_stays_leaves_room() {
    for protocol in PROTOCOLS {
        let mut scene = scene(protocol);
        let from = stranger(&mut scene);
        let mut crowd = Vec::new();
        for nth in 0..CONNECTIONS_MAX + 100 {
            let puppet = Puppet::on(from.clone());
            enters(&puppet, protocol, nth);
            crowd.push(puppet);
            if nth % 256 == 255 {
                scene.world.run_for(Duration::from_millis(50));
            }
        }
        scene.world.run_for(Duration::from_millis(50));
        assert_eq!(scene.target.connections(), CONNECTIONS_MAX / 4 * 3, "{protocol:?}");
        let device = scene
            .open_url(&protocol.url(), &options())
            .unwrap_or_else(|e| panic!("{protocol:?}: {e}"));
        drop(device);
    }
}
