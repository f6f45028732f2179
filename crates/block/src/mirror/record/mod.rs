//! The record of a mirror in a leg's label and in the state file.
//!
//! It fills 512 bytes of a slot, little-endian: magic, version, CRC32C of the rest, the mirror's
//! constants (UUID, this leg's number, number of legs, minimum of legs, block size, data size), and
//! what changes: the sequence number, by which the newer of two slots is found; the generation with
//! its random tag and the tag of the generation before; which legs are in sync; for each other leg
//! the generation and tag with which it left; whether the end was clean; where the bitmaps are; who
//! has the mirror open. Since version 2 also: the run ([`super::runs`]), and with which one each
//! other leg left; how long targets may go on with what the opener has sent; the blocks that no leg
//! can be read from. These are zero in a record of version 1. Since version 3 also the length of a
//! region, which earlier versions compute from the size of the data
//! ([`super::layout::region_bytes_before_3`]). A mirror keeps its version, so that the program that
//! made it can open it again; one of version 1 becomes version 2.

use super::bitmap::checksum;
use super::layout::{
    REGION_BYTES_MIN, REGIONS_MAX, SLOTS, UNIT, region_bytes_before_3, slot_offset,
};
use super::unreadable::{UNREADABLE_BYTES, UnreadableBlocks as Blocks};
use uuid::Uuid;

/// The most legs of a mirror.
pub(crate) const LEGS_MAX: usize = 3;

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 512;

/// The number of the state file in place of a leg's.
pub(crate) const STATE: u8 = 0xff;

const MAGIC: &[u8; 8] = b"WEFTMIRR";
const VERSION: u32 = 3;
const VERSION_MIN: u32 = 1;
/// Start of the part that version 1 does not have.
const SINCE_2: usize = 256;
/// Start of the part that version 2 does not have.
const SINCE_3: usize = SINCE_2 + 6 * 8 + 4;
const CLEAN: u8 = 1;
const BITMAP_IN_STATE: u8 = 2;
const SYNCING: u8 = 4;
const HOST_BYTES_MAX: usize = 63;
/// Numbers that count up never come near this one: what names a larger one was not written by a
/// mirror.
const NUMBER_MAX: u64 = u64::MAX / 2;

/// Start of the list of blocks that no leg can be read from.
const UNREADABLE_AT: usize = RECORD_BYTES - UNREADABLE_BYTES;

const _: () = assert!(SINCE_3 + 8 <= UNREADABLE_AT);

/// A set of legs, one bit each.
pub(crate) type LegMask = u8;

/// A generation: its number, and what distinguishes it from others with this number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    pub(crate) tag: u64,
}

/// The opener of the mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Random, new at each opening.
    pub(crate) opener: Uuid,
    /// Seconds since 1970.
    pub(crate) time: u64,
    pub(crate) host: String,
}

/// The version as which a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Version 2: programs that do not know version 3 can read it.
    Two,
    /// Version 3.
    Three,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MirrorRecord {
    pub(crate) format: Format,
    pub(crate) mirror: Uuid,
    /// The leg that holds this, or [`STATE`].
    pub(crate) leg: u8,
    pub(crate) legs: u8,
    pub(crate) min_legs: u8,
    pub(crate) block_bytes: u32,
    pub(crate) data_bytes: u64,
    /// Bytes of a region; a power of two.
    pub(crate) region_bytes: u64,
    pub(crate) sequence: u64,
    pub(crate) generation: Generation,
    /// The tag of the generation before.
    pub(crate) previous_tag: u64,
    /// The legs in sync.
    pub(crate) members: LegMask,
    /// The generation with which each other leg left.
    pub(crate) left: [Generation; LEGS_MAX],
    /// Closed with all legs in sync equal.
    pub(crate) is_clean: bool,
    /// The bitmaps are in the state file, and otherwise on the legs.
    pub(crate) bitmap_in_state: bool,
    /// This leg is being made equal: it cannot be started from.
    pub(crate) is_syncing: bool,
    pub(crate) claim: Option<Claim>,
    /// The run: changed by each opening and each close.
    pub(crate) run: Generation,
    /// The tag of the last run that all legs in sync had in their labels; the run's own as soon as
    /// they have that.
    pub(crate) base: u64,
    /// The tag of the run with which each other leg left.
    pub(crate) left_runs: [u64; LEGS_MAX],
    /// Time for which targets of the legs may still execute the opener's commands, in milliseconds.
    pub(crate) bound_ms: u32,
    /// Blocks that no leg can be read from.
    pub(crate) unreadable: Blocks,
}

