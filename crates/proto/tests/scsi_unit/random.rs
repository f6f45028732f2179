//! Random commands against a model: a plain array of blocks.

use super::rig::{BLOCK, BLOCKS, Rig};
use proptest::prelude::*;
use weft_proto::scsi::cdb::{ByteCheck, CDB_BYTES, Command, Extent};
use weft_proto::scsi::initiator::parameters::put_unmap;
use weft_proto::scsi::status::{AdditionalSense as Code, SenseKey as Key};

#[derive(Clone, Debug)]
enum Act {
    Read(Extent),
    Write(Extent, u8),
    Verify(Extent, u8),
    WriteSame(Extent, u8),
    Unmap(Vec<Extent>),
    CompareAndWrite(Extent, u8, u8),
}

fn extents() -> impl Strategy<Value = Extent> {
    // Near the beginning, so that they meet, or around the end.
    let lba = prop_oneof![4 => 0..40u64, 1 => BLOCKS - 20..BLOCKS + 2];
    (lba, 0..20u32).prop_map(|(lba, blocks)| Extent { lba, blocks })
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        extents().prop_map(Act::Read),
        (extents(), 0..3u8).prop_map(|(extent, byte)| Act::Write(extent, byte)),
        (extents(), 0..3u8).prop_map(|(extent, byte)| Act::Verify(extent, byte)),
        (extents(), 0..3u8).prop_map(|(extent, byte)| Act::WriteSame(extent, byte)),
        prop::collection::vec(extents(), 0..4).prop_map(Act::Unmap),
        (extents(), 0..3u8, 0..3u8)
            .prop_map(|(extent, old, new)| Act::CompareAndWrite(extent, old, new)),
    ]
}

/// The blocks of an extent as a range of bytes, if they are there.
fn range(extent: Extent) -> Option<std::ops::Range<usize>> {
    let end = extent.lba + u64::from(extent.blocks);
    (end <= BLOCKS).then(|| extent.lba as usize * BLOCK..end as usize * BLOCK)
}

/// Returns the model's prediction: the command, its data, and whether it succeeds.
fn expect(model: &mut [u8], act: &Act) -> (Command, Vec<u8>, Result<Vec<u8>, Key>) {
    let beyond = Err(Key::ILLEGAL_REQUEST);
    let (dpo, fua) = (false, false);
    match act {
        &Act::Read(extent) => (
            Command::Read { extent, dpo, fua },
            vec![],
            range(extent).map_or(beyond, |range| Ok(model[range].to_vec())),
        ),
        &Act::Write(extent, byte) => {
            let data = vec![byte; extent.blocks as usize * BLOCK];
            let done = range(extent).map_or(beyond, |range| {
                model[range].copy_from_slice(&data);
                Ok(vec![])
            });
            (Command::Write { extent, dpo, fua }, data, done)
        }
        &Act::Verify(extent, byte) => {
            let data = vec![byte; extent.blocks as usize * BLOCK];
            let done = range(extent).map_or(beyond, |range| {
                if model[range] == data { Ok(vec![]) } else { Err(Key::MISCOMPARE) }
            });
            (Command::Verify { extent, dpo, check: ByteCheck::Blocks }, data, done)
        }
        &Act::WriteSame(extent, byte) => {
            let done = range(extent).filter(|range| !range.is_empty()).map_or(beyond, |range| {
                model[range].fill(byte);
                Ok(vec![])
            });
            (
                Command::WriteSame { extent, unmap: byte == 0, anchor: false, no_data: false },
                vec![byte; BLOCK],
                done,
            )
        }
        Act::Unmap(extents) => {
            let mut list = vec![0; 8 + 16 * extents.len()];
            put_unmap(extents, &mut list);
            let ranges: Option<Vec<_>> = extents.iter().map(|&extent| range(extent)).collect();
            let done = ranges.map_or(beyond, |ranges| {
                ranges.into_iter().for_each(|range| model[range].fill(0));
                Ok(vec![])
            });
            (Command::Unmap { anchor: false, parameters: list.len() as u32 }, list, done)
        }
        &Act::CompareAndWrite(extent, old, new) => {
            let half = extent.blocks as usize * BLOCK;
            let done = range(extent).map_or(beyond, |range| {
                if model[range.clone()].iter().any(|&byte| byte != old) {
                    return Err(Key::MISCOMPARE);
                }
                model[range].fill(new);
                Ok(vec![])
            });
            let data = [vec![old; half], vec![new; half]].concat();
            (Command::CompareAndWrite { extent, dpo, fua }, data, done)
        }
    }
}

proptest! {
    #![proptest_config(weft_testing::properties!(64))]

    #[test]
    fn the_disk_is_what_the_model_says(acts in prop::collection::vec(acts(), 1..40)) {
        let mut rig = Rig::new();
        rig.disk.bytes.fill(0);
        let mut model = rig.disk.bytes.clone();
        let host = &mut rig.host(1);
        for act in acts {
            let (command, data, expected) = expect(&mut model, &act);
            let ended = rig.run(host, command, &data);
            let found = ended.sense.map_or(Ok(ended.data), |sense| Err(sense.key));
            prop_assert_eq!(found, expected, "{:?}", act);
            prop_assert!(rig.disk.bytes == model, "{act:?}");
        }
    }

    /// Whatever comes, a command ends, and moves no more than its CDB says.
    #[test]
    fn any_bytes_are_answered(
        cdbs in prop::collection::vec((any::<[u8; CDB_BYTES]>(), any::<prop::sample::Index>(), any::<bool>()), 1..20),
        data in prop::collection::vec(any::<u8>(), 0..2048),
    ) {
        let mut rig = Rig::new();
        let host = &mut rig.host(1);
        let known = weft_proto::scsi::cdb::Operation::all();
        for (mut cdb, index, is_known) in cdbs {
            if is_known {
                let operation = &known[index.index(known.len())];
                cdb[0] = operation.opcode.0;
                cdb[1] = cdb[1] & 0xe0 | operation.service_action.unwrap_or(cdb[1] & 0x1f);
                for (at, byte) in cdb.iter_mut().enumerate().skip(2) {
                    *byte &= operation.usage[at];
                }
                cdb[1] &= operation.usage[1];
            }
            let ended = rig.send(host, 0, &cdb, &data);
            let unknown = ended.sense.is_some_and(|sense| sense.code == Code::INVALID_COMMAND_OPERATION_CODE);
            prop_assert!(!is_known || !unknown);
        }
    }
}
