//! Committed files that hold what the sources say.

use std::path::Path;

/// Fails the test, because a committed file does not hold `right`, and leaves `right` in a file
/// with other temporary ones.
///
/// # Panics
/// Always.
pub fn outdated(committed: &str, right: &str) -> ! {
    let name = Path::new(committed).file_name().unwrap_or_default();
    let renewed = std::env::temp_dir().join(name);
    std::fs::write(&renewed, right).expect("a temporary file can be written");
    panic!("{committed} is outdated: cp {} {committed}", renewed.display());
}

/// Compares a text with a committed file. With `WEFT_RECORD=1` in the environment the file is
/// written instead.
///
/// # Panics
/// They differ: the message has the first line that does.
pub fn check(committed: impl AsRef<Path>, right: &str) {
    let file = committed.as_ref();
    if std::env::var("WEFT_RECORD").is_ok_and(|value| value == "1") {
        return std::fs::write(file, right).expect("a recording can be written");
    }
    let recorded = std::fs::read_to_string(file)
        .unwrap_or_else(|e| panic!("{}: {e}", file.display()))
        .replace("\r\n", "\n");
    let (was, is): (Vec<_>, Vec<_>) = (recorded.lines().collect(), right.lines().collect());
    if let Some(n) = (0..was.len().max(is.len())).find(|n| was.get(*n) != is.get(*n)) {
        let line = |lines: &[&str]| lines.get(n).map_or("(the end)".into(), ToString::to_string);
        panic!("{}:{}: {}\nrecorded: {}", file.display(), n + 1, line(&is), line(&was));
    }
}
