//! Limits of authentications: how many an address may begin without success, as each may be a
//! guess, and how much arithmetic those of an address and of all addresses may cost, whether they
//! succeed or not: large powers of large numbers. For the cold path only.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use weft_base::lock::Lock;
use weft_connection::limits::{
    AUTHENTICATION_ADDRESS_MS, AUTHENTICATION_ADDRESS_PERCENT, AUTHENTICATION_KNOWN_S,
    AUTHENTICATION_STEP_MS, AUTHENTICATION_TARGET_MS, AUTHENTICATION_TARGET_PERCENT,
    AUTHENTICATIONS_MAX, AUTHENTICATIONS_ROWS,
};
use weft_proto::nvme::auth::Group;

/// The attempts of one target.
#[derive(Default)]
pub(super) struct Attempts(Lock<Begun>);

/// What an address is, by what it did before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// A host has authenticated from there lately.
    Known,
    Stranger,
}

/// Why an authentication may not begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooMuch {
    /// Of attempts of the address that have not succeeded.
    Failures,
    /// Of arithmetic for the address.
    OfAddress,
    /// Of arithmetic for all addresses.
    OfTarget,
}

impl TooMuch {
    /// For people.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Failures => "too many authentications of this address have not succeeded",
            Self::OfAddress => "the authentications of this address have taken too much arithmetic",
            Self::OfTarget => "the authentications of all hosts have taken too much arithmetic",
        }
    }
}

/// What an exchange with this group costs the target, in microseconds. Nominal: it was measured on
/// one machine (docs/security.md), and says what a group costs beside another one.
const fn cost_us(group: Group) -> u64 {
    match group {
        Group::Null => 10,
        Group::Ffdhe2048 => 2_400,
        Group::Ffdhe3072 => 5_200,
        Group::Ffdhe4096 => 9_200,
        Group::Ffdhe6144 => 23_000,
        Group::Ffdhe8192 => 54_000,
    }
}

/// Arithmetic that was spent, and is given back as time passes.
#[derive(Default)]
struct Spent {
    us: u64,
    since: Duration,
}

impl Spent {
    fn give_back(&mut self, now: Duration, percent: u64) {
        let passed_us =
            u64::try_from(now.saturating_sub(self.since).as_micros()).unwrap_or(u64::MAX);
        self.us = self.us.saturating_sub(passed_us.saturating_mul(percent) / 100);
        self.since = now;
    }

    fn has_room(&self, us: u64, most_ms: u64) -> bool {
        self.us + us <= most_ms * 1000
    }
}

#[derive(Default)]
struct Begun {
    of_address: HashMap<Option<IpAddr>, Row>,
    of_all: Spent,
}

/// Attempts of one address that count, and up to when those before were forgotten one by one.
#[derive(Default)]
struct Row {
    count: u32,
    since: Duration,
    spent: Spent,
    /// Until when its standing is that of an address from which a host has authenticated.
    known_until: Duration,
}

impl Row {
    /// Forgets what is long ago.
    fn age(&mut self, now: Duration) {
        let steps = now.saturating_sub(self.since).as_millis() / u128::from(AUTHENTICATION_STEP_MS);
        if steps > 0 {
            self.count = self.count.saturating_sub(u32::try_from(steps).unwrap_or(u32::MAX));
            self.since = now;
        }
        self.spent.give_back(now, AUTHENTICATION_ADDRESS_PERCENT);
    }

    fn says_something(&self, now: Duration) -> bool {
        self.count > 0 || self.spent.us > 0 || self.known_until > now
    }

    fn standing(&self, now: Duration) -> Standing {
        if self.known_until > now { Standing::Known } else { Standing::Stranger }
    }
}

