//! Golden bytes of what a logical unit tells about itself.

use super::rig::{ALL, BLOCKS, Rig, config};
use weft_proto::limits::SCSI_WRITE_SAME_BYTES_MAX;
use weft_proto::scsi::cdb::{Command, ReportingOptions};
use weft_proto::scsi::lun::{UnitFeatures, lun_of};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense as Code, ScsiStatus};

fn inquiry(page: Option<u8>, allocation: u32) -> Command {
    Command::Inquiry { page, allocation }
}

fn tell(features: UnitFeatures, command: Command) -> Vec<u8> {
    let mut rig = Rig::with(features);
    let host = &mut rig.host(1);
    let ended = rig.run(host, command, &[]);
    assert!(ended.is_good(), "{:?}", ended.sense);
    assert_eq!(ended.transfer_bytes as usize, ended.data.len());
    ended.data
}

#[test]
fn standard_inquiry_data() {
    let data = tell(ALL, inquiry(None, 255));
    assert_eq!(data[..8], [0, 0, 6, 0x12, 91, 0x10, 0, 2]);
    assert_eq!(&data[8..36], b"weft    disk            1.0 ");
    assert_eq!(data[58..66], [0x00, 0xa0, 0x04, 0x60, 0x04, 0xc0, 0x09, 0x60]);
    assert_eq!(data.len(), 96);
    assert_eq!(tell(ALL, inquiry(None, 5)), data[..5]);
    assert!(tell(ALL, inquiry(None, 0)).is_empty());
}

#[test]
fn pages_that_there_are() {
    assert_eq!(
        tell(ALL, inquiry(Some(0), 255)),
        [0, 0, 0, 7, 0, 0x80, 0x83, 0x86, 0xb0, 0xb1, 0xb2]
    );
    assert_eq!(tell(ALL, inquiry(Some(0x80), 255)), *b"\0\x80\0\x08SERIAL-1");
    for page in [0x83, 0x86, 0xb0, 0xb1, 0xb2] {
        let data = tell(ALL, inquiry(Some(page), 512));
        assert_eq!(
            (data[1], usize::from(data[2]) << 8 | usize::from(data[3])),
            (page, data.len() - 4)
        );
    }
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    assert_eq!(rig.run(host, inquiry(Some(0x81), 255), &[]).sense, Some(Sense::cdb_byte(2)));
}

#[test]
fn designators() {
    let data = tell(ALL, inquiry(Some(0x83), 512));
    let vendor = [&[0x02, 0x01, 0, 32][..], b"weft    disk            SERIAL-1"].concat();
    let naa = [0x01, 0x03, 0, 8, 0x38, 0x08, 0x08, 0x08, 0x08, 0x08, 0x08, 0x08];
    let uuid = [0x01, 0x0a, 0, 18, 0x10, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    let port = [0x51, 0x94, 0, 4, 0, 0, 0, 1];
    let group = [0x51, 0x95, 0, 4, 0, 0, 0, 1];
    let name = [&[0x53, 0x98, 0, 32][..], b"iqn.2026-11.example:t,t,0x0001\0\0"].concat();
    assert_eq!(data[4..], [&vendor[..], &naa, &uuid, &port, &group, &name].concat());
}

#[test]
fn designators_that_were_set() {
    let mut config = config(ALL);
    config.identity.naa = (0x60..0x70).collect();
    config.identity.t10 = Some("IET     00010001".into());
    let mut rig = Rig::of(config);
    let host = &mut rig.host(1);
    let data = rig.run(host, inquiry(Some(0x83), 512), &[]).data;
    let t10 = [&[0x02, 0x01, 0, 16][..], b"IET     00010001"].concat();
    let naa = [&[0x01, 0x03, 0, 16][..], &(0x60..0x70).collect::<Vec<u8>>()].concat();
    let uuid = [0x01, 0x0a, 0, 18, 0x10];
    assert!(data[4..].starts_with(&[&t10[..], &naa, &uuid].concat()), "{data:02x?}");
}

#[test]
fn limits_are_those_that_are_kept() {
    let data = tell(ALL, inquiry(Some(0xb0), 512));
    let mut expected = vec![0, 0xb0, 0, 0x3c, 1, 128, 0, 8, 0, 0, 1, 0];
    expected.resize(20, 0);
    expected.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 128, 0, 0, 0, 8, 0x80, 0, 0, 0]);
    expected.extend((SCSI_WRITE_SAME_BYTES_MAX >> 9).to_be_bytes());
    expected.resize(64, 0);
    assert_eq!(data, expected);
    let none = tell(UnitFeatures::default(), inquiry(Some(0xb0), 512));
    assert_eq!((none[5], &none[20..36]), (0, &[0; 16][..]));
}

