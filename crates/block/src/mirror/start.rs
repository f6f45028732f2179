//! Decides how a mirror may start, from its labels and the state file alone.
//!
//! A run acknowledges a write only when the labels of all its legs, `min_legs` at least, name the
//! generation that excludes the legs which missed it. So whoever sees more than `legs - min_legs`
//! labels sees one of the last run, and the highest generation among them is the last one. Or the
//! state file, which is written before any label, names the generation. A leg whose label is one
//! generation behind counts if the newer record names the tag of that generation and this leg as in
//! sync: the crash came between two labels, and nothing was acknowledged in between.

use super::bitmap::Bitmap;
use super::labels::{FoundLeg, Labels, is_apart, state_record};
use super::layout::{BitmapKind, PAGES, UNIT, page_offset, region_bytes};
use super::record::{Claim, Format, Generation, LEGS_MAX, LegMask, MirrorRecord, RecordSlots};
use core::time::Duration;
use std::fmt::Write as _;
use uuid::Uuid;

/// Parameters of a start.
#[derive(Debug)]
pub(crate) struct MirrorStart {
    /// The newest record of the run before.
    pub(crate) record: MirrorRecord,
    /// The legs to start with.
    pub(crate) members: LegMask,
    /// For each leg that was found, its place in what was found.
    pub(crate) places: [Option<usize>; LEGS_MAX],
    pub(crate) slots: [Option<RecordSlots>; LEGS_MAX],
    pub(crate) state: Option<RecordSlots>,
    /// Regions in which the members may differ.
    pub(crate) suspect: Bitmap,
    /// Regions that absent legs may have missed.
    pub(crate) missed: Bitmap,
    /// A new generation is due at once, so that neither a leg that is not here nor a state file
    /// that is not used is taken for current.
    pub(crate) is_new: bool,
    /// The name under which the mirror was opened by a process that has ended: it is kept, so that
    /// whoever is stopped half-way leaves nothing that looks foreign.
    pub(crate) opener: Option<Uuid>,
    /// Somebody has opened it and not closed it: what that process sent to the legs may still be
    /// executed.
    pub(crate) was_open: bool,
    /// Time for which targets may go on with that, from labels and state file.
    pub(crate) bound: Duration,
    /// Warning for the user.
    pub(crate) warning: Option<String>,
}

/// Decides how to start from what was found: the legs in any order, `None` for one that cannot be
/// reached. `own` is the name under which this process had the mirror open before, if it had.
///
/// # Errors
/// Why not, and what to do.
pub(crate) fn decide(
    found: &[Option<FoundLeg>],
    state: Option<&FoundLeg>,
    own: Option<Uuid>,
    force: bool,
) -> Result<MirrorStart, String> {
    let labels = Labels::of(found)?;
    let Some((_, first)) = labels.present().next() else {
        return Err("no leg can be reached; connect at least one".into());
    };
    let mirror = first.mirror;
    let said = state_record(state, first)?;
    if !force {
        labels.refuse_diverged(said.as_ref())?;
    }
    let by_state = said.as_ref().filter(|said| labels.follow_state(said) && labels.is_newest(said));
    let (record, is_forced) = match by_state.or_else(|| labels.by_quorum()) {
        Some(record) => (record, false),
        None if force => {
            let forced = labels.candidates().max_by_key(|label| labels.rank(label));
            (
                forced.ok_or(
                    "every leg that can be reached was being copied to, and holds no complete data; connect another leg",
                )?,
                true,
            )
        }
        None => return Err(refusal(&labels, said.as_ref())),
    };
    if !force {
        refuse_older(record, state, said.as_ref())?;
    }
    let is_spoken_of = said.as_ref().is_some_and(|said| speaks_of(said, record));
    if !is_spoken_of && labels.is_any_in_state(record) && !force {
        return Err(format!(
            "mirror {mirror} was last open with a state file, and the one that speaks of its generation {} is not here; name it with state=PATH, or, \
             if it is lost, start with mirror:force=on: all legs are made equal then",
            record.generation.number
        ));
    }
    let is_untouched = record.sequence == 1 && !record.is_clean;
    if is_untouched && labels.records[0].is_none() && !force {
        return Err("the mirror is new, and its legs are not equal yet: leg 0 holds the data that the others get; connect it, or start from what is \
                    here with mirror:force=on"
            .into());
    }
    let members = labels.holders(record);
    if members == 0 {
        return Err("no leg that can be reached holds complete data by what its own label says; connect another leg".into());
    }
    check_claims(&labels, members, said.as_ref(), own, force)?;
    let is_clean =
        record.is_clean && !is_forced && (by_state.is_some() || labels.are_clean(members));
    let record = MirrorRecord { is_clean, ..record.clone() };
    Ok(begin(labels, record, members, is_forced, state, said.as_ref()))
}

