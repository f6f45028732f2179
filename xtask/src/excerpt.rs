//! The part of a failed step's log that a person needs to see.

/// Lines from the end of a log to show if no test failed.
const TAIL_LINES: usize = 60;

/// Maximum lines to show.
const LINES_MAX: usize = 200;

/// The output of the failed tests: that of cargo's test programs, or else what follows, indented,
/// the line of a test of a tool of this project. The end of the log if no test failed.
pub fn of(log: &str) -> Vec<&str> {
    let mut shown = of_cargo(log);
    if shown.is_empty() {
        shown = of_tools(log);
    }
    if shown.is_empty() {
        let lines: Vec<&str> = log.lines().collect();
        shown = lines[lines.len().saturating_sub(TAIL_LINES)..].to_vec();
    }
    shown.truncate(LINES_MAX);
    shown
}

fn of_cargo(log: &str) -> Vec<&str> {
    let mut shown = Vec::new();
    let mut failures = false;
    for line in log.lines() {
        failures |= line == "failures:";
        if failures {
            shown.push(line);
        }
        failures &= !line.starts_with("test result: ");
    }
    shown
}

fn of_tools(log: &str) -> Vec<&str> {
    let mut has_failed = false;
    let is_shown = |line: &&str| {
        if let Some((_, verdict)) = line.strip_prefix("test ").and_then(|it| it.split_once(" ... "))
        {
            has_failed = !["ok", "skipped"].iter().any(|word| verdict.starts_with(word));
        } else {
            has_failed &= line.starts_with("  ");
        }
        has_failed
    };
    log.lines().filter(is_shown).collect()
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
    fn shows_failures_of_tools_alone() {
        let log = "test a ... ok <1.000s>\n  left\ntest b ... FAILED <2.000s>\n  | oops\n  the end\ntest c ... skipped <0.000s>\nskipped: c: why\ntest d ... TIMED OUT <9.000s>\n  | slow\n2 failed\n";
        assert_eq!(
            of(log),
            [
                "test b ... FAILED <2.000s>",
                "  | oops",
                "  the end",
                "test d ... TIMED OUT <9.000s>",
                "  | slow"
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
