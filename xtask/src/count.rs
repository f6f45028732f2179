//! Counting tests in what test programs print.
//!
//! Three things are understood: the last line of each of cargo's test programs (`test result: …`),
//! the closing line of these chores (`N passed, N failed, N skipped`), and
//! `skipped: <what is missing>` on a line of its own, by which a test says that this machine cannot
//! run it. The latter is seen because the tests run with `--show-output`. Ignored tests are not
//! counted: they measure, and are asked for by name.

use std::ops::AddAssign;

/// Numbers of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests that this machine could not run.
    pub skipped: u64,
}

/// A skipped test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Its name; empty where the log names none.
    pub test: String,
    /// The missing thing.
    pub reason: String,
}

impl Skip {
    /// The same with the step or program that the test is part of.
    pub fn of(mut self, step: &str) -> Self {
        self.test = match self.test.as_str() {
            "" => step.to_owned(),
            test => format!("{step}: {test}"),
        };
        self
    }
}

/// The tests of a log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The counts.
    pub count: Count,
    /// The skipped tests, each once, however many reasons it has.
    pub skips: Vec<Skip>,
}

impl Tally {
    /// Parses a whole log.
    pub fn of(log: &str) -> Self {
        let mut tally = Self::default();
        let mut closing = None;
        let mut test = None;
        for line in log.lines().map(str::trim) {
            if let Some(name) = output_of(line) {
                test = Some(name);
            } else if let Some(reason) = line.strip_prefix("skipped: ") {
                tally.skip(test.unwrap_or_default(), reason);
            } else if let Some(result) = line.strip_prefix("test result: ") {
                tally.count += Count::in_words(result, &[';', '.']);
                test = None;
            } else if let Some(count) = Count::closing(line) {
                closing = Some(count);
            }
        }
        match closing {
            Some(count) => tally.count = count,
            None => tally.count.skip(tally.skips.len()),
        }
        tally
    }

    /// Adds a reason to its test, or a test with its first reason.
    fn skip(&mut self, test: &str, reason: &str) {
        match self.skips.iter_mut().find(|skip| !test.is_empty() && skip.test == test) {
            Some(skip) if skip.reason.contains(reason) => {}
            Some(skip) => skip.reason = format!("{}; {reason}", skip.reason),
            None => self.skips.push(Skip { test: test.into(), reason: reason.into() }),
        }
    }
}

/// The test whose output starts with this line.
fn output_of(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

impl Count {
    /// The number of tests.
    pub fn total(self) -> u64 {
        self.passed + self.failed + self.skipped
    }

    /// Counts tests as skipped that had been counted as passed.
    fn skip(&mut self, tests: usize) {
        let tests = self.passed.min(tests as u64);
        self.passed -= tests;
        self.skipped += tests;
    }

    /// Parses a line that contains only a count.
    fn closing(line: &str) -> Option<Self> {
        let count = Self::in_words(line, &[',']);
        (line == count.to_string()).then_some(count)
    }

    /// Parses `3 passed; 1 failed; …`.
    fn in_words(text: &str, separators: &[char]) -> Self {
        let mut count = Self::default();
        for part in text.split(separators) {
            let Some((number, what)) = part.trim().split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what {
                "passed" => count.passed += number,
                "failed" => count.failed += number,
                "skipped" => count.skipped += number,
                _ => {}
            }
        }
        count
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(test: &str, reason: &str) -> Skip {
        Skip { test: test.into(), reason: reason.into() }
    }

    #[test]
    fn sums_cargos_results_and_moves_the_skipped() {
        let log = "test a ... ok\n\n---- ring::reads stdout ----\nskipped: io_uring is switched off\n\n\
            test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
            test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let tally = Tally::of(log);
        assert_eq!(tally.count, Count { passed: 6, failed: 3, skipped: 1 });
        assert_eq!(tally.skips, [skip("ring::reads", "io_uring is switched off")]);
    }

    #[test]
    fn a_test_with_several_reasons_is_skipped_once() {
        let log = "---- a stdout ----\nskipped: tshark is missing\nskipped: fio is missing\n\n\
            ---- b stdout ----\nskipped: tshark is missing\n\n\
            test result: ok. 3 passed; 0 failed; 0 ignored\n";
        let tally = Tally::of(log);
        assert_eq!(tally.count, Count { passed: 1, failed: 0, skipped: 2 });
        assert_eq!(
            tally.skips,
            [skip("a", "tshark is missing; fio is missing"), skip("b", "tshark is missing")]
        );
    }

    #[test]
    fn takes_a_closing_line_for_the_whole() {
        let tally = Tally::of("skipped: no qemu\n8 passed, 0 failed, 1 skipped\n");
        assert_eq!(tally.count, Count { passed: 8, failed: 0, skipped: 1 });
        assert_eq!(tally.skips, [skip("", "no qemu")]);
        assert_eq!(tally.skips[0].clone().of("lab").test, "lab");
    }

    #[test]
    fn finds_nothing_in_other_logs() {
        assert_eq!(
            Tally::of("Compiling 3 crates\n2 failed attempts, 1 passed\n"),
            Tally::default()
        );
    }
}
