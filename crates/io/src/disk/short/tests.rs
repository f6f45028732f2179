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
