//! MODE SENSE and MODE SELECT.

use super::rig::{ALL, BLOCK, Ended, Rig};
use weft_proto::scsi::cdb::{Command, Extent, PageControl};
use weft_proto::scsi::lun::{Nexus, UnitFeatures};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense as Code, SenseKey as Key};

const CONTROL: u8 = 0x0a;

fn sense(page: u8, control: PageControl) -> Command {
    Command::ModeSense {
        ten: false,
        no_descriptors: true,
        long_lba: false,
        control,
        page,
        subpage: 0,
        allocation: 255,
    }
}

fn select(rig: &mut Rig, host: &mut Nexus, list: &[u8]) -> Ended {
    rig.run(host, Command::ModeSelect { ten: false, parameters: list.len() as u32 }, list)
}

/// The control page with this in its bytes 2 and 4.
fn control(d_sense: u8, swp: u8) -> Vec<u8> {
    vec![0, 0, 0, 0, CONTROL, 10, d_sense, 0x10, swp, 0, 0, 0, 0xff, 0xff, 0, 0]
}

#[test]
fn pages_are_laid_out_as_the_standard_shows() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let mut caching = vec![23, 0, 0x10, 0, 0x08, 18, 0x04];
    caching.resize(24, 0);
    assert_eq!(rig.run(host, sense(0x08, PageControl::Current), &[]).data, caching);
    let data = rig.run(host, sense(CONTROL, PageControl::Current), &[]).data;
    assert_eq!(data, [15, 0, 0x10, 0, CONTROL, 10, 0, 0x10, 0, 0, 0, 0, 0xff, 0xff, 0, 0]);
    let data = rig.run(host, sense(CONTROL, PageControl::Changeable), &[]).data;
    assert_eq!(data[4..], [CONTROL, 10, 0x04, 0, 0x08, 0, 0, 0, 0, 0, 0, 0]);
    let all = rig.run(host, sense(0x3f, PageControl::Current), &[]).data;
    assert_eq!((all.len(), usize::from(all[0]) + 1), (60, 60));
    assert_eq!([all[4], all[16], all[36], all[48]], [0x01, 0x08, CONTROL, 0x1c]);
}

#[test]
fn headers_and_descriptors_have_two_sizes() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let ask = |ten, no_descriptors, long_lba| Command::ModeSense {
        ten,
        no_descriptors,
        long_lba,
        control: PageControl::Current,
        page: CONTROL,
        subpage: 0,
        allocation: 255,
    };
    let short = [0, 0, 8, 0, 0, 0, 2, 0];
    let data = rig.run(host, ask(false, false, false), &[]).data;
    assert_eq!((&data[..4], &data[4..12], data[12]), (&[23, 0, 0x10, 8][..], &short[..], CONTROL));
    let data = rig.run(host, ask(true, false, false), &[]).data;
    assert_eq!((&data[..8], &data[8..16]), (&[0, 26, 0, 0x10, 0, 0, 0, 8][..], &short[..]));
    let data = rig.run(host, ask(true, false, true), &[]).data;
    assert_eq!(
        data[..24],
        [0, 34, 0, 0x10, 1, 0, 0, 16, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0]
    );
}

#[test]
fn what_there_is_not_is_refused() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    assert_eq!(
        rig.run(host, sense(0x02, PageControl::Current), &[]).sense,
        Some(Sense::cdb_bit(2, 5))
    );
    let saved = rig.run(host, sense(CONTROL, PageControl::Saved), &[]).sense;
    assert_eq!(saved, Some(Sense::illegal(Code::SAVING_PARAMETERS_NOT_SUPPORTED)));
    let mut cdb = sense(CONTROL, PageControl::Current).encode().bytes;
    cdb[3] = 1;
    assert_eq!(rig.send(host, 0, &cdb, &[]).sense, Some(Sense::cdb_byte(3)));
}

#[test]
fn descriptor_sense_is_for_everybody_until_a_reset() {
    let mut rig = Rig::new();
    let (mut one, mut two) = (rig.host(1), rig.host(2));
    assert!(select(&mut rig, &mut one, &control(4, 0)).is_good());
    let code = rig.run(&mut two, Command::TestUnitReady, &[]).sense.map(|sense| sense.code);
    assert_eq!(code, Some(Code::MODE_PARAMETERS_CHANGED));
    assert_eq!(rig.run(&mut one, sense(CONTROL, PageControl::Current), &[]).data[6], 4);
    assert_eq!(rig.run(&mut one, sense(CONTROL, PageControl::Default), &[]).data[6], 0);
    // The same once more changes nothing.
    assert!(select(&mut rig, &mut one, &control(4, 0)).is_good());
    assert!(rig.run(&mut two, Command::TestUnitReady, &[]).is_good());
    one.reset_unit(0);
    let _ = rig.run(&mut one, Command::TestUnitReady, &[]);
    assert_eq!(rig.run(&mut one, sense(CONTROL, PageControl::Current), &[]).data[6], 0);
}

#[test]
fn software_write_protection_stops_writes() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    assert!(select(&mut rig, host, &control(0, 8)).is_good());
    let write = Command::Write { extent: Extent { lba: 0, blocks: 1 }, dpo: false, fua: false };
    let ended = rig.run(host, write, &[0; BLOCK]);
    assert_eq!(ended.sense, Some(Sense::new(Key::DATA_PROTECT, Code::SOFTWARE_WRITE_PROTECTED)));
    assert_eq!(rig.run(host, sense(0x08, PageControl::Current), &[]).data[2], 0x90);
    assert!(select(&mut rig, host, &control(0, 0)).is_good());
    assert!(rig.run(host, write, &[0; BLOCK]).is_good());
}

#[test]
fn a_list_with_a_fault_changes_nothing() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let mut fixed = control(4, 0);
    fixed[7] = 0;
    let parameter = |byte| Some(Sense::parameter(byte));
    let length = Some(Sense::illegal(Code::PARAMETER_LIST_LENGTH_ERROR));
    assert_eq!(select(&mut rig, host, &fixed).sense, parameter(7));
    assert_eq!(select(&mut rig, host, &control(4, 0)[..15]).sense, length);
    assert_eq!(select(&mut rig, host, &control(4, 0)[..3]).sense, length);
    assert_eq!(
        select(&mut rig, host, &[&control(4, 0)[..], &[0x02, 0]].concat()).sense,
        parameter(16)
    );
    assert_eq!(select(&mut rig, host, &[0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 2, 0]).sense, parameter(4));
    assert!(select(&mut rig, host, &[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 2, 0]).is_good());
    assert!(select(&mut rig, host, &[0, 0, 0, 8, 0, 0, 8, 0, 0, 0, 2, 0]).is_good());
    assert_eq!(rig.run(host, sense(CONTROL, PageControl::Current), &[]).data[6], 0);
    let long = rig.run(host, Command::ModeSelect { ten: true, parameters: 513 }, &[0; 513]);
    assert_eq!(long.sense, length);
    let ten = [&[0; 8][..], &control(4, 0)[4..]].concat();
    assert!(
        rig.run(host, Command::ModeSelect { ten: true, parameters: ten.len() as u32 }, &ten)
            .is_good()
    );
}

#[test]
fn a_disk_says_what_it_has() {
    let mut rig = Rig::with(UnitFeatures { write: false, volatile_cache: false, ..ALL });
    let host = &mut rig.host(1);
    let data = rig.run(host, sense(0x08, PageControl::Current), &[]).data;
    assert_eq!((data[2], data[6]), (0x90, 0));
}
