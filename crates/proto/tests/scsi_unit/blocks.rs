//! Commands on blocks.

use super::rig::{ALL, BLOCK, BLOCKS, Ended, Rig, TRANSFER_BLOCKS, block, config};
use weft_proto::scsi::cdb::{ByteCheck, Command, Extent};
use weft_proto::scsi::initiator::parameters::put_unmap;
use weft_proto::scsi::lun::{UnitFeatures, UnitRequestKind};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense as Code, ScsiStatus, SenseKey as Key};

const fn extent(lba: u64, blocks: u32) -> Extent {
    Extent { lba, blocks }
}

fn read(lba: u64, blocks: u32) -> Command {
    Command::Read { extent: extent(lba, blocks), dpo: false, fua: false }
}

fn write(lba: u64, blocks: u32) -> Command {
    Command::Write { extent: extent(lba, blocks), dpo: false, fua: true }
}

fn verify(lba: u64, blocks: u32, check: ByteCheck) -> Command {
    Command::Verify { extent: extent(lba, blocks), dpo: false, check }
}

fn write_same(lba: u64, blocks: u32, unmap: bool, no_data: bool) -> Command {
    Command::WriteSame { extent: extent(lba, blocks), unmap, anchor: false, no_data }
}

fn check(ended: &Ended) -> Option<Code> {
    ended.sense.map(|sense| sense.code)
}

fn beyond(lba: u64) -> Option<Sense> {
    Some(Sense::illegal(Code::LBA_OUT_OF_RANGE).with_information(lba))
}

#[test]
fn reads_and_writes_move_blocks() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let ended = rig.run(host, read(5, 2), &[]);
    assert_eq!((ended.data, ended.transfer_bytes), ([block(5), block(6)].concat(), 1024));
    assert!(rig.run(host, write(7, 1), &[9; BLOCK]).is_good());
    assert_eq!(rig.run(host, read(7, 1), &[]).data, [9; BLOCK]);
    assert!(rig.disk.requests[1].fua && !rig.disk.requests[0].fua);
    assert!(rig.run(host, read(0, 0), &[]).is_good());
    assert_eq!(rig.disk.requests.len(), 3);
}

#[test]
fn what_is_beyond_the_end_is_refused() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    assert_eq!(rig.run(host, read(BLOCKS - 1, 2), &[]).sense, beyond(BLOCKS));
    assert_eq!(rig.run(host, read(u64::MAX, 2), &[]).sense, beyond(u64::MAX));
    assert_eq!(rig.run(host, write(BLOCKS, 1), &[0; BLOCK]).sense, beyond(BLOCKS));
    assert_eq!(rig.run(host, read(BLOCKS + 1, 0), &[]).sense, beyond(BLOCKS + 1));
    assert!(rig.run(host, read(BLOCKS, 0), &[]).is_good());
    for all in [ByteCheck::Medium, ByteCheck::Blocks, ByteCheck::OneBlock] {
        assert_eq!(
            check(&rig.run(host, verify(BLOCKS, 1, all), &[0; BLOCK])),
            Some(Code::LBA_OUT_OF_RANGE)
        );
    }
    assert!(rig.disk.requests.is_empty());
}

#[test]
fn what_is_longer_than_the_limit_is_refused_with_a_pointer_to_the_length() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    assert!(rig.run(host, read(0, TRANSFER_BLOCKS), &[]).is_good());
    // READ(10), READ(12) and READ(16), and where their lengths stand.
    for (opcode, field, width) in [(0x28, 7, 2), (0xa8, 6, 4), (0x88, 10, 4)] {
        let (mut cdb, at) = ([0; 16], usize::from(field));
        cdb[0] = opcode;
        cdb[at..at + width].copy_from_slice(&(TRANSFER_BLOCKS + 1).to_be_bytes()[4 - width..]);
        assert_eq!(rig.send(host, 0, &cdb, &[]).sense, Some(Sense::cdb_byte(field)));
    }
}

#[test]
fn an_initiator_that_announces_less_gets_whole_blocks_written() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let ended = rig.run(host, write(0, 2), &[7; BLOCK]);
    assert!(ended.is_good());
    assert_eq!(
        (ended.transfer_bytes, &rig.disk.bytes[..BLOCK], &rig.disk.bytes[BLOCK..2 * BLOCK]),
        (1024, &[7; BLOCK][..], &*block(1))
    );
    let ended = rig.run(host, write(0, 1), &[]);
    assert!(ended.is_good());
    assert_eq!(ended.transfer_bytes, 512);
    let ended = rig.run(host, write(0, 1), &[8; 200]);
    assert_eq!(
        (check(&ended), ended.transfer_bytes),
        (Some(Code::INVALID_FIELD_IN_COMMAND_UNIT), 512)
    );
    // More than is needed is not fetched.
    assert_eq!(rig.run(host, write(0, 1), &[8; 4 * BLOCK]).transfer_bytes, 512);
    assert_eq!(rig.disk.bytes[BLOCK..2 * BLOCK], block(1));
}

