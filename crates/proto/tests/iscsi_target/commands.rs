//! SCSI commands and their data.

use crate::iscsi_target::world::*;
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::target::{TargetEvent, TargetResponse};
use weft_proto::scsi::status::ScsiStatus;

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

#[test]
fn a_read_carries_its_status_with_the_last_data() {
    let mut world = World::logged_in(
        config(),
        "MaxRecvDataSegmentLength=512 HeaderDigest=CRC32C DataDigest=CRC32C MaxBurstLength=1024",
    );
    let command = world.scsi(READ, 1302);
    let tag = world.submit(&command, &[]);
    world.good(tag, &bytes(1302), 1302);
    let sent: Vec<Pdu> = (0..3).map(|_| world.pdu()).collect();
    let heads: Vec<DataIn> = sent.iter().map(|pdu| DataIn::decode(&pdu.bhs)).collect();
    assert_eq!(sent.iter().flat_map(|pdu| pdu.data.clone()).collect::<Vec<_>>(), bytes(1302));
    assert_eq!(
        heads.iter().map(|head| (head.data_sn.0, head.offset)).collect::<Vec<_>>(),
        [(0, 0), (1, 512), (2, 1024)]
    );
    let last =
        |head: &DataIn| (head.flags.has(DataInFlags::FINAL), head.flags.has(DataInFlags::STATUS));
    assert_eq!(
        heads.iter().map(last).collect::<Vec<_>>(),
        [(false, false), (true, false), (true, true)]
    );
    assert_eq!((heads[2].task, heads[2].status, heads[2].exp_cmd_sn.0), (command.task, 0, 2));
    assert_eq!(world.try_pdu(), None);
}

#[test]
fn residuals_count_both_ways() {
    for (expected, total, flags, residual) in [
        (512, 512, 0, 0),
        (100, 512, DataInFlags::OVERFLOW.0, 412),
        (1024, 512, DataInFlags::UNDERFLOW.0, 512),
    ] {
        let mut world = World::logged_in(config(), "");
        let command = world.scsi(READ, expected);
        let tag = world.submit(&command, &[]);
        world.good(tag, &bytes(512), total);
        let pdu = world.pdu();
        let head = DataIn::decode(&pdu.bhs);
        assert_eq!(
            (head.flags.0 & 6, head.residual, pdu.data.len() as u32),
            (flags, residual, expected.min(512))
        );
    }
    let mut world = World::logged_in(config(), "");
    let command = world.scsi(READ, 0);
    let tag = world.submit(&command, &[]);
    world.good(tag, &bytes(512), 512);
    let response = ScsiResponse::decode(&world.pdu().bhs);
    assert!(response.flags.has(ResponseFlags::OVERFLOW));
    assert_eq!(response.residual, 512);
}

#[test]
fn sense_data_comes_with_its_length() {
    let mut world = World::logged_in(config(), "DataDigest=CRC32C");
    let command = world.scsi(READ, 512);
    let tag = world.submit(&command, &[]);
    let answer = TargetResponse {
        status: ScsiStatus::CHECK_CONDITION,
        sense: &[0x70, 0, 5],
        data_bytes: 0,
        total_bytes: 0,
    };
    assert!(!world.end.engine.complete(tag, &answer));
    let pdu = world.pdu();
    let response = ScsiResponse::decode(&pdu.bhs);
    assert_eq!((response.status, response.residual, pdu.data), (2, 512, vec![0, 3, 0x70, 0, 5]));
}

#[test]
fn immediate_data_is_in_place_at_once() {
    let mut world = World::logged_in(config(), "HeaderDigest=CRC32C DataDigest=CRC32C");
    let command = world.scsi(WRITE, 514);
    let tag = world.submit(&command, &bytes(514));
    world.fetch(tag, 514, 514);
    assert_eq!(world.events, [TargetEvent::DataArrived { tag }]);
    assert_eq!(world.end.memory[tag.index()], bytes(514));
    world.end.engine.complete(tag, &TargetResponse { total_bytes: 514, ..TargetResponse::GOOD });
    let response = ScsiResponse::decode(&world.pdu().bhs);
    assert_eq!((response.status, response.residual, response.max_cmd_sn.0), (0, 0, 5));
}

#[test]
fn what_is_missing_is_asked_for_by_r2t() {
    let mut world =
        World::logged_in(config(), "MaxOutstandingR2T=2 InitialR2T=No MaxBurstLength=1024");
    let (command, data) = (world.scsi(WRITE_MORE, 4000), bytes(4000));
    let tag = world.submit(&command, &data[..200]);
    world.fetch(tag, 4000, 4000);
    assert_eq!(world.try_pdu(), None, "unsolicited data is still to come");
    world.data_out(&command, TaskTag::NONE, 0, 200, false, &data[200..400]);
    world.data_out(&command, TaskTag::NONE, 1, 400, true, &data[400..500]);
    let mut r2ts: Vec<R2t> = (0..2).map(|_| R2t::decode(&world.pdu().bhs)).collect();
    assert_eq!(world.try_pdu(), None, "no more than two");
    let mut next = 0;
    while let Some(r2t) = r2ts.get(next).copied() {
        assert_eq!((r2t.r2t_sn.0, r2t.task), (next as u32, command.task));
        let (start, end) = (r2t.offset as usize, (r2t.offset + r2t.desired_bytes) as usize);
        let middle = start + 100.min(end - start);
        world.data_out(&command, r2t.transfer, 0, r2t.offset, middle == end, &data[start..middle]);
        if middle < end {
            world.data_out(&command, r2t.transfer, 1, middle as u32, true, &data[middle..end]);
        }
        r2ts.extend(world.try_pdu().map(|pdu| R2t::decode(&pdu.bhs)));
        next += 1;
    }
    assert_eq!(next, 4);
    assert_eq!(world.events, [TargetEvent::DataArrived { tag }]);
    assert_eq!(world.end.memory[tag.index()], data);
}

