use super::*;

pub(in crate::mirror) fn example() -> MirrorRecord {
    MirrorRecord {
        format: Format::Three,
        mirror: Uuid::from_u128(7),
        leg: 1,
        legs: 3,
        min_legs: 2,
        block_bytes: 512,
        data_bytes: 1 << 30,
        region_bytes: 256 << 10,
        sequence: 9,
        generation: Generation { number: 5, tag: 77 },
        previous_tag: 66,
        members: 0b101,
        left: [Generation::default(), Generation { number: 4, tag: 66 }, Generation::default()],
        is_clean: false,
        bitmap_in_state: true,
        is_syncing: false,
        claim: Some(Claim {
            opener: Uuid::from_u128(8),
            time: 1_700_000_000,
            host: "host-ü".into(),
        }),
        run: Generation { number: 12, tag: 55 },
        base: 44,
        left_runs: [0, 33, 0],
        bound_ms: 40_000,
        unreadable: [(0, 8), (1 << 20, 1)].into_iter().collect(),
    }
}

#[test]
fn what_is_written_is_read() {
    for record in [
        example(),
        MirrorRecord { claim: None, is_clean: true, leg: STATE, is_syncing: true, ..example() },
        MirrorRecord { format: Format::Two, region_bytes: 64 << 10, ..example() },
        MirrorRecord { region_bytes: 1 << 40, ..example() },
    ] {
        for block_bytes in [512, 4096] {
            let block = record.encode(block_bytes);
            assert_eq!(
                (block.len(), MirrorRecord::decode(&block)),
                (block_bytes as usize, Ok(record.clone()))
            );
        }
    }
    let long = Claim { host: "ü".repeat(60), ..example().claim.unwrap() };
    let back =
        MirrorRecord::decode(&MirrorRecord { claim: Some(long), ..example() }.encode(512)).unwrap();
    assert_eq!(back.claim.unwrap().host, "ü".repeat(31));
}

#[test]
fn what_is_damaged_or_later_is_refused_by_name() {
    let block = example().encode(512);
    for bit in 0..block.len() * 8 {
        let mut damaged = block.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(MirrorRecord::decode(&damaged).is_err(), "bit {bit}");
    }
    let mut later = block;
    later[8] = 4;
    assert_eq!(MirrorRecord::decode(&later), Err(NoRecord::Version(4)));
    later[8] = 0;
    assert_eq!(MirrorRecord::decode(&later), Err(NoRecord::Version(0)));
    assert_eq!(MirrorRecord::decode(&[0; 512]), Err(NoRecord::Nothing));
}

#[test]
fn a_host_longer_than_any_that_is_written_is_damage() {
    let mut block = example().encode(512);
    let claim = [1, "host-ü".len() as u8];
    let at = (0..SINCE_2)
        .find(|at| block[*at..].starts_with(&claim) && block[at + 26..].starts_with(b"host"))
        .unwrap()
        + 1;
    block[at] = HOST_BYTES_MAX as u8 + 1;
    block[12..16].fill(0);
    let sum = checksum(&block[..RECORD_BYTES]);
    block[12..16].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(MirrorRecord::decode(&block), Err(NoRecord::Damaged));
}

#[test]
fn the_newer_slot_counts_and_the_older_one_is_overwritten() {
    let mut slots = RecordSlots { blocks: [vec![0; 512], vec![0; 512]] };
    assert_eq!(slots.newest().unwrap_err(), NoRecord::Nothing);
    let mut places = Vec::new();
    for _ in 0..3 {
        places.push(slots.put(&example(), 512).0);
    }
    assert_eq!((places, slots.newest().unwrap().1.sequence), (vec![0, 1, 0], 3));
    slots.blocks[0][100] ^= 1;
    assert_eq!(slots.newest().unwrap().1.sequence, 2, "a slot that was torn leaves the other one");
    slots.blocks[1][8] = 9;
    assert_eq!(slots.newest().unwrap_err(), NoRecord::Version(9));
}

#[test]
fn a_region_length_that_is_no_mirrors_is_damage_and_version_2_has_none() {
    for region_bytes in [0, 1, 32 << 10, 96 << 10, 8 << 10] {
        let block = MirrorRecord { region_bytes, ..example() }.encode(512);
        assert_eq!(MirrorRecord::decode(&block), Err(NoRecord::Damaged), "{region_bytes}");
    }
    let many = MirrorRecord { region_bytes: 64 << 10, data_bytes: (4 << 30) + 512, ..example() };
    assert_eq!(MirrorRecord::decode(&many.encode(512)), Err(NoRecord::Damaged), "too many regions");
    let old = MirrorRecord { format: Format::Two, region_bytes: 64 << 10, ..example() };
    let block = old.encode(512);
    assert_eq!((block[8], block[SINCE_3..UNREADABLE_AT].iter().any(|byte| *byte != 0)), (2, false));
}

#[test]
fn a_record_of_other_sizes_is_of_another_mirror() {
    let ours = example();
    assert!(ours.is_of_mirror_of(&MirrorRecord { leg: 0, min_legs: 1, sequence: 1, ..example() }));
    for other in [
        MirrorRecord { mirror: Uuid::from_u128(8), ..example() },
        MirrorRecord { legs: 2, ..example() },
        MirrorRecord { block_bytes: 4096, ..example() },
        MirrorRecord { data_bytes: 1 << 29, ..example() },
        MirrorRecord { region_bytes: 512 << 10, ..example() },
    ] {
        assert!(!ours.is_of_mirror_of(&other), "{other:?}");
    }
}
