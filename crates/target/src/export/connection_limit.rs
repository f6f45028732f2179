//! Counts connections, up to an export's limit; a host with many connections leaves room for others
//! ([`shares`](super::shares)).

use super::shares::{Bounds, Grant, NewShare, Refused, Share, Shares};
use std::sync::Arc;
use weft_connection::limits::{CONNECTIONS_GUARANTEED, NEWCOMERS_MAX};
use weft_connection::refusals::Refusals;

/// The limit of an export.
pub(crate) struct ConnectionLimit {
    shares: Arc<Shares>,
    refusals: Refusals,
}

/// Counts a connection while it exists, on any loop.
pub(crate) struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    _share: Share,
}

/// Counts a connection until it is admitted, and is then dropped.
pub(crate) type Newcomer = NewShare;

impl ConnectionLimit {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let bounds = Bounds { all: max, new: NEWCOMERS_MAX, guaranteed: CONNECTIONS_GUARANTEED };
        Arc::new(Self { shares: Shares::new(bounds), refusals: Refusals::default() })
    }

    /// Occupied limit.
    pub(crate) fn taken(&self) -> usize {
        self.shares.taken()
    }

    /// Refused peers, for the log.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Up to `wanted` limit for connections that the host of `peer` makes soon; `None`: none are
    /// left. It may then hold so many more, whatever others take.
    pub(crate) fn grant(&self, peer: &str, wanted: usize) -> Option<Grant> {
        self.shares.grant(peer, wanted)
    }

    /// A permit for an accepted connection from `peer`, an address with its port.
    ///
    /// # Errors
    /// The reason for which the connection must be dropped.
    pub(crate) fn take(
        self: &Arc<Self>,
        peer: &str,
    ) -> Result<(ConnectionPermit, Newcomer), String> {
        match self.shares.take(peer, 1) {
            Ok((share, newcomer)) => {
                Ok((ConnectionPermit { limit: Arc::clone(self), _share: share }, newcomer))
            }
            Err(Refused { of_newcomers, is_left_to_others, all, own }) => {
                Err(match (of_newcomers, is_left_to_others) {
                    (false, true) => {
                        format!(
                            "{own} of {all} open or granted connections are from this address; the rest is reserved for others"
                        )
                    }
                    (false, false) => format!("{all} connections are already open or granted"),
                    (true, true) => format!(
                        "{own} of {all} connections that have not logged in are from this address"
                    ),
                    (true, false) => format!("{all} connections have not logged in yet"),
                })
            }
        }
    }
}

