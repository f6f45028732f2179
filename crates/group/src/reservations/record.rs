//! Stored form of one namespace in a group of gateways: the state, and the pending notices of the
//! last changes.
//!
//! A gateway that reads it learns from the changes whom of its hosts to tell, and whose commands to
//! abort. Should more have changed since it read last than is kept, it compares the states: whoever
//! has lost its registration is treated as one that was preempted and aborted.

use super::stored::{self, Document, StoredRegistrant, StoredRegistration, StoredReservation};
use crate::limits::{
    RESERVATION_CHANGES_KEPT, RESERVATION_MENTIONS_KEPT, RESERVATION_RECORD_BYTES_MAX,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use uuid::Uuid;
use weft_proto::reservation::{Changes, Notice, Registrant, ReservationState};
use weft_proto::scsi::lun::NexusName;

/// The reservations of one namespace, as all gateways share them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReservationRecord {
    /// Counts the changes.
    pub number: u64,
    /// The state that they have led to.
    pub state: ReservationState,
    /// The last ones, each with its number, the last of which is [`Self::number`].
    recent: VecDeque<Change>,
}

#[derive(Clone, Debug, PartialEq)]
struct Change {
    number: u64,
    /// By what the gateway that made it knows that it has been made.
    token: Uuid,
    changes: Changes,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    namespace: Uuid,
    number: u64,
    /// Of the group, when it was written.
    life: u64,
    /// Of the state.
    generation: u32,
    persistent: bool,
    registrants: Vec<StoredRegistration>,
    reservation: Option<StoredReservation>,
    recent: Vec<StoredChange>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredChange {
    number: u64,
    token: Uuid,
    notices: Vec<(StoredRegistrant, StoredNotice)>,
    aborted: Vec<StoredRegistrant>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoredNotice {
    RegistrationPreempted,
    ReservationReleased,
    ReservationPreempted,
}

impl ReservationRecord {
    /// Reads what [`Self::encode`] has written.
    ///
    /// After the life of the group in which it was written, it is as after a loss of power:
    /// registrations that do not persist are gone, and the generation of the state begins again.
    ///
    /// # Errors
    /// The reason why it is invalid for this namespace.
    pub fn decode(bytes: &[u8], namespace: Uuid, life: u64) -> Result<Self, String> {
        if bytes.len() > RESERVATION_RECORD_BYTES_MAX {
            return Err(format!(
                "it has {} bytes, and {RESERVATION_RECORD_BYTES_MAX} are the most",
                bytes.len()
            ));
        }
        let content: Content = stored::document(bytes)?;
        if content.namespace != namespace {
            return Err(format!("it is about the namespace {}", content.namespace));
        }
        let state = stored::state(&content.registrants, content.reservation.as_ref())?;
        let state = match (content.life == life, content.persistent) {
            (true, persistent) => state.continued(content.generation, persistent),
            (false, true) => state,
            (false, false) => ReservationState::default(),
        };
        let recent: Option<VecDeque<Change>> =
            content.recent.iter().map(StoredChange::restored).collect();
        let recent = recent.ok_or("it has an invalid registrant")?;
        let numbers = recent.iter().rev().map(|change| change.number);
        if !numbers.eq((0..=content.number).rev().take(recent.len())) {
            return Err("its changes are not the last ones".to_owned());
        }
        Ok(Self { number: content.number, state, recent })
    }

    /// The text to store, in this life of the group, for gateways of which all know this version of
    /// the format. What it does not have is left out.
    pub fn encode(&self, namespace: Uuid, life: u64, version: u32) -> Vec<u8> {
        let (registrants, reservation) = stored::parts(&self.state, version);
        let content = Content {
            namespace,
            number: self.number,
            life,
            generation: self.state.generation(),
            persistent: self.state.is_persistent(),
            registrants,
            reservation,
            recent: self.recent.iter().map(StoredChange::of).collect(),
        };
        serde_json::to_vec(&Document::new(version, content)).unwrap_or_default()
    }

    /// The record after one more change.
    pub(super) fn after(&self, state: ReservationState, token: Uuid, changes: Changes) -> Self {
        let mut next = Self { number: self.number + 1, state, recent: self.recent.clone() };
        next.recent.push_back(Change { number: next.number, token, changes });
        let mentions = |recent: &VecDeque<Change>| -> usize {
            recent
                .iter()
                .skip(1)
                .map(|it| it.changes.notices.len() + it.changes.aborted.len())
                .sum()
        };
        // The newest one stays, however long it is.
        while next.recent.len() > RESERVATION_CHANGES_KEPT
            || mentions(&next.recent) > RESERVATION_MENTIONS_KEPT && next.recent.len() > 1
        {
            next.recent.pop_front();
        }
        next
    }

    /// Returns whether a change has been made.
    pub(super) fn has(&self, token: Uuid) -> bool {
        self.recent.iter().any(|change| change.token == token)
    }

    /// What has changed for hosts since the record of this number, with this state.
    pub(super) fn changes_since(&self, number: u64, before: &ReservationState) -> Changes {
        let all_known = self.recent.front().is_some_and(|oldest| oldest.number <= number + 1);
        let mut changes =
            if all_known { Changes::default() } else { difference(before, &self.state) };
        for change in self.recent.iter().filter(|change| change.number > number) {
            changes.notices.extend(change.changes.notices.iter().cloned());
            changes.aborted.extend(change.changes.aborted.iter().cloned());
        }
        changes
    }
}

/// Whom the way from one state to another can have affected.
fn difference(before: &ReservationState, now: &ReservationState) -> Changes {
    let lost = before
        .registrations()
        .iter()
        .map(|known| &known.registrant)
        .filter(|known| now.key(known).is_none());
    let aborted: Vec<Registrant> = lost.cloned().collect();
    let mut notices: Vec<_> =
        aborted.iter().map(|lost| (lost.clone(), Notice::RegistrationPreempted)).collect();
    let kind = |state: &ReservationState| state.reservation().map(|held| held.kind);
    if kind(before).is_some_and(|kind| kind.is_shared()) && kind(before) != kind(now) {
        let stay = now
            .registrations()
            .iter()
            .map(|known| &known.registrant)
            .filter(|known| before.key(known).is_some());
        notices.extend(stay.map(|known| (known.clone(), Notice::ReservationReleased)));
    }
    Changes { notices, aborted }
}

fn stored_registrant(of: &Registrant) -> StoredRegistrant {
    let all_ports =
        matches!(of, Registrant::Nexus(nexus) if nexus.target_port == NexusName::ALL_PORTS);
    StoredRegistrant::of(of, all_ports)
}

impl StoredChange {
    fn of(change: &Change) -> Self {
        let Change { number, token, changes } = change;
        let notice = |(to, notice): &(Registrant, Notice)| {
            (stored_registrant(to), StoredNotice::of(*notice))
        };
        Self {
            number: *number,
            token: *token,
            notices: changes.notices.iter().map(notice).collect(),
            aborted: changes.aborted.iter().map(stored_registrant).collect(),
        }
    }

    fn restored(&self) -> Option<Change> {
        let notices =
            self.notices.iter().map(|(to, notice)| Some((to.restored()?, notice.restored())));
        let aborted = self.aborted.iter().map(StoredRegistrant::restored).collect::<Option<_>>()?;
        let changes = Changes { notices: notices.collect::<Option<_>>()?, aborted };
        Some(Change { number: self.number, token: self.token, changes })
    }
}

impl StoredNotice {
    fn of(notice: Notice) -> Self {
        match notice {
            Notice::RegistrationPreempted => Self::RegistrationPreempted,
            Notice::ReservationReleased => Self::ReservationReleased,
            Notice::ReservationPreempted => Self::ReservationPreempted,
        }
    }

    fn restored(self) -> Notice {
        match self {
            Self::RegistrationPreempted => Notice::RegistrationPreempted,
            Self::ReservationReleased => Notice::ReservationReleased,
            Self::ReservationPreempted => Notice::ReservationPreempted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stored::VERSION;
    use super::*;
    use weft_proto::limits::REGISTRANTS_MAX;
    use weft_proto::nvme::types::{Id128, Nqn};
    use weft_proto::reservation::{Action, KeyCheck, Kind, ReservationRequest};
    use weft_proto::scsi::lun::TransportId;

    const NAMESPACE: Uuid = Uuid::from_bytes([7; 16]);

    fn host(n: u8) -> Registrant {
        Registrant::Host(Id128([n; 16]))
    }

    /// The initiator port with the longest name.
    fn initiator(n: usize) -> Registrant {
        let name = format!("iqn.2026-01.example:{n:0203}");
        Registrant::Nexus(NexusName {
            initiator: TransportId::iscsi(&name, [0xff; 6]),
            target_port: 65535,
        })
    }

    fn apply(
        record: &ReservationRecord,
        by: Registrant,
        action: Action,
        persist: Option<bool>,
    ) -> ReservationRecord {
        let mut next = record.state.clone();
        let changes = next.apply(&ReservationRequest { by, action, persist }).unwrap();
        record.after(next, Uuid::from_u128(u128::from(record.number)), changes)
    }

    fn register(record: &ReservationRecord, by: Registrant, persist: bool) -> ReservationRecord {
        apply(
            record,
            by,
            Action::Register { check: KeyCheck::Ignore, key: 1, all_ports: false },
            Some(persist),
        )
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record =
            register(&register(&ReservationRecord::default(), host(1), false), host(2), false);
        record =
            apply(&record, host(1), Action::Acquire { key: 1, kind: Kind::WriteExclusive }, None);
        record = apply(&record, host(1), Action::Clear { key: 1 }, None);
        record = register(&record, initiator(1), true);
        let bytes = record.encode(NAMESPACE, 5, VERSION);
        assert_eq!(ReservationRecord::decode(&bytes, NAMESPACE, 5).unwrap(), record);
        assert!(
            ReservationRecord::decode(&bytes, Uuid::nil(), 5)
                .unwrap_err()
                .contains("about the namespace")
        );
        for (from, to, why) in [
            ("\"version\":2", "\"version\":3,\"more\":1", "version 3"),
            ("\"number\":5", "\"number\":6", "checksum"),
        ] {
            let changed = String::from_utf8(bytes.clone()).unwrap().replace(from, to);
            assert!(
                ReservationRecord::decode(changed.as_bytes(), NAMESPACE, 5)
                    .unwrap_err()
                    .contains(why)
            );
        }
        assert!(
            ReservationRecord::decode(&vec![b' '; RESERVATION_RECORD_BYTES_MAX + 1], NAMESPACE, 5)
                .is_err()
        );
    }

    #[test]
    fn a_record_of_version_1_is_read_and_becomes_one_of_version_2_when_all_gateways_know_it() {
        let old = include_bytes!("version_1/record.json");
        let mut record = ReservationRecord::decode(old, NAMESPACE, 5).unwrap();
        assert_eq!(
            (record.number, record.state.registrations().len(), record.state.is_holder(&host(1))),
            (4, 3, true)
        );
        assert_eq!(record.encode(NAMESPACE, 5, 1), old, "for the others nothing changes");
        let name = Nqn::new("nqn.2026-01.example.host:a").unwrap();
        record.state.set_proven(&host(1), Some(&name));
        assert_eq!(record.encode(NAMESPACE, 5, 1), old, "what they do not know is left out");
        let new = record.encode(NAMESPACE, 5, 2);
        assert_eq!(
            ReservationRecord::decode(&new, NAMESPACE, 5).unwrap().state.proven(&host(1)),
            Some(&name)
        );
        // Older programs look at the version before all else.
        assert!(new.starts_with(b"{\"version\":2,"));
    }

    #[test]
    fn a_record_of_version_2_is_read_and_written_as_it_was() {
        let kept = include_bytes!("version_2/record.json");
        let record = ReservationRecord::decode(kept, NAMESPACE, 5).unwrap();
        let name = Nqn::new("nqn.2026-01.example.host:a").unwrap();
        assert_eq!((record.number, record.state.proven(&host(1))), (4, Some(&name)));
        assert_eq!(record.encode(NAMESPACE, 5, 2), kept);
    }

    #[test]
    fn another_life_of_the_group_keeps_what_is_to_persist() {
        let other_life = |record: &ReservationRecord| {
            ReservationRecord::decode(&record.encode(NAMESPACE, 5, VERSION), NAMESPACE, 6).unwrap()
        };
        let stays = other_life(&register(&ReservationRecord::default(), host(1), true));
        assert_eq!(
            (stays.state.key(&host(1)), stays.state.generation(), stays.number),
            (Some(1), 0, 1)
        );
        let gone = other_life(&register(&ReservationRecord::default(), host(1), false));
        assert_eq!((gone.state.registrations().len(), gone.number), (0, 1));
    }

    #[test]
    fn who_has_missed_changes_learns_of_all_or_takes_the_worst() {
        let both =
            register(&register(&ReservationRecord::default(), host(1), false), host(2), false);
        let preempt =
            Action::Preempt { key: 1, target: 2, kind: Kind::WriteExclusive, abort: true };
        let other_key = Action::Register { check: KeyCheck::Ignore, key: 2, all_ports: false };
        let mut now = apply(&apply(&both, host(2), other_key, None), host(1), preempt, None);
        let lost = || vec![(host(2), Notice::RegistrationPreempted)];
        assert_eq!(
            now.changes_since(2, &both.state),
            Changes { notices: lost(), aborted: vec![host(2)] }
        );
        assert_eq!(now.changes_since(4, &now.state), Changes::default());
        for _ in 0..=RESERVATION_CHANGES_KEPT {
            now = register(&now, host(1), false);
        }
        assert_eq!(
            now.changes_since(2, &both.state),
            Changes { notices: lost(), aborted: vec![host(2)] }
        );
        let shared = Kind::WriteExclusiveRegistrantsOnly;
        let held = apply(&both, host(2), Action::Acquire { key: 1, kind: shared }, None);
        now = apply(
            &held,
            host(2),
            Action::Register { check: KeyCheck::Ignore, key: 0, all_ports: false },
            None,
        );
        for _ in 0..=RESERVATION_CHANGES_KEPT {
            now = register(&now, host(1), false);
        }
        let released = (host(1), Notice::ReservationReleased);
        assert!(now.changes_since(held.number, &held.state).notices.contains(&released));
    }

    #[test]
    fn the_longest_record_is_taken() {
        let mut record = ReservationRecord::default();
        let longest = |record: ReservationRecord, to: &mut usize| {
            let bytes = record.encode(NAMESPACE, u64::MAX, VERSION);
            *to = bytes.len().max(*to);
            assert_eq!(ReservationRecord::decode(&bytes, NAMESPACE, u64::MAX).unwrap(), record);
            record
        };
        let mut bytes = 0;
        for _ in 0..3 {
            for n in 0..REGISTRANTS_MAX {
                record = register(&record, initiator(n), true);
            }
            let preempt =
                Action::Preempt { key: 1, target: 1, kind: Kind::WriteExclusive, abort: true };
            record = longest(apply(&record, initiator(0), preempt, None), &mut bytes);
            record = apply(
                &record,
                initiator(0),
                Action::Register { check: KeyCheck::Ignore, key: 1, all_ports: false },
                None,
            );
            for n in 0..REGISTRANTS_MAX {
                record = register(&record, initiator(n), true);
            }
            record = longest(record, &mut bytes);
            record =
                longest(apply(&record, initiator(0), Action::Clear { key: 1 }, None), &mut bytes);
        }
        assert!(bytes < RESERVATION_RECORD_BYTES_MAX, "{bytes}");
    }
}
