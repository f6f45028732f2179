//! Secrets that were guessed in vain: how many guesses there may be. For the cold path only.
//!
//! Guesses are counted for an address and a CHAP name together, so that whoever guesses at one name
//! keeps nobody else from logging in. Names are told apart by a number that is made of them and of
//! a secret of this target: what is kept is bounded whatever names are tried, and names that exist
//! look like others.

use crate::export::origin::origin;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use weft_base::lock::Lock;
use weft_connection::limits::{LOGIN_FAILURES_MAX, LOGIN_FAILURES_ROWS, LOGIN_FAILURES_S};
use weft_proto::iscsi::target::Guard;

/// The guesses at secrets of one target.
#[derive(Default)]
pub(super) struct Guesses {
    names: RandomState,
    wrong: Lock<HashMap<(Option<IpAddr>, u64), Wrong>>,
}

/// Wrong guesses since the first one that counts, and when that was.
#[derive(Default)]
struct Wrong {
    count: u32,
    since: Duration,
}

impl Wrong {
    fn is_remembered(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) < Duration::from_secs(LOGIN_FAILURES_S)
    }
}

impl Guesses {
    /// What asks for a connection of `peer`, an address with its port.
    pub(super) fn guard(self: &Arc<Self>, peer: &str) -> Arc<dyn Guard> {
        Arc::new(Of { guesses: Arc::clone(self), host: origin(peer) })
    }

    fn heeds(&self, host: Option<IpAddr>, user: &str, right: bool, now: Duration) -> bool {
        let row = self.names.hash_one(user) % LOGIN_FAILURES_ROWS;
        let mut all = self.wrong.lock();
        let known = all.get(&(host, row)).filter(|wrong| wrong.is_remembered(now));
        if known.is_some_and(|wrong| wrong.count >= LOGIN_FAILURES_MAX) {
            return false;
        }
        if !right {
            all.retain(|_, wrong| wrong.is_remembered(now));
            let wrong = all.entry((host, row)).or_insert(Wrong { count: 0, since: now });
            wrong.count += 1;
        }
        true
    }
}

/// The guesses of one connection.
struct Of {
    guesses: Arc<Guesses>,
    host: Option<IpAddr>,
}

impl Guard for Of {
    fn heeds(&self, user: &str, right: bool, now: Duration) -> bool {
        self.guesses.heeds(self.host, user, right, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "127.0.0.1:1000";
    const T0: Duration = Duration::from_secs(100);

    #[test]
    fn whoever_guesses_at_a_name_is_not_heard_for_a_while() {
        let guesses = Arc::new(Guesses::default());
        let heeds = |peer: &str, user: &str, right, at| guesses.guard(peer).heeds(user, right, at);
        for n in 0..LOGIN_FAILURES_MAX {
            assert!(heeds(&format!("[2001:db8::{n:x}]:7"), "alice", false, T0));
        }
        let later = T0 + Duration::from_secs(LOGIN_FAILURES_S);
        for right in [false, true] {
            assert!(!heeds("[2001:db8::ffff]:7", "alice", right, T0), "the same network");
            assert!(heeds(PEER, "alice", right, T0));
        }
        assert!(heeds("[2001:db8::ffff]:7", "alice", true, later));
        assert!(heeds(PEER, "alice", false, later));
        assert_eq!(guesses.wrong.lock().len(), 1, "what is over is forgotten");
    }

    /// On a loopback all users of a machine have one address.
    #[test]
    fn whoever_guesses_at_one_name_keeps_others_from_nothing() {
        let guesses = Arc::new(Guesses::default());
        let guard = guesses.guard(PEER);
        (0..LOGIN_FAILURES_MAX * 2).for_each(|_| _ = guard.heeds("alice", false, T0));
        assert!(!guard.heeds("alice", true, T0));
        let heard = (0..100).filter(|n| guard.heeds(&format!("user {n}"), true, T0)).count();
        assert!(heard > 80, "{heard}: but those few whose number is the same");
    }

    #[test]
    fn what_is_kept_is_bounded_whatever_names_are_tried() {
        let guesses = Arc::new(Guesses::default());
        let guard = guesses.guard(PEER);
        (0..10_000).for_each(|n| _ = guard.heeds(&n.to_string(), false, T0));
        assert!(guesses.wrong.lock().len() <= LOGIN_FAILURES_ROWS as usize);
    }
}
