use super::*;
use crate::scsi::sense::Sense;
use crate::scsi::status::AdditionalSense;
use proptest::prelude::*;

fn decode(bytes: &[u8]) -> Result<Command, Sense> {
    let mut cdb = [0; CDB_BYTES];
    cdb[..bytes.len()].copy_from_slice(bytes);
    Command::decode(&cdb)
}

const fn extent(lba: u64, blocks: u32) -> Extent {
    Extent { lba, blocks }
}

#[test]
fn reads_of_all_sizes_are_laid_out_as_the_standard_shows() {
    let read = |lba, blocks, dpo, fua| Ok(Command::Read { extent: extent(lba, blocks), dpo, fua });
    assert_eq!(decode(&[0x08, 0x1f, 0xff, 0xfe, 0x10, 0]), read(0x1f_fffe, 16, false, false));
    assert_eq!(decode(&[0x08, 0, 0, 1, 0, 0]), read(1, 256, false, false));
    assert_eq!(
        decode(&[0x28, 0x18, 1, 2, 3, 4, 0, 5, 6, 0]),
        read(0x0102_0304, 0x0506, true, true)
    );
    assert_eq!(
        decode(&[0xa8, 0x08, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0]),
        read(0x0102_0304, 0x0506_0708, false, true)
    );
    let long = [0x88, 0x10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0];
    assert_eq!(decode(&long), read(0x0102_0304_0506_0708, 0x090a_0b0c, true, false));
}

#[test]
fn what_is_behind_a_short_block_is_not_looked_at() {
    assert_eq!(decode(&[0, 0, 0, 0, 0, 0, 0xff, 0xff]), Ok(Command::TestUnitReady));
    assert!(decode(&[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0xff]).is_ok());
}

#[test]
fn what_is_reserved_is_refused_with_a_pointer() {
    // RDPROTECT, a reserved byte, NACA in the CONTROL byte.
    assert_eq!(decode(&[0x28, 0x20, 0, 0, 0, 0, 0, 0, 1, 0]), Err(Sense::cdb_bit(1, 5)));
    assert_eq!(decode(&[0x00, 0, 0, 0x80, 0, 0]), Err(Sense::cdb_bit(3, 7)));
    assert_eq!(decode(&[0x00, 0, 0, 0, 0, 0x04]), Err(Sense::cdb_bit(5, 2)));
    assert_eq!(decode(&[0x12, 0, 0x80, 0, 36, 0]), Err(Sense::cdb_byte(2)));
    assert_eq!(decode(&[0x2f, 0x04, 0, 0, 0, 0, 0, 0, 1, 0]), Err(Sense::cdb_bit(1, 2)));
}

/// SCSI-2 hosts, and firmware of today, put the LUN into byte 1: LIO and tgt do not look at it.
#[test]
fn the_lun_of_scsi_2_is_not_looked_at() {
    assert_eq!(decode(&[0x00, 0x20, 0, 0, 0, 0]), Ok(Command::TestUnitReady));
    assert_eq!(
        decode(&[0x12, 0xe1, 0x80, 0, 36, 0]),
        Ok(Command::Inquiry { page: Some(0x80), allocation: 36 })
    );
    assert_eq!(decode(&[0x25, 0x40, 0, 0, 0, 0, 0, 0, 0, 0]), Ok(Command::ReadCapacity10));
    assert_eq!(decode(&[0x1b, 0x21, 0, 0, 1, 0]).map(|_| ()), Ok(()));
    assert_eq!(decode(&[0x35, 0xe2, 0, 0, 0, 0, 0, 0, 0, 0]).map(|_| ()), Ok(()));
    // Where there is protection information today, it is that.
    for opcode in [0x28, 0x2a, 0x2e, 0x2f, 0x41] {
        assert_eq!(
            decode(&[opcode, 0x20, 0, 0, 0, 0, 0, 0, 1, 0]),
            Err(Sense::cdb_bit(1, 5)),
            "{opcode:#x}"
        );
    }
}

#[test]
fn unknown_codes_and_service_actions_differ() {
    let unknown = Err(Sense::illegal(AdditionalSense::INVALID_COMMAND_OPERATION_CODE));
    for opcode in [0x01, 0x04, 0x56, 0x7f, 0x83, 0x84, 0x8b, 0xff] {
        assert_eq!(decode(&[opcode]), unknown, "{opcode:#x}");
    }
    assert_eq!(decode(&[0x9e, 0x11]), Err(Sense::cdb_bit(1, 4)));
    assert_eq!(decode(&[0x5e, 0x04]), Err(Sense::cdb_bit(1, 4)));
}

#[test]
fn encoding_takes_the_short_form_where_it_fits() {
    let read =
        |lba, blocks| Command::Read { extent: extent(lba, blocks), dpo: false, fua: true }.encode();
    assert_eq!(
        read(0xffff_ffff, 0xffff).as_slice(),
        [0x28, 0x08, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0]
    );
    assert_eq!(read(1 << 32, 1).bytes, [0x88, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(read(0, 0x1_0000).opcode(), OpCode::READ_16);
    let zeroes =
        Command::WriteSame { extent: extent(1, 2), unmap: true, anchor: false, no_data: true };
    assert_eq!(zeroes.encode().bytes, [0x93, 0x09, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0]);
}

#[test]
fn each_operation_is_found_by_its_own_usage_map() {
    for operation in Operation::all() {
        let found = Operation::find(&operation.usage).unwrap();
        assert!(core::ptr::eq(found, operation), "{operation:?}");
        assert_eq!(operation.stray_bit(&operation.usage), None);
        assert!(operation.usage[usize::from(operation.bytes)..].iter().all(|&byte| byte == 0));
        assert!([6, 10, 12, 16].contains(&operation.bytes));
    }
}

proptest! {
    #![proptest_config(weft_testing::properties!())]

    /// Whatever decodes is encoded by the same form to the same bytes, but for bits that are taken
    /// and ignored.
    #[test]
    fn what_decodes_encodes_again(
        index in 0..Operation::all().len(),
        noise: [u8; CDB_BYTES],
    ) {
        let operation = &Operation::all()[index];
        let mut cdb: [u8; CDB_BYTES] = core::array::from_fn(|at| noise[at] & operation.usage[at]);
        cdb[0] = operation.opcode.0;
        if let Some(action) = operation.service_action {
            cdb[1] = cdb[1] & !0x1f | action;
        }
        if let Ok(command) = Command::decode(&cdb) {
            let again = command.encode_as(operation.bytes).expect("the form that it came from");
            prop_assert_eq!(Command::decode(&again.bytes), Ok(command));
            prop_assert_eq!(again.bytes[0], cdb[0]);
            prop_assert_eq!(Command::decode(&command.encode().bytes), Ok(command));
        }
    }

    /// No bytes make the decoder panic, and a bit outside the usage map is never taken.
    #[test]
    fn nothing_stray_is_taken(cdb: [u8; CDB_BYTES]) {
        if Command::decode(&cdb).is_ok() {
            let operation = Operation::find(&cdb).unwrap();
            prop_assert_eq!(operation.stray_bit(&cdb), None);
        }
    }
}
