//! Authentications that were begun and did not succeed: how many an address may have. Each costs large powers of large numbers, for which a loop
//! stands still for some milliseconds; and each may be a guess. For the cold path only.

use crate::export::origin::origin;
use crate::limits::{AUTHENTICATION_STEP_MS, AUTHENTICATIONS_MAX, AUTHENTICATIONS_ROWS};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The attempts of one target.
#[derive(Default)]
pub(super) struct Attempts(Mutex<HashMap<Option<IpAddr>, Begun>>);

/// Attempts that count, and up to when those before were forgotten one by one.
#[derive(Default)]
struct Begun {
    count: u32,
    since: Duration,
}

impl Begun {
    /// Forgets what is long ago.
    fn age(&mut self, now: Duration) {
        let steps = now.saturating_sub(self.since).as_millis() / u128::from(AUTHENTICATION_STEP_MS);
        if steps > 0 {
            self.count = self.count.saturating_sub(u32::try_from(steps).unwrap_or(u32::MAX));
            self.since = now;
        }
    }
}

impl Attempts {
    fn lock(&self) -> MutexGuard<'_, HashMap<Option<IpAddr>, Begun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an attempt of `peer`, an address with its port; tells whether it may be made.
    pub(super) fn begin(&self, now: Duration, peer: &str) -> bool {
        let mut all = self.lock();
        let host = origin(peer);
        if !all.contains_key(&host) {
            all.values_mut().for_each(|begun| begun.age(now));
            all.retain(|_, begun| begun.count > 0);
        }
        let is_full = all.len() >= AUTHENTICATIONS_ROWS && !all.contains_key(&host);
        // Further addresses count as one.
        let begun = all.entry(host.filter(|_| !is_full)).or_insert(Begun { count: 0, since: now });
        begun.age(now);
        if begun.count >= AUTHENTICATIONS_MAX {
            return false;
        }
        begun.count += 1;
        true
    }

    /// An attempt has succeeded: it does not count.
    pub(super) fn succeeded(&self, peer: &str) {
        let mut all = self.lock();
        let host = origin(peer);
        // Those of an address without a row of its own count with all others'.
        let row = if all.contains_key(&host) { host } else { None };
        if let Some(begun) = all.get_mut(&row) {
            begun.count = begun.count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Duration = Duration::from_secs(100);

    #[test]
    fn failures_are_counted_by_address_and_forgotten() {
        let attempts = Attempts::default();
        let begun = (0..AUTHENTICATIONS_MAX * 2).filter(|port| attempts.begin(T0, &format!("192.0.2.1:{}", port + 1))).count();
        assert_eq!(begun, AUTHENTICATIONS_MAX as usize);
        assert!(attempts.begin(T0, "192.0.2.2:1"), "another address");
        let later = T0 + Duration::from_millis(AUTHENTICATION_STEP_MS);
        assert!(attempts.begin(later, "192.0.2.1:1") && !attempts.begin(later, "192.0.2.1:1"));
    }

    #[test]
    fn who_succeeds_may_go_on_for_ever() {
        let attempts = Attempts::default();
        for _ in 0..AUTHENTICATIONS_MAX * 3 {
            assert!(attempts.begin(T0, "[2001:db8::1]:1"));
            attempts.succeeded("[2001:db8::1]:1");
        }
    }

    #[test]
    fn who_succeeds_without_a_row_of_its_own_does_not_count_either() {
        let attempts = Attempts::default();
        (0..AUTHENTICATIONS_ROWS as u64)
            .for_each(|n| _ = attempts.begin(T0, &format!("[2001:db8:{:x}:{:x}::1]:1", n >> 16, n & 0xffff)));
        for _ in 0..AUTHENTICATIONS_MAX * 3 {
            assert!(attempts.begin(T0, "192.0.2.1:1"));
            attempts.succeeded("192.0.2.1:1");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let attempts = Attempts::default();
        for n in 0..AUTHENTICATIONS_ROWS as u64 * 2 {
            let _ = attempts.begin(T0, &format!("[2001:db8:{:x}:{:x}::1]:1", n >> 16, n & 0xffff));
        }
        assert!(attempts.lock().len() <= AUTHENTICATIONS_ROWS + 1);
    }
}
