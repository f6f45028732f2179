//! Tests that cannot run on this machine.

use std::fmt::Display;
use std::io::Write;

/// Options of the harness after which it shows what passed tests print.
const SHOWS: [&str; 3] = ["--show-output", "--nocapture", "--no-capture"];

/// The same as a variable of the environment.
const SHOWS_ALL: &str = "RUST_TEST_NOCAPTURE";

/// Reports that the calling test, or a part of it, cannot run on this machine. A test calls this
/// once at most and gives all reasons in one text, as each call stands for one skipped test.
///
/// `cargo xtask test` counts the line `skipped: WHY` in the output of the test. Without an option
/// that shows it, the harness drops the output of a test that passes. The reason then also goes to
/// standard error, past the harness, in other words than those that are counted.
pub fn skip(why: impl Display) {
    let why = why.to_string();
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    println!("skipped: {why}");
    if is_captured(std::env::args(), std::env::var(SHOWS_ALL).ok().as_deref()) {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        // Only the macros that print are captured.
        let _ = std::io::stderr().write_all(format!("{test} is skipped: {why}\n").as_bytes());
    }
}

/// Returns true if the harness drops what a test prints that passes.
fn is_captured(arguments: impl IntoIterator<Item = String>, shows_all: Option<&str>) -> bool {
    let is_shown = arguments.into_iter().any(|argument| SHOWS.contains(&argument.as_str()));
    !is_shown && shows_all.is_none_or(|value| value == "0")
}

#[cfg(test)]
mod tests {
    use super::is_captured;

    #[test]
    fn it_is_known_whether_the_harness_shows_what_tests_print() {
        let of = |text: &str, variable| is_captured(text.split(' ').map(str::to_owned), variable);
        assert!(of("program", None) && of("program --exact name", Some("0")));
        assert!(!of("program --show-output", None) && !of("program --nocapture name", None));
        assert!(!of("program", Some("1")));
    }
}