/// Returns whether a state file knows which regions were being written when this record was the
/// newest one.
fn speaks_of(said: &MirrorRecord, record: &MirrorRecord) -> bool {
    said.bitmap_in_state && said.generation == record.generation && record.is_same_run(said)
}

/// Refuses legs or a state file that were put back from an older copy.
fn refuse_older(
    record: &MirrorRecord,
    state: Option<&FoundLeg>,
    said: Option<&MirrorRecord>,
) -> Result<(), String> {
    let (Some(said), Some(state)) = (said, state) else { return Ok(()) };
    if record.is_same_run(said) || !record.bitmap_in_state && record.run.number > said.run.number {
        return Ok(());
    }
    let (older, newer) = if said.run.number < record.run.number {
        (format!("the state file {} is", state.url), "legs")
    } else {
        ("the legs that can be reached are".to_owned(), "state file")
    };
    Err(format!(
        "{older} an older copy: the state file is of run {}, and the legs are of run {}; put the newer one back in place of the copy, connect legs that \
         go with the {newer}, or start from what is here with mirror:force=on, which loses what was written since",
        said.run.number, record.run.number
    ))
}

/// Why no start is possible: which leg is old, or how many are missing.
fn refusal(labels: &Labels<'_>, said: Option<&MirrorRecord>) -> String {
    let newest = labels
        .present()
        .map(|(_, record)| record)
        .chain(said)
        .max_by_key(|record| (record.generation.number, record.run.number));
    let mut text = String::new();
    for (leg, record) in labels.present() {
        let url = labels.url(labels.places[leg].unwrap_or_default());
        let newest = newest.unwrap_or(record);
        let is_member = newest.members >> leg & 1 != 0;
        if record.generation.number < newest.generation.number || !is_member {
            // The newest label says that it was in sync, so somebody has put it back.
            let is_copy = is_member
                && !(record.generation.tag == newest.previous_tag && newest.is_same_run(record));
            let what = if is_copy { "an older copy" } else { "old" };
            let _ = write!(
                text,
                "leg {leg} ({url}) is {what}: it has generation {}, and the mirror was last at {}; ",
                record.generation.number, newest.generation.number
            );
        } else if !newest.is_same_run(record) {
            let _ = write!(
                text,
                "leg {leg} ({url}) is an older copy: it is of run {}, and the mirror was last in run {}; ",
                record.run.number, newest.run.number
            );
        }
    }
    let (legs, min_legs) = newest.map_or((0, 0), |record| (record.legs, record.min_legs));
    let missing: Vec<String> = (0..usize::from(legs))
        .filter(|leg| labels.records[*leg].is_none())
        .map(|leg| format!("leg {leg}"))
        .collect();
    let is_split =
        labels.candidates().any(|one| labels.candidates().any(|other| is_apart(one, other)));
    if is_split {
        text.push_str(
            "legs were used apart from each other, and each has data that the other one lacks; ",
        );
    }
    let _ = write!(
        text,
        "a start needs {} of {legs} legs, {min_legs} of them with the newest data, or the state file (state=PATH) that names those; connect {}, or \
         start from what is here with mirror:force=on, which loses what was written since",
        legs - min_legs + 1,
        if missing.is_empty() { "a newer leg".to_owned() } else { missing.join(" and ") }
    );
    text
}

/// Refuses a mirror that somebody else has open.
fn check_claims(
    labels: &Labels<'_>,
    members: LegMask,
    said: Option<&MirrorRecord>,
    own: Option<Uuid>,
    force: bool,
) -> Result<(), String> {
    let by_state = said.and_then(|said| said.claim.as_ref()).map(|claim| claim.opener);
    let foreign = |claim: &&Claim| Some(claim.opener) != by_state && Some(claim.opener) != own;
    let of_members = labels.present().filter(|(leg, _)| members >> leg & 1 != 0);
    let Some(claim) = of_members.filter_map(|(_, record)| record.claim.as_ref()).find(foreign)
    else {
        return Ok(());
    };
    if force {
        return Ok(());
    }
    Err(format!(
        "the mirror is open at {} since {} (seconds since 1970), or was not closed there; a mirror has one opener at a time: close it there, or, \
         if that process has ended, take it over with mirror:force=on or with its state file",
        claim.host, claim.time
    ))
}