/// Why a slot or an area holds no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRecord {
    /// There is none.
    Nothing,
    /// It was written by a later weft.
    Version(u32),
    /// The checksum is wrong, or a field is impossible.
    Damaged,
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_at(N);
        self.0 = rest;
        head.try_into().expect("the length was given")
    }

    fn u8(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
}

impl MirrorRecord {
    /// Regions of the mirror.
    pub(crate) fn regions(&self) -> usize {
        self.data_bytes.div_ceil(self.region_bytes) as usize
    }

    /// Returns whether a label or a state file is of this mirror, by its name and by all that never
    /// changes: with other sizes its bits and blocks would be of other places.
    pub(crate) fn is_of_mirror_of(&self, other: &Self) -> bool {
        let of = |record: &Self| {
            (record.mirror, record.legs, record.block_bytes, record.data_bytes, record.region_bytes)
        };
        of(self) == of(other)
    }

    /// All legs.
    pub(crate) const fn all(&self) -> LegMask {
        (1 << self.legs) - 1
    }

    /// The record in the first bytes of a block of `block_bytes`.
    pub(crate) fn encode(&self, block_bytes: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(block_bytes as usize);
        out.extend_from_slice(MAGIC);
        let version: u32 = if self.format == Format::Two { 2 } else { VERSION };
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(self.mirror.as_bytes());
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.is_clean, CLEAN)
            | flag(self.bitmap_in_state, BITMAP_IN_STATE)
            | flag(self.is_syncing, SYNCING);
        out.extend_from_slice(&[self.leg, self.legs, self.min_legs, self.members, flags, 0, 0, 0]);
        out.extend_from_slice(&self.block_bytes.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        let numbers = [
            self.data_bytes,
            self.sequence,
            self.generation.number,
            self.generation.tag,
            self.previous_tag,
        ];
        let left = self.left.iter().flat_map(|left| [left.number, left.tag]);
        numbers
            .into_iter()
            .chain(left)
            .for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        if let Some(claim) = &self.claim {
            let mut len = claim.host.len().min(HOST_BYTES_MAX);
            while !claim.host.is_char_boundary(len) {
                len -= 1;
            }
            out.extend_from_slice(&[1, len as u8]);
            out.extend_from_slice(claim.opener.as_bytes());
            out.extend_from_slice(&claim.time.to_le_bytes());
            out.extend_from_slice(&claim.host.as_bytes()[..len]);
        }
        out.resize(SINCE_2, 0);
        let runs = [self.run.number, self.run.tag, self.base].into_iter().chain(self.left_runs);
        runs.for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out.extend_from_slice(&self.bound_ms.to_le_bytes());
        if self.format == Format::Three {
            out.extend_from_slice(&self.region_bytes.to_le_bytes());
        }
        out.resize(RECORD_BYTES, 0);
        out[UNREADABLE_AT..].copy_from_slice(&self.unreadable.encode());
        let sum = checksum(&out);
        out[12..16].copy_from_slice(&sum.to_le_bytes());
        out.resize(block_bytes as usize, 0);
        out
    }

