//! Labels and state files of version 3, of a mirror of 1 GiB that was closed, and of one whose
//! process was killed after it had written to regions 0, 250 and 1000. Kept as those of version 1.

use super::version1::{found, label, open_and_close, version};
use crate::mirror::record::Format;

const CLOSED: [&[u8]; 3] = [
    include_bytes!("version3/closed-leg-0"),
    include_bytes!("version3/closed-leg-1"),
    include_bytes!("version3/closed-state"),
];
const KILLED: [&[u8]; 3] = [
    include_bytes!("version3/killed-leg-0"),
    include_bytes!("version3/killed-leg-1"),
    include_bytes!("version3/killed-state"),
];

#[test]
fn files_of_version_3_are_read_and_stay_what_they_are() {
    for (kept, written) in [(CLOSED, &[] as &[usize]), (KILLED, &[0, 250, 1000])] {
        let mut files = core::array::from_fn(|n| Some(found(n, kept[n])));
        open_and_close(&mut files, written);
        for file in files.iter().flatten() {
            let record = label(file);
            assert_eq!((record.format, version(file, 0), version(file, 1)), (Format::Three, 3, 3));
            assert_eq!((record.data_bytes, record.region_bytes), (1 << 30, 256 << 10));
            assert_eq!((record.is_clean, record.claim), (written.is_empty(), None));
        }
    }
}