#[test]
fn a_command_that_wants_no_data_is_answered_behind_it() {
    let mut world = World::logged_in(config(), "InitialR2T=No");
    let command = world.scsi(WRITE_MORE, 1000);
    let tag = world.submit(&command, &bytes(100));
    world.end.engine.complete(tag, &TargetResponse::GOOD);
    assert_eq!(world.try_pdu(), None);
    world.go_on();
    assert_eq!(world.try_pdu(), None);
    world.data_out(&command, TaskTag::NONE, 0, 100, true, &bytes(300));
    let response = ScsiResponse::decode(&world.pdu().bhs);
    assert_eq!((response.task, response.residual), (command.task, 1000));
}

#[test]
fn damaged_data_fails_its_command_alone() {
    let mut world = World::logged_in(config(), "DataDigest=CRC32C InitialR2T=No");
    let command = world.scsi(WRITE, 512);
    let mut wire = world.bytes(command.encode(512), &bytes(512));
    wire[100] ^= 1;
    world.feed(&wire);
    let Some(TargetEvent::Command { tag, .. }) = world.events.pop() else { panic!("no command") };
    world.fetch(tag, 512, 512);
    assert_eq!(world.events.pop(), Some(TargetEvent::DataFailed { tag }));
    let reject = world.pdu();
    assert_eq!(Reject::decode(&reject.bhs).reason, RejectReason::DATA_DIGEST);
    assert_eq!(reject.data, command.encode(512));
    // So does a number that is left out.
    let command = world.scsi(WRITE_MORE, 1000);
    let tag = world.submit(&command, &[]);
    world.fetch(tag, 1000, 1000);
    world.data_out(&command, TaskTag::NONE, 1, 0, true, &bytes(1000));
    assert_eq!(world.events.pop(), Some(TargetEvent::DataFailed { tag }));
}

#[test]
fn the_window_is_as_wide_as_there_is_room() {
    let mut world = World::logged_in(config(), "");
    let commands: Vec<_> = (0..4).map(|_| world.scsi(READ, 0)).collect();
    let tags: Vec<_> = commands.iter().map(|command| world.submit(command, &[])).collect();
    // A fifth one is ignored, data and all.
    let early = ScsiCommand { flags: WRITE, expected_bytes: 8, ..world.scsi(READ, 0) };
    world.send(early.encode(8), &[1; 8]);
    assert_eq!(world.events, []);
    // So is one that was there before.
    world.send(commands[0].encode(0), &[]);
    assert_eq!(world.events, []);
    world.end.engine.complete(tags[0], &TargetResponse::GOOD);
    let response = ScsiResponse::decode(&world.pdu().bhs);
    assert_eq!((response.exp_cmd_sn.0, response.max_cmd_sn.0), (5, 5));
    world.submit(&early, &[1; 8]);
}

#[test]
fn what_nobody_does_is_refused_by_the_engine() {
    let mut world = World::logged_in(config(), "");
    let both = world.scsi(CommandFlags(0xe0), 512);
    world.send(both.encode(0), &[]);
    let pdu = world.pdu();
    assert_eq!((ScsiResponse::decode(&pdu.bhs).status, pdu.data[2 + 12]), (2, 0x20));
    // A long CDB, in an additional header segment.
    let mut bhs = world.scsi(READ, 512).encode(0);
    bhs[4] = 2;
    world.feed(&[&bhs[..], &[0, 5, 1, 0, 1, 2, 3, 4]].concat());
    assert_eq!(ScsiResponse::decode(&world.pdu().bhs).status, 2);
    assert_eq!(world.events, []);
}

#[test]
fn a_command_that_is_given_up_gets_no_more_data() {
    let mut world = World::logged_in(config(), "InitialR2T=Yes ImmediateData=No");
    let command = world.scsi(WRITE, 1000);
    let tag = world.submit(&command, &[]);
    world.fetch(tag, 1000, 1000);
    let r2t = R2t::decode(&world.pdu().bhs);
    assert!(world.end.engine.abandon(tag));
    // The slot's next command is not meant by the answer.
    let next = world.scsi(WRITE, 1000);
    let again = world.submit(&next, &[]);
    assert_eq!(again, tag);
    world.fetch(again, 1000, 1000);
    world.data_out(&command, r2t.transfer, 0, 0, true, &bytes(1000));
    assert_eq!((&world.events[..], world.closed), (&[][..], false));
    let r2t = R2t::decode(&world.pdu().bhs);
    world.data_out(&next, r2t.transfer, 0, 0, true, &bytes(1000));
    assert_eq!(world.events, [TargetEvent::DataArrived { tag: again }]);
}
