//! Targets that break the rules.

use crate::iscsi_initiator::world::{World, config};
use weft_proto::iscsi::digest::Digests;
use weft_proto::iscsi::initiator::{ScsiData, Violation};
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::serial::Serial;

/// Has a target that holds a read of 1,000 bytes and a write of 10,000 of ours break a rule.
fn broken(by: impl FnOnce(&mut World, TaskTag, TaskTag)) -> Violation {
    let config = config().with_digests(Digests::BOTH, Digests::NONE);
    let keys = "HeaderDigest=CRC32C DataDigest=CRC32C InitialR2T=Yes ImmediateData=No MaxOutstandingR2T=2 MaxBurstLength=4096 ";
    let mut world = World::logged_in(config, keys);
    world.submit(ScsiData::In(1000), 0);
    world.submit(ScsiData::Out(10_000), 0);
    let tasks: Vec<_> = world.sent().iter().map(|pdu| ScsiCommand::decode(&pdu.bhs).task).collect();
    by(&mut world, tasks[0], tasks[1]);
    assert!(world.closed && world.sent().is_empty());
    match world.end.engine.fault() {
        Some(weft_proto::iscsi::initiator::SessionFault::Violation(violation)) => *violation,
        other => panic!("{other:?}"),
    }
}

fn data(task: impl Fn(TaskTag, TaskTag) -> TaskTag, sn: u32, offset: u32, len: u32) -> Violation {
    broken(|world, read, write| {
        let pdu = world.data_in(task(read, write), sn, offset, DataInFlags::NONE);
        world.reply(pdu.encode(len), &vec![0; len as usize]);
    })
}

#[test]
fn data_in() {
    assert_eq!(data(|read, _| read, 1, 0, 8), Violation::Sequence);
    assert_eq!(data(|read, _| read, 0, 8, 8), Violation::Offset);
    assert_eq!(data(|read, _| read, 0, 0, 1001), Violation::Range);
    assert_eq!(data(|read, _| read, 0, u32::MAX, 8), Violation::Range);
    assert_eq!(data(|_, write| write, 0, 0, 8), Violation::Direction);
    assert_eq!(data(|read, _| TaskTag(read.0 ^ 1 << 16), 0, 0, 8), Violation::Task);
    assert_eq!(data(|_, _| TaskTag(500), 0, 0, 8), Violation::Task);
    assert_eq!(data(|_, _| TaskTag::NONE, 0, 0, 8), Violation::Task);
    assert_eq!(data(|read, _| read, 0, 0, 1 << 20), Violation::DataLimit(1 << 20));
}

#[test]
fn data_after_the_end() {
    let violation = broken(|world, read, _| {
        world.respond(read, 0);
        let pdu = world.data_in(read, 0, 0, DataInFlags::NONE);
        world.reply(pdu.encode(4), &[0; 4]);
    });
    assert_eq!(violation, Violation::Task);
    let violation = broken(|world, read, _| {
        world.respond(read, 0);
        world.respond(read, 0);
    });
    assert_eq!(violation, Violation::Task);
}

#[test]
fn r2ts() {
    let ask = |sn, offset, bytes| broken(|world, _, write| world.ask(write, sn, offset, bytes));
    assert_eq!(ask(1, 0, 8), Violation::Sequence);
    assert_eq!(ask(0, 8, 8), Violation::Offset);
    assert_eq!(ask(0, 0, 0), Violation::Burst);
    assert_eq!(ask(0, 9_000, 2000), Violation::Range);
    assert_eq!(ask(0, u32::MAX, 1), Violation::Range);
    assert_eq!(broken(|world, read, _| world.ask(read, 0, 0, 8)), Violation::Direction);
    let violation = broken(|world, _, write| {
        let pdu = R2t { transfer: TaskTag::NONE, ..world.r2t(write, 0, 0, 8) };
        world.reply(pdu.encode(0), &[]);
    });
    assert_eq!(violation, Violation::Direction);
    let violation = broken(|world, _, write| (0..3).for_each(|n| world.ask(write, n, n * 8, 8)));
    assert_eq!(violation, Violation::Outstanding(2));
    // A digest over part of a word.
    let violation = broken(|world, _, write| {
        world.ask(write, 0, 0, 9);
        world.ask(write, 1, 9, 8);
    });
    assert_eq!(violation, Violation::Alignment);
}

#[test]
fn digests() {
    for (at, expected) in
        [(10, Violation::HeaderDigest), (49, Violation::HeaderDigest), (60, Violation::DataDigest)]
    {
        let violation = broken(|world, read, _| {
            let response = world.response(read, 2);
            let mut bytes = world.bytes(response.encode(5), &[0, 3, 1, 2, 3]);
            bytes[at] ^= 0x40;
            world.reply_bytes(&bytes);
        });
        assert_eq!(violation, expected, "{at}");
    }
}

#[test]
fn other_pdus() {
    for opcode in [Opcode::LOGIN_RESPONSE, Opcode::NOP_OUT, Opcode::SCSI_COMMAND, Opcode(0x3e)] {
        let mut bhs = [0; 48];
        bhs[0] = opcode.0;
        assert_eq!(broken(|world, _, _| world.reply(bhs, &[])), Violation::Opcode(opcode.0));
    }
    let long = |world: &mut World, read, _| {
        let mut bhs = world.response(read, 0).encode(0);
        bhs[4] = 60;
        world.reply(bhs, &[]);
    };
    assert_eq!(broken(long), Violation::AdditionalHeader);
    let text = TextResponse { task: TaskTag(0x8000_0001), ..TextResponse::default() };
    assert_eq!(broken(|world, _, _| world.reply(text.encode(0), &[])), Violation::Task);
    let logout = LogoutResponse { task: TaskTag(0x8000_0003), ..LogoutResponse::default() };
    assert_eq!(broken(|world, _, _| world.reply(logout.encode(0), &[])), Violation::Task);
    let nop = NopIn { task: TaskTag(4), ..NopIn::default() };
    assert_eq!(broken(|world, _, _| world.reply(nop.encode(0), &[])), Violation::Task);
}

#[test]
fn before_login_only_login_responses_come() {
    for opcode in
        [Opcode::SCSI_RESPONSE, Opcode::DATA_IN, Opcode::R2T, Opcode::NOP_IN, Opcode::ASYNC_MESSAGE]
    {
        let mut world = World::new(config());
        let mut bhs = [0; 48];
        bhs[0] = opcode.0;
        world.reply(bhs, &[]);
        assert_eq!(world.end.engine.fault(), Some(&Violation::Opcode(opcode.0).into()));
    }
    let mut world = World::new(config());
    let response = LoginResponse { task: TaskTag(1), ..LoginResponse::default() };
    world.reply(response.encode(0), &[]);
    assert_eq!(world.end.engine.fault(), Some(&Violation::Login.into()));
    let mut world = World::new(config());
    let response = LoginResponse { stat_sn: Serial(9), ..LoginResponse::default() };
    world.reply_bytes(&response.encode(8193));
    assert_eq!(world.end.engine.fault(), Some(&Violation::DataLimit(8193).into()));
}
