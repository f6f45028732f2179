//! Initiators that break the rules, one test for each rule whose breaking ends a connection.

use crate::iscsi_target::world::*;
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::target::Violation;
use weft_proto::limits::{AHS_BYTES_MAX, IMMEDIATE_COMMANDS_MAX};

#[test]
fn nothing_but_login_comes_first() {
    let mut world = World::new(config());
    world.send(NopOut::default().encode(0), &[]);
    assert_eq!(world.violation(), Some(Violation::NotLoggedIn(0)));
}

#[test]
fn long_data_segments_end_the_connection() {
    let mut world = World::new(config());
    world.feed(&world.login_request().encode(8193));
    assert_eq!(world.violation(), Some(Violation::DataSegmentLength(8193)));
    let mut world = World::logged_in(config(), "");
    let command = world.scsi(WRITE, 8000);
    world.feed(&command.encode(4097));
    assert_eq!(world.violation(), Some(Violation::DataSegmentLength(4097)));
}

#[test]
fn long_headers_end_the_connection() {
    let mut world = World::logged_in(config(), "");
    let mut bhs = world.scsi(READ, 0).encode(0);
    bhs[4] = (AHS_BYTES_MAX / 4 + 1) as u8;
    world.feed(&bhs);
    assert_eq!(world.violation(), Some(Violation::LongHeader));
}

#[test]
fn damaged_headers_end_the_connection() {
    let mut world = World::logged_in(config(), "HeaderDigest=CRC32C");
    let command = world.scsi(READ, 0);
    let mut wire = world.bytes(command.encode(0), &[]);
    wire[40] ^= 1;
    world.feed(&wire);
    assert_eq!(world.violation(), Some(Violation::HeaderDigest));
}

#[test]
fn commands_come_in_order() {
    let mut world = World::logged_in(config(), "");
    world.cmd_sn += 1;
    let command = world.scsi(READ, 0);
    world.send(command.encode(0), &[]);
    assert_eq!(world.violation(), Some(Violation::CommandGap));
}

#[test]
fn unsolicited_data_has_its_bounds() {
    let mut world = World::logged_in(config(), "ImmediateData=No");
    let command = world.scsi(WRITE, 512);
    world.send(command.encode(4), &[0; 4]);
    assert_eq!(world.violation(), Some(Violation::ImmediateData));
    let mut world = World::logged_in(config(), "");
    let command = world.scsi(READ, 512);
    world.send(command.encode(4), &[0; 4]);
    assert_eq!(world.violation(), Some(Violation::ImmediateData));
    let mut world = World::logged_in(config(), "FirstBurstLength=512");
    let command = world.scsi(WRITE, 2000);
    world.send(command.encode(516), &[0; 516]);
    assert_eq!(world.violation(), Some(Violation::UnsolicitedData));
    let mut world = World::logged_in(config(), "FirstBurstLength=512 InitialR2T=No");
    let command = world.scsi(WRITE_MORE, 2000);
    world.submit(&command, &[]);
    world.data_out(&command, TaskTag::NONE, 0, 0, true, &[0; 516]);
    assert_eq!(world.violation(), Some(Violation::UnsolicitedData));
}

#[test]
fn data_that_was_asked_for_comes_in_order_and_whole() {
    let answers: [(u32, usize, bool); 4] =
        [(4, 1024, true), (0, 1028, true), (0, 512, true), (512, 512, false)];
    for (offset, len, last) in answers {
        let mut world = World::logged_in(config(), "InitialR2T=Yes ImmediateData=No");
        let command = world.scsi(WRITE, 4096);
        let tag = world.submit(&command, &[]);
        world.fetch(tag, 4096, 4096);
        let r2t = R2t::decode(&world.pdu().bhs);
        world.data_out(&command, r2t.transfer, 0, offset, last, &vec![0; len]);
        assert_eq!(world.violation(), Some(Violation::DataOrder), "{offset} {len} {last}");
    }
}

#[test]
fn data_for_nobody_is_thrown_away() {
    let mut world = World::logged_in(config(), "DataDigest=CRC32C");
    let command = world.scsi(WRITE, 4096);
    for transfer in
        [TaskTag::NONE, TaskTag(0), TaskTag(5), TaskTag(0x7fff_ffff), TaskTag(u32::MAX - 1)]
    {
        world.data_out(&command, transfer, 0, 0, true, &[1; 9]);
    }
    assert_eq!((&world.events[..], world.closed), (&[][..], false));
    assert_eq!(world.try_pdu(), None);
}

#[test]
fn floods_end() {
    let mut world = World::logged_in(config(), "");
    let ping = NopOut { immediate: true, task: TaskTag(1), ..NopOut::default() };
    for _ in 0..10_000 {
        world.send(ping.encode(400), &[0; 400]);
    }
    assert_eq!(world.violation(), Some(Violation::Flood));
    // Immediate commands have a bound of their own, and are only rejected.
    let mut world = World::logged_in(config(), "");
    let command =
        ScsiCommand { immediate: true, flags: READ, task: TaskTag(3), ..ScsiCommand::default() };
    for _ in 0..IMMEDIATE_COMMANDS_MAX {
        world.submit(&command, &[]);
    }
    world.send(command.encode(0), &[]);
    assert_eq!(Reject::decode(&world.pdu().bhs).reason, RejectReason::TOO_MANY_IMMEDIATE);
    assert_eq!(world.events, []);
}

#[test]
fn text_that_is_none_ends_the_connection() {
    let mut world = World::logged_in(config(), "");
    let request = TextRequest {
        immediate: true,
        flags: TextFlags::FINAL,
        task: TaskTag(5),
        ..TextRequest::default()
    };
    world.send(request.encode(4), b"A\0=b");
    assert!(matches!(world.violation(), Some(Violation::Text(_))));
}
