//! Source and export on simulated loops and a simulated network, many seeds each. A failure names
//! the seed; `WEFT_SEED=n` runs that one alone.

mod aborts;
mod authenticating;
mod away;
mod controller;
mod copying;
mod counts;
mod cross_reset;
mod crowd;
mod failing;
mod fairness;
mod faults;
mod hanging;
mod host_limits;
mod hostile;
mod in_process;
mod inventory;
mod keep_alive;
mod linger;
mod mirror;
mod nbd_partial_blocks;
mod newcomers;
mod opening;
mod paths;
mod pool;
mod power;
pub mod protocols;
mod puppet;
mod queues;
mod recorded;
mod reservations;
mod reset;
mod revoked;
pub mod scene;
mod settle;
mod tap;

/// The seeds to run: `count` of them, or the one that the environment asks for.
fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let one = std::env::var("WEFT_SEED").ok().map(|s| s.parse().expect("WEFT_SEED is a number"));
    let range = one.map_or(0..count, |seed| seed..seed + 1);
    range.inspect(|seed| eprintln!("seed {seed}"))
}
