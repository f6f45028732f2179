//! Shares of what an export has once, in any unit: connections, or bytes. A host that holds much
//! leaves room for others. There are two counts: of everything, and of what is held by those who
//! are not admitted yet. A host is identified by its address, because a name is whatever the peer
//! claims. For the cold path only.

use super::origin::origin;
use crate::limits::HOST_TIMES_LEFT;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Of everything.
    pub(crate) all: usize,
    /// For those who are not admitted yet.
    pub(crate) new: usize,
    /// What a host may hold of each, however little is left.
    pub(crate) guaranteed: usize,
}

/// What all hosts share.
#[derive(Debug)]
pub(crate) struct Shares {
    bounds: Bounds,
    held: Mutex<HeldByHosts>,
}

#[derive(Debug, Default)]
struct HeldByHosts {
    all: Held,
    hosts: HashMap<IpAddr, Held>,
}

/// What all hosts hold, or one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    taken: usize,
    /// The part of those who are not admitted yet.
    new: usize,
}

/// Which of the two counts is at its limit, with what all hosts hold of it, and the one that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The count of those who are not admitted yet.
    pub(crate) of_newcomers: bool,
    /// There is some left, but for others.
    pub(crate) is_left_to_others: bool,
    pub(crate) all: usize,
    pub(crate) own: usize,
}

/// A part of one count, until it is dropped, on any loop.
#[derive(Debug)]
struct Part {
    shares: Arc<Shares>,
    host: Option<IpAddr>,
    amount: usize,
}

/// What somebody holds.
#[derive(Debug)]
pub(crate) struct Share(Part);

/// Counts it as held by somebody who is not admitted yet, and is then dropped.
#[derive(Debug)]
pub(crate) struct NewShare(Part);

/// Whether a host that holds `own` of the `all` in use may have `amount` more, of which there are
/// `max`.
fn is_free(max: usize, guaranteed: usize, all: usize, own: usize, amount: usize) -> bool {
    let Some(left) = max.checked_sub(all + amount) else { return false };
    own + amount <= guaranteed || own + amount <= HOST_TIMES_LEFT * left
}

impl Shares {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, held: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, HeldByHosts> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is held of everything.
    pub(crate) fn taken(&self) -> usize {
        self.lock().all.taken
    }

    /// Whether nothing is kept of anybody.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.lock();
        state.all == Held::default() && state.hosts.is_empty()
    }

    /// A share of `amount` for `peer`, an address with its port.
    ///
    /// # Errors
    /// There is too little left.
    pub(crate) fn take(
        self: &Arc<Self>,
        peer: &str,
        amount: usize,
    ) -> Result<(Share, NewShare), Refused> {
        let (host, mut state) = (origin(peer), self.lock());
        let own = host.and_then(|host| state.hosts.get(&host).copied()).unwrap_or_default();
        let Held { taken, new } = state.all;
        let counts = [(self.bounds.all, taken, own.taken), (self.bounds.new, new, own.new)];
        for (number, (max, all, own)) in counts.into_iter().enumerate() {
            if !is_free(max, self.bounds.guaranteed, all, own, amount) {
                return Err(Refused {
                    of_newcomers: number == 1,
                    is_left_to_others: all + amount <= max,
                    all,
                    own,
                });
            }
        }
        state
            .change(host, |held| (held.taken, held.new) = (held.taken + amount, held.new + amount));
        drop(state);
        let part = || Part { shares: Arc::clone(self), host, amount };
        Ok((Share(part()), NewShare(part())))
    }
}

impl HeldByHosts {
    fn change(&mut self, host: Option<IpAddr>, change: impl Fn(&mut Held)) {
        change(&mut self.all);
        let Some(host) = host else { return };
        let held = self.hosts.entry(host).or_default();
        change(held);
        // Of those who hold nothing nothing is kept.
        if *held == Held::default() {
            self.hosts.remove(&host);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Part { shares, host, amount } = &self.0;
        shares.lock().change(*host, |held| held.taken -= amount);
    }
}

impl Drop for NewShare {
    fn drop(&mut self) {
        let Part { shares, host, amount } = &self.0;
        shares.lock().change(*host, |held| held.new -= amount);
    }
}
