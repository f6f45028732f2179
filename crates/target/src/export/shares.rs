//! Shares of what an export has once, in any unit: connections, or bytes. A host that holds much
//! leaves room for others. There are two counts: of everything, and of what is held by those who
//! are not admitted yet. A host is identified by its address, because a name is whatever the peer
//! claims. For the cold path only.
//!
//! A host can be granted something that it takes later ([`Shares::grant`]). Others cannot have it
//! until the grant is used or dropped. Until somebody is admitted, it is not known whether it uses
//! a grant of its host or not, so that of newcomers and grants of a host the larger number counts.

use super::origin::origin;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_connection::limits::{GRANT_LEAST, GRANT_PARTS, HOST_TIMES_LEFT};

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
    held: Lock<HeldByHosts>,
}

#[derive(Debug, Default)]
struct HeldByHosts {
    all: Held,
    /// The sum of what is committed to each host.
    committed: usize,
    hosts: HashMap<Option<IpAddr>, Held>,
}

/// What all hosts hold, or one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    taken: usize,
    /// The part of those who are not admitted yet.
    new: usize,
    /// Granted, and not used yet.
    granted: usize,
}

impl Held {
    /// What others cannot have. The two shares of a newcomer may end in either order.
    fn committed(&self) -> usize {
        self.taken.saturating_sub(self.new) + self.new.max(self.granted)
    }
}

/// Which of the two counts is at its limit, with what all hosts hold of it, and the one that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The count of those who are not admitted yet.
    pub(crate) of_newcomers: bool,
    /// There is some left, but for others.
    pub(crate) is_left_to_others: bool,
    /// What all hosts hold, with what they were granted.
    pub(crate) all: usize,
    /// What this host holds, likewise.
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

/// What a host was granted and has not used. Dropped, others can have it.
#[derive(Debug)]
pub(crate) struct Grant(Part);

/// What a host that holds `own` of the `all` in use may have more, of which there are `max`.
fn left_to(max: usize, guaranteed: usize, all: usize, own: usize) -> usize {
    let left = max.saturating_sub(all);
    // The largest amount of which own + amount <= HOST_TIMES_LEFT * (left - amount).
    let fair = (HOST_TIMES_LEFT * left).saturating_sub(own) / (HOST_TIMES_LEFT + 1);
    left.min(fair.max(guaranteed.saturating_sub(own)))
}

/// The part of what is left that is granted at once.
pub(crate) fn part_of(left: usize) -> usize {
    (left / GRANT_PARTS).max(GRANT_LEAST).min(left)
}

impl Shares {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, held: Lock::default() })
    }

    /// What is held of everything.
    pub(crate) fn taken(&self) -> usize {
        self.held.lock().all.taken
    }

    /// Whether nothing is kept of anybody.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.held.lock();
        state.all == Held::default() && state.committed == 0 && state.hosts.is_empty()
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
        let (host, mut state) = (origin(peer), self.held.lock());
        let more = |held: &mut Held| {
            (held.taken, held.new) = (held.taken + amount, held.new + amount);
        };
        state.check(&self.bounds, host, more)?;
        state.change(host, more);
        drop(state);
        let part = || Part { shares: Arc::clone(self), host, amount };
        Ok((Share(part()), NewShare(part())))
    }

    /// Grants `peer` up to `wanted`: less if little is left to its host, so that the host can be
    /// granted something more often. `None`: nothing is left.
    pub(crate) fn grant(self: &Arc<Self>, peer: &str, wanted: usize) -> Option<Grant> {
        let (host, mut state) = (origin(peer), self.held.lock());
        let left = state.left_to(&self.bounds, host);
        let amount = wanted.min(part_of(left));
        if amount == 0 {
            return None;
        }
        state.change(host, |held| held.granted += amount);
        drop(state);
        Some(Grant(Part { shares: Arc::clone(self), host, amount }))
    }

    /// What the host of `peer` may have more.
    pub(crate) fn left_to(&self, peer: &str) -> usize {
        self.held.lock().left_to(&self.bounds, origin(peer))
    }
}

