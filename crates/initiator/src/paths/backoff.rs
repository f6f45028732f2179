//! The pauses between attempts to reconnect: they double from a short one up to the maximum, and
//! each is shortened by a random part, so that many hosts of one target do not come back at the
//! same time.

use std::time::Duration;
use weft_connection::limits::RECONNECT_FIRST_MS;

/// The pause before attempt number `attempt` (from 0). `random` is any number; a quarter of the
/// pause depends on it.
pub(super) fn pause(attempt: u32, most: Duration, random: u16) -> Duration {
    let doubled = Duration::from_millis(RECONNECT_FIRST_MS).saturating_mul(1 << attempt.min(20));
    let whole = doubled.min(most);
    whole - whole.mul_f64(f64::from(random) / f64::from(u16::MAX) / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum_and_are_shortened_by_a_quarter_at_most() {
        let most = Duration::from_secs(10);
        let whole: Vec<u128> = (0..9).map(|attempt| pause(attempt, most, 0).as_millis()).collect();
        assert_eq!(whole, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(pause(8, most, u16::MAX), Duration::from_millis(7500));
        assert_eq!(pause(u32::MAX, most, 0), most);
        assert_eq!(pause(0, Duration::from_millis(30), 0), Duration::from_millis(30));
    }
}