    /// The record in a block.
    pub(crate) fn decode(block: &[u8]) -> Result<Self, NoRecord> {
        let Some(bytes) = block.get(..RECORD_BYTES).filter(|bytes| bytes.starts_with(MAGIC)) else {
            return Err(NoRecord::Nothing);
        };
        let mut unsigned = bytes.to_vec();
        unsigned[12..16].fill(0);
        let mut from = Reader(&bytes[8..]);
        let (version, sum) = (from.u32(), from.u32());
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(NoRecord::Version(version));
        }
        if sum != checksum(&unsigned) {
            return Err(NoRecord::Damaged);
        }
        let record = Self::fields(&mut from).ok_or(NoRecord::Damaged)?;
        let record = match version {
            VERSION_MIN => record,
            2 => record.with_since_2(&mut Reader(&bytes[SINCE_2..])),
            _ => record
                .with_since_2(&mut Reader(&bytes[SINCE_2..]))
                .with_since_3(&mut Reader(&bytes[SINCE_3..])),
        };
        if !record.is_possible() {
            return Err(NoRecord::Damaged);
        }
        let blocks = record.data_bytes / u64::from(record.block_bytes);
        let unreadable =
            bytes[UNREADABLE_AT..].try_into().ok().and_then(|bytes| Blocks::decode(bytes, blocks));
        Ok(Self { unreadable: unreadable.ok_or(NoRecord::Damaged)?, ..record })
    }

    fn with_since_2(self, from: &mut Reader<'_>) -> Self {
        let run = Generation { number: from.u64(), tag: from.u64() };
        let (base, left_runs) = (from.u64(), core::array::from_fn(|_| from.u64()));
        Self { run, base, left_runs, bound_ms: from.u32(), ..self }
    }

    fn with_since_3(self, from: &mut Reader<'_>) -> Self {
        Self { format: Format::Three, region_bytes: from.u64(), ..self }
    }

    fn fields(from: &mut Reader<'_>) -> Option<Self> {
        let mirror = Uuid::from_bytes(from.bytes());
        let [leg, legs, min_legs, members, flags, ..] = from.bytes::<8>();
        let block_bytes = from.u32();
        let _: [u8; 4] = from.bytes();
        let (data_bytes, sequence) = (from.u64(), from.u64());
        let generation = Generation { number: from.u64(), tag: from.u64() };
        let previous_tag = from.u64();
        let left = core::array::from_fn(|_| Generation { number: from.u64(), tag: from.u64() });
        let (is_claimed, host_len) = (from.u8(), from.u8());
        let (opener, time) = (Uuid::from_bytes(from.bytes()), from.u64());
        let host =
            from.0.get(..usize::from(host_len)).filter(|host| host.len() <= HOST_BYTES_MAX)?;
        let host = String::from_utf8_lossy(host).into_owned();
        Some(Self {
            format: Format::Two,
            mirror,
            leg,
            legs,
            min_legs,
            block_bytes,
            data_bytes,
            region_bytes: region_bytes_before_3(data_bytes),
            sequence,
            generation,
            previous_tag,
            members,
            left,
            is_clean: flags & CLEAN != 0,
            bitmap_in_state: flags & BITMAP_IN_STATE != 0,
            is_syncing: flags & SYNCING != 0,
            claim: (is_claimed != 0).then_some(Claim { opener, time, host }),
            run: Generation::default(),
            base: 0,
            left_runs: Default::default(),
            bound_ms: 0,
            unreadable: Blocks::default(),
        })
    }

    fn is_possible(&self) -> bool {
        (2..=LEGS_MAX as u8).contains(&self.legs)
            && (1..=self.legs).contains(&self.min_legs)
            && (self.leg < self.legs || self.leg == STATE)
            && self.members & !self.all() == 0
            && matches!(self.block_bytes, 512 | 4096)
            && self.data_bytes > 0
            && self.region_bytes.is_power_of_two()
            && self.region_bytes >= REGION_BYTES_MIN
            && self.data_bytes.div_ceil(self.region_bytes) <= REGIONS_MAX
            && [self.sequence, self.generation.number, self.run.number]
                .iter()
                .all(|number| *number <= NUMBER_MAX)
    }
}

/// The two slots of an area, as their blocks were read.
#[derive(Clone, Debug)]
pub(crate) struct RecordSlots {
    pub(crate) blocks: [Vec<u8>; SLOTS],
}

impl RecordSlots {
    /// The slots at the beginning of an area.
    pub(crate) fn of(area: &[u8], block_bytes: u32) -> Self {
        let block = |slot| {
            let at = slot_offset(slot) as usize;
            area[at..at + block_bytes as usize].to_vec()
        };
        Self { blocks: [block(0), block(1)] }
    }

    /// The newest record and its slot.
    pub(crate) fn newest(&self) -> Result<(usize, MirrorRecord), NoRecord> {
        let decoded =
            [MirrorRecord::decode(&self.blocks[0]), MirrorRecord::decode(&self.blocks[1])];
        if let Some(later) = decoded.iter().find(|one| matches!(one, Err(NoRecord::Version(_)))) {
            return later.clone().map(|record| (0, record));
        }
        match decoded {
            [Ok(first), Ok(second)] if first.sequence > second.sequence => Ok((0, first)),
            [_, Ok(second)] => Ok((1, second)),
            [Ok(first), _] => Ok((0, first)),
            [Err(NoRecord::Nothing), Err(NoRecord::Nothing)] => Err(NoRecord::Nothing),
            _ => Err(NoRecord::Damaged),
        }
    }

    /// Puts a record into the slot that is written next, with the next sequence number. Returns the
    /// slot, what it held and what it holds.
    pub(crate) fn put(
        &mut self,
        record: &MirrorRecord,
        block_bytes: u32,
    ) -> (usize, Vec<u8>, Vec<u8>) {
        let (slot, sequence) = match self.newest() {
            Ok((slot, newest)) => (1 - slot, newest.sequence + 1),
            Err(_) => (0, 1),
        };
        let new = MirrorRecord { sequence, ..record.clone() }.encode(block_bytes);
        let old = core::mem::replace(&mut self.blocks[slot], new.clone());
        (slot, old, new)
    }
}

const _: () = assert!(RECORD_BYTES <= UNIT);

#[cfg(test)]
pub(super) mod tests;
