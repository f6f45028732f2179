//! Our part of the names of sessions (ISID). A session that takes the place of a lost one has the
//! same: by that the target ends what it still had of the lost one before it answers the login (RFC
//! 7143 §6.3.5). Two sessions that live at the same time never have the same.

use uuid::Uuid;
use weft_base::lock::Lock;
use weft_connection::identity::Identities;
use weft_connection::limits::ISIDS_MAX;
use weft_proto::iscsi::pdu::Isid;

struct Entry {
    /// What the session is for.
    purpose: String,
    isid: Isid,
    /// The device whose session has it.
    user: Option<u64>,
    /// What the device of before said about its target's cache.
    epoch: u64,
}

#[derive(Default)]
struct IsidTable {
    entries: Vec<Entry>,
    next: u64,
}

/// The ISIDs of a control.
#[derive(Default)]
pub(crate) struct Isids(Lock<IsidTable>);

impl Isids {
    /// A number for a device, which has ISIDs in use until it is given to [`Isids::leave`].
    pub(super) fn user(&self) -> u64 {
        let mut inner = self.0.lock();
        inner.next += 1;
        inner.next
    }

    /// The ISID of the `n`th session for `purpose` of an opener: that of before, unless it is in
    /// use. And what the last device said of its target's cache. An opener has the same one in each
    /// process, so that its registrations stay its own.
    pub(super) fn take(
        &self,
        user: u64,
        purpose: &str,
        n: u16,
        opener: Option<Uuid>,
        identities: &Identities,
    ) -> (Isid, u64) {
        let mut inner = self.0.lock();
        let purpose = opener
            .map_or_else(|| format!("{n} {purpose}"), |opener| format!("{n} {purpose} {opener}"));
        if let Some(entry) =
            inner.entries.iter_mut().find(|entry| entry.purpose == purpose && entry.user.is_none())
        {
            entry.user = Some(user);
            return (entry.isid, entry.epoch);
        }
        if inner.entries.len() >= ISIDS_MAX {
            // One that nobody has is forgotten; if all are in use there is no end of those in use
            // either.
            if let Some(at) = inner.entries.iter().position(|entry| entry.user.is_none()) {
                inner.entries.remove(at);
            }
        }
        let own = opener.map(|opener| of_opener(opener, &purpose));
        let own = own.filter(|isid| inner.entries.iter().all(|entry| entry.isid != *isid));
        let isid = own.unwrap_or_else(|| Isid::random(identities.random(), n));
        let epoch = u64::from_le_bytes(identities.random());
        inner.entries.push(Entry { purpose, isid, user: Some(user), epoch });
        (isid, epoch)
    }

    /// The session is over, or will never be: another one may take its place.
    pub(super) fn release(&self, user: u64, isid: Isid) {
        let mut inner = self.0.lock();
        let own =
            inner.entries.iter_mut().filter(|entry| entry.user == Some(user) && entry.isid == isid);
        own.for_each(|entry| entry.user = None);
    }

    /// What is known of the target's cache now.
    pub(super) fn set_epoch(&self, user: u64, epoch: u64) {
        let mut inner = self.0.lock();
        inner
            .entries
            .iter_mut()
            .filter(|entry| entry.user == Some(user))
            .for_each(|entry| entry.epoch = epoch);
    }

    /// All sessions of a device are over.
    pub(super) fn leave(&self, user: u64) {
        let mut inner = self.0.lock();
        inner
            .entries
            .iter_mut()
            .filter(|entry| entry.user == Some(user))
            .for_each(|entry| entry.user = None);
    }
}

/// The ISID of an opener: a random one (T = 10b), of which all 40 bits are derived from its name.
fn of_opener(opener: Uuid, purpose: &str) -> Isid {
    let [a, b, c, d, e, ..] = Uuid::new_v5(&opener, purpose.as_bytes()).into_bytes();
    Isid::random([a, b, c], u16::from_be_bytes([d, e]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_the_name_of_the_one_whose_place_it_takes_and_no_other() {
        let (isids, identities) = (Isids::default(), Identities::seeded(1));
        let (first, second) = (isids.user(), isids.user());
        let (isid, epoch) = isids.take(first, "url", 0, None, &identities);
        let (other, _) = isids.take(second, "url", 0, None, &identities);
        assert_ne!(isid, other, "both live");
        assert_ne!(isids.take(first, "url", 1, None, &identities).0, isid);
        isids.set_epoch(first, 7);
        isids.release(second, isid);
        isids.release(first, isid);
        let third = isids.user();
        assert_eq!(isids.take(third, "url", 0, None, &identities), (isid, 7));
        assert_ne!(epoch, 7);
        // The device of before does not take it away.
        isids.leave(first);
        assert_ne!(isids.take(isids.user(), "url", 0, None, &identities).0, isid);
    }

    #[test]
    fn an_opener_has_the_same_name_in_each_process() {
        let take = |opener: u128, seed| {
            let (isids, identities) = (Isids::default(), Identities::seeded(seed));
            let of = |n| {
                isids.take(isids.user(), "url", n, Some(Uuid::from_u128(opener)), &identities).0
            };
            [of(0), of(1), of(0)]
        };
        let (first, again, other) = (take(1, 1), take(1, 2), take(2, 1));
        assert_eq!(first[..2], again[..2]);
        assert_ne!(first[0], first[1]);
        assert!(first[2] != first[0] && first[2] != again[2], "both live");
        assert_ne!(first[0], other[0]);
    }
}
