//! Present use of the limits of hosts, over all devices together.

use super::Inventory;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_block::limit::{Limit, Rate};

/// The rates of hosts that have connected since they have a limit. One that lost its limit stays
/// while connections use it, and applies to them again with the next limit of the host.
#[derive(Debug, Default)]
pub(super) struct HostRates(Lock<HashMap<String, Arc<Rate>>>);

impl HostRates {
    /// Hosts have these limits from now on.
    pub(super) fn follow(&self, limits: &BTreeMap<String, Limit>) {
        self.0.lock().retain(|host, rate| {
            rate.set(limits.get(host).copied().unwrap_or(Limit::NONE));
            limits.contains_key(host) || Arc::strong_count(rate) > 1
        });
    }

    /// The rate that a host may use; `None`: without limit. `now` returns the served inventory;
    /// [`Self::follow`] comes after any change of it.
    pub(super) fn of(&self, host: &str, now: impl FnOnce() -> Arc<Inventory>) -> Option<Arc<Rate>> {
        let mut rates = self.0.lock();
        if let Some(rate) = rates.get(host) {
            return Some(Arc::clone(rate));
        }
        let rate = Arc::new(Rate::new(*now().host_limits.get(host)?));
        rates.insert(host.to_owned(), Arc::clone(&rate));
        Some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::InventoryBuilder;

    fn served(operations: u64) -> Arc<Inventory> {
        let mut builder = InventoryBuilder::default();
        builder.limit_hosts([("host".to_owned(), Limit { operations, bytes: 0 })]).unwrap();
        Arc::new(builder.build().unwrap())
    }

    #[test]
    fn connections_that_stay_have_the_next_limit_of_their_host() {
        let (rates, free) = (HostRates::default(), served(0));
        assert!(rates.of("host", || served(0)).is_none());
        let rate = rates.of("host", || served(5)).unwrap();
        assert_eq!(rate.limit().operations, 5);
        rates.follow(&free.host_limits);
        assert_eq!(rate.limit(), Limit::NONE);
        rates.follow(&served(7).host_limits);
        assert_eq!(rate.limit().operations, 7);
        drop(rate);
        rates.follow(&free.host_limits);
        assert!(rates.of("host", || free).is_none(), "nobody uses it");
    }
}