#[test]
fn provisioning_and_the_rest() {
    assert_eq!(tell(ALL, inquiry(Some(0xb2), 64)), [0, 0xb2, 0, 4, 0, 0xe4, 2, 0]);
    assert_eq!(tell(UnitFeatures::default(), inquiry(Some(0xb2), 64)), [0, 0xb2, 0, 4, 0, 0, 0, 0]);
    assert_eq!(tell(ALL, inquiry(Some(0xb1), 6)), [0, 0xb1, 0, 0x3c, 0, 1]);
    assert_eq!(tell(ALL, inquiry(Some(0x86), 7)), [0, 0x86, 0, 0x3c, 0, 1, 1]);
}

#[test]
fn capacity() {
    assert_eq!(tell(ALL, Command::ReadCapacity10), [0, 0, 7, 0xff, 0, 0, 2, 0]);
    let mut expected = vec![0, 0, 0, 0, 0, 0, 7, 0xff, 0, 0, 2, 0, 0, 0, 0xc0, 0];
    expected.resize(32, 0);
    assert_eq!(tell(ALL, Command::ReadCapacity16 { allocation: 255 }), expected);
    assert_eq!(tell(ALL, Command::ReadCapacity16 { allocation: 12 }), expected[..12]);
    let rig = Rig::new();
    rig.unit.resize(BLOCKS << 32);
    let mut rig = rig;
    let host = &mut rig.host(1);
    assert_eq!(rig.run(host, Command::ReadCapacity10, &[]).data[..4], [0xff; 4]);
}

