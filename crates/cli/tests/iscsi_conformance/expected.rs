//! The tests that `iscsi-test-cu` skips or fails on `weft serve`, and the reasons. docs/iscsi.md
//! has the same in fewer words.

const ONE_BLOCK: &str =
    "for disks whose physical blocks are larger than their logical ones; weft's are alike";
const NOT_REMOVABLE: &str = "for removable media";
const NO_COPY: &str = "third-party copy is not offered: hosts copy by reading and writing";
const NO_SANITIZE: &str = "SANITIZE is not offered: a served device is not the target's to destroy";

/// Tests that do not apply: by name, or all of a suite.
pub const SKIPS: &[(&str, &str)] = &[
    ("CompareAndWrite.InvalidDataOutSize", ONE_BLOCK),
    ("ExtendedCopy.*", NO_COPY),
    ("NoMedia.*", NOT_REMOVABLE),
    ("OrWrite.*", "ORWRITE is not offered: no initiator in use sends it"),
    ("PreventAllow.*", NOT_REMOVABLE),
    ("ReadDefectData10.*", "there is no defect list"),
    ("ReadDefectData12.*", "there is no defect list"),
    ("ReadOnly.*", "for write-protected units; this one is written to"),
    ("ReceiveCopyResults.*", NO_COPY),
    ("Sanitize.*", NO_SANITIZE),
    ("StartStopUnit.*", NOT_REMOVABLE),
    ("WriteAtomic16.*", "WRITE ATOMIC is not offered"),
    ("WriteSame10.InvalidDataOutSize", ONE_BLOCK),
    ("WriteSame10.UnmapUnaligned", ONE_BLOCK),
    (
        "WriteSame10.ZeroBlocks",
        "a WRITE SAME of zero blocks, which means up to the end, is longer than the longest that is offered",
    ),
    ("WriteSame16.InvalidDataOutSize", ONE_BLOCK),
    ("WriteSame16.UnmapUnaligned", ONE_BLOCK),
    (
        "WriteSame16.ZeroBlocks",
        "a WRITE SAME of zero blocks, which means up to the end, is longer than the longest that is offered",
    ),
];

/// Tests that fail.
pub const FAILS: &[(&str, &str)] = &[];

/// Returns whether an entry of a table means a test.
pub fn means(entry: &str, test: &str) -> bool {
    match entry.strip_suffix(".*") {
        Some(suite) => test.split_once('.').is_some_and(|(first, _)| first == suite),
        None => entry == test,
    }
}
