//! Makes labels, and says what they say: for the commands that look after mirrors.

use super::labels::{FoundLeg, read};
use super::layout::{AREA_BYTES, area_of_leg, data_bytes};
use super::record::{LEGS_MAX, MirrorRecord, NoRecord, RecordSlots};
use super::start::{first_area, first_record};
use crate::outcome::error::{Error, ErrorKind};
use uuid::Uuid;

/// Where the label of a leg is, and how long it and the bitmaps are, in bytes; `None` if the leg is
/// too small.
pub fn area(leg_bytes: u64) -> Option<(u64, usize)> {
    data_bytes(leg_bytes)?;
    Some((area_of_leg(leg_bytes)?, AREA_BYTES))
}

/// A label, for people and programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The mirror.
    pub mirror: Uuid,
    /// Number of this leg.
    pub leg: usize,
    /// Number of legs.
    pub legs: usize,
    /// Number of legs that must be in sync.
    pub min_legs: usize,
    /// Size of the data.
    pub data_bytes: u64,
    /// Generation.
    pub generation: u64,
    /// Legs in sync in this generation.
    pub in_sync: Vec<usize>,
    /// True if it was closed in order.
    pub is_clean: bool,
    /// True if this leg was being copied to.
    pub is_syncing: bool,
    /// True if a state file has the bitmaps.
    pub has_state: bool,
    /// Host and time (seconds since 1970) of who has it open, or did not close it.
    pub claim: Option<(String, u64)>,
    /// Blocks that no leg can be read from until they are written: the first one of each range, and
    /// how many.
    pub unreadable: Vec<(u64, u64)>,
}

/// Returns the label in the area of a leg; `None` if it has none.
///
/// # Errors
/// A label that is damaged or of a later version.
pub fn label(url: &str, area: &[u8], block_bytes: u32) -> Result<Option<Label>, Error> {
    if matches!(RecordSlots::of(area, block_bytes).newest(), Err(NoRecord::Nothing)) {
        return Ok(None);
    }
    let found = FoundLeg { url: url.to_owned(), area: area.to_vec(), block_bytes };
    let (_, record) = read(&found).map_err(|why| Error::new(ErrorKind::Refused, why))?;
    Ok(Some(Label {
        mirror: record.mirror,
        leg: usize::from(record.leg),
        legs: usize::from(record.legs),
        min_legs: usize::from(record.min_legs),
        data_bytes: record.data_bytes,
        generation: record.generation.number,
        in_sync: (0..LEGS_MAX).filter(|leg| record.members >> leg & 1 != 0).collect(),
        is_clean: record.is_clean,
        is_syncing: record.is_syncing,
        has_state: record.bitmap_in_state,
        claim: record.claim.map(|claim| (claim.host, claim.time)),
        unreadable: record.unreadable.ranges().collect(),
    }))
}

/// Contents of the legs of a new mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// Anything: the others are made equal to the first leg, whose data is kept, except for its
    /// last MiB.
    Anything,
    /// The same, as new devices do that are all zeroes: nothing is copied.
    TheSame,
}

/// The areas of the legs of a new mirror. `legs` are the sizes in bytes, `min_legs` the number of
/// legs that have to be in sync.
///
/// # Errors
/// Sizes or numbers that are not possible.
pub fn create(
    mirror: Uuid,
    legs: &[u64],
    min_legs: Option<usize>,
    block_bytes: u32,
    tag: u64,
    holding: Holding,
) -> Result<Vec<Vec<u8>>, Error> {
    let wrong = |text: String| Error::new(ErrorKind::Usage, text);
    let count = legs.len();
    if !(2..=LEGS_MAX).contains(&count) {
        return Err(wrong(format!("a mirror has two or three legs, not {count}")));
    }
    let min_legs = min_legs.unwrap_or(count - 1);
    if !(1..=count).contains(&min_legs) {
        return Err(wrong(format!(
            "{min_legs} legs cannot be in sync at least: there are {count}; use 1 to {count}"
        )));
    }
    let bytes = legs.iter().map(|bytes| data_bytes(*bytes)).min().flatten();
    let Some(bytes) = bytes else {
        return Err(wrong(
            "a leg is too small: a mirror keeps the last MiB of each leg, and needs 64 KiB at least for data".into(),
        ));
    };
    let record = first_record(mirror, count as u8, min_legs as u8, block_bytes, bytes, tag | 1);
    let is_clean = holding == Holding::TheSame;
    Ok((0..count)
        .map(|leg| first_area(&MirrorRecord { leg: leg as u8, is_clean, ..record.clone() }))
        .collect())
}

/// The area of a leg that takes the place of the lost leg `leg`, by the area of a leg of the same
/// mirror. It is copied to when the mirror is open.
///
/// # Errors
/// A leg that does not exist, or is too small.
pub fn replace(
    url: &str,
    area: &[u8],
    block_bytes: u32,
    leg: usize,
    leg_bytes: u64,
) -> Result<Vec<u8>, Error> {
    let found = FoundLeg { url: url.to_owned(), area: area.to_vec(), block_bytes };
    let (_, record) = read(&found).map_err(|why| Error::new(ErrorKind::Refused, why))?;
    let wrong = |text: String| Err(Error::new(ErrorKind::Usage, text));
    if leg >= usize::from(record.legs) || leg == usize::from(record.leg) {
        return wrong(format!(
            "leg {leg} cannot be replaced: the mirror has {} legs, and {url} is leg {}",
            record.legs, record.leg
        ));
    }
    if area_of_leg(leg_bytes).unwrap_or(0) < record.data_bytes {
        return wrong(format!(
            "the new leg is too small: it needs {} bytes and one MiB",
            record.data_bytes
        ));
    }
    let fresh = MirrorRecord {
        leg: leg as u8,
        sequence: 1,
        generation: Default::default(),
        previous_tag: 0,
        is_clean: false,
        is_syncing: true,
        claim: None,
        unreadable: Default::default(),
        ..record
    };
    Ok(first_area(&fresh))
}