#[test]
fn a_lun_without_a_unit_says_so() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let ended = rig.send(host, lun_of(9), &inquiry(None, 96).encode().bytes, &[]);
    assert_eq!((ended.data.len(), ended.data[0]), (96, 0x7f));
    let sense = rig.send(
        host,
        lun_of(9),
        &Command::RequestSense { descriptor: false, allocation: 18 }.encode().bytes,
        &[],
    );
    assert_eq!(
        Sense::decode(&sense.data).map(|sense| sense.code),
        Some(Code::LOGICAL_UNIT_NOT_SUPPORTED)
    );
    let luns = rig.send(
        host,
        lun_of(9),
        &Command::ReportLuns { select: 0, allocation: 16 }.encode().bytes,
        &[],
    );
    assert_eq!(luns.data, [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let ready = rig.send(host, 0x0101 << 48, &Command::TestUnitReady.encode().bytes, &[]);
    assert_eq!(ready.sense.map(|sense| sense.code), Some(Code::LOGICAL_UNIT_NOT_SUPPORTED));
}

fn opcodes(options: ReportingOptions, timeouts: bool) -> Command {
    Command::ReportOpCodes { options, timeouts, allocation: 4096 }
}

#[test]
fn operation_codes_are_those_that_are_executed() {
    let usage = tell(ALL, opcodes(ReportingOptions::OpCode(0x28), false));
    assert_eq!(usage, [0, 3, 0, 10, 0x28, 0x1c, 0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0]);
    let reserve = tell(ALL, opcodes(ReportingOptions::ServiceAction(0x5f, 3), true));
    assert_eq!(reserve[..7], [0, 0x83, 0, 10, 0x5f, 0x03, 0xff]);
    assert_eq!(reserve[14..], [0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(tell(ALL, opcodes(ReportingOptions::Either(0x7f, 0), false)), [0, 1, 0, 0]);
    assert_eq!(tell(ALL, opcodes(ReportingOptions::Either(0x28, 0), false))[1], 3);
    assert_eq!(tell(ALL, opcodes(ReportingOptions::Either(0x5f, 2), false))[1], 3);
    let without = UnitFeatures { discard: false, ..ALL };
    assert_eq!(tell(without, opcodes(ReportingOptions::OpCode(0x42), false)), [0, 1, 0, 0]);
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    for options in [ReportingOptions::OpCode(0x5f), ReportingOptions::ServiceAction(0x28, 0)] {
        assert_eq!(rig.run(host, opcodes(options, false), &[]).status, ScsiStatus::CHECK_CONDITION);
    }
}

#[test]
fn the_list_of_all_commands_has_each_once() {
    for timeouts in [false, true] {
        let data = tell(ALL, opcodes(ReportingOptions::All, timeouts));
        let bytes = if timeouts { 20 } else { 8 };
        assert_eq!(u32::from_be_bytes(data[..4].try_into().unwrap()) as usize, data.len() - 4);
        let mut seen = std::collections::BTreeSet::new();
        for entry in data[4..].chunks_exact(bytes) {
            assert!(seen.insert((entry[0], entry[3])), "{entry:?}");
            assert_eq!(
                entry[5],
                u8::from(timeouts) << 1 | u8::from([0x5e, 0x5f, 0x9e, 0xa3].contains(&entry[0]))
            );
        }
        assert!(seen.len() > 45);
    }
}

#[test]
fn task_management_and_port_groups() {
    let tmf = |extended| Command::ReportTaskManagement { extended, allocation: 64 };
    assert_eq!(tell(ALL, tmf(false)), [0xda, 0, 0, 0]);
    assert_eq!(tell(ALL, tmf(true))[..4], [0xda, 0, 0, 12]);
    let groups = tell(ALL, Command::ReportTargetPortGroups { extended: true, allocation: 64 });
    assert_eq!(groups, [0, 0, 0, 16, 0x10, 10, 0, 0, 0, 0xcf, 0, 1, 0, 2, 0, 1, 0, 0, 0, 1]);
}

#[test]
fn the_unit_is_always_started() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let start_stop = |power_condition, load_eject, start| Command::StartStopUnit {
        immediate: false,
        power_condition,
        no_flush: false,
        load_eject,
        start,
    };
    assert!(rig.run(host, start_stop(0, false, true), &[]).is_good());
    assert_eq!(rig.run(host, start_stop(0, false, false), &[]).sense, Some(Sense::cdb_bit(4, 0)));
    assert_eq!(rig.run(host, start_stop(0, true, true), &[]).sense, Some(Sense::cdb_bit(4, 1)));
    assert_eq!(rig.run(host, start_stop(3, false, true), &[]).sense, Some(Sense::cdb_bit(4, 7)));
    for prevent in [true, false] {
        assert!(rig.run(host, Command::PreventAllow { prevent }, &[]).is_good());
    }
}

#[test]
fn all_blocks_are_mapped() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let mut status = |lba, allocation| rig.run(host, Command::LbaStatus { lba, allocation }, &[]);
    assert_eq!(
        status(5, 64).data,
        [0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 7, 0xfb, 0, 0, 0, 0],
        "one descriptor up to the end"
    );
    assert_eq!(status(BLOCKS - 1, 12).data.len(), 12);
    for lba in [BLOCKS, u64::MAX] {
        assert_eq!(
            status(lba, 64).sense,
            Some(Sense::illegal(Code::LBA_OUT_OF_RANGE).with_information(lba))
        );
    }
}

#[test]
fn log_pages() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let mut log = |page, subpage, parameter| {
        rig.run(host, Command::LogSense { page, subpage, parameter, allocation: 252 }, &[])
    };
    assert_eq!(log(0, 0, 0).data, [0, 0, 0, 2, 0, 0x2f]);
    assert_eq!(log(0, 0xff, 0).data, [0x40, 0xff, 0, 6, 0, 0, 0, 0xff, 0x2f, 0]);
    assert_eq!(log(0x2f, 0, 0).data, [0x2f, 0, 0, 8, 0, 0, 3, 4, 0, 0, 0xff, 0]);
    assert_eq!(log(0x0d, 0, 0).sense, Some(Sense::cdb_bit(2, 5)));
    assert_eq!(log(0x2f, 1, 0).sense, Some(Sense::cdb_byte(3)));
    assert_eq!(log(0x2f, 0, 1).sense, Some(Sense::cdb_byte(5)));
}