fn begin(
    labels: Labels<'_>,
    record: MirrorRecord,
    members: LegMask,
    is_forced: bool,
    state: Option<&FoundLeg>,
    said: Option<&MirrorRecord>,
) -> MirrorStart {
    let regions = record.regions();
    // The state file knows the regions if it was in use until the end.
    let is_state_current = said.is_some_and(|said| speaks_of(said, &record));
    let areas: Option<Vec<&[u8]>> = if record.bitmap_in_state {
        is_state_current.then(|| state.map(|state| state.area.as_slice()).into_iter().collect())
    } else {
        let of_leg = |leg: usize| {
            labels.places[leg]
                .and_then(|place| labels.found[place].as_ref())
                .map(|found| found.area.as_slice())
        };
        Some((0..LEGS_MAX).filter(|leg| members >> leg & 1 != 0).filter_map(of_leg).collect())
    };
    let map = |map: BitmapKind| match &areas {
        Some(areas) => stored(areas, map, regions),
        None => Bitmap::full(regions),
    };
    let suspect = if record.is_clean { Bitmap::new(regions) } else { map(BitmapKind::Written) };
    let mut missed =
        if members == record.all() { Bitmap::new(regions) } else { map(BitmapKind::Missed) };
    if members != record.all() {
        missed.add(&suspect);
    }
    let lost = record.members & !members;
    let record_in_lost_state = record.bitmap_in_state && !is_state_current;
    let bounds = labels.present().map(|(_, label)| label).chain(said).map(|record| record.bound_ms);
    let bound = Duration::from_millis(bounds.max().unwrap_or(0).into());
    let was_open = said.is_some_and(|said| said.claim.is_some()) || labels.are_claimed();
    let warning = is_forced.then(|| {
        format!(
            "started by force from generation {}: what was written since by legs that are not here ({}) is lost",
            record.generation.number,
            names(lost | record.all() & !members)
        )
    });
    MirrorStart {
        record,
        members,
        places: labels.places,
        slots: labels.slots,
        state: state.map(|state| RecordSlots::of(&state.area, state.block_bytes)),
        suspect,
        missed,
        opener: said.and_then(|said| said.claim.as_ref()).map(|claim| claim.opener),
        was_open,
        bound,
        is_new: is_forced || record_in_lost_state,
        warning,
    }
}

/// The numbers of legs, for messages.
pub(crate) fn names(mask: LegMask) -> String {
    let legs: Vec<String> =
        (0..LEGS_MAX).filter(|leg| mask >> leg & 1 != 0).map(|leg| format!("leg {leg}")).collect();
    if legs.is_empty() { "none".into() } else { legs.join(", ") }
}

/// Returns the union of a bitmap in these areas.
fn stored(areas: &[&[u8]], map: BitmapKind, regions: usize) -> Bitmap {
    let mut all = Bitmap::new(regions);
    for area in areas {
        for page in 0..PAGES {
            let at = page_offset(map, page) as usize;
            all.add_page(page, &area[at..at + UNIT]);
        }
    }
    all
}

/// The record of a new mirror: all legs are in sync once they are made equal.
pub(crate) fn first_record(
    mirror: Uuid,
    legs: u8,
    min_legs: u8,
    block_bytes: u32,
    data_bytes: u64,
    tag: u64,
) -> MirrorRecord {
    MirrorRecord {
        format: Format::Three,
        mirror,
        leg: 0,
        legs,
        min_legs,
        block_bytes,
        data_bytes,
        region_bytes: region_bytes(data_bytes),
        sequence: 1,
        generation: Generation { number: 1, tag },
        previous_tag: 0,
        members: (1 << legs) - 1,
        left: Default::default(),
        is_clean: false,
        bitmap_in_state: false,
        is_syncing: false,
        claim: None,
        run: Generation::default(),
        base: 0,
        left_runs: Default::default(),
        bound_ms: 0,
        unreadable: Default::default(),
    }
}

/// The area of a leg with this record, in which no region counts as equal, unless the record says
/// that the mirror is clean.
pub(crate) fn first_area(record: &MirrorRecord) -> Vec<u8> {
    let regions = record.regions();
    let all = if record.is_clean { Bitmap::new(regions) } else { Bitmap::full(regions) };
    let mut area = vec![0; super::layout::AREA_BYTES];
    for map in [BitmapKind::Written, BitmapKind::Missed] {
        for page in 0..PAGES {
            let at = page_offset(map, page) as usize;
            area[at..at + UNIT].copy_from_slice(&all.page(page));
        }
    }
    let block = record.encode(record.block_bytes);
    area[..block.len()].copy_from_slice(&block);
    area
}
