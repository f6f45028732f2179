//! Labels and state files of version 1, as they were left by a mirror that was closed and by one
//! whose process was killed. Of each unit of an area the first 512 bytes are kept; the others are
//! zero.

use super::world::OPENER;
use crate::limits::MIRROR_HOT_REGIONS;
use crate::mirror::engine::{Io, IoTarget, MirrorEngine, MirrorOutput};
use crate::mirror::labels::{FoundLeg, read};
use crate::mirror::layout::{AREA_BYTES, HotLimit, UNIT};
use crate::mirror::record::{Claim, LEGS_MAX, MirrorRecord, RecordSlots};
use crate::mirror::start::decide;
use crate::op::Outcome;
use uuid::Uuid;

const CLOSED: [&[u8]; 3] = [
    include_bytes!("version1/closed-leg-0"),
    include_bytes!("version1/closed-leg-1"),
    include_bytes!("version1/closed-state"),
];
const KILLED: [&[u8]; 3] = [
    include_bytes!("version1/killed-leg-0"),
    include_bytes!("version1/killed-leg-1"),
    include_bytes!("version1/killed-state"),
];
pub(super) const STATE: usize = 2;

pub(super) fn found(name: usize, kept: &[u8]) -> FoundLeg {
    let mut area = vec![0; AREA_BYTES];
    for (unit, kept) in area.chunks_mut(UNIT).zip(kept.chunks(512)) {
        unit[..512].copy_from_slice(kept);
    }
    FoundLeg { url: format!("url-{name}"), area, block_bytes: 512 }
}

pub(super) fn version(found: &FoundLeg, slot: usize) -> u32 {
    u32::from_le_bytes(found.area[slot * UNIT + 8..][..4].try_into().unwrap())
}

/// Opens a mirror of the files that are here, where these regions are in doubt, and closes it.
pub(super) fn open_and_close(files: &mut [Option<FoundLeg>; 3], in_doubt: &[usize]) {
    let legs = [files[0].clone(), files[1].clone()];
    let start = decide(&legs, files[STATE].as_ref(), None, false).unwrap();
    assert_eq!(start.suspect.regions().collect::<Vec<_>>(), in_doubt);
    let mut engine = open(files);
    engine.allow_copies();
    close(&mut engine, files);
}

/// Does what an engine wants until it wants nothing, on the files that are here.
pub(super) fn drive(engine: &mut MirrorEngine, files: &mut [Option<FoundLeg>; 3]) {
    loop {
        let outputs = engine.outputs();
        if outputs.is_empty() {
            return;
        }
        for output in outputs {
            let MirrorOutput::Io { name, target, io } = output else { continue };
            let file = match target {
                IoTarget::Leg(leg) => files[leg].as_mut().unwrap(),
                IoTarget::State => files[STATE].as_mut().unwrap(),
            };
            match io {
                Io::Page { offset, bytes } => {
                    file.area[offset as usize..][..bytes.len()].copy_from_slice(&bytes)
                }
                Io::Label { slot, old, new } => {
                    let place = &mut file.area[slot * UNIT..][..new.len()];
                    assert_eq!(place, old);
                    place.copy_from_slice(&new);
                }
                _ => {}
            }
            engine.done(name, Outcome::SUCCESS);
        }
    }
}

pub(super) fn open(files: &mut [Option<FoundLeg>; 3]) -> MirrorEngine {
    open_limited(files, MIRROR_HOT_REGIONS)
}

/// With a maximum of marked regions.
pub(super) fn open_limited(files: &mut [Option<FoundLeg>; 3], hot: usize) -> MirrorEngine {
    let legs = [files[0].clone(), files[1].clone()];
    let start = decide(&legs, files[STATE].as_ref(), None, false).unwrap();
    let claim = Claim { opener: start.opener.unwrap_or(OPENER), time: 5, host: "here".into() };
    let mut engine = MirrorEngine::new(start, claim, 1, HotLimit::Regions(hot));
    drive(&mut engine, files);
    engine
}

pub(super) fn close(engine: &mut MirrorEngine, files: &mut [Option<FoundLeg>; 3]) {
    engine.close();
    drive(engine, files);
}

pub(super) fn label(file: &FoundLeg) -> MirrorRecord {
    read(file).unwrap().1
}

#[test]
fn files_of_version_1_are_read_and_rewritten() {
    for (kept, is_clean) in [(CLOSED, true), (KILLED, false)] {
        let mut files = core::array::from_fn(|n| Some(found(n, kept[n])));
        for file in files.iter().flatten() {
            let record = label(file);
            assert_eq!((version(file, 0), version(file, 1)), (1, 1));
            assert_eq!(
                (record.mirror, record.data_bytes),
                (Uuid::from_u128(0x7c97_b85a_439b_cb8b_7a38_f8b9_8dfa_db76), 1 << 20)
            );
            assert_eq!(
                (record.generation.number, record.members, record.is_clean),
                (1, 0b11, is_clean)
            );
            assert_eq!(
                (record.claim.is_some(), record.run, record.base),
                (!is_clean, Default::default(), 0)
            );
        }
        let legs = [files[0].clone(), files[1].clone()];
        let start = decide(&legs, files[STATE].as_ref(), None, false).unwrap();
        assert_eq!(
            (start.was_open, start.suspect.count()),
            (!is_clean, if is_clean { 0 } else { 16 })
        );
        let mut engine = open(&mut files);
        engine.allow_copies();
        close(&mut engine, &mut files);
        for file in files.iter().flatten() {
            assert_eq!((version(file, 0), version(file, 1)), (2, 2));
            assert_eq!((label(file).run.number, label(file).claim), (2, None));
        }
    }
}

#[test]
fn a_leg_that_is_absent_at_the_rewrite_is_recognised_later() {
    let mut files = [Some(found(0, CLOSED[0])), None, Some(found(STATE, CLOSED[STATE]))];
    let mut engine = open(&mut files);
    close(&mut engine, &mut files);
    let mut engine = open(&mut files);
    let absent = found(1, CLOSED[1]);
    assert_eq!(RecordSlots::of(&absent.area, 512).newest().unwrap().1.run.tag, 0);
    files[1] = Some(absent.clone());
    engine.allow_copies();
    assert_eq!(engine.leg_back(&absent), Ok(1));
    let outputs = engine.outputs();
    let is_whole = |output: &MirrorOutput| {
        matches!(
            output,
            MirrorOutput::Say(crate::mirror::engine::MirrorEvent::Resync { is_whole: true, .. })
        )
    };
    assert!(!outputs.iter().any(is_whole));
    assert_eq!(engine.durable().left[1], label(&absent).generation);
    assert_eq!(engine.durable().left_runs, [0; LEGS_MAX]);
}
