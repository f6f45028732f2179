//! The common state of the gateways of a group: one object, changed by compare-and-set.

use crate::limits::{
    ANA_GROUPS, CNTLIDS_PER_GATEWAY, GATEWAYS_MAX, LISTENERS_MAX, RECORD_BYTES_MAX,
};
use crate::name::GatewayName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The latest format that this program knows; it is that of the reservations of a group, too. All
/// before it are read.
pub const FORMAT: u32 = 2;

/// The state of a group of gateways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// Of what follows, and of all else that the group stores: the latest that all its gateways
    /// know. No gateway joins that does not know it, so it is never an older one again.
    format: u32,
    /// Counts the changes.
    pub generation: u64,
    /// Counts the times that some gateway belongs to the group without a break: it is another one
    /// after all have left it. What is to end with the group, as by a loss of power, ends then.
    #[serde(default)]
    pub life: u64,
    /// All gateways that ever belonged to the group, unless they were forgotten.
    pub gateways: BTreeMap<GatewayName, GatewayRecord>,
    /// Owner of each ANA group, 1 to [`ANA_GROUPS`]. One that is missing belongs to nobody.
    pub groups: BTreeMap<u32, AnaGroup>,
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayRecord {
    /// From 0; it keeps it for ever, and with it its range of controller identifiers.
    pub slot: u16,
    /// The process that is this gateway now.
    pub member: Option<Member>,
}

/// A process that belongs to the group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// A random number of the process: one that starts again is another one.
    pub instance: u64,
    /// By what the store keeps it out: its client address.
    pub client: String,
    /// Where hosts reach it, as URLs.
    #[serde(default)]
    pub listeners: Vec<String>,
    /// It serves, so it can be given ANA groups.
    #[serde(default)]
    pub ready: bool,
    /// It wants to end, and gives its ANA groups away.
    #[serde(default)]
    pub leaving: bool,
    /// It is taken for dead, and will be kept out of the store before anybody takes its place.
    #[serde(default)]
    pub condemned: bool,
    /// The latest format that it knows. A program from before there were several formats does not
    /// report this, and drops it where others do.
    #[serde(default = "first_format", skip_serializing_if = "is_first_format")]
    pub knows: u32,
}

const fn first_format() -> u32 {
    1
}

fn is_first_format(format: &u32) -> bool {
    *format == first_format()
}

/// An ANA group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnaGroup {
    /// The gateway that is optimized for it.
    #[serde(default)]
    pub owner: Option<GatewayName>,
    /// To whom the owner is to give it.
    #[serde(default)]
    pub next: Option<GatewayName>,
    /// To whom it belongs by an administrator's order, as long as that gateway is there.
    #[serde(default)]
    pub pinned: Option<GatewayName>,
}

/// A record cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is of a later program.
    #[error(
        "the group's record has format {0}, and this program knows 1 to {FORMAT}: update this gateway"
    )]
    Format(u32),
    /// It is damaged, or none.
    #[error("the group's record cannot be read: {0}")]
    Damaged(String),
    /// A gateway wants to announce too many addresses.
    #[error(
        "a gateway of a group can announce {LISTENERS_MAX} addresses: give fewer --listen or --advertise"
    )]
    Listeners,
    /// All slots are taken.
    #[error("the group has {GATEWAYS_MAX} gateways already: forget one that is gone for ever")]
    Full,
}

impl Default for GroupRecord {
    fn default() -> Self {
        Self {
            format: first_format(),
            generation: 0,
            life: 0,
            gateways: BTreeMap::new(),
            groups: BTreeMap::new(),
        }
    }
}

impl GroupRecord {
    /// Reads a record.
    ///
    /// # Errors
    /// It is of a later program, or damaged.
    pub fn parse(text: &[u8]) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        if text.len() > RECORD_BYTES_MAX {
            return Err(RecordError::Damaged(format!(
                "it has {} bytes, and {RECORD_BYTES_MAX} are the most",
                text.len()
            )));
        }
        let damaged = |e: serde_json::Error| RecordError::Damaged(e.to_string());
        let head: Head = serde_json::from_slice(text).map_err(damaged)?;
        if !(1..=FORMAT).contains(&head.format) {
            return Err(RecordError::Format(head.format));
        }
        let record: Self = serde_json::from_slice(text).map_err(damaged)?;
        record.check().map_err(|why| RecordError::Damaged(why.to_owned()))?;
        Ok(record)
    }

    /// The text of [`Self::parse`].
    pub fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("names and numbers")
    }

    fn check(&self) -> Result<(), &'static str> {
        let mut slots: Vec<u16> = self.gateways.values().map(|gateway| gateway.slot).collect();
        slots.sort_unstable();
        if slots.windows(2).any(|pair| pair[0] == pair[1])
            || slots.last().is_some_and(|slot| *slot >= GATEWAYS_MAX)
        {
            return Err("its slots are wrong");
        }
        if self.members().any(|(_, member)| member.listeners.len() > LISTENERS_MAX) {
            return Err("a gateway has too many addresses");
        }
        let is_known = |name: &Option<GatewayName>| {
            name.as_ref().is_none_or(|name| self.gateways.contains_key(name))
        };
        let are_known = |group: &AnaGroup| is_known(&group.owner) && is_known(&group.next);
        if !self.groups.values().all(are_known)
            || self.groups.keys().any(|group| !(1..=ANA_GROUPS).contains(group))
        {
            return Err("its ANA groups are wrong");
        }
        Ok(())
    }

    /// The format of all that the group stores.
    pub fn format(&self) -> u32 {
        self.format
    }

    /// Takes the latest format that all gateways know which are there.
    pub(crate) fn update_format(&mut self) {
        let known = self.members().map(|(_, member)| member.knows).min();
        self.format = known.unwrap_or(self.format).clamp(self.format, FORMAT);
    }

    /// The gateways that are there, with their processes.
    pub fn members(&self) -> impl Iterator<Item = (&GatewayName, &Member)> {
        self.gateways.iter().filter_map(|(name, gateway)| Some((name, gateway.member.as_ref()?)))
    }

    /// The process of a gateway.
    pub fn member(&self, name: &GatewayName) -> Option<&Member> {
        self.gateways.get(name)?.member.as_ref()
    }

    /// The same, to change it.
    pub(crate) fn member_mut(&mut self, name: &GatewayName) -> Option<&mut Member> {
        self.gateways.get_mut(name)?.member.as_mut()
    }

    /// The lowest free slot.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn free_slot(&self) -> Result<u16, RecordError> {
        let is_free = |slot: &u16| self.gateways.values().all(|gateway| gateway.slot != *slot);
        (0..GATEWAYS_MAX).find(is_free).ok_or(RecordError::Full)
    }
}

