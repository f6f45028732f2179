//! What of a failed step's log a person needs to see.

/// Lines from the end of a log to show if no test failed.
const TAIL_LINES: usize = 60;

/// Maximum lines to show.
const LINES_MAX: usize = 200;

/// The output of the failed tests of cargo's test programs; the end of the log if there are none.
pub fn of(log: &str) -> Vec<&str> {
    let mut shown = Vec::new();
    let mut failures = false;
    for line in log.lines() {
        failures |= line == "failures:";
        if failures {
            shown.push(line);
        }
        failures &= !line.starts_with("test result: ");
    }
    if shown.is_empty() {
        let lines: Vec<&str> = log.lines().collect();
        shown = lines[lines.len().saturating_sub(TAIL_LINES)..].to_vec();
    }
    shown.truncate(LINES_MAX);
    shown
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn shows_failures_alone() {
        let log = "successes:\n  a\nfailures:\n--- b stdout ---\noops\nfailures:\n  b\ntest result: FAILED. 1 passed\nDoc-tests\n";
        assert_eq!(
            of(log),
            [
                "failures:",
                "--- b stdout ---",
                "oops",
                "failures:",
                "  b",
                "test result: FAILED. 1 passed"
            ]
        );
    }

    #[test]
    fn shows_the_end_otherwise() {
        let log: String = (0..100).map(|n| format!("{n}\n")).collect();
        assert_eq!(of(&log).first(), Some(&"40"));
        assert_eq!(of(&log).last(), Some(&"99"));
    }
}