#[test]
fn verify_looks_or_compares() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    assert!(
        rig.run(host, verify(0, 2, ByteCheck::Blocks), &[block(0), block(1)].concat()).is_good()
    );
    let ended = rig.run(host, verify(0, 2, ByteCheck::Blocks), &[block(0), block(0)].concat());
    assert_eq!(ended.sense, Some(Sense::new(Key::MISCOMPARE, Code::MISCOMPARE_DURING_VERIFY)));
    assert!(rig.run(host, verify(0, 0, ByteCheck::Blocks), &[]).is_good());
    assert_eq!(
        check(&rig.run(host, verify(0, 2, ByteCheck::Blocks), &block(0))),
        Some(Code::INVALID_FIELD_IN_COMMAND_UNIT)
    );
    rig.disk.requests.clear();
    // More than one step takes.
    assert!(rig.run(host, verify(0, BLOCKS as u32, ByteCheck::Medium), &[]).is_good());
    let steps: Vec<_> =
        rig.disk.requests.iter().map(|request| (request.lba, request.blocks)).collect();
    assert_eq!(steps, (0..8).map(|n| (n * 256, 256)).collect::<Vec<_>>());
}

#[test]
fn one_block_is_compared_with_many() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    assert!(rig.run(host, write_same(10, 600, false, false), &[3; BLOCK]).is_good());
    assert!(rig.run(host, verify(10, 600, ByteCheck::OneBlock), &[3; BLOCK]).is_good());
    assert_eq!(
        rig.run(host, verify(10, 601, ByteCheck::OneBlock), &[3; BLOCK])
            .sense
            .map(|sense| sense.key),
        Some(Key::MISCOMPARE)
    );
    assert_eq!(
        (&rig.disk.bytes[9 * BLOCK..10 * BLOCK], &rig.disk.bytes[610 * BLOCK..611 * BLOCK]),
        (&*block(9), &*block(610))
    );
}

#[test]
fn what_is_written_and_verified_is_written_through() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    for (check, then) in [
        (ByteCheck::Medium, UnitRequestKind::Verify),
        (ByteCheck::Blocks, UnitRequestKind::Compare),
    ] {
        rig.disk.requests.clear();
        let command = Command::WriteAndVerify { extent: extent(3, 2), dpo: false, check };
        assert!(rig.run(host, command, &[4; 2 * BLOCK]).is_good());
        let kinds: Vec<_> =
            rig.disk.requests.iter().map(|request| (request.kind, request.fua)).collect();
        assert_eq!(kinds, [(UnitRequestKind::Write, true), (then, false)]);
        assert_eq!(rig.disk.bytes[3 * BLOCK..5 * BLOCK], [4; 2 * BLOCK]);
    }
}

#[test]
fn zeroes_are_not_moved_where_the_device_writes_them_by_itself() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let zeroes = |deallocate| UnitRequestKind::WriteZeroes { deallocate };
    for (unmap, no_data) in [(false, false), (true, false), (false, true), (true, true)] {
        rig.disk.requests.clear();
        let data = if no_data { &[][..] } else { &[0; BLOCK] };
        assert!(rig.run(host, write_same(1, 1000, unmap, no_data), data).is_good());
        let kinds: Vec<_> =
            rig.disk.requests.iter().map(|request| (request.kind, request.blocks)).collect();
        assert_eq!(kinds, [(zeroes(unmap), 1000)]);
    }
    // With UNMAP a pattern is written all the same.
    assert!(rig.run(host, write_same(1, 1, true, false), &[1; BLOCK]).is_good());
    assert_eq!(rig.disk.bytes[BLOCK..2 * BLOCK], [1; BLOCK]);
}

#[test]
fn zeroes_are_written_as_data_where_there_is_no_other_way() {
    let mut rig = Rig::with(UnitFeatures { write: true, ..UnitFeatures::default() });
    let host = &mut rig.host(1);
    assert!(rig.run(host, write_same(1, 3, false, false), &[0; BLOCK]).is_good());
    assert_eq!(rig.disk.bytes[BLOCK..4 * BLOCK], [0; 3 * BLOCK]);
    assert_eq!(
        rig.run(host, write_same(1, 3, true, false), &[0; BLOCK]).sense,
        Some(Sense::cdb_bit(1, 3))
    );
    assert_eq!(rig.run(host, write_same(1, 3, false, true), &[]).sense, Some(Sense::cdb_bit(1, 0)));
}

