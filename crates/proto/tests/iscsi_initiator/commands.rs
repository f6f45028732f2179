//! Commands and their data.

use crate::iscsi_initiator::world::{World, config, good};
use weft_proto::iscsi::deviation::Deviation;
use weft_proto::iscsi::digest::Digests;
use weft_proto::iscsi::initiator::{
    CommandOutcome, CommandResponse, InitiatorCommand, InitiatorConfig, InitiatorEvent, Residual,
    ScsiData, SubmitError,
};
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::serial::Serial;

const BOTH: &str = "HeaderDigest=CRC32C DataDigest=CRC32C ";
const PLAIN: &str = "";

fn world(keys: &str) -> World {
    World::logged_in(config().with_digests(Digests::BOTH, Digests::NONE), keys)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

#[test]
fn a_read_in_one_pdu_with_status() {
    for keys in [PLAIN, BOTH] {
        let mut world = world(keys);
        let tag = world.submit(ScsiData::In(512), 0);
        let command = ScsiCommand::decode(&world.sent_one().bhs);
        assert_eq!(
            (command.expected_bytes, command.cmd_sn, command.exp_stat_sn),
            (512, Serial(1), Serial(102))
        );
        assert!(command.flags.has(CommandFlags::READ) && command.flags.has(CommandFlags::FINAL));
        let data = pattern(512);
        let pdu = world.data_in(command.task, 0, 0, DataInFlags::FINAL.with(DataInFlags::STATUS));
        world.reply(pdu.encode(512), &data);
        assert_eq!(world.ended(), (tag, good(512)));
        assert_eq!(world.end.memory[tag.index()], data);
        world.end.engine.release(tag);
        assert_eq!(world.end.engine.outstanding(), 0);
    }
}

#[test]
fn a_read_in_several_pdus_of_any_length() {
    for keys in [PLAIN, BOTH] {
        let mut world = world(keys);
        let tag = world.submit(ScsiData::In(1000), 0);
        let task = ScsiCommand::decode(&world.sent_one().bhs).task;
        let data = pattern(1000);
        for (sn, (from, to)) in [(0, 401), (401, 402), (402, 1000)].into_iter().enumerate() {
            let pdu = world.data_in(task, sn as u32, from, DataInFlags::NONE);
            world.reply(pdu.encode(to - from), &data[from as usize..to as usize]);
        }
        assert_eq!(world.take_events(), []);
        world.respond(task, 0);
        assert_eq!(world.ended(), (tag, good(1000)));
        assert_eq!(world.end.memory[tag.index()], data);
    }
}

#[test]
fn short_reads_have_a_residual() {
    let mut world = world(PLAIN);
    let tag = world.submit(ScsiData::In(255), 0);
    let task = ScsiCommand::decode(&world.sent_one().bhs).task;
    let flags = DataInFlags::FINAL.with(DataInFlags::STATUS).with(DataInFlags::UNDERFLOW);
    let pdu = DataIn { residual: 219, ..world.data_in(task, 0, 0, flags) };
    world.reply(pdu.encode(36), &pattern(36));
    let answer = CommandResponse {
        received_bytes: 36,
        residual: Residual::Underflow(219),
        ..CommandResponse::GOOD
    };
    assert_eq!(world.ended(), (tag, CommandOutcome::Answered(answer)));
}

#[test]
fn failures_bring_sense_data() {
    for keys in [PLAIN, BOTH] {
        let mut world = world(keys);
        let tag = world.submit(ScsiData::In(4096), 0);
        let task = ScsiCommand::decode(&world.sent_one().bhs).task;
        let sense = [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0];
        let data = [&[0, 18][..], &sense, &[0xaa; 100]].concat();
        let response = ScsiResponse {
            flags: ResponseFlags::UNDERFLOW,
            residual: 4096,
            ..world.response(task, 2)
        };
        world.reply(response.encode(data.len() as u32), &data);
        let answer = CommandResponse {
            status: 2,
            residual: Residual::Underflow(4096),
            ..CommandResponse::GOOD
        };
        assert_eq!(world.ended(), (tag, CommandOutcome::Answered(answer)));
        assert_eq!(world.end.engine.sense(tag), sense);
        world.end.engine.release(tag);
        let next = world.submit(ScsiData::None, 0);
        assert_eq!(world.end.engine.sense(next), []);
    }
}

#[test]
fn sense_data_of_any_length_is_taken() {
    for (length, sent) in [(252_u16, 254_usize), (0xffff, 20), (0, 2), (0, 1), (18, 0), (3, 8000)] {
        let mut world = world(BOTH);
        let tag = world.submit(ScsiData::None, 0);
        let task = ScsiCommand::decode(&world.sent_one().bhs).task;
        let mut data = vec![0x11; sent];
        data.iter_mut().zip(length.to_be_bytes()).for_each(|(to, from)| *to = from);
        let response = world.response(task, 2);
        world.reply(response.encode(data.len() as u32), &data);
        assert_eq!(world.ended().0, tag);
        assert_eq!(
            world.end.engine.sense(tag).len(),
            usize::from(length).min(sent.saturating_sub(2)).min(48)
        );
    }
}

/// Linux takes Data-In PDUs without data whatever their number is.
#[test]
fn data_in_without_data_needs_no_number() {
    for number in [0, 1, 9] {
        let mut world = world(PLAIN);
        let tag = world.submit(ScsiData::In(512), 0);
        let task = ScsiCommand::decode(&world.sent_one().bhs).task;
        let empty = world.data_in(task, number, 0, DataInFlags::NONE);
        world.reply(empty.encode(0), &[]);
        let pdu = world.data_in(
            task,
            u32::from(number == 0),
            0,
            DataInFlags::FINAL.with(DataInFlags::STATUS),
        );
        world.reply(pdu.encode(512), &pattern(512));
        assert_eq!(world.ended(), (tag, good(512)), "{number}");
    }
}

/// Linux and libiscsi answer an R2T for more than MaxBurstLength.
#[test]
fn a_target_that_asks_for_more_than_a_burst_gets_it() {
    let mut world = world("InitialR2T=Yes ImmediateData=No MaxBurstLength=512 ");
    let tag = world.submit(ScsiData::Out(4096), 7);
    let task = ScsiCommand::decode(&world.sent_one().bhs).task;
    for (sn, offset) in [(0, 0), (1, 2048)] {
        world.ask(task, sn, offset, 2048);
        let bytes: usize = world.sent().iter().map(|pdu| pdu.data.len()).sum();
        assert_eq!(bytes, 2048);
    }
    assert_eq!(world.take_events(), [InitiatorEvent::Deviation(Deviation::LongBurst)], "told once");
    world.respond(task, 0);
    assert_eq!(world.ended(), (tag, good(0)));
}

#[test]
fn damaged_reads_are_told() {
    let mut world = world(BOTH);
    for (status_in_data, sn) in [(true, 0), (false, 1)] {
        let tag = world.submit(ScsiData::In(512), 0);
        let task = ScsiCommand::decode(&world.sent_one().bhs).task;
        let flags = if status_in_data { DataInFlags::STATUS } else { DataInFlags::NONE };
        let mut bytes = world.bytes(world.data_in(task, 0, 0, flags).encode(512), &pattern(512));
        bytes[200] ^= 1;
        world.reply_bytes(&bytes);
        if !status_in_data {
            world.respond(task, 0);
        }
        let (ended, CommandOutcome::Answered(answer)) = world.ended() else { panic!("answered") };
        assert!(ended == tag && answer.damaged, "{sn}");
        world.end.engine.release(tag);
    }
    assert!(!world.closed);
}

/// Returns the immediate output of a write of `len` bytes: immediate bytes, and the Data-Out PDUs
/// behind it.
fn first_burst(keys: &str, len: u32) -> (usize, Vec<(u32, usize, bool)>) {
    let mut world = world(keys);
    let tag = world.submit(ScsiData::Out(len), 0);
    world.end.memory[tag.index()] = pattern(len as usize);
    let sent = world.sent();
    let command = ScsiCommand::decode(&sent[0].bhs);
    assert_eq!(command.flags.has(CommandFlags::FINAL), sent.len() == 1);
    assert_eq!(sent[0].data, pattern(len as usize)[..sent[0].data.len()]);
    let mut data = Vec::new();
    for (sn, pdu) in sent[1..].iter().enumerate() {
        let out = DataOut::decode(&pdu.bhs);
        assert_eq!(
            (out.task, out.transfer, out.data_sn),
            (command.task, TaskTag::NONE, Serial(sn as u32))
        );
        assert_eq!(pdu.data, pattern(len as usize)[out.offset as usize..][..pdu.data.len()]);
        data.push((out.offset, pdu.data.len(), out.flags == DataOutFlags::FINAL));
    }
    (sent[0].data.len(), data)
}

#[test]
fn writes_send_what_they_may_unasked() {
    assert_eq!(first_burst("MaxRecvDataSegmentLength=65536 ", 4096), (4096, vec![]));
    let keys =
        "MaxRecvDataSegmentLength=4096 FirstBurstLength=10240 InitialR2T=No ImmediateData=Yes ";
    assert_eq!(first_burst(keys, 20_000), (4096, vec![(4096, 4096, false), (8192, 2048, true)]));
    assert_eq!(first_burst(keys, 8192), (4096, vec![(4096, 4096, true)]));
    let keys =
        "MaxRecvDataSegmentLength=4096 FirstBurstLength=10240 InitialR2T=Yes ImmediateData=Yes ";
    assert_eq!(first_burst(keys, 20_000), (4096, vec![]));
    let keys =
        "MaxRecvDataSegmentLength=4096 FirstBurstLength=6144 InitialR2T=No ImmediateData=No ";
    assert_eq!(first_burst(keys, 20_000), (0, vec![(0, 4096, false), (4096, 2048, true)]));
    let keys = "InitialR2T=Yes ImmediateData=No ";
    assert_eq!(first_burst(keys, 20_000), (0, vec![]));
    // A first burst that ends within a word.
    let keys =
        "MaxRecvDataSegmentLength=4097 FirstBurstLength=10242 InitialR2T=No ImmediateData=Yes ";
    assert_eq!(first_burst(keys, 20_000), (4096, vec![]));
}

#[test]
fn r2ts_are_answered_in_order_and_several_at_a_time() {
    // Data digests are worked out over whole words.
    for (keys, odd) in [(PLAIN, 501), (BOTH, 500)] {
        let keys = format!(
            "InitialR2T=Yes ImmediateData=No MaxRecvDataSegmentLength=1024 MaxOutstandingR2T=3 {keys}"
        );
        let mut world = world(&keys);
        let tag = world.submit(ScsiData::Out(5000), 0);
        world.end.memory[tag.index()] = pattern(5000);
        let task = ScsiCommand::decode(&world.sent_one().bhs).task;
        world.ask(task, 0, 0, 1500);
        world.ask(task, 1, 1500, odd);
        world.ask(task, 2, 1500 + odd, 3500 - odd);
        let mut got = Vec::new();
        let mut shape = Vec::new();
        for pdu in world.sent() {
            let out = DataOut::decode(&pdu.bhs);
            assert_eq!((out.task, out.offset as usize), (task, got.len()));
            shape.push((
                out.transfer.0,
                out.data_sn.0,
                pdu.data.len(),
                out.flags == DataOutFlags::FINAL,
            ));
            got.extend(pdu.data);
        }
        assert_eq!(got, pattern(5000));
        let expected = [
            (1000, 0, 1024, false),
            (1000, 1, 476, true),
            (1001, 0, odd as usize, true),
            (1002, 0, 1024, false),
            (1002, 1, 1024, false),
            (1002, 2, 1452 - odd as usize, true),
        ];
        assert_eq!(shape, expected);
        world.respond(task, 0);
        assert_eq!(world.ended(), (tag, good(0)));
    }
}

#[test]
fn the_end_waits_for_what_is_being_sent() {
    let mut world = world(PLAIN);
    world.end.hold_releases = true;
    let tag = world.submit(ScsiData::Out(4096), 7);
    let task = ScsiCommand::decode(&world.sent_one().bhs).task;
    world.respond(task, 0);
    assert_eq!(world.take_events(), []);
    world.end.engine.release(tag);
    assert_eq!(world.end.engine.outstanding(), 1, "it has not ended");
    world.end.release_held();
    world.run();
    assert_eq!(world.ended(), (tag, good(0)));
}

#[test]
fn an_early_answer_ends_the_sending() {
    let mut world = world("InitialR2T=Yes ImmediateData=No MaxRecvDataSegmentLength=512 ");
    let tag = world.submit(ScsiData::Out(1 << 20), 7);
    let task = ScsiCommand::decode(&world.sent_one().bhs).task;
    world.ask(task, 0, 0, 262_144);
    world.respond(task, 2);
    assert!(matches!(world.ended(), (ended, CommandOutcome::Answered(_)) if ended == tag));
    assert!(world.sent().is_empty());
}

#[test]
fn the_window_is_respected() {
    let mut world = World::new(config());
    world.max_cmd_sn = 2;
    world.login(LoginStage::SECURITY, Some(LoginStage::OPERATIONAL), "");
    world.login(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), "");
    world.sent();
    world.take_events();
    for _ in 0..5 {
        world.submit(ScsiData::None, 0);
    }
    let first = world.sent();
    assert_eq!(first.len(), 2);
    world.max_cmd_sn = 3;
    world.respond(ScsiCommand::decode(&first[1].bhs).task, 0);
    assert_eq!(ScsiCommand::decode(&world.sent_one().bhs).cmd_sn, Serial(3));
    let nop = NopIn {
        stat_sn: Serial(world.stat_sn),
        exp_cmd_sn: Serial(3),
        max_cmd_sn: Serial(9),
        ..NopIn::default()
    };
    world.reply(nop.encode(0), &[]);
    assert_eq!(world.sent().len(), 2);
}

