//! Functions for the fuzz target of labels: areas of legs and of a state file as a target or a disk
//! might return them, read, and started from.

use super::bitmap::checksum;
use super::engine::MirrorEngine;
use super::labels::FoundLeg;
use super::layout::{AREA_BYTES, HotLimit, SLOTS, slot_offset};
use super::record::{Claim, LEGS_MAX, MirrorRecord, RECORD_BYTES, RecordSlots};
use super::start::decide;
use uuid::Uuid;

const BLOCK_BYTES: u32 = 512;

/// Begins of records that count as ones of a known version, so that their fields are looked at.
const HEADS: [&[u8; 12]; 2] = [b"WEFTMIRR\x02\0\0\0", b"WEFTMIRR\x03\0\0\0"];

/// Takes areas from these bytes, and starts from them as often as it is allowed: nothing panics,
/// and what is read is written again.
pub fn start(mut bytes: &[u8]) {
    let choices = take(&mut bytes, 1)[0];
    let legs = 2 + usize::from(choices & 1);
    let found: Vec<Option<FoundLeg>> =
        (0..legs).map(|leg| (choices >> (leg + 1) & 1 == 0).then(|| found(&mut bytes))).collect();
    let state = (choices >> 4 & 1 != 0).then(|| self::found(&mut bytes));
    let late = found.iter().flatten().next().cloned();
    for force in [false, true] {
        let Ok(start) = decide(&found, state.as_ref(), None, force) else { continue };
        assert!(start.members != 0 && start.members & !start.record.all() == 0);
        let claim = Claim { opener: Uuid::from_u128(1), time: 0, host: String::new() };
        let mut engine = MirrorEngine::new(start, claim, 1, HotLimit::default());
        drop(engine.outputs());
        if let Some(late) = &late {
            let _ = engine.leg_back(late);
            drop(engine.outputs());
        }
    }
}

/// The next bytes, and zeroes behind the end.
fn take(bytes: &mut &[u8], count: usize) -> Vec<u8> {
    let (head, rest) = bytes.split_at(count.min(bytes.len()));
    *bytes = rest;
    let mut taken = head.to_vec();
    taken.resize(count, 0);
    taken
}

/// An area whose slots come from bytes, as they are or with a head and a checksum that are right.
fn found(bytes: &mut &[u8]) -> FoundLeg {
    let mut area = vec![0; AREA_BYTES];
    for slot in 0..SLOTS {
        let [kind, len_low, len_high, _] = take(bytes, 4)[..] else { continue };
        let len = usize::from(u16::from_le_bytes([len_low, len_high])) % (RECORD_BYTES + 1);
        let mut record = take(bytes, len);
        record.resize(RECORD_BYTES, 0);
        if kind & 1 == 0 {
            let head = HEADS[usize::from(kind >> 1 & 1)];
            record[..head.len()].copy_from_slice(head);
            record[12..16].fill(0);
            let sum = checksum(&record);
            record[12..16].copy_from_slice(&sum.to_le_bytes());
        }
        area[slot_offset(slot) as usize..][..RECORD_BYTES].copy_from_slice(&record);
    }
    if let Ok((_, record)) = RecordSlots::of(&area, BLOCK_BYTES).newest() {
        let is_known = record.claim.as_ref().is_none_or(|claim| claim.host.is_ascii());
        assert!(
            !is_known || MirrorRecord::decode(&record.encode(BLOCK_BYTES)) == Ok(record.clone()),
            "{record:?}"
        );
        assert!(usize::from(record.legs) <= LEGS_MAX);
    }
    FoundLeg { url: "leg".into(), area, block_bytes: BLOCK_BYTES }
}

#[cfg(test)]
mod tests {
    use weft_io::sim::Rng;

    #[test]
    fn labels_of_any_numbers_are_started_from_or_refused() {
        for seed in 0..3000 {
            let mut rng = Rng::new(seed);
            let mut bytes = vec![rng.bits() as u8];
            for _ in 0..8 {
                bytes.extend_from_slice(&[0, 0xff, 0x01, 0]);
                bytes.extend((0..511).map(|_| if rng.one_in(2) { 0 } else { rng.bits() as u8 }));
                let head = bytes.len() - 511;
                // One mirror with legs of all numbers, so that more than the name is looked at.
                bytes[head + 16..head + 32].fill(7);
                bytes[head + 32..head + 40].copy_from_slice(&[
                    rng.below(3) as u8,
                    2 + (seed & 1) as u8,
                    1,
                    rng.below(4) as u8,
                    0,
                    0,
                    0,
                    0,
                ]);
                bytes[head + 40..head + 44].copy_from_slice(&512u32.to_le_bytes());
            }
            super::start(&bytes);
        }
    }
}
