//! Detection of dead gateways by their beats.
//!
//! A gateway is taken for dead when its beat has not changed for longer than its lease and a
//! quarter, by the clock of whoever watches. Both ends of that time are seen by the watcher itself:
//! from when it first saw the beat, to when it asked for the beats and saw the same one again. So a
//! watcher that was stopped itself, or could not reach the store, suspects nobody for that.

use crate::name::GatewayName;
use crate::record::GroupRecord;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// The process.
    pub instance: u64,
    /// Counts its beats.
    pub count: u64,
}

/// A gateway's knowledge of the others' beats.
#[derive(Debug, Default)]
pub struct Liveness {
    seen: BTreeMap<GatewayName, SeenBeat>,
}

#[derive(Debug)]
struct SeenBeat {
    beat: Option<Beat>,
    instance: u64,
    /// When the beat was first seen.
    since: Duration,
    /// When the beats were asked for that showed it last.
    until: Duration,
}

impl Liveness {
    /// The beats that were asked for at `asked`, and have arrived now.
    pub fn saw(
        &mut self,
        record: &GroupRecord,
        beats: &BTreeMap<GatewayName, Beat>,
        (asked, now): (Duration, Duration),
    ) {
        self.seen.retain(|name, seen| {
            record.member(name).is_some_and(|member| member.instance == seen.instance)
        });
        for (name, member) in record.members() {
            let beat = beats.get(name).copied().filter(|beat| beat.instance == member.instance);
            match self.seen.get_mut(name) {
                Some(seen) if seen.beat == beat => seen.until = asked,
                _ => {
                    self.seen.insert(
                        name.clone(),
                        SeenBeat { beat, instance: member.instance, since: now, until: now },
                    );
                }
            }
        }
    }

    /// Returns the time for which the present process of a gateway has shown no sign of life, as
    /// far as is known. The silence of its predecessor does not count.
    pub fn silence(&self, name: &GatewayName, instance: u64) -> Duration {
        let seen = self.seen.get(name).filter(|seen| seen.instance == instance);
        seen.map_or(Duration::ZERO, |seen| seen.until.saturating_sub(seen.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{GatewayRecord, Member};

    #[test]
    fn silence_is_what_the_watcher_saw_itself() {
        let name = GatewayName::new("a").unwrap();
        let member = Member {
            instance: 1,
            client: "c".into(),
            listeners: Vec::new(),
            ready: true,
            leaving: false,
            condemned: false,
            knows: 1,
        };
        let mut record = GroupRecord::default();
        record.gateways.insert(name.clone(), GatewayRecord { slot: 0, member: Some(member) });
        let beat = |count| BTreeMap::from([(name.clone(), Beat { instance: 1, count })]);
        let s = Duration::from_secs;
        let mut liveness = Liveness::default();
        liveness.saw(&record, &beat(1), (s(0), s(1)));
        liveness.saw(&record, &beat(1), (s(5), s(6)));
        assert_eq!(liveness.silence(&name, 1), s(4));
        // The watcher was stopped for a minute: what it asked before that says nothing of the
        // minute.
        liveness.saw(&record, &beat(1), (s(6), s(66)));
        assert_eq!(liveness.silence(&name, 1), s(5));
        liveness.saw(&record, &beat(2), (s(67), s(68)));
        assert_eq!(liveness.silence(&name, 1), s(0));
        liveness.saw(&record, &beat(2), (s(80), s(81)));
        // Neither the silence nor the beats of the process before are those of this one.
        record.gateways.get_mut(&name).unwrap().member.as_mut().unwrap().instance = 2;
        assert_eq!((liveness.silence(&name, 1), liveness.silence(&name, 2)), (s(12), s(0)));
        liveness.saw(&record, &beat(3), (s(82), s(83)));
        liveness.saw(&record, &beat(4), (s(88), s(89)));
        assert_eq!(liveness.silence(&name, 2), s(5));
    }
}
