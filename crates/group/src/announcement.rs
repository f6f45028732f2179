//! Telling all gateways of a group of a change that they are to act by.

use crate::name::GatewayName;
use crate::record::GroupRecord;
use core::time::Duration;
use std::collections::BTreeMap;

/// How long some gateway may not act by a change, though it is not dead: longer than it takes to
/// replace one.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long until those are told again that have not answered.
const AGAIN: Duration = Duration::from_millis(200);

/// Next step until all gateways know the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncementStep {
    /// Read the group's record: [`Announcement::record`].
    Record,
    /// Tell all gateways: [`Announcement::answered`].
    Tell,
    /// Wait for so long: [`Announcement::paused`].
    Pause(Duration),
    /// Nothing more: all have acknowledged, or can do no I/O any more.
    Done,
    /// Nothing more: some gateway has had too much time.
    Late,
}

/// Notifies all other gateways again and again, until each has acknowledged or can no longer do
/// I/O. Times are since an epoch of the caller's choice.
#[derive(Clone, Debug)]
pub struct Announcement {
    own: u64,
    ends: Duration,
    /// The processes that have not acknowledged; `None`: the record was not read yet.
    missing: Option<BTreeMap<GatewayName, u64>>,
    step: AnnouncementStep,
}

impl Announcement {
    /// Begins, for the process `own`.
    pub fn new(own: u64, now: Duration) -> Self {
        Self { own, ends: now + PATIENCE, missing: None, step: AnnouncementStep::Record }
    }

    /// Returns the next step.
    pub fn step(&self) -> AnnouncementStep {
        self.step
    }

    /// This is the record. Who joins after the first one reads the change by itself. A gateway that
    /// has left can no longer do I/O. A gateway that is only condemned still can: nobody has
    /// confirmed yet that it is kept out.
    pub fn record(&mut self, now: Duration, record: &GroupRecord) {
        let is_first = self.missing.is_none();
        let others = || {
            let others = record.members().filter(|(_, member)| member.instance != self.own);
            others.map(|(name, member)| (name.clone(), member.instance)).collect()
        };
        let missing = self.missing.get_or_insert_with(others);
        missing.retain(|name, instance| {
            record.member(name).is_some_and(|member| member.instance == *instance)
        });
        self.step = match () {
            () if missing.is_empty() => AnnouncementStep::Done,
            () if is_first => AnnouncementStep::Tell,
            () if now > self.ends => AnnouncementStep::Late,
            () => AnnouncementStep::Pause(AGAIN),
        };
    }

    /// Gateways were notified, and these processes have acknowledged in time; none, if that failed.
    pub fn answered(&mut self, instances: &[u64]) {
        let Some(missing) = &mut self.missing else { return };
        missing.retain(|_, instance| !instances.contains(instance));
        let is_done = missing.is_empty();
        self.step = if is_done { AnnouncementStep::Done } else { AnnouncementStep::Record };
    }

    /// The pause is over.
    pub fn paused(&mut self) {
        self.step = AnnouncementStep::Tell;
    }

    /// Returns the gateways that have not acknowledged.
    pub fn missing(&self) -> impl Iterator<Item = &GatewayName> {
        self.missing.iter().flat_map(BTreeMap::keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{GatewayRecord, Member};

    fn record(members: &[(&str, u64, bool)]) -> GroupRecord {
        let mut record = GroupRecord::default();
        for ((name, instance, condemned), slot) in members.iter().zip(0..) {
            let (listeners, client) = (Vec::new(), String::new());
            let member = Member {
                instance: *instance,
                client,
                listeners,
                ready: true,
                leaving: false,
                condemned: *condemned,
                knows: 1,
            };
            record.gateways.insert(
                GatewayName::new(name).unwrap(),
                GatewayRecord { slot, member: Some(member) },
            );
        }
        record
    }

    #[test]
    fn a_gateway_is_waited_for_until_it_has_answered_or_has_left() {
        let now = Duration::ZERO;
        let mut announcement = Announcement::new(1, now);
        announcement.record(now, &record(&[("a", 1, false), ("b", 2, false), ("c", 3, false)]));
        assert_eq!(announcement.missing().map(GatewayName::as_str).collect::<Vec<_>>(), ["b", "c"]);
        announcement.answered(&[1, 2, 7]);
        assert_eq!(announcement.missing().map(GatewayName::as_str).collect::<Vec<_>>(), ["c"]);
        announcement.record(now, &record(&[("a", 1, false), ("c", 3, true)]));
        assert_eq!(announcement.step(), AnnouncementStep::Pause(AGAIN), "it may write still");
        announcement.record(now, &record(&[("a", 1, false), ("c", 4, false)]));
        assert_eq!(
            announcement.step(),
            AnnouncementStep::Done,
            "another process has its name, so it is kept out"
        );
    }

    #[test]
    fn who_has_not_answered_is_told_again_until_it_has_left_or_had_too_much_time() {
        let s = Duration::from_secs;
        let all = record(&[("a", 1, false), ("b", 2, false), ("c", 3, false)]);
        let mut announcement = Announcement::new(1, s(5));
        assert_eq!(announcement.step(), AnnouncementStep::Record);
        announcement.record(s(5), &all);
        assert_eq!(announcement.step(), AnnouncementStep::Tell);
        announcement.answered(&[2]);
        assert_eq!(announcement.step(), AnnouncementStep::Record);
        announcement.record(s(65), &all);
        assert_eq!(announcement.step(), AnnouncementStep::Pause(AGAIN));
        announcement.paused();
        assert_eq!(announcement.step(), AnnouncementStep::Tell);
        // The message failed.
        announcement.answered(&[]);
        let mut late = announcement.clone();
        late.record(s(66), &all);
        assert_eq!(late.step(), AnnouncementStep::Late);
        assert_eq!(late.missing().map(GatewayName::as_str).collect::<Vec<_>>(), ["c"]);
        announcement.record(s(66), &record(&[("a", 1, false), ("b", 2, false)]));
        assert_eq!(announcement.step(), AnnouncementStep::Done);
        let mut answered = late;
        answered.paused();
        answered.answered(&[3]);
        assert_eq!(answered.step(), AnnouncementStep::Done);
        let mut alone = Announcement::new(1, s(5));
        alone.record(s(5), &record(&[("a", 1, false)]));
        assert_eq!(alone.step(), AnnouncementStep::Done);
    }
}