impl ConnectionPermit {
    /// Peers that were refused, for the log.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.limit.refusals
    }

    /// Those of which this is one.
    pub(crate) fn limit(&self) -> Arc<ConnectionLimit> {
        Arc::clone(&self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as are had from an address, let in or not.
    fn all(
        limit: &Arc<ConnectionLimit>,
        peer: &str,
        let_in: bool,
    ) -> Vec<(ConnectionPermit, Option<Newcomer>)> {
        let one = || {
            limit.take(peer).ok().map(|(permit, newcomer)| (permit, (!let_in).then_some(newcomer)))
        };
        std::iter::from_fn(one).collect()
    }

    #[test]
    fn one_address_leaves_a_quarter() {
        let limit = ConnectionLimit::new(400);
        let first = all(&limit, "192.0.2.1:1000", true);
        assert_eq!(first.len(), 300);
        assert!(limit.take("[::ffff:192.0.2.1]:9").is_err(), "the same address");
        assert_eq!(all(&limit, "192.0.2.2:1", true).len(), 75, "but these went again");
        assert!(limit.take("192.0.2.1:1").is_err());
        drop(first);
        assert_eq!(limit.taken(), 0);
        assert!(limit.shares.is_empty(), "nothing is kept of those who are gone");
    }

    #[test]
    fn who_has_little_gets_the_last_one() {
        let limit = ConnectionLimit::new(4);
        assert_eq!(all(&limit, "192.0.2.1:1000", true).len(), 4);
        let crowd: Vec<_> =
            (0..40).flat_map(|n| all(&limit, &format!("192.0.2.{n}:1"), true)).collect();
        assert_eq!(crowd.len(), 4);
    }

    #[test]
    fn those_who_are_not_let_in_are_counted_apart() {
        let limit = ConnectionLimit::new(NEWCOMERS_MAX * 4);
        let idle = all(&limit, "[2001:db8::1]:1", false);
        assert_eq!(idle.len(), NEWCOMERS_MAX / 4 * 3);
        assert!(limit.take("[2001:db8::ffff]:1").is_err(), "the same network");
        let mut others = all(&limit, "[2001:db8:1::1]:1", false);
        assert!(others.len() >= NEWCOMERS_MAX / 8);
        others.iter_mut().for_each(|(_, newcomer)| *newcomer = None);
        assert!(limit.take("[2001:db8:1::1]:1").is_ok(), "those that were let in do not count");
        drop((idle, others));
        assert!(limit.shares.is_empty());
    }

    #[test]
    fn who_has_no_address_is_counted_among_all() {
        let limit = ConnectionLimit::new(100);
        assert_eq!(all(&limit, "/run/weft.sock", true).len(), 100);
    }

    /// As many as one address is granted by controllers that ask for `wanted` each, until none is
    /// left.
    fn granted(limit: &Arc<ConnectionLimit>, peer: &str, wanted: usize) -> Vec<Grant> {
        std::iter::from_fn(|| limit.grant(peer, wanted)).collect()
    }

    #[test]
    fn grants_become_smaller_and_leave_a_quarter() {
        let limit = ConnectionLimit::new(4096);
        let grants = granted(&limit, "192.0.2.1:1", 128);
        let sizes: Vec<usize> = grants.iter().map(Grant::amount).collect();
        assert_eq!(sizes[..17], [128; 17]);
        assert!(sizes.is_sorted_by(|a, b| a >= b) && sizes.len() > 50, "{sizes:?}");
        assert_eq!(sizes.iter().sum::<usize>(), 4096 / 4 * 3);
        assert!(limit.take("192.0.2.1:1").is_ok(), "it may be one of those");
        assert_eq!(limit.grant("192.0.2.2:1", 64).map(|of| of.amount()), Some(64));
        assert_eq!(limit.taken(), 0, "nobody has connected");
        drop(grants);
        assert!(limit.shares.is_empty());
    }

    #[test]
    fn what_is_granted_is_there_and_is_used_once() {
        let limit = ConnectionLimit::new(64);
        let mut grant = limit.grant("192.0.2.1:1", 6).unwrap();
        assert_eq!(grant.amount(), 6);
        // Others take all that they can have.
        let others: Vec<_> =
            (2..40).flat_map(|n| all(&limit, &format!("192.0.2.{n}:1"), true)).collect();
        assert_eq!(others.len(), 58);
        assert!(limit.take("192.0.2.99:1").is_err());
        let mut kept = Vec::new();
        while let Some(part) = grant.split() {
            let (permit, mut newcomer) = limit.take("192.0.2.1:7").unwrap();
            newcomer.admit(Some(part)).unwrap();
            kept.push(permit);
        }
        assert_eq!((kept.len(), limit.taken()), (6, 64));
        assert!(limit.take("192.0.2.1:1").is_err(), "there were no more");
        drop((grant, others, kept));
        assert!(limit.shares.is_empty());
    }

    #[test]
    fn who_comes_with_the_hope_of_a_grant_needs_room_without_it() {
        let limit = ConnectionLimit::new(4);
        let grant = limit.grant("192.0.2.1:1", 1).unwrap();
        let (_permit, mut newcomer) = limit.take("192.0.2.1:1").unwrap();
        let _others = all(&limit, "192.0.2.2:1", true);
        assert_eq!(limit.taken(), 4);
        let full = newcomer.admit(None).unwrap_err();
        assert_eq!((full.all, full.own), (4, 1), "the grant is another one's");
        newcomer.admit(Some(grant)).unwrap();
    }

    #[test]
    fn a_part_that_comes_back_and_one_of_another_address_change_nothing() {
        let limit = ConnectionLimit::new(64);
        let mut grant = limit.grant("192.0.2.1:1", 2).unwrap();
        let part = grant.split().unwrap();
        grant.join(part);
        assert_eq!(grant.amount(), 2);
        let (_permit, mut newcomer) = limit.take("192.0.2.2:1").unwrap();
        newcomer.admit(grant.split()).unwrap();
        assert_eq!(grant.amount(), 1);
        drop((grant, newcomer, _permit));
        assert!(limit.shares.is_empty());
    }
}
