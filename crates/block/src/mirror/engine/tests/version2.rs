//! Labels and state files of version 2, written by the last program that did not know version 3: of
//! a mirror of 1 GiB that was closed, and of one whose process was killed after it had written to
//! regions 0, 1000 and 4000. They are kept like those of version 1.

use super::version1::{found, label, open_and_close, version};
use super::world::World;
use crate::mirror::record::{Format, MirrorRecord};

const CLOSED: [&[u8]; 3] = [
    include_bytes!("version2/closed-leg-0"),
    include_bytes!("version2/closed-leg-1"),
    include_bytes!("version2/closed-state"),
];
const KILLED: [&[u8]; 3] = [
    include_bytes!("version2/killed-leg-0"),
    include_bytes!("version2/killed-leg-1"),
    include_bytes!("version2/killed-state"),
];
const WRITTEN: [usize; 3] = [0, 1000, 4000];

#[test]
fn files_of_version_2_keep_their_version_their_size_and_their_regions() {
    for (kept, written) in [(CLOSED, &[] as &[usize]), (KILLED, &WRITTEN)] {
        let mut files = core::array::from_fn(|n| Some(found(n, kept[n])));
        for file in files.iter().flatten() {
            let record = label(file);
            assert_eq!((record.format, record.data_bytes), (Format::Two, 1 << 30));
            assert_eq!((record.region_bytes, record.regions()), (64 << 10, 16_384));
        }
        open_and_close(&mut files, written);
        for file in files.iter().flatten() {
            let record = label(file);
            assert_eq!((version(file, 0), version(file, 1)), (2, 2), "older programs read it");
            assert_eq!((record.data_bytes, record.region_bytes), (1 << 30, 64 << 10));
            assert_eq!((record.is_clean, record.claim), (written.is_empty(), None));
        }
    }
}

#[test]
fn a_leg_that_is_replaced_gets_the_version_of_the_others() {
    let good = found(0, CLOSED[0]);
    let bytes = (1 << 30) + (1 << 20);
    let area = crate::mirror::admin::replace(&good.url, &good.area, 512, 1, bytes).unwrap();
    let record = label(&crate::mirror::labels::FoundLeg { area, ..good });
    assert_eq!((record.format, record.region_bytes), (Format::Two, 64 << 10));
}

#[test]
fn a_label_or_a_state_file_of_other_sizes_is_refused() {
    let write = |world: &mut World, leg: Option<usize>, change: fn(&mut MirrorRecord)| {
        let disk = match leg {
            Some(leg) => &mut world.disks[leg],
            None => world.state.as_mut().unwrap(),
        };
        let found = crate::mirror::labels::FoundLeg {
            url: String::new(),
            area: disk.area.clone(),
            block_bytes: super::world::BLOCK,
        };
        let (mut slots, mut record) = crate::mirror::labels::read(&found).unwrap();
        change(&mut record);
        let (slot, _, new) = slots.put(&record, super::world::BLOCK);
        disk.area[slot * crate::mirror::layout::UNIT..][..new.len()].copy_from_slice(&new);
    };
    let changes: [fn(&mut MirrorRecord); 2] =
        [|record| record.region_bytes *= 2, |record| record.data_bytes -= 512];
    for change in changes {
        for leg in [Some(1), None] {
            let mut world = World::new(2, 1, true);
            world.start(true, false).unwrap();
            world.with(|engine| engine.allow_copies());
            world.run();
            world.gone(1);
            world.run();
            world.stray.clear();
            write(&mut world, leg, change);
            if leg.is_some() {
                let said = world.back(1).unwrap_err();
                assert!(said.contains("states other sizes"), "{said}");
            }
            world.crash(|_| super::world::Fate::Never, |_| false);
            world.here[1] = true;
            let said = world.decide(true, true, false).unwrap_err();
            assert!(said.contains("both name the same mirror"), "{said}");
        }
    }
}
