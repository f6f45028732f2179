//! Reads that end early: at the end of a file, or where a server ends them.

use std::fs::File;

/// Returns how many bytes of a read that began at `at` and ended early count: the next one goes on
/// behind them. One that bypasses the cache has to begin at a sector. So the part of a page is read
/// again, unless the read ended at a sector; 0: nothing else was read, and the file ends there.
pub(super) fn counts(file: &File, at: u64, bytes: u64) -> u64 {
    let end = at + bytes;
    if end.is_multiple_of(512) || !is_direct(file) {
        return bytes;
    }
    bytes.saturating_sub(end % 4096)
}

#[cfg(target_os = "linux")]
fn is_direct(file: &File) -> bool {
    rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::DIRECT))
}

#[cfg(not(target_os = "linux"))]
fn is_direct(_: &File) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::fs::OpenOptionsExt;

    #[test]
    fn a_direct_read_goes_on_at_a_page_or_a_sector() {
        let path = std::env::temp_dir().join(format!("weft-short-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        assert_eq!(counts(&file, 0, 1000), 1000);
        let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path);
        std::fs::remove_file(&path).unwrap();
        let Ok(direct) = direct else {
            return weft_testing::skip(format!("no O_DIRECT in {}", path.display()));
        };
        for (at, bytes, expected) in [
            (0, 9_000, 8_192),
            (8_192, 808, 0),
            (512, 100, 0),
            (512, 4_000, 3_584),
            (512, 1_024, 1_024),
            (4_096, 0, 0),
        ] {
            assert_eq!(counts(&direct, at, bytes), expected, "{bytes} at {at}");
        }
    }
}
