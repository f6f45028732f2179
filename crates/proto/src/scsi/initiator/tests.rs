//! A probe of a logical unit of this crate, and of disks that know little.

use super::*;
use crate::scsi::cdb::Extent;
use crate::scsi::lun::{
    Arrival, LogicalUnit, Nexus, Step, Target, Task, TransportId, UnitConfig, UnitFeatures,
    UnitGeometry, UnitIdentity, UnitTable,
};
use crate::scsi::sense::Sense;
use crate::scsi::status::{AdditionalSense as Code, ScsiStatus, SenseKey as Key};

fn nexus(features: UnitFeatures) -> Nexus {
    let target = Target::new("iqn.2026-11.example:t");
    let config = UnitConfig {
        geometry: UnitGeometry {
            block_bytes: 512,
            blocks: 1 << 33,
            optimal_blocks: 8,
            max_transfer_bytes: 1 << 20,
            max_operation_bytes: 1 << 20,
            compare_and_write_blocks: u32::MAX,
        },
        features,
        identity: UnitIdentity {
            vendor: "weft".into(),
            product: "a disk".into(),
            revision: "1".into(),
            serial: "S123".into(),
            uuid: [7; 16],
            nguid: None,
            naa: Vec::new(),
            t10: None,
        },
    };
    let mut units = UnitTable::default();
    units.insert(0, LogicalUnit::new(config, None)).unwrap();
    target.attach(TransportId::iscsi("iqn.2026-11.example:i", [0; 6]), 1, Arrival::New, &units)
}

/// Puts all questions to the logical unit.
fn probe(nexus: &mut Nexus) -> Result<ScsiDisk, ProbeError> {
    probe_where(nexus, |_| false)
}

/// The same, where another host's reservation forbids some commands.
fn probe_where(nexus: &mut Nexus, forbidden: impl Fn(u8) -> bool) -> Result<ScsiDisk, ProbeError> {
    let mut probe = Probe::new();
    while let Some(question) = probe.question() {
        if forbidden(question.cdb.bytes[0]) {
            probe.answer(ScsiStatus::RESERVATION_CONFLICT, None, &[])?;
            continue;
        }
        let (mut task, mut memory) = (Task::new(), [0; 512]);
        let reply = match nexus.start(&mut task, 0, &question.cdb.bytes, 0) {
            Step::Respond { bytes } => nexus.respond(&mut task, &mut memory[..bytes as usize]),
            Step::Reply(reply) => reply,
            step => panic!("{step:?}"),
        };
        assert!(reply.data_in_bytes <= question.data_in_bytes);
        probe.answer(reply.status, reply.sense, &memory[..reply.data_in_bytes as usize])?;
    }
    Ok(probe.disk().clone())
}

const ALL: UnitFeatures = UnitFeatures {
    write: true,
    volatile_cache: true,
    discard: true,
    discard_zeroes: true,
    write_zeroes: true,
    compare: true,
};

#[test]
fn a_probe_finds_what_the_logical_unit_has() {
    let disk = probe(&mut nexus(ALL)).unwrap();
    assert_eq!((disk.blocks, disk.block_bytes, disk.physical_blocks), (1 << 33, 512, 1));
    assert_eq!((&*disk.identity.vendor, &*disk.identity.product), ("weft", "a disk"));
    assert_eq!(
        (disk.identity.serial.as_deref(), disk.identity.uuid),
        (Some("S123"), Some([7; 16]))
    );
    assert!(
        disk.volatile_cache
            && disk.fua
            && disk.unmap
            && disk.unmapped_zeroes
            && !disk.write_protected
    );
    assert!(
        disk.write_same && disk.write_same_unmap && disk.write_same_no_data && disk.verify_compares
    );
    assert_eq!((disk.compare_and_write_blocks, disk.transfer_blocks_max), (255, 2048));
    assert_eq!(
        (disk.unmap_blocks_max, disk.unmap_ranges_max, disk.granularity_blocks),
        (u32::MAX, 128, 8)
    );
}

#[test]
fn a_probe_finds_what_the_logical_unit_lacks() {
    let disk = probe(&mut nexus(UnitFeatures::default())).unwrap();
    assert!(
        disk.write_protected
            && !disk.volatile_cache
            && !disk.unmap
            && !disk.unmapped_zeroes
            && !disk.write_same_unmap
    );
    assert_eq!((disk.compare_and_write_blocks, disk.unmap_ranges_max), (0, 0));
}

/// Otherwise a path that comes back in the meantime would be taken to lead to a disk that offers
/// less than before.
#[test]
fn a_reserved_disk_offers_what_its_pages_tell() {
    // MODE SENSE(6), MAINTENANCE IN and COMPARE AND WRITE.
    let reserved = |opcode| matches!(opcode, 0x1a | 0xa3 | 0x89);
    let disk = probe_where(&mut nexus(ALL), reserved).unwrap();
    assert!(disk.write_same && disk.unmap && disk.volatile_cache && disk.cache_unknown);
    assert_eq!(disk.compare_and_write_blocks, 255);
    let disk = probe_where(
        &mut nexus(UnitFeatures { volatile_cache: false, compare: false, ..ALL }),
        reserved,
    )
    .unwrap();
    assert!(
        disk.volatile_cache && disk.cache_unknown,
        "a cache that is not known of must be flushed"
    );
    assert_eq!(disk.compare_and_write_blocks, 0);
}

