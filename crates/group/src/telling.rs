//! Who still has to be told of something that all gateways of a group are to act by.

use crate::name::Name;
use crate::record::Record;
use core::time::Duration;
use std::collections::BTreeMap;

/// How long some gateway may not act by a change, though it is not dead: longer than it takes to
/// replace one.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long until those are told again that have not answered.
const AGAIN: Duration = Duration::from_millis(200);

/// The processes that one gateway tells of a change, until each has acknowledged it or can do no
/// I/O any more.
#[derive(Clone, Debug)]
pub struct Telling {
    missing: BTreeMap<Name, u64>,
}

impl Telling {
    /// All that belong to the group, but for the process `own` itself. Who joins later reads the
    /// change by itself.
    pub fn new(record: &Record, own: u64) -> Self {
        let others = record.members().filter(|(_, member)| member.instance != own);
        Self { missing: others.map(|(name, member)| (name.clone(), member.instance)).collect() }
    }

    /// These processes have acknowledged.
    pub fn answered(&mut self, instances: &[u64]) {
        self.missing.retain(|_, instance| !instances.contains(instance));
    }

    /// This is the record now: who has left it can do no I/O any more. That is not so of one that
    /// is only condemned: nobody has confirmed yet that it is kept out.
    pub fn look(&mut self, record: &Record) {
        self.missing.retain(|name, instance| {
            record.member(name).is_some_and(|member| member.instance == *instance)
        });
    }

    /// Whether nobody is missing.
    pub fn is_done(&self) -> bool {
        self.missing.is_empty()
    }

    /// Who is missing.
    pub fn missing(&self) -> impl Iterator<Item = &Name> {
        self.missing.keys()
    }
}

/// What is to be done so that all are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TellingStep {
    /// Read the group's record: [`TellingAll::record`].
    Record,
    /// Tell all gateways: [`TellingAll::answered`].
    Tell,
    /// Wait for so long: [`TellingAll::paused`].
    Pause(Duration),
    /// Nothing more: all have acknowledged, or can do no I/O any more.
    Done,
    /// Nothing more: some gateway has had too much time.
    Late,
}

/// Tells all other gateways again and again, until each has acknowledged or can do no I/O any more.
/// Times are since an epoch of the caller's choice.
#[derive(Clone, Debug)]
pub struct TellingAll {
    own: u64,
    ends: Duration,
    telling: Option<Telling>,
    step: TellingStep,
}

impl TellingAll {
    /// Begins, for the process `own`.
    pub fn new(own: u64, now: Duration) -> Self {
        Self { own, ends: now + PATIENCE, telling: None, step: TellingStep::Record }
    }

    /// What is to be done now.
    pub fn step(&self) -> TellingStep {
        self.step
    }

    /// This is the record.
    pub fn record(&mut self, now: Duration, record: &Record) {
        let is_first = self.telling.is_none();
        let telling = self.telling.get_or_insert_with(|| Telling::new(record, self.own));
        telling.look(record);
        self.step = match () {
            () if telling.is_done() => TellingStep::Done,
            () if is_first => TellingStep::Tell,
            () if now > self.ends => TellingStep::Late,
            () => TellingStep::Pause(AGAIN),
        };
    }

    /// Gateways were told, and these processes have acknowledged in time; none, if that failed.
    pub fn answered(&mut self, instances: &[u64]) {
        let Some(telling) = &mut self.telling else { return };
        telling.answered(instances);
        let is_done = telling.is_done();
        self.step = if is_done { TellingStep::Done } else { TellingStep::Record };
    }

    /// The pause is over.
    pub fn paused(&mut self) {
        self.step = TellingStep::Tell;
    }

    /// Who has not acknowledged.
    pub fn missing(&self) -> impl Iterator<Item = &Name> {
        self.telling.iter().flat_map(Telling::missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{GatewayRecord, Member};

    fn record(members: &[(&str, u64, bool)]) -> Record {
        let mut record = Record::default();
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
            record
                .gateways
                .insert(Name::new(name).unwrap(), GatewayRecord { slot, member: Some(member) });
        }
        record
    }

    #[test]
    fn a_gateway_is_waited_for_until_it_has_answered_or_has_left() {
        let mut telling =
            Telling::new(&record(&[("a", 1, false), ("b", 2, false), ("c", 3, false)]), 1);
        assert_eq!(telling.missing().map(Name::as_str).collect::<Vec<_>>(), ["b", "c"]);
        telling.answered(&[1, 2, 7]);
        assert_eq!(telling.missing().map(Name::as_str).collect::<Vec<_>>(), ["c"]);
        telling.look(&record(&[("a", 1, false), ("c", 3, true)]));
        assert!(!telling.is_done(), "it is condemned, and may write still");
        telling.look(&record(&[("a", 1, false), ("c", 4, false)]));
        assert!(telling.is_done(), "another process has its name, so it is kept out");
    }

    #[test]
    fn who_has_not_answered_is_told_again_until_it_has_left_or_had_too_much_time() {
        let s = Duration::from_secs;
        let all = record(&[("a", 1, false), ("b", 2, false), ("c", 3, false)]);
        let mut telling = TellingAll::new(1, s(5));
        assert_eq!(telling.step(), TellingStep::Record);
        telling.record(s(5), &all);
        assert_eq!(telling.step(), TellingStep::Tell);
        telling.answered(&[2]);
        assert_eq!(telling.step(), TellingStep::Record);
        telling.record(s(65), &all);
        assert_eq!(telling.step(), TellingStep::Pause(AGAIN));
        telling.paused();
        assert_eq!(telling.step(), TellingStep::Tell);
        // The message failed.
        telling.answered(&[]);
        let mut late = telling.clone();
        late.record(s(66), &all);
        assert_eq!(late.step(), TellingStep::Late);
        assert_eq!(late.missing().map(Name::as_str).collect::<Vec<_>>(), ["c"]);
        telling.record(s(66), &record(&[("a", 1, false), ("b", 2, false)]));
        assert_eq!(telling.step(), TellingStep::Done);
        let mut answered = late;
        answered.paused();
        answered.answered(&[3]);
        assert_eq!(answered.step(), TellingStep::Done);
        let mut alone = TellingAll::new(1, s(5));
        alone.record(s(5), &record(&[("a", 1, false)]));
        assert_eq!(alone.step(), TellingStep::Done);
    }
}