#[test]
fn commands_keep_their_order_and_do_not_interrupt_a_burst() {
    let mut world = world("MaxRecvDataSegmentLength=512 FirstBurstLength=4096 InitialR2T=No ");
    for _ in 0..3 {
        world.submit(ScsiData::Out(4096), 1);
    }
    let sent = world.sent();
    let mut task = TaskTag::NONE;
    let mut cmd_sn = 0;
    for pdu in &sent {
        if pdu.opcode() == Opcode::SCSI_COMMAND {
            let command = ScsiCommand::decode(&pdu.bhs);
            cmd_sn += 1;
            assert_eq!(command.cmd_sn, Serial(cmd_sn));
            task = command.task;
        } else {
            assert_eq!(DataOut::decode(&pdu.bhs).task, task);
        }
    }
    assert_eq!((cmd_sn, sent.len()), (3, 24));
}

#[test]
fn the_session_holds_so_many_commands() {
    let mut world = World::logged_in(InitiatorConfig { commands: 2, ..config() }, "");
    let first = world.submit(ScsiData::None, 0);
    world.submit(ScsiData::None, 0);
    let command = InitiatorCommand { lun: Lun(0), cdb: [0; 16], data: ScsiData::None };
    assert_eq!(world.end.engine.submit(world.now, command), Err(SubmitError::Full));
    let task = ScsiCommand::decode(&world.sent()[0].bhs).task;
    world.respond(task, 0);
    assert_eq!(world.take_events(), [InitiatorEvent::Ended { tag: first, end: good(0) }]);
    world.end.engine.release(first);
    assert!(world.end.engine.submit(world.now, command).is_ok());
}
