//! Decoding of the answers of Windows. They are structures of its headers, little-endian; an answer
//! that is too short for a field gives `None`.

use super::super::facts::{DiskName, Facts};

/// A part of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) drive: u32,
    pub(super) start: u64,
    /// The first byte behind it.
    pub(super) end: u64,
}

impl Extent {
    /// All of a drive.
    pub(super) fn whole(drive: u32) -> Self {
        Self { drive, start: 0, end: u64::MAX }
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.drive == other.drive && self.start < other.end && other.start < self.end
    }
}

fn number(answer: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*answer.get(at..)?.first_chunk()?))
}

/// A number that is not negative.
fn long(answer: &[u8], at: usize) -> Option<u64> {
    u64::try_from(i64::from_le_bytes(*answer.get(at..)?.first_chunk()?)).ok()
}

/// `GET_LENGTH_INFORMATION`: bytes.
pub(super) fn length(answer: &[u8]) -> Option<u64> {
    long(answer, 0)
}

/// `STORAGE_ACCESS_ALIGNMENT_DESCRIPTOR`: bytes of a logical and of a physical block.
pub(super) fn alignment(answer: &[u8]) -> Option<(u32, u32)> {
    let logical = block(number(answer, 16)?)?;
    // A disk that does not tell has physical blocks of 0 bytes.
    Some((logical, number(answer, 20).and_then(block).unwrap_or(logical).max(logical)))
}

/// `DISK_GEOMETRY_EX`: bytes of a logical block.
pub(super) fn geometry(answer: &[u8]) -> Option<u32> {
    block(number(answer, 20)?)
}

fn block(bytes: u32) -> Option<u32> {
    (bytes >= 512 && bytes.is_power_of_two()).then_some(bytes)
}

/// `STORAGE_DEVICE_NUMBER`: the number of a drive, if it is one and not a partition.
pub(super) fn drive_number(answer: &[u8]) -> Option<u32> {
    const FILE_DEVICE_DISK: u32 = 7;
    (number(answer, 0)? == FILE_DEVICE_DISK).then(|| number(answer, 4)).flatten()
}

/// `VOLUME_DISK_EXTENTS`.
pub(super) fn extents(answer: &[u8]) -> Option<Vec<Extent>> {
    let count = number(answer, 0)? as usize;
    let extent = |n: usize| {
        let at = 8 + n.checked_mul(24)?;
        let (start, bytes) = (long(answer, at + 8)?, long(answer, at + 16)?);
        Some(Extent { drive: number(answer, at)?, start, end: start + bytes })
    };
    // None at the first that is not there, however many are announced.
    (0..count).map(extent).collect()
}

/// `STORAGE_DEVICE_DESCRIPTOR`: puts the model and serial number into the facts, and the name that
/// follows from them: a drive without a serial number has none.
pub(super) fn describe(answer: &[u8], facts: &mut Facts) {
    let text = |at| {
        let offset = number(answer, at).filter(|offset| *offset > 0)? as usize;
        let bytes = answer.get(offset..)?.split(|byte| *byte == 0).next()?;
        let text: String = bytes.iter().copied().filter(u8::is_ascii).map(char::from).collect();
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let (vendor, product) = (text(12), text(16));
    facts.serial = text(24);
    let parts: Vec<_> = [vendor, product].into_iter().flatten().collect();
    facts.model = Some(parts.join(" ")).filter(|model| !model.is_empty());
    facts.name = facts.serial.as_ref().map(|serial| {
        let name = format!("{}\0{serial}", facts.model.as_deref().unwrap_or_default());
        DiskName::given(&name, None)
    });
}
