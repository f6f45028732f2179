//! Counts connections, up to an export's limit; a host with many connections leaves room for others. There are two counts: of all connections,
//! and of those that are not admitted yet. A host is identified by its address, because a name is whatever the peer claims. For the cold
//! path only.

use super::origin::origin;
use super::refusals::Refusals;
use crate::limits::{HOST_TIMES_LEFT, NEWCOMERS_MAX, SEATS_GUARANTEED};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The seats of an export.
pub(crate) struct Seats {
    max: usize,
    state: Mutex<State>,
    refusals: Refusals,
}

#[derive(Default)]
struct State {
    all: Count,
    hosts: HashMap<IpAddr, Count>,
}

/// Connections of all hosts, or of one.
#[derive(Clone, Copy, Default)]
struct Count {
    taken: usize,
    /// Those of them that have not been let in yet.
    new: usize,
}

/// Counts a connection while it exists, on any loop.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    host: Option<IpAddr>,
}

/// Counts a connection until it is admitted, and is then dropped.
pub(crate) struct Newcomer {
    seats: Arc<Seats>,
    host: Option<IpAddr>,
}

/// Whether one more of `max` seats is available to a host that holds `own` of the `all` seats in use.
fn is_free(max: usize, all: usize, own: usize) -> bool {
    all < max && (own < SEATS_GUARANTEED || own < HOST_TIMES_LEFT * (max - all - 1))
}

impl Seats {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, state: Mutex::default(), refusals: Refusals::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Occupied seats.
    pub(crate) fn taken(&self) -> usize {
        self.lock().all.taken
    }

    /// Refused peers, for the log.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// A seat for an accepted connection from `peer`, an address with its port.
    ///
    /// # Errors
    /// The reason for which the connection must be dropped.
    pub(crate) fn take(self: &Arc<Self>, peer: &str) -> Result<(Seat, Newcomer), String> {
        let (host, mut state) = (origin(peer), self.lock());
        let own = host.and_then(|host| state.hosts.get(&host).copied()).unwrap_or_default();
        let all = state.all;
        if !is_free(self.max, all.taken, own.taken) {
            let Count { taken, .. } = all;
            return Err(match taken < self.max {
                true => {
                    format!("{} of {taken} open connections are from this address; the rest is reserved for others", own.taken)
                }
                false => format!("{taken} connections are already open"),
            });
        }
        if !is_free(NEWCOMERS_MAX, all.new, own.new) {
            let Count { new, .. } = all;
            return Err(match new < NEWCOMERS_MAX {
                true => format!("{} of {new} connections that have not logged in are from this address", own.new),
                false => format!("{new} connections have not logged in yet"),
            });
        }
        state.change(host, |count| (count.taken, count.new) = (count.taken + 1, count.new + 1));
        drop(state);
        Ok((Seat { seats: Arc::clone(self), host }, Newcomer { seats: Arc::clone(self), host }))
    }
}

impl State {
    fn change(&mut self, host: Option<IpAddr>, change: impl Fn(&mut Count)) {
        change(&mut self.all);
        let Some(host) = host else { return };
        let count = self.hosts.entry(host).or_default();
        change(count);
        // Of those who have no connection nothing is kept.
        if (count.taken, count.new) == (0, 0) {
            self.hosts.remove(&host);
        }
    }
}

impl Seat {
    /// Peers that were refused, for the log.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.seats.refusals
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().change(self.host, |count| count.taken -= 1);
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.seats.lock().change(self.host, |count| count.new -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as are had from an address, let in or not.
    fn all(seats: &Arc<Seats>, peer: &str, let_in: bool) -> Vec<(Seat, Option<Newcomer>)> {
        let one = || seats.take(peer).ok().map(|(seat, newcomer)| (seat, (!let_in).then_some(newcomer)));
        std::iter::from_fn(one).collect()
    }

    #[test]
    fn one_address_leaves_a_quarter() {
        let seats = Seats::new(400);
        let first = all(&seats, "192.0.2.1:1000", true);
        assert_eq!(first.len(), 300);
        assert!(seats.take("[::ffff:192.0.2.1]:9").is_err(), "the same address");
        assert_eq!(all(&seats, "192.0.2.2:1", true).len(), 75, "but these went again");
        assert!(seats.take("192.0.2.1:1").is_err());
        drop(first);
        assert_eq!(seats.taken(), 0);
        assert!(seats.lock().hosts.is_empty(), "nothing is kept of those who are gone");
    }

    #[test]
    fn who_has_little_gets_the_last_one() {
        let seats = Seats::new(4);
        assert_eq!(all(&seats, "192.0.2.1:1000", true).len(), 4);
        let crowd: Vec<_> = (0..40).flat_map(|n| all(&seats, &format!("192.0.2.{n}:1"), true)).collect();
        assert_eq!(crowd.len(), 4);
    }

    #[test]
    fn those_who_are_not_let_in_are_counted_apart() {
        let seats = Seats::new(NEWCOMERS_MAX * 4);
        let idle = all(&seats, "[2001:db8::1]:1", false);
        assert_eq!(idle.len(), NEWCOMERS_MAX / 4 * 3);
        assert!(seats.take("[2001:db8::ffff]:1").is_err(), "the same network");
        let mut others = all(&seats, "[2001:db8:1::1]:1", false);
        assert!(others.len() >= NEWCOMERS_MAX / 8);
        others.iter_mut().for_each(|(_, newcomer)| *newcomer = None);
        assert!(seats.take("[2001:db8:1::1]:1").is_ok(), "those that were let in do not count");
        drop((idle, others));
        assert!(seats.lock().hosts.is_empty());
    }

    #[test]
    fn who_has_no_address_is_counted_among_all() {
        let seats = Seats::new(100);
        assert_eq!(all(&seats, "/run/weft.sock", true).len(), 100);
    }
}