impl HeldByHosts {
    /// What a host holds; those without an address count only among all.
    fn of(&self, host: Option<IpAddr>) -> Held {
        host.and_then(|_| self.hosts.get(&host).copied()).unwrap_or_default()
    }

    fn left_to(&self, bounds: &Bounds, host: Option<IpAddr>) -> usize {
        left_to(bounds.all, bounds.guaranteed, self.committed, self.of(host).committed())
    }

    /// Whether what a host holds may change so.
    fn check(
        &self,
        bounds: &Bounds,
        host: Option<IpAddr>,
        change: impl Fn(&mut Held),
    ) -> Result<(), Refused> {
        let judged = self.of(host);
        let before = self.hosts.get(&host).copied().unwrap_or_default();
        let mut after = before;
        change(&mut after);
        let more = |of: fn(&Held) -> usize| of(&after).saturating_sub(of(&before));
        let counts = [
            (bounds.all, self.committed, judged.committed(), more(Held::committed)),
            (bounds.new, self.all.new, judged.new, more(|held| held.new)),
        ];
        for (number, (max, all, own, more)) in counts.into_iter().enumerate() {
            if more > 0 && more > left_to(max, bounds.guaranteed, all, own) {
                let (of_newcomers, is_left_to_others) = (number == 1, all + more <= max);
                return Err(Refused { of_newcomers, is_left_to_others, all, own });
            }
        }
        Ok(())
    }

    fn change(&mut self, host: Option<IpAddr>, change: impl Fn(&mut Held)) {
        change(&mut self.all);
        let held = self.hosts.entry(host).or_default();
        let before = held.committed();
        change(held);
        self.committed = self.committed - before + held.committed();
        // Of those who hold nothing nothing is kept.
        if *held == Held::default() {
            self.hosts.remove(&host);
        }
    }
}

impl NewShare {
    /// Whoever holds it is admitted, by a grant if it has one; the share counts as held by somebody
    /// who is. One without a grant is not among what its host was granted, and needs room.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn admit(&mut self, grant: Option<Grant>) -> Result<(), Refused> {
        let Part { shares, host, amount } = &mut self.0;
        // A grant of another address is given back.
        let mut grant = grant.filter(|grant| grant.0.host == *host);
        let used = grant.as_ref().map_or(0, |grant| grant.0.amount);
        let new = *amount;
        let admitted =
            |held: &mut Held| (held.new, held.granted) = (held.new - new, held.granted - used);
        let mut state = shares.held.lock();
        state.check(&shares.bounds, *host, admitted)?;
        state.change(*host, admitted);
        drop(state);
        *amount = 0;
        grant.iter_mut().for_each(|grant| grant.0.amount = 0);
        Ok(())
    }
}

impl Grant {
    /// How much it is.
    pub(crate) fn amount(&self) -> usize {
        self.0.amount
    }

    /// One of it, as a grant of its own.
    pub(crate) fn split(&mut self) -> Option<Self> {
        let rest = self.0.amount.checked_sub(1)?;
        self.0.amount = rest;
        Some(Self(Part { shares: Arc::clone(&self.0.shares), host: self.0.host, amount: 1 }))
    }

    /// Takes such a part back.
    pub(crate) fn join(&mut self, mut part: Self) {
        self.0.amount += core::mem::take(&mut part.0.amount);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Part { shares, host, amount } = &self.0;
        shares.held.lock().change(*host, |held| held.taken -= amount);
    }
}

impl Drop for NewShare {
    fn drop(&mut self) {
        let Part { shares, host, amount } = &self.0;
        shares.held.lock().change(*host, |held| held.new -= amount);
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let Part { shares, host, amount } = &self.0;
        shares.held.lock().change(*host, |held| held.granted -= amount);
    }
}
