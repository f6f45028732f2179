//! Logins under way and logins in vain: how many there may be, in all and from one address. A secret cannot be guessed faster than that, and who
//! says nothing takes no more than that. For the cold path only.

use crate::limits::{LOGIN_FAILURES_MAX, LOGIN_FAILURES_S, LOGINS_MAX, LOGINS_PER_ADDRESS_MAX};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The logins of one target.
#[derive(Default)]
pub(super) struct Logins(Mutex<State>);

#[derive(Default)]
struct State {
    under_way: usize,
    addresses: HashMap<IpAddr, Address>,
}

/// What is known of an address.
#[derive(Default)]
struct Address {
    under_way: usize,
    /// Logins in vain since the first one that counts, and when that was.
    failures: u32,
    since: Duration,
}

impl Address {
    /// Whether failures still count.
    fn is_remembered(&self, now: Duration) -> bool {
        self.failures > 0 && now.saturating_sub(self.since) < Duration::from_secs(LOGIN_FAILURES_S)
    }
}

/// One login under way; it is over when this is dropped.
pub(super) struct UnderWay {
    logins: Arc<Logins>,
    from: Option<IpAddr>,
    /// Too many were in vain: this one is to be refused, whoever it is.
    pub(super) turned_away: bool,
}

/// Whom failures are held against: an address, or the network of 64 bits in which a host has as many IPv6 addresses as it likes.
fn origin(peer: &str) -> Option<IpAddr> {
    let address = peer.parse::<SocketAddr>().ok()?.ip().to_canonical();
    Some(match address {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    })
}

impl Logins {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection from `peer`, an address with its port, was accepted. `Err` says why it is to be dropped.
    pub(super) fn begin(self: &Arc<Self>, peer: &str, now: Duration) -> Result<UnderWay, String> {
        let (from, mut state) = (origin(peer), self.lock());
        if state.under_way >= LOGINS_MAX {
            return Err(format!("{LOGINS_MAX} logins are under way already"));
        }
        let mut turned_away = false;
        if let Some(from) = from {
            let address = state.addresses.entry(from).or_default();
            if address.under_way >= LOGINS_PER_ADDRESS_MAX {
                return Err(format!("{LOGINS_PER_ADDRESS_MAX} logins from this address are under way already"));
            }
            address.under_way += 1;
            turned_away = address.failures >= LOGIN_FAILURES_MAX && address.is_remembered(now);
        }
        state.under_way += 1;
        drop(state);
        Ok(UnderWay { logins: Arc::clone(self), from, turned_away })
    }
}

impl UnderWay {
    /// The initiator could not prove who it is.
    pub(super) fn failed(&self, now: Duration) {
        let Some(from) = self.from else { return };
        let mut state = self.logins.lock();
        // Bounded by the logins under way, and by those that fail within the time for which they are remembered.
        state.addresses.retain(|_, address| address.under_way > 0 || address.is_remembered(now));
        let address = state.addresses.entry(from).or_default();
        if !address.is_remembered(now) {
            (address.failures, address.since) = (0, now);
        }
        address.failures = address.failures.saturating_add(1);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.logins.lock();
        state.under_way -= 1;
        let Some(from) = self.from else { return };
        if let Some(address) = state.addresses.get_mut(&from) {
            address.under_way -= 1;
            if address.under_way == 0 && address.failures == 0 {
                state.addresses.remove(&from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "192.0.2.1:1000";
    const T0: Duration = Duration::from_secs(100);

    #[test]
    fn an_address_has_so_many_at_a_time() {
        let logins = Arc::new(Logins::default());
        let held: Vec<_> = (0..LOGINS_PER_ADDRESS_MAX).map(|_| logins.begin(PEER, T0).unwrap()).collect();
        assert!(logins.begin(PEER, T0).is_err());
        assert!(logins.begin("[::ffff:192.0.2.1]:9", T0).is_err(), "the same address");
        assert!(logins.begin("192.0.2.2:1000", T0).is_ok());
        drop(held);
        assert!(logins.begin(PEER, T0).is_ok());
        assert!(logins.lock().addresses.is_empty(), "nothing is kept of those who did nothing");
    }

    #[test]
    fn a_target_has_so_many_at_a_time() {
        let logins = Arc::new(Logins::default());
        let from = |n: usize| format!("10.0.{}.{}:5", n >> 8, n & 0xff);
        let held: Vec<_> = (0..LOGINS_MAX).map(|n| logins.begin(&from(n), T0).unwrap()).collect();
        assert!(logins.begin(PEER, T0).is_err());
        drop(held);
        assert!(logins.begin(PEER, T0).is_ok());
    }

    #[test]
    fn whoever_guesses_is_turned_away_for_a_while() {
        let logins = Arc::new(Logins::default());
        for n in 0..LOGIN_FAILURES_MAX {
            let login = logins.begin(&format!("[2001:db8::{n:x}]:7"), T0).unwrap();
            assert!(!login.turned_away);
            login.failed(T0);
        }
        let is_turned_away = |peer, at| logins.begin(peer, at).unwrap().turned_away;
        assert!(is_turned_away("[2001:db8::ffff]:7", T0), "the same network");
        assert!(!is_turned_away("[2001:db8:1::1]:7", T0) && !is_turned_away(PEER, T0));
        let later = T0 + Duration::from_secs(LOGIN_FAILURES_S);
        assert!(!is_turned_away("[2001:db8::ffff]:7", later));
        logins.begin(PEER, later).unwrap().failed(later);
        assert_eq!(logins.lock().addresses.len(), 1, "what is over is forgotten");
    }
}
