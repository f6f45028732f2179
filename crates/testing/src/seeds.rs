//! The seed of all property tests.
//!
//! It is fixed, so that everybody tests the same cases and a change of the code is the only cause of
//! a new failure. With [`FRESH`] in the environment each process draws another one.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// Asks for a fresh seed, unless it is empty or `0`.
pub const FRESH: &str = "WEFT_FRESH_SEEDS";

/// Gives the seed; proptest uses the same name. It counts before [`FRESH`].
const GIVEN: &str = "PROPTEST_RNG_SEED";

/// The seed without either.
const FIXED: u64 = 20_261_127;

/// Returns the seed of this process. Prints it for the calling test, whose output is shown if it
/// fails.
///
/// # Panics
/// If `PROPTEST_RNG_SEED` is not a number.
#[must_use]
pub fn of_properties() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    let seed = *SEED.get_or_init(|| {
        let of = |name| std::env::var(name).ok();
        choose(of(GIVEN).as_deref(), of(FRESH).as_deref())
    });
    println!("to repeat this: {GIVEN}={seed}");
    seed
}

fn choose(given: Option<&str>, fresh: Option<&str>) -> u64 {
    match (given, fresh) {
        (Some(text), _) => text.parse().unwrap_or_else(|e| panic!("{GIVEN}={text}: {e}")),
        (None, None | Some("" | "0")) => FIXED,
        (None, Some(_)) => RandomState::new().build_hasher().finish(),
    }
}

/// The configuration of a block of property tests: its number of cases, 256 by default, and the
/// seed of all.
#[macro_export]
macro_rules! properties {
    () => {
        $crate::properties!(256)
    };
    ($cases:expr) => {
        ::proptest::test_runner::Config {
            cases: $cases,
            rng_seed: ::proptest::test_runner::RngSeed::Fixed($crate::seeds::of_properties()),
            ..::proptest::test_runner::Config::default()
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_fixed_unless_others_are_asked_for() {
        assert_eq!([choose(None, None), choose(None, Some("0"))], [FIXED; 2]);
        assert_eq!(choose(Some("7"), Some("1")), 7);
        assert_ne!(choose(None, Some("1")), choose(None, Some("1")));
    }
}