impl Attempts {
    /// Counts an attempt with this group from an address; tells what it is, or why it may not be
    /// made.
    pub(super) fn begin(
        &self,
        now: Duration,
        address: Option<IpAddr>,
        group: Group,
    ) -> Result<Standing, TooMuch> {
        let Begun { of_address, of_all } = &mut *self.0.lock();
        if !of_address.contains_key(&address) {
            of_address.values_mut().for_each(|row| row.age(now));
            of_address.retain(|_, row| row.says_something(now));
        }
        let is_full =
            of_address.len() >= AUTHENTICATIONS_ROWS && !of_address.contains_key(&address);
        // Further addresses count as one.
        let row = of_address.entry(address.filter(|_| !is_full)).or_default();
        row.age(now);
        of_all.give_back(now, AUTHENTICATION_TARGET_PERCENT);
        let (standing, us) = (row.standing(now), cost_us(group));
        let of_target_ms = match standing {
            Standing::Known => AUTHENTICATION_TARGET_MS,
            // Those who come for the first time have some that others of whom nothing is known
            // cannot use up.
            Standing::Stranger if row.spent.us == 0 => AUTHENTICATION_TARGET_MS / 4 * 3,
            Standing::Stranger => AUTHENTICATION_TARGET_MS / 2,
        };
        if row.count >= AUTHENTICATIONS_MAX {
            return Err(TooMuch::Failures);
        }
        if !row.spent.has_room(us, AUTHENTICATION_ADDRESS_MS) {
            return Err(TooMuch::OfAddress);
        }
        if !of_all.has_room(us, of_target_ms) {
            return Err(TooMuch::OfTarget);
        }
        row.count += 1;
        row.spent.us += us;
        of_all.us += us;
        Ok(standing)
    }

    /// An attempt has succeeded: it does not count any more, but what it has cost does.
    pub(super) fn succeeded(&self, now: Duration, address: Option<IpAddr>) {
        self.uncounted(address, |row| {
            row.known_until = now + Duration::from_secs(AUTHENTICATION_KNOWN_S)
        });
    }

    /// The host has gone before it answered a challenge: the attempt does not count any more
    /// either.
    pub(super) fn withdrawn(&self, address: Option<IpAddr>) {
        self.uncounted(address, |_| ());
    }

