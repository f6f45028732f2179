//! The labels of the legs of one mirror, as they were read, and which of them hold what was
//! acknowledged.

use super::record::{Generation, LEGS_MAX, LegMask, MirrorRecord, NoRecord, RecordSlots};
use uuid::Uuid;

/// A leg that was opened, or the state file.
#[derive(Clone, Debug)]
pub(crate) struct FoundLeg {
    /// Its URL, for messages.
    pub(crate) url: String,
    /// Its area.
    pub(crate) area: Vec<u8>,
    /// Bytes of the blocks of its device.
    pub(crate) block_bytes: u32,
}

/// The labels of one mirror, by leg.
pub(super) struct Labels<'a> {
    pub(super) found: &'a [Option<FoundLeg>],
    pub(super) places: [Option<usize>; LEGS_MAX],
    pub(super) records: [Option<MirrorRecord>; LEGS_MAX],
    pub(super) slots: [Option<RecordSlots>; LEGS_MAX],
}

/// The record of an area.
pub(crate) fn read(found: &FoundLeg) -> Result<(RecordSlots, MirrorRecord), String> {
    let slots = RecordSlots::of(&found.area, found.block_bytes);
    match slots.newest() {
        Ok((_, record)) => Ok((slots, record)),
        Err(why) => Err(explain(&found.url, why)),
    }
}

fn explain(url: &str, why: NoRecord) -> String {
    match why {
        NoRecord::Nothing => format!(
            "{url} has no label of a mirror in its last MiB; if it was made larger or smaller, give it its old size again, or label it again with \
             \"weft mirror replace\"; otherwise make a mirror with \"weft mirror create\", or put this leg in the place of a lost one with \
             \"weft mirror replace\""
        ),
        NoRecord::Version(version) => {
            format!(
                "the label of {url} has version {version}, which this weft does not know; use the weft that wrote it, or a later one"
            )
        }
        NoRecord::Damaged => {
            format!(
                "the label of {url} is damaged; if the other legs are good, label this one again with \"weft mirror replace\""
            )
        }
    }
}

/// Why two records of one mirror do not go together.
fn other_sizes(url: &str, other: &str) -> String {
    format!(
        "{url} states another size, block size, region length or number of legs than {other}, though both name the same mirror; one of them is damaged \
         or was changed: label that leg again with \"weft mirror replace\", or leave out the state file with mirror:force=on"
    )
}

impl<'a> Labels<'a> {
    pub(super) fn of(found: &'a [Option<FoundLeg>]) -> Result<Self, String> {
        let mut labels = Self {
            found,
            places: [None; LEGS_MAX],
            records: Default::default(),
            slots: Default::default(),
        };
        let mut mirror: Option<(Uuid, usize)> = None;
        for (place, leg) in found.iter().enumerate() {
            let Some(leg) = leg else { continue };
            let (slots, record) = read(leg)?;
            let (uuid, first) = *mirror.get_or_insert((record.mirror, place));
            let other = labels.url(first);
            if uuid != record.mirror {
                return Err(format!(
                    "{} belongs to mirror {}, and {other} to mirror {uuid}; name the legs of one mirror",
                    leg.url, record.mirror
                ));
            }
            let number = usize::from(record.leg);
            if usize::from(record.legs) != found.len() || number >= found.len() {
                return Err(format!(
                    "mirror {uuid} has {} legs, and {} were named; name all of them",
                    record.legs,
                    found.len()
                ));
            }
            if let Some((_, known)) = labels.present().next()
                && !record.is_of_mirror_of(known)
            {
                return Err(other_sizes(&leg.url, other));
            }
            if let Some(other) = labels.places[number] {
                let other = labels.url(other);
                return Err(format!(
                    "{} and {other} are both leg {number} of mirror {uuid}; leave out the copy",
                    leg.url
                ));
            }
            (labels.places[number], labels.slots[number], labels.records[number]) =
                (Some(place), Some(slots), Some(record));
        }
        Ok(labels)
    }

    pub(super) fn url(&self, place: usize) -> &str {
        self.found[place].as_ref().map_or("", |leg| &leg.url)
    }

    pub(super) fn present(&self) -> impl Iterator<Item = (usize, &MirrorRecord)> {
        self.records.iter().enumerate().filter_map(|(leg, record)| Some((leg, record.as_ref()?)))
    }

    /// Legs from which a start is possible: they were in sync at some time.
    pub(super) fn candidates(&self) -> impl Iterator<Item = &MirrorRecord> {
        self.present()
            .map(|(_, label)| label)
            .filter(|label| !label.is_syncing && label.generation.number > 0)
    }

    /// The highest generation.
    pub(super) fn newest(&self) -> u64 {
        self.candidates().map(|label| label.generation.number).max().unwrap_or(0)
    }

    /// Returns whether somebody has claimed a leg of the highest generation.
    pub(super) fn are_claimed(&self) -> bool {
        let newest = self.newest();
        self.present().any(|(_, label)| label.generation.number == newest && label.claim.is_some())
    }

    /// Returns whether any leg that holds what a record speaks of was last open with a state file.
    pub(super) fn is_any_in_state(&self, record: &MirrorRecord) -> bool {
        let holders = self.holders(record);
        self.present().any(|(leg, label)| holders >> leg & 1 != 0 && label.bitmap_in_state)
    }

