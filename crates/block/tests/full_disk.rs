//! A disk that is full. (In a program of its own: a test that starts processes would pass the locks
//! of others on to them for a moment.)
#![cfg(target_os = "linux")]

use weft_block::testing::{Rig, TestOp, TestPlan};
use weft_block::{OpKind, OpenOptions, StatusKind, open};

const WRITE: OpKind = OpKind::Write { fua: false };

/// A file system of 1 MiB, where this user may mount one.
struct Small(std::path::PathBuf);

impl Small {
    fn mount() -> Option<Self> {
        let at = std::env::temp_dir().join(format!("weft-small-{}", std::process::id()));
        std::fs::create_dir(&at).unwrap();
        let mount = weft_testing::programs::command("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "none"])
            .arg(&at)
            .output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(Self(at));
        }
        std::fs::remove_dir(&at).unwrap();
        weft_testing::skip("this user cannot mount a small file system");
        None
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = weft_testing::programs::command("umount").arg(&self.0).output();
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_full_disk_gives_no_space_and_the_rest_goes_on() {
    let Some(small) = Small::mount() else { return };
    let url = format!("file:{}/disk,size=64MiB,block=4096", small.0.display());
    let device = open(&url, &OpenOptions::default()).unwrap();
    let rig = Rig::new(&device, TestPlan::default());
    let write = |n: u64| rig.request(WRITE, n * 16, vec![1; 65_536]);
    let answers = rig.run(0, (0..64).map(write).collect());
    let kinds: Vec<_> = answers.iter().map(|answer| answer.outcome.status().kind).collect();
    assert!(
        kinds.iter().all(|kind| matches!(kind, StatusKind::Success | StatusKind::NoSpace)),
        "{kinds:?}"
    );
    assert!(
        kinds.contains(&StatusKind::Success) && kinds.contains(&StatusKind::NoSpace),
        "{kinds:?}"
    );
    let stored = kinds.iter().position(|kind| *kind == StatusKind::Success).unwrap() as u64 * 16;
    assert_eq!(rig.read(0, stored, 16), vec![1; 65_536]);
    rig.write(0, stored, &[2; 4096]);
    let discard =
        TestOp { kind: OpKind::Discard, lba: 0, blocks: 1024, data: vec![], cuts: vec![] };
    rig.one(0, discard);
    rig.write(0, 500, &[3; 4096]);
    rig.end();
    drop(device);
}
