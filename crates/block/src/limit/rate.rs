//! Limits of operations and bytes per second, shared by queues on any loops: a token bucket for
//! each, kept as the time at which it is full again (the generic cell rate algorithm).

use crate::limits::LIMIT_BURST_MS;
use crate::units::parse_size;
use core::time::Duration;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_base::lock::Lock;
use weft_io::Time;

/// Maximum use; 0: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Operations per second.
    pub operations: u64,
    /// Bytes per second.
    pub bytes: u64,
}

impl Limit {
    /// No limit.
    pub const NONE: Self = Self { operations: 0, bytes: 0 };

    /// Parses `iops=10k,bw=100MB`: one of them or both.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut limit = Self::NONE;
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("iops", value)) => limit.operations = parse_operations(value)?,
                Some(("bw", value)) => limit.bytes = parse_bytes(value)?,
                _ => {
                    return Err(format!(
                        "\"{part}\" is not a limit: use iops=10k, bw=100MB or both, separated by a comma"
                    ));
                }
            }
        }
        Ok(limit)
    }
}

/// A number of operations: `500`, `10k`, `1M`.
pub(super) fn parse_operations(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let number = digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .filter(|number| *number > 0);
    number.ok_or_else(|| "use a number of operations per second, as in 500, 10k or 1M".into())
}

pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    match parse_size(text) {
        Ok(0) => Err("use a number of bytes per second above 0, as in 100MB".into()),
        other => other.map_err(|e| e.to_string()),
    }
}

/// Remainder of a limit at each moment.
#[derive(Debug)]
pub struct Rate {
    state: Lock<RateSchedule>,
    /// Another one whenever the limit has changed.
    generation: AtomicU32,
}

#[derive(Debug)]
struct RateSchedule {
    limit: Limit,
    /// Amount that may begin at once after a pause, as time.
    burst: Duration,
    /// When all operations so far, and all bytes so far, are paid for.
    operations: Time,
    bytes: Time,
}

/// Returns the time of `count` at a rate of `per_second`.
fn cost(count: u64, per_second: u64) -> Duration {
    if per_second == 0 {
        return Duration::ZERO;
    }
    let nanos = u128::from(count) * 1_000_000_000 / u128::from(per_second);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl Rate {
    /// Nothing is used yet.
    pub fn new(limit: Limit) -> Self {
        Self::with_burst(limit, Duration::from_millis(LIMIT_BURST_MS))
    }

    /// Nothing is used yet; after a pause as much may begin at once as otherwise takes `burst`.
    pub(super) fn with_burst(limit: Limit, burst: Duration) -> Self {
        let state =
            Lock::new(RateSchedule { limit, burst, operations: Time::ZERO, bytes: Time::ZERO });
        Self { state, generation: AtomicU32::new(0) }
    }

    /// The limit.
    pub fn limit(&self) -> Limit {
        self.state.lock().limit
    }

    /// Changes the limit, also for waiting operations: usage under the previous limit no longer
    /// counts.
    pub fn set(&self, limit: Limit) {
        let mut state = self.state.lock();
        if state.limit != limit {
            *state = RateSchedule {
                limit,
                burst: state.burst,
                operations: Time::ZERO,
                bytes: Time::ZERO,
            };
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// Another number whenever the limit has changed: times that [`Self::admit`] gave before are
    /// void.
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the time at which an operation of `bytes` bytes may begin that arrives at `now`.
    /// Times of successive calls do not decrease.
    pub(super) fn admit(&self, now: Time, bytes: u64) -> Time {
        let state = &mut *self.state.lock();
        let burst = state.burst;
        let begin = |paid: Time| {
            if paid.since_epoch() > burst {
                Time::from_epoch(paid.since_epoch() - burst).max(now)
            } else {
                now
            }
        };
        let at = begin(state.operations).max(begin(state.bytes));
        state.operations = state.operations.max(now) + cost(1, state.limit.operations);
        state.bytes = state.bytes.max(now) + cost(bytes, state.limit.bytes);
        at
    }
}
