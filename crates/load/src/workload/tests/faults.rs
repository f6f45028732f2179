//! Verifying against the `error:` filter, which knows more ways to lie than the disk of the other
//! tests.

use super::{JobSpec, OnError, RunReport, Rw, Verify, go, ram};
use crate::workload::verify::FaultKind;
use std::sync::Arc;
use weft_block::{BlockDevice, OpenOptions, Opening, StatusKind, open};

/// Overwrites a disk that an earlier run has written, through the filter, and checks it.
fn through(filter: &str, change: impl FnOnce(&mut JobSpec)) -> RunReport {
    let disk = ram("4MiB");
    let spec = |rw| JobSpec {
        rw,
        bs_bytes: 512,
        iodepth: 8,
        verify: Verify::Crc32c,
        ..JobSpec::default()
    };
    assert!(go(Arc::clone(&disk), JobSpec { do_verify: false, ..spec(Rw::Write) }).is_clean());
    let inner = |url: &str| url.starts_with("disk:").then(|| Opening::ready(Ok(Arc::clone(&disk))));
    let device: Arc<dyn BlockDevice> =
        open(&format!("{filter},disk:"), &OpenOptions::with_resolver(&inner)).unwrap();
    let mut second = spec(Rw::RandWrite);
    change(&mut second);
    go(device, second)
}

/// Bad blocks: wrong, stale, misplaced.
fn bad(filter: &str) -> [u64; 3] {
    let report = through(filter, |_| ());
    let verify = report.verify().unwrap();
    assert_eq!((verify.blocks, report.failed()), (8192, 0), "{filter}");
    for finding in &verify.findings {
        assert!(finding.to_string().contains(finding.fault.kind().name()), "{finding}");
    }
    [FaultKind::Wrong, FaultKind::Stale, FaultKind::Misplaced].map(|kind| verify.count(kind))
}

#[test]
fn an_honest_filter_is_clean() {
    assert_eq!(bad("error:rate=0,corrupt=bitflip"), [0, 0, 0]);
}

#[test]
fn flipped_bits_and_zeroed_blocks_are_wrong() {
    for corrupt in ["bitflip", "zero"] {
        for ops in ["read", "write"] {
            let [wrong, stale, misplaced] =
                bad(&format!("error:rate=0.02,corrupt={corrupt},ops={ops}"));
            assert!((80..300).contains(&wrong), "{corrupt} {ops}: {wrong}");
            assert_eq!([stale, misplaced], [0, 0], "{corrupt} {ops}");
        }
    }
}

#[test]
fn dropped_writes_are_stale() {
    let [wrong, stale, misplaced] = bad("error:rate=0.02,corrupt=stale,ops=write");
    assert!((80..300).contains(&stale), "{stale}");
    assert_eq!([wrong, misplaced], [0, 0]);
}

#[test]
fn stray_reads_and_writes_are_misplaced() {
    let [wrong, stale, misplaced] = bad("error:rate=0.02,corrupt=misplaced,ops=read");
    assert!((80..300).contains(&misplaced), "{misplaced}");
    assert_eq!([wrong, stale], [0, 0]);
    // A stray write also leaves old data where it should have gone.
    let [wrong, stale, misplaced] = bad("error:rate=0.02,corrupt=misplaced,ops=write");
    assert!(misplaced > 20 && stale > 60, "{stale} {misplaced}");
    assert_eq!(wrong, 0);
}

#[test]
fn failures_of_each_kind_are_told() {
    for (kind, expected) in
        [("media", StatusKind::Media), ("nospace", StatusKind::NoSpace), ("gone", StatusKind::Gone)]
    {
        let report = through(&format!("error:rate=0.02,kind={kind},ops=write"), |spec| {
            spec.continue_on_error = OnError::all()
        });
        let (errors, verify) = (&report.jobs[0].errors, report.verify().unwrap());
        assert_eq!((errors.len(), errors[0].status.kind), (1, expected));
        assert!((80..300).contains(&errors[0].count), "{}", errors[0].count);
        assert_eq!((verify.bad_blocks(), verify.blocks), (0, 8192 - errors[0].count));
    }
}
