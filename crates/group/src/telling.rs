//! Who still has to be told of something that all gateways of a group are to act by.

use crate::name::Name;
use crate::record::Record;
use std::collections::BTreeMap;

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
}
