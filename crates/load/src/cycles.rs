//! Frequency of the processor's clock, by a chain of instructions of which each waits for the one
//! before.
//!
//! The clock of a modern processor differs by several per cent from minute to minute, with what
//! else its package does, and times with it. Cycles do not: they are what costs of different
//! studies are compared by. This is in a crate that is optimized in every profile, as a chain that
//! goes through memory takes many times as long.

use std::hint::black_box;
use std::time::Instant;

/// A rotation and an exclusive or take a cycle each, on all processors of this century.
const CYCLES_OF_A_LINK: u64 = 2;

/// Links of a chain: some 0.2 ms.
const LINKS: u64 = 350_000;

/// Chains, of which the quickest counts: an interrupt makes one longer.
const CHAINS: u32 = 4;

/// Returns the cycles in a nanosecond at present.
pub fn per_ns() -> f64 {
    let quickest = (0..CHAINS).map(|_| chain_ns()).fold(f64::INFINITY, f64::min);
    (LINKS * CYCLES_OF_A_LINK) as f64 / quickest
}

fn chain_ns() -> f64 {
    let (first, mask) = (black_box(1_u64), black_box(0x9E37_79B9_7F4A_7C15));
    let begin = Instant::now();
    let last = (0..LINKS).fold(first, |value, _| value.rotate_left(1) ^ mask);
    black_box(last);
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
