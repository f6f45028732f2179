//! iSCSI: initiator and target engine. Data of writes goes along with its command.

use crate::replay::{self, End};
use crate::{BLOCKS, BYTES, DEPTH};
use core::time::Duration;
use std::sync::Arc;
use weft_proto::iscsi::initiator::{
    CommandOutcome, Initiator, InitiatorCommand, InitiatorConfig, InitiatorEvent, ScsiData,
};
use weft_proto::iscsi::pdu::{Isid, Lun};
use weft_proto::iscsi::target::{
    IscsiTargetConfig, Portals, TargetConnection, TargetEvent, TargetResponse,
};
use weft_proto::iscsi::text::Name;
use weft_proto::stream::Tag;

/// READ (10) and WRITE (10).
const READ: u8 = 0x28;
const WRITE: u8 = 0x2a;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

struct Host {
    engine: Initiator,
    write: bool,
}

impl Host {
    fn new(write: bool) -> Self {
        let config = InitiatorConfig::new(
            name("iqn.2026-01.example.weft:initiator"),
            Isid::random([1, 2, 3], 4),
            Some(name("iqn.2026-01.example.weft:target")),
        );
        Self { engine: Initiator::new(config, Duration::ZERO), write }
    }
}

impl End for Host {
    type Engine = Initiator;

    fn engine(&mut self) -> &mut Initiator {
        &mut self.engine
    }

    fn submit(&mut self, round: usize) {
        for at in 0..DEPTH {
            let lba = ((round * DEPTH + at) % 120) as u32 * BLOCKS;
            let mut cdb = [0; 16];
            cdb[0] = if self.write { WRITE } else { READ };
            cdb[2..6].copy_from_slice(&lba.to_be_bytes());
            cdb[7..9].copy_from_slice(&(BLOCKS as u16).to_be_bytes());
            let data = if self.write { ScsiData::Out(BYTES) } else { ScsiData::In(BYTES) };
            self.engine
                .submit(Duration::ZERO, InitiatorCommand { lun: Lun(0), cdb, data })
                .unwrap();
        }
    }

    fn follow(&mut self, event: InitiatorEvent) -> bool {
        match event {
            InitiatorEvent::Ready => false,
            InitiatorEvent::Ended { tag, end: CommandOutcome::Answered(_) } => {
                self.engine.release(tag);
                true
            }
            other => panic!("{other:?}"),
        }
    }

    fn sent(&mut self, tag: Tag) {
        assert!(self.engine.sent(tag).is_none());
    }
}

struct Target(TargetConnection);

impl Target {
    fn new() -> Self {
        let config = IscsiTargetConfig::new(name("iqn.2026-01.example.weft:target"));
        Self(TargetConnection::new(Arc::new(config), Portals::one("192.0.2.1:3260"), [9; 33]))
    }
}

impl End for Target {
    type Engine = TargetConnection;

    fn engine(&mut self) -> &mut TargetConnection {
        &mut self.0
    }

    fn submit(&mut self, _: usize) {}

    /// The device is always done at once.
    fn follow(&mut self, event: TargetEvent) -> bool {
        match event {
            TargetEvent::Login => {
                self.0.admit(1, None);
                false
            }
            TargetEvent::Command { tag, command } if command.cdb[0] == READ => {
                let answer = TargetResponse {
                    data_bytes: BYTES,
                    total_bytes: BYTES,
                    ..TargetResponse::GOOD
                };
                self.0.complete(tag, &answer);
                true
            }
            TargetEvent::Command { tag, .. } => {
                assert_eq!(self.0.fetch(tag, BYTES), BYTES);
                false
            }
            TargetEvent::DataArrived { tag } => {
                self.0
                    .complete(tag, &TargetResponse { total_bytes: BYTES, ..TargetResponse::GOOD });
                true
            }
            other => panic!("{other:?}"),
        }
    }

    fn sent(&mut self, tag: Tag) {
        self.0.sent(tag);
    }
}

#[test]
fn initiator_read() {
    replay::host(|| Host::new(false), Target::new());
}

#[test]
fn initiator_write() {
    replay::host(|| Host::new(true), Target::new());
}

#[test]
fn target_read() {
    replay::target(Host::new(false), Target::new);
}

#[test]
fn target_write() {
    replay::target(Host::new(true), Target::new);
}