    fn uncounted(&self, address: Option<IpAddr>, own: impl FnOnce(&mut Row)) {
        let rows = &mut self.0.lock().of_address;
        // Those of an address without a row of its own count with all others', of which nothing is
        // known.
        let has_own = rows.contains_key(&address);
        if let Some(row) = rows.get_mut(if has_own { &address } else { &None }) {
            row.count = row.count.saturating_sub(1);
            if has_own && address.is_some() {
                own(row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    const T0: Duration = Duration::from_secs(100);

    fn address(n: u64) -> Option<IpAddr> {
        Some(Ipv6Addr::from_bits(u128::from(n + 1) << 64).into())
    }

    fn begun(attempts: &Attempts, now: Duration, from: Option<IpAddr>, group: Group) -> u64 {
        (0..100_000).take_while(|_| attempts.begin(now, from, group).is_ok()).count() as u64
    }

    #[test]
    fn failures_are_counted_by_address_and_forgotten() {
        let attempts = Attempts::default();
        assert_eq!(begun(&attempts, T0, address(1), Group::Null), u64::from(AUTHENTICATIONS_MAX));
        assert!(attempts.begin(T0, address(2), Group::Null).is_ok(), "another address");
        let later = T0 + Duration::from_millis(AUTHENTICATION_STEP_MS);
        assert_eq!(begun(&attempts, later, address(1), Group::Null), 1);
        assert_eq!(attempts.begin(later, address(1), Group::Null), Err(TooMuch::Failures));
    }

    #[test]
    fn who_succeeds_has_a_budget_too() {
        let attempts = Attempts::default();
        for group in [Group::Ffdhe2048, Group::Ffdhe8192] {
            let from = address(group.bits().into());
            let mut count = 0;
            while attempts.begin(T0, from, group).is_ok() {
                attempts.succeeded(T0, from);
                count += 1;
            }
            assert_eq!(count, AUTHENTICATION_ADDRESS_MS * 1000 / cost_us(group), "{group:?}");
            assert_eq!(attempts.begin(T0, from, group), Err(TooMuch::OfAddress));
            let (later, came_back_us) =
                (T0 + Duration::from_secs(1), AUTHENTICATION_ADDRESS_PERCENT * 10_000);
            let in_all = (AUTHENTICATION_ADDRESS_MS * 1000 + came_back_us) / cost_us(group);
            assert_eq!(begun(&attempts, later, from, group), in_all - count, "{group:?}");
        }
    }

    #[test]
    fn strangers_of_many_addresses_leave_some_to_newcomers_and_more_to_known_ones() {
        let attempts = Attempts::default();
        assert_eq!(attempts.begin(T0, address(0), Group::Ffdhe2048), Ok(Standing::Stranger));
        attempts.succeeded(T0, address(0));
        let (us, close) = (cost_us(Group::Ffdhe8192), |us: u64, most: u64| {
            us <= most && us > most - 6 * cost_us(Group::Ffdhe8192)
        });
        let count: u64 = (1..5).map(|n| begun(&attempts, T0, address(n), Group::Ffdhe8192)).sum();
        assert!(close(count * us, AUTHENTICATION_TARGET_MS * 1000 / 2), "{count}");
        assert_eq!(attempts.begin(T0, address(4), Group::Ffdhe8192), Err(TooMuch::OfTarget));
        let newcomers: u64 =
            (5..3000).map(|n| begun(&attempts, T0, address(n), Group::Ffdhe8192)).sum();
        assert!(
            newcomers > 0
                && close((count + newcomers) * us, AUTHENTICATION_TARGET_MS * 1000 / 4 * 3),
            "{newcomers}"
        );
        assert_eq!(attempts.begin(T0, address(4000), Group::Ffdhe8192), Err(TooMuch::OfTarget));
        assert_eq!(attempts.begin(T0, address(0), Group::Ffdhe8192), Ok(Standing::Known));
        let later = T0 + Duration::from_secs(AUTHENTICATION_KNOWN_S);
        assert_eq!(attempts.begin(later, address(0), Group::Ffdhe8192), Ok(Standing::Stranger));
    }

    #[test]
    fn who_succeeds_without_a_row_of_its_own_does_not_count_as_a_failure_either() {
        let attempts = Attempts::default();
        (0..AUTHENTICATIONS_ROWS as u64)
            .for_each(|n| _ = attempts.begin(T0, address(n), Group::Null));
        let from = address(1 << 32);
        for _ in 0..AUTHENTICATIONS_MAX * 3 {
            assert_eq!(attempts.begin(T0, from, Group::Null), Ok(Standing::Stranger));
            attempts.succeeded(T0, from);
        }
    }

    #[test]
    fn who_goes_without_an_answer_has_not_guessed_but_has_cost() {
        let attempts = Attempts::default();
        let group = Group::Ffdhe8192;
        let most = AUTHENTICATION_ADDRESS_MS * 1000 / cost_us(group);
        for _ in 0..most {
            assert!(attempts.begin(T0, address(1), group).is_ok());
            attempts.withdrawn(address(1));
        }
        assert_eq!(attempts.begin(T0, address(1), group), Err(TooMuch::OfAddress));
        let later = T0 + Duration::from_secs(1);
        assert_eq!(
            attempts.begin(later, address(1), Group::Null),
            Ok(Standing::Stranger),
            "nothing was proved"
        );
        assert_eq!(
            begun(&attempts, later, address(1), Group::Null),
            u64::from(AUTHENTICATIONS_MAX) - 1
        );
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let attempts = Attempts::default();
        (0..AUTHENTICATIONS_ROWS as u64 * 2)
            .for_each(|n| _ = attempts.begin(T0, address(n), Group::Null));
        assert!(attempts.0.lock().of_address.len() <= AUTHENTICATIONS_ROWS + 1);
    }
}