#[test]
fn write_same_wants_one_block_and_a_length() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    for bytes in [0, BLOCK / 2, 2 * BLOCK] {
        let ended = rig.run(host, write_same(0, 1, true, false), &vec![0; bytes]);
        assert_eq!(check(&ended), Some(Code::INVALID_FIELD_IN_COMMAND_UNIT));
    }
    assert_eq!(
        rig.run(host, write_same(0, 0, false, false), &[0; BLOCK]).sense,
        Some(Sense::cdb_byte(7))
    );
    let anchored =
        Command::WriteSame { extent: extent(0, 1), unmap: true, anchor: true, no_data: false };
    assert_eq!(rig.run(host, anchored, &[0; BLOCK]).sense, Some(Sense::cdb_bit(1, 4)));
    assert!(rig.disk.requests.is_empty());
}

/// The parameter list of an UNMAP.
fn ranges(ranges: &[Extent]) -> Vec<u8> {
    let mut list = vec![0; 8 + 16 * ranges.len()];
    put_unmap(ranges, &mut list);
    list
}

fn unmap(list: &[u8]) -> Command {
    Command::Unmap { anchor: false, parameters: list.len() as u32 }
}

#[test]
fn unmap_discards_range_after_range() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let list = ranges(&[extent(1, 2), extent(9, 0), extent(BLOCKS, 0), extent(20, 1)]);
    assert!(rig.run(host, unmap(&list), &list).is_good());
    let steps: Vec<_> = rig
        .disk
        .requests
        .iter()
        .map(|request| (request.kind, request.lba, request.blocks))
        .collect();
    assert_eq!(steps, [(UnitRequestKind::Discard, 1, 2), (UnitRequestKind::Discard, 20, 1)]);
    assert!(rig.run(host, unmap(&[]), &[]).is_good());
    assert!(rig.run(host, unmap(&list[..8]), &list[..8]).is_good());
}

#[test]
fn unmap_does_nothing_if_a_range_is_wrong() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let list = ranges(&[extent(1, 2), extent(BLOCKS - 1, 2)]);
    assert_eq!(rig.run(host, unmap(&list), &list).sense, beyond(BLOCKS));
    assert_eq!(
        check(&rig.run(host, unmap(&list[..7]), &list[..7])),
        Some(Code::PARAMETER_LIST_LENGTH_ERROR)
    );
    let list = ranges(&[extent(0, 1); 129]);
    assert_eq!(rig.run(host, unmap(&list), &list).sense, Some(Sense::parameter(2)));
    assert!(rig.disk.requests.is_empty());
}

#[test]
fn compare_and_write_is_one_request() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let command =
        |blocks| Command::CompareAndWrite { extent: extent(4, blocks), dpo: false, fua: false };
    let data = [block(4), vec![1; BLOCK]].concat();
    assert!(rig.run(host, command(1), &data).is_good());
    assert_eq!(rig.disk.bytes[4 * BLOCK..5 * BLOCK], [1; BLOCK]);
    assert_eq!(
        rig.run(host, command(1), &data).sense.map(|sense| sense.key),
        Some(Key::MISCOMPARE)
    );
    assert_eq!(rig.disk.requests.len(), 2);
    assert!(rig.run(host, command(0), &[]).is_good());
    for wrong in [0, BLOCK, 4 * BLOCK] {
        assert_eq!(
            check(&rig.run(host, command(1), &vec![0; wrong])),
            Some(Code::INVALID_FIELD_IN_COMMAND_UNIT)
        );
    }
    assert_eq!(rig.run(host, command(129), &[]).sense, Some(Sense::cdb_byte(13)));
}

/// A device that others write to, too, may compare and write only one block at once (SBC-4 §5.3:
/// INVALID FIELD IN CDB).
#[test]
fn compare_and_write_is_no_longer_than_the_device_does_as_one() {
    let mut config = config(ALL);
    config.geometry.compare_and_write_blocks = 1;
    let mut rig = Rig::of(config);
    let host = &mut rig.host(1);
    let command =
        |blocks| Command::CompareAndWrite { extent: extent(4, blocks), dpo: false, fua: false };
    assert!(rig.run(host, command(1), &[block(4), vec![1; BLOCK]].concat()).is_good());
    let two = [vec![1; BLOCK], block(5), vec![2; 2 * BLOCK]].concat();
    assert_eq!(rig.run(host, command(2), &two).sense, Some(Sense::cdb_byte(13)));
    let limits = Command::Inquiry { page: Some(0xb0), allocation: 255 };
    assert_eq!(rig.run(host, limits, &[]).data[5], 1, "MAXIMUM COMPARE AND WRITE LENGTH");
}

