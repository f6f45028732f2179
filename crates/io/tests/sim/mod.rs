//! Drivers in simulated worlds, many seeds each. A failure names the seed; `WEFT_SEED=n` runs that
//! one alone.

mod connecting;
mod disk;
mod echo;
mod semantics;

/// The seeds to run: `count` of them, or the one that the environment asks for.
fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let one = std::env::var("WEFT_SEED").ok().map(|s| s.parse().expect("WEFT_SEED is a number"));
    let range = one.map_or(0..count, |seed| seed..seed + 1);
    range.inspect(|seed| eprintln!("seed {seed}"))
}

/// Returns whether all seeds run, so that what is true of most of them can be asserted.
fn all_seeds() -> bool {
    std::env::var_os("WEFT_SEED").is_none()
}
