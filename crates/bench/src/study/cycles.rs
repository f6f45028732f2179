//! Frequency of the processor's clock, by a chain of instructions of which each waits for the one
//! before.
//!
//! The clock of a modern processor differs by several per cent from minute to minute, with what
//! else its package does, and times with it. Cycles do not: they are what costs of different
//! studies are compared by.

use std::hint::black_box;
use std::time::Instant;

/// A rotation and an exclusive or take a cycle each, on all processors of this century.
const CYCLES_OF_A_LINK: u64 = 2;

/// Links of a chain: some 0.2 ms.
const LINKS: u64 = 350_000;

/// Chains, of which the quickest counts: an interrupt makes one longer.
const CHAINS: u32 = 4;

/// Cycles in a nanosecond at present.
pub(super) fn per_ns() -> f64 {
    let quickest = (0..CHAINS).map(|_| chain_ns()).fold(f64::INFINITY, f64::min);
    (LINKS * CYCLES_OF_A_LINK) as f64 / quickest
}

fn chain_ns() -> f64 {
    let begin = Instant::now();
    let mut value = 1_u64;
    for _ in 0..LINKS {
        value = black_box(value).rotate_left(1) ^ 0x9E37_79B9_7F4A_7C15;
    }
    black_box(value);
    begin.elapsed().as_secs_f64() * 1e9
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_clock_has_a_rate() {
        let rate = super::per_ns();
        assert!(rate.is_finite() && rate > 0.0, "{rate}");
    }
}