#[test]
fn the_cache_is_flushed_if_there_is_one() {
    let synchronize = Command::SynchronizeCache { extent: extent(0, 0), immediate: true };
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    assert!(rig.run(host, synchronize, &[]).is_good());
    assert_eq!(rig.disk.requests.last().map(|request| request.kind), Some(UnitRequestKind::Flush));
    let far = Command::SynchronizeCache { extent: extent(BLOCKS, 1), immediate: false };
    assert_eq!(rig.run(host, far, &[]).sense, beyond(BLOCKS));
    let mut rig = Rig::with(UnitFeatures { volatile_cache: false, ..ALL });
    let host = &mut rig.host(1);
    assert!(rig.run(host, synchronize, &[]).is_good());
    assert!(rig.disk.requests.is_empty());
    let fetch = Command::PreFetch { extent: extent(0, 1), immediate: false };
    assert_eq!(rig.run(host, fetch, &[]).status, ScsiStatus::GOOD);
}

#[test]
fn a_disk_without_writes_refuses_all_that_would_write() {
    let mut rig = Rig::with(UnitFeatures { write: false, ..ALL });
    let host = &mut rig.host(1);
    let list = ranges(&[extent(0, 1)]);
    let check = ByteCheck::Medium;
    for (command, data) in [
        (write(0, 1), &[0; BLOCK][..]),
        (Command::WriteAndVerify { extent: extent(0, 1), dpo: false, check }, &[0; BLOCK]),
        (write_same(0, 1, false, false), &[0; BLOCK]),
        (
            Command::CompareAndWrite { extent: extent(0, 1), dpo: false, fua: false },
            &[0; 2 * BLOCK],
        ),
        (unmap(&list), &list),
    ] {
        let protected = Some(Sense::new(Key::DATA_PROTECT, Code::WRITE_PROTECTED));
        assert_eq!(rig.run(host, command, data).sense, protected, "{command:?}");
    }
    assert!(rig.run(host, read(0, 1), &[]).is_good());
}

#[test]
fn what_the_device_cannot_do_is_an_unknown_command() {
    let mut rig = Rig::with(UnitFeatures { write: true, ..UnitFeatures::default() });
    let host = &mut rig.host(1);
    for command in
        [unmap(&[]), Command::CompareAndWrite { extent: extent(0, 0), dpo: false, fua: false }]
    {
        assert_eq!(check(&rig.run(host, command, &[])), Some(Code::INVALID_COMMAND_OPERATION_CODE));
    }
    assert_eq!(
        rig.run(host, verify(0, 1, ByteCheck::Blocks), &[0; BLOCK]).sense,
        Some(Sense::cdb_bit(1, 2))
    );
    assert!(rig.run(host, verify(0, 1, ByteCheck::Medium), &[]).is_good());
}

/// The owner cuts reads, writes and compares; what has to be done at once is no longer than the
/// device does at once.
#[test]
fn a_transfer_may_be_longer_than_an_operation() {
    let mut config = config(ALL);
    config.geometry.max_operation_bytes = 16 * BLOCK as u32;
    let mut rig = Rig::of(config);
    let host = &mut rig.host(1);
    assert_eq!(
        rig.run(host, read(0, TRANSFER_BLOCKS), &[]).data.len(),
        TRANSFER_BLOCKS as usize * BLOCK
    );
    assert!(
        rig.run(host, write(0, TRANSFER_BLOCKS), &vec![1; TRANSFER_BLOCKS as usize * BLOCK])
            .is_good()
    );
    let command =
        |blocks| Command::CompareAndWrite { extent: extent(4, blocks), dpo: false, fua: false };
    assert!(rig.run(host, command(8), &vec![1; 16 * BLOCK]).is_good());
    assert_eq!(rig.run(host, command(9), &vec![1; 18 * BLOCK]).sense, Some(Sense::cdb_byte(13)));
    rig.disk.requests.clear();
    assert!(rig.run(host, verify(0, 32, ByteCheck::Medium), &[]).is_good());
    assert_eq!(
        rig.disk.requests.iter().map(|request| request.blocks).collect::<Vec<_>>(),
        [16, 16]
    );
}