#[test]
fn a_probe_finds_the_group_of_its_port_and_its_state() {
    let disk = probe(&mut nexus(UnitFeatures::default())).unwrap();
    if disk.asymmetric {
        assert_eq!(disk.access, Some(PortState::OPTIMIZED));
    }
    // Two groups: 1 with two ports, active/optimized; 0x102 with one, standby (SPC-4, REPORT TARGET
    // PORT GROUPS).
    let data = [
        0, 0, 0, 28, 0x80, 0x0f, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0x02, 0x0f, 1, 2, 0, 0,
        0, 1, 0, 0, 0, 3,
    ];
    let state = |data: &[u8], group| PortState::of_group(data, group);
    assert_eq!(
        (state(&data, 1), state(&data, 0x102)),
        (Some(PortState::OPTIMIZED), Some(PortState::STANDBY))
    );
    assert_eq!((state(&data, 7), state(&data[..10], 1), state(&[], 1)), (None, None, None));
    let mut disk = ScsiDisk::default();
    disk.designators(&[
        1, 3, 0, 8, 0x60, 0, 0, 0, 0, 0, 0, 1, 1, 0x94, 0, 4, 0, 0, 0, 1, 1, 0x95, 0, 4, 0, 0, 1, 2,
    ]);
    assert_eq!(disk.port_group, Some(0x102));
}

/// A disk of long ago, which knows the mandatory commands only.
fn old_disk(question: &ProbeCommand) -> (ScsiStatus, Option<Sense>, Vec<u8>) {
    let data = match question.cdb.bytes {
        [0x12, 0, ..] => {
            let mut data = vec![b' '; 36];
            data[..8].fill(0);
            data
        }
        [0x25, ..] => vec![0, 0, 0, 9, 0, 0, 2, 0],
        [0, ..] => Vec::new(),
        _ => {
            return (
                ScsiStatus::CHECK_CONDITION,
                Some(Sense::illegal(Code::INVALID_COMMAND_OPERATION_CODE)),
                Vec::new(),
            );
        }
    };
    (ScsiStatus::GOOD, None, data)
}

#[test]
fn an_old_disk_is_a_disk() {
    let mut probe = Probe::new();
    while let Some(question) = probe.question() {
        let (status, sense, data) = old_disk(&question);
        probe.answer(status, sense, &data).unwrap();
    }
    assert_eq!(
        (probe.disk().blocks, probe.disk().block_bytes, probe.disk().physical_blocks),
        (10, 512, 1)
    );
}

/// Linux takes a disk that fails such questions in whatever way.
#[test]
fn a_disk_that_fails_what_need_not_be_known_is_a_disk() {
    let hardware = Sense::new(Key::HARDWARE_ERROR, Code::INTERNAL_TARGET_FAILURE);
    let gone = Sense::illegal(Code::LOGICAL_UNIT_NOT_SUPPORTED);
    for (sense, is_disk) in [(Some(hardware), true), (None, true), (Some(gone), false)] {
        let mut probe = Probe::new();
        let outcome = loop {
            let Some(question) = probe.question() else { break Ok(()) };
            let (status, old, data) = old_disk(&question);
            let optional = matches!(question.cdb.bytes[0], 0x1a | 0xa3);
            if let Err(error) = probe.answer(status, if optional { sense } else { old }, &data) {
                break Err(error);
            }
        };
        assert_eq!(outcome.is_ok(), is_disk, "{sense:?} {outcome:?}");
    }
}

#[test]
fn what_is_no_disk_is_said_so() {
    let mut data = [0; 36];
    data[0] = 0x7f;
    assert_eq!(Probe::new().answer(ScsiStatus::GOOD, None, &data), Err(ProbeError::NoDisk(0x7f)));
    assert_eq!(Probe::new().answer(ScsiStatus::GOOD, None, &[0; 35]), Err(ProbeError::NoDisk(0)));
}

#[test]
fn patience_ends() {
    let mut probe = Probe::new();
    let answers = (0..100).map(|_| probe.answer(ScsiStatus::BUSY, None, &[]));
    let given = answers.take_while(Result::is_ok).count();
    assert_eq!(given, 19);
    assert!(probe.question().unwrap().later);
}