    /// Returns whether as many legs as the mirror needs hold what the state file speaks of, and say
    /// that there is one: since then nobody has started without it.
    pub(super) fn follow_state(&self, said: &MirrorRecord) -> bool {
        let holders = self.holders(said);
        let following =
            self.present().filter(|(leg, label)| holders >> leg & 1 != 0 && label.bitmap_in_state);
        following.count() >= usize::from(said.min_legs)
    }

    /// Returns whether no leg was in sync later than the state file says, or at the same time apart
    /// from it.
    pub(super) fn is_newest(&self, said: &MirrorRecord) -> bool {
        let is_not_later =
            |label: &MirrorRecord| label.run.number < said.run.number || said.is_same_run(label);
        let generation = said.generation;
        self.candidates().all(|label| {
            label.generation.number < generation.number
                || label.generation == generation && is_not_later(label)
        })
    }

    /// The newest label comes last in this order.
    pub(super) fn rank(&self, label: &MirrorRecord) -> (u64, u64, bool, u32, u64) {
        let holders = self.holders(label).count_ones();
        (label.generation.number, label.run.number, label.is_run_settled(), holders, label.sequence)
    }

    /// Refuses legs that have data which the newest record knows nothing of.
    pub(super) fn refuse_diverged(&self, said: Option<&MirrorRecord>) -> Result<(), String> {
        let newest = self.candidates().max_by_key(|label| self.rank(label)).into_iter().chain(said);
        let Some(newest) =
            newest.max_by_key(|record| (record.generation.number, record.run.number))
        else {
            return Ok(());
        };
        let Some((leg, label)) = self.present().find(|(_, label)| newest.is_diverged(label)) else {
            return Ok(());
        };
        let url = |leg: usize| self.places.get(leg).copied().flatten().map(|place| self.url(place));
        let other = match url(usize::from(newest.leg)) {
            Some(url) => format!("leg {} ({url})", newest.leg),
            None => "the state file".to_owned(),
        };
        Err(format!(
            "legs were used apart from each other: leg {leg} ({}) has generation {}, and {other} has generation {}, which knows it only up to \
             generation {}, so each has data that the other one lacks; keep one of the two: start from it alone with mirror:force=on, or give the \
             other one up with \"weft mirror replace\", which labels it again, so that it is copied over",
            url(leg).unwrap_or_default(),
            label.generation.number,
            newest.generation.number,
            newest.left[leg].number
        ))
    }

    /// Returns whether as many legs as the mirror needs hold what a record speaks of.
    pub(super) fn are_enough(&self, record: &MirrorRecord) -> bool {
        self.holders(record).count_ones() >= u32::from(record.min_legs)
    }

    /// Returns the record of the highest generation, if enough legs are here that it must be the
    /// last one.
    pub(super) fn by_quorum(&self) -> Option<&MirrorRecord> {
        let top = || self.candidates().filter(|label| label.generation.number == self.newest());
        let most = top().max_by_key(|label| self.rank(label))?;
        let needed = usize::from(most.legs - most.min_legs) + 1;
        // A leg that was never in sync says nothing of earlier runs.
        let witnesses = self.present().filter(|(_, label)| label.generation.number > 0).count();
        let is_split = top().any(|label| is_apart(label, most))
            && (self.holders(most).count_ones() as usize) < needed;
        (witnesses >= needed && !is_split && self.are_enough(most)).then_some(most)
    }

    pub(super) fn are_clean(&self, members: LegMask) -> bool {
        self.present().filter(|(leg, _)| members >> leg & 1 != 0).all(|(_, label)| label.is_clean)
    }

    /// The legs that hold everything that was acknowledged up to the generation of `record`.
    pub(super) fn holders(&self, record: &MirrorRecord) -> LegMask {
        let before = Generation {
            number: record.generation.number.wrapping_sub(1),
            tag: record.previous_tag,
        };
        let holds = |leg: usize, label: &MirrorRecord| {
            let is_member = record.members >> leg & 1 != 0 && !label.is_syncing;
            is_member
                && (label.generation == record.generation || label.generation == before)
                && record.is_same_run(label)
        };
        self.present()
            .filter(|(leg, label)| holds(*leg, label))
            .fold(0, |mask, (leg, _)| mask | 1 << leg)
    }
}

/// Returns the record of the state file, if it can be read and belongs to the mirror of this label.
pub(super) fn state_record(
    state: Option<&FoundLeg>,
    label: &MirrorRecord,
) -> Result<Option<MirrorRecord>, String> {
    let Some(state) = state else { return Ok(None) };
    match RecordSlots::of(&state.area, state.block_bytes).newest() {
        Ok((_, record)) if record.is_of_mirror_of(label) => Ok(Some(record)),
        Ok((_, record)) if record.mirror == label.mirror => {
            Err(other_sizes(&format!("the state file {}", state.url), "the labels of the legs"))
        }
        Ok((_, record)) => Err(format!(
            "the state file {} belongs to mirror {}, not to mirror {}",
            state.url, record.mirror, label.mirror
        )),
        Err(NoRecord::Nothing) => Ok(None),
        Err(NoRecord::Version(version)) => Err(explain(&state.url, NoRecord::Version(version))),
        Err(NoRecord::Damaged) => Ok(None),
    }
}

/// Returns whether two labels of the same age do not come from one history.
pub(super) fn is_apart(one: &MirrorRecord, other: &MirrorRecord) -> bool {
    let are_as_old = one.generation.number == other.generation.number;
    are_as_old && one.generation.tag != other.generation.tag
        || are_as_old && one.run.number == other.run.number && !one.is_same_run(other)
}