impl GatewayRecord {
    /// The first and the last of its controller identifiers.
    pub fn cntlids(&self) -> (u16, u16) {
        (self.slot * CNTLIDS_PER_GATEWAY + 1, (self.slot + 1) * CNTLIDS_PER_GATEWAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record = GroupRecord::default();
        let name = GatewayName::new("a").unwrap();
        let member = Member {
            instance: 7,
            client: "10.0.0.1:0/42".into(),
            listeners: vec!["nvme+tcp://10.0.0.1:4420".into()],
            ready: true,
            leaving: false,
            condemned: false,
            knows: FORMAT,
        };
        record.gateways.insert(name.clone(), GatewayRecord { slot: 0, member: Some(member) });
        record.groups.insert(1, AnaGroup { owner: Some(name), ..AnaGroup::default() });
        assert_eq!(GroupRecord::parse(&record.text()).unwrap(), record);
        assert_eq!(record.gateways.values().next().unwrap().cntlids(), (1, 1000));
    }

    #[test]
    fn a_record_of_version_1_is_read_and_becomes_one_of_version_2_when_all_gateways_know_it() {
        let old = include_bytes!("version_1/record.json");
        let mut record = GroupRecord::parse(old).unwrap();
        assert_eq!(record.text(), old, "for the others nothing changes");
        let second = |instance, knows| {
            let (client, listeners) = (format!("c{instance}"), Vec::new());
            let member = Member {
                instance,
                client,
                listeners,
                ready: true,
                leaving: false,
                condemned: false,
                knows,
            };
            GatewayRecord { slot: 1, member: Some(member) }
        };
        record.gateways.insert(GatewayName::new("b").unwrap(), second(8, FORMAT));
        record.update_format();
        assert_eq!(record.format(), 1, "the gateway that made the file knows no other");
        let text = String::from_utf8(record.text()).unwrap();
        assert_eq!(text.matches("knows").count(), 1, "{text}");
        record.member_mut(&GatewayName::new("a").unwrap()).unwrap().knows = FORMAT;
        record.update_format();
        assert_eq!(record.format(), 2);
        record.gateways.values_mut().for_each(|gateway| gateway.member = None);
        record.update_format();
        assert_eq!(
            GroupRecord::parse(&record.text()).unwrap().format(),
            2,
            "what is stored stays what it is"
        );
    }

    #[test]
    fn a_record_of_format_2_is_read_and_written_as_it_was() {
        let kept = include_bytes!("version_2/record.json");
        let record = GroupRecord::parse(kept).unwrap();
        assert_eq!(record.text(), kept);
        let member = record.member(&GatewayName::new("a").unwrap()).unwrap();
        assert_eq!((record.format(), member.instance, member.knows), (2, 7, 2));
    }

    #[test]
    fn records_that_contradict_themselves_are_refused() {
        let parse = |text: &str| GroupRecord::parse(text.as_bytes());
        assert_eq!(parse(r#"{"format":3,"later":true}"#), Err(RecordError::Format(3)));
        let of = |gateways: &str, groups: &str| {
            parse(&format!(
                r#"{{"format":1,"generation":1,"gateways":{{{gateways}}},"groups":{{{groups}}}}}"#
            ))
        };
        assert!(of("", "").is_ok());
        for (gateways, groups) in [
            (r#""a":{"slot":0,"member":null},"b":{"slot":0,"member":null}"#, ""),
            (r#""a":{"slot":64,"member":null}"#, ""),
            (r#""a b":{"slot":0,"member":null}"#, ""),
            ("", r#""1":{"owner":"nobody"}"#),
            ("", r#""0":{}"#),
            ("", r#""49":{}"#),
        ] {
            assert!(
                matches!(of(gateways, groups), Err(RecordError::Damaged(_))),
                "{gateways} {groups}"
            );
        }
        assert!(
            parse("").is_err() && parse("[]").is_err() && parse(&" ".repeat(300 << 10)).is_err()
        );
    }
}
