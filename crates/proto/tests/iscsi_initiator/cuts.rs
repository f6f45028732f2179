//! Data from a target, cut in two at every position: the initiator's events and output must not
//! depend on the cut.

use crate::iscsi_initiator::world::{Pdu, World, config, parse};
use weft_proto::iscsi::digest::Digests;
use weft_proto::iscsi::initiator::{InitiatorEvent, ScsiData};
use weft_proto::iscsi::pdu::*;

/// Events and output of the initiator, and its memory at the end.
type Log = (Vec<InitiatorEvent>, Vec<Pdu>, Vec<Vec<u8>>);

fn start(keys: &str) -> (World, Vec<TaskTag>) {
    let config = config().with_digests(Digests::BOTH, Digests::NONE);
    let mut world =
        World::logged_in(config, &format!("{keys}ImmediateData=No MaxOutstandingR2T=4 "));
    for data in [ScsiData::In(900), ScsiData::Out(2000), ScsiData::None, ScsiData::In(255)] {
        world.submit(data, 3);
    }
    let tasks = world.sent().iter().map(|pdu| ScsiCommand::decode(&pdu.bhs).task).collect();
    (world, tasks)
}

/// All kinds of PDUs.
fn stream(world: &mut World, tasks: &[TaskTag]) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut put = |world: &World, bhs: [u8; 48], data: &[u8]| stream.extend(world.bytes(bhs, data));
    put(world, world.data_in(tasks[0], 0, 0, DataInFlags::NONE).encode(401), &[1; 401]);
    put(world, NopIn { transfer: TaskTag(5), ..NopIn::default() }.encode(0), &[]);
    put(world, world.r2t(tasks[1], 0, 0, 1004).encode(0), &[]);
    put(world, world.r2t(tasks[1], 1, 1004, 996).encode(0), &[]);
    let sense = [&[0, 18][..], &[0x70; 18]].concat();
    let failed = world.response(tasks[2], 2);
    put(world, failed.encode(20), &sense);
    let rest = world.data_in(tasks[0], 1, 401, DataInFlags::STATUS);
    put(world, rest.encode(499), &[2; 499]);
    let short = DataInFlags::STATUS.with(DataInFlags::UNDERFLOW);
    put(
        world,
        DataIn { residual: 250, ..world.data_in(tasks[3], 0, 0, short) }.encode(5),
        b"hello",
    );
    let done = world.response(tasks[1], 0);
    put(world, done.encode(0), &[]);
    put(
        world,
        AsyncMessage { event: AsyncEvent::SCSI, ..AsyncMessage::default() }.encode(20),
        &sense,
    );
    stream
}

fn replay(keys: &str, cut: usize) -> (Log, usize) {
    let (mut world, tasks) = start(keys);
    world.end.eager = true;
    let stream = stream(&mut world, &tasks);
    let cut = cut.min(stream.len());
    world.reply_bytes(&stream[..cut]);
    world.reply_bytes(&stream[cut..]);
    assert_eq!(world.end.engine.fault(), None, "cut at {cut}");
    world.end.flush();
    let mut sent = parse(&world.end.take_wire(), world.digests);
    // What is acknowledged does depend on what has come.
    sent.iter_mut().for_each(|pdu| pdu.bhs[28..32].fill(0));
    ((world.events.clone(), sent, world.end.memory.clone()), stream.len())
}

fn every_cut(keys: &str) {
    let (whole, len) = replay(keys, 0);
    assert_eq!(whole.0.len(), 5, "{:?}", whole.0);
    assert_eq!(whole.1.len(), 3, "the ping's answer, and data twice");
    for cut in 1..len {
        assert!(replay(keys, cut).0 == whole, "cut at {cut}");
    }
}

#[test]
fn without_digests() {
    every_cut("");
}

#[test]
fn with_header_digests() {
    every_cut("HeaderDigest=CRC32C ");
}

#[test]
fn with_data_digests() {
    every_cut("DataDigest=CRC32C ");
}

#[test]
fn with_both_digests() {
    every_cut("HeaderDigest=CRC32C DataDigest=CRC32C ");
}

#[test]
fn a_login_in_single_bytes() {
    let mut world = World::new(config());
    let response = LoginResponse {
        flags: LoginFlags::new(LoginStage::SECURITY, Some(LoginStage::OPERATIONAL)),
        task: TaskTag(0x8000_0000),
        ..LoginResponse::default()
    };
    for byte in world.bytes(response.encode(16), b"AuthMethod=None\0") {
        world.sent();
        world.reply_bytes(&[byte]);
    }
    assert!(world.sent_one().value("InitialR2T").is_some());
}