#[test]
fn verdicts_tell_retries_from_failures() {
    let check =
        |key, code| CommandVerdict::of(ScsiStatus::CHECK_CONDITION, Some(Sense::new(key, code)));
    assert_eq!(CommandVerdict::of(ScsiStatus::GOOD, None), CommandVerdict::Done);
    assert_eq!(CommandVerdict::of(ScsiStatus::TASK_SET_FULL, None), CommandVerdict::Later);
    assert_eq!(CommandVerdict::of(ScsiStatus::RESERVATION_CONFLICT, None), CommandVerdict::Failed);
    assert_eq!(CommandVerdict::of(ScsiStatus::CHECK_CONDITION, None), CommandVerdict::Failed);
    assert_eq!(check(Key::RECOVERED_ERROR, Code::NONE), CommandVerdict::Done);
    assert_eq!(
        check(Key::UNIT_ATTENTION, Code::CAPACITY_DATA_CHANGED),
        CommandVerdict::Again(AttentionChange::Capacity)
    );
    assert_eq!(
        check(Key::UNIT_ATTENTION, Code::POWER_ON),
        CommandVerdict::Again(AttentionChange::Restarted)
    );
    assert_eq!(
        check(Key::UNIT_ATTENTION, Code::POWER_ON_OR_RESET),
        CommandVerdict::Again(AttentionChange::Restarted)
    );
    assert_eq!(
        check(Key::UNIT_ATTENTION, Code::INTERNAL_RESET),
        CommandVerdict::Again(AttentionChange::Restarted)
    );
    for reset in [Code::BUS_RESET, Code::DEVICE_RESET, Code::NEXUS_LOSS] {
        assert_eq!(
            check(Key::UNIT_ATTENTION, reset),
            CommandVerdict::Again(AttentionChange::Nothing),
            "{reset}: the cache is as it was"
        );
    }
    assert_eq!(check(Key::NOT_READY, Code::BECOMING_READY), CommandVerdict::Later);
    assert_eq!(check(Key::MEDIUM_ERROR, Code::UNRECOVERED_READ_ERROR), CommandVerdict::Failed);
    assert_eq!(check(Key::ILLEGAL_REQUEST, Code::LBA_OUT_OF_RANGE), CommandVerdict::Failed);
}

#[test]
fn parameter_lists_are_laid_out_as_the_standard_shows() {
    let mut out = [0xff; 64];
    let ranges = [Extent { lba: 0x0102, blocks: 3 }, Extent { lba: 4, blocks: 5 }];
    let bytes = parameters::put_unmap(&ranges, &mut out);
    let head = [0, 38, 0, 32, 0, 0, 0, 0];
    let first = [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3, 0, 0, 0, 0];
    let second = [0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0];
    assert_eq!(out[..bytes], [&head[..], &first, &second].concat());
    let list = parameters::reserve_out(1, 2);
    assert_eq!((list[7], list[15], list.len()), (1, 2, 24));
}

#[test]
fn the_names_of_another_logical_unit_are_told_apart() {
    let page = |set: u8, kind: u8, value: &[u8]| {
        let mut data = vec![0, 0x83, 0, value.len() as u8 + 4, set, kind, 0, value.len() as u8];
        data.extend_from_slice(value);
        data
    };
    let mut disk = ScsiDisk::default();
    assert_eq!((disk.identity.page(), disk.identity.naming(&[])), (None, NamesVerdict::Same));
    disk.identity.serial = Some("one".into());
    assert_eq!(disk.identity.page(), Some(0x80));
    assert_eq!(disk.identity.naming(&[0, 0x80, 0, 3, b'o', b'n', b'e']), NamesVerdict::Same);
    assert_eq!(disk.identity.naming(&[0, 0x80, 0, 3, b't', b'w', b'o']), NamesVerdict::Other);
    disk.designators(&page(1, 3, &[5; 8])[4..]);
    assert_eq!((disk.identity.page(), disk.identity.uuid), (Some(0x83), None));
    assert_eq!(disk.identity.naming(&page(1, 3, &[5; 8])), NamesVerdict::Same);
    assert_eq!(disk.identity.naming(&page(1, 3, &[6; 8])), NamesVerdict::Other);
    assert_eq!(disk.identity.naming(&page(1, 2, &[5; 8])), NamesVerdict::Other);
    // The designator of a port is no name of a logical unit.
    assert_eq!(disk.identity.naming(&page(1, 0x13, &[5; 8])), NamesVerdict::Other);
    assert_eq!(disk.identity.naming(&[0x7f, 0x83, 0, 0]), NamesVerdict::Absent);
    assert_eq!(disk.identity.naming(&[]), NamesVerdict::Other);
}

#[test]
fn a_greeting_takes_what_each_new_nexus_is_told() {
    let mut nexus = nexus(UnitFeatures::default());
    let (mut probe, mut asked) = (Probe::greeting(), 0);
    while let Some(question) = probe.question() {
        assert_eq!(question.cdb.bytes, [0; 16], "TEST UNIT READY");
        let (mut task, mut memory) = (Task::new(), [0; 512]);
        let reply = match nexus.start(&mut task, 0, &question.cdb.bytes, 0) {
            Step::Respond { bytes } => nexus.respond(&mut task, &mut memory[..bytes as usize]),
            Step::Reply(reply) => reply,
            step => panic!("{step:?}"),
        };
        probe.answer(reply.status, reply.sense, &[]).unwrap();
        asked += 1;
    }
    assert_eq!((asked, probe.disk().started), (2, true));
}
