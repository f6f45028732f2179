//! A mirror whose legs are disks in memory.

use super::{Rig, TestPlan};
use crate::device::Device;
use crate::mirror::admin::{self, Holding};
use crate::mirror::{self, HotLimit, LegSource, MirrorOptions};
use crate::url::opening::Opening;
use crate::url::registry::{OpenOptions, open};
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use uuid::Uuid;
use weft_io::RemoteLoop;

const NAME: Uuid = Uuid::from_u128(1);

/// Returns data that makes disks of this size and block size the two legs of a new mirror: the
/// block at which it begins, and the bytes for each.
///
/// # Panics
/// If no mirror has legs of this size.
pub fn mirror_labels(leg_bytes: u64, block_bytes: u32) -> (u64, Vec<Vec<u8>>) {
    let areas = admin::create(NAME, &[leg_bytes; 2], None, block_bytes, 1, Holding::TheSame);
    let offset = admin::area(leg_bytes).expect("a leg is large enough").0;
    (offset / u64::from(block_bytes), areas.expect("legs of this size do"))
}

/// Begins to open the mirror of these disks, whose home is this loop. The other end of the channel
/// is dropped when the mirror is closed.
///
/// # Panics
/// If that cannot begin.
pub fn begin_mirror(home: &RemoteLoop, disks: &[Device]) -> (Opening, Receiver<()>) {
    let leg = |disk: &Device| {
        let (url, disk) = (disk.url().to_owned(), Arc::clone(disk));
        let open = move |_| Ok(Opening::ready(Ok(Arc::clone(&disk))));
        LegSource { url, is_remote: false, open: Box::new(open) }
    };
    let (guard, closed) = channel();
    let options = MirrorOptions {
        url: "mirror:of RAM".into(),
        legs: disks.iter().map(leg).collect(),
        state: None,
        force: false,
        settle: Duration::ZERO,
        patience: None,
        opener: NAME,
        host: "testhost".into(),
        time: 1_700_000_000,
        seed: 1,
        hot: HotLimit::default(),
        guard: Box::new(guard),
    };
    (mirror::begin(home, options).unwrap_or_else(|e| panic!("{e}")), closed)
}

/// A new mirror of two RAM disks, whose home is this loop, which runs.
///
/// # Panics
/// If it cannot be opened.
pub fn mirror_of_ram(
    home: &RemoteLoop,
    leg_bytes: u64,
    block_bytes: u32,
) -> (Device, Receiver<()>) {
    let (lba, areas) = mirror_labels(leg_bytes, block_bytes);
    let disk = |area: Vec<u8>| {
        let url = format!("ram:{leg_bytes},block={block_bytes}");
        let disk = open(&url, &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let rig = Rig::new(&disk, TestPlan::default());
        rig.write(0, lba, &area);
        rig.end();
        disk
    };
    let disks: Vec<Device> = areas.into_iter().map(disk).collect();
    let (opening, closed) = begin_mirror(home, &disks);
    (opening.wait().unwrap_or_else(|e| panic!("{e}")), closed)
}
