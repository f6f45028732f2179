//! Configuration of a logical unit: size, features and names.

/// Size and limits. All but `blocks` stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitGeometry {
    /// Bytes of a block: a power of two from 512 on.
    pub block_bytes: u32,
    /// Blocks.
    pub blocks: u64,
    /// Preferred size and alignment of writes, in blocks: a power of two.
    pub optimal_blocks: u32,
    /// Longest READ or WRITE, in bytes; a multiple of the block size. Longer ones are refused.
    pub max_transfer_bytes: u32,
    /// Most that the device does at once, in bytes; a multiple of the block size. What has to be
    /// done at once is no longer than that; the owner cuts [`super::UnitRequest`]s that read, write
    /// or compare more.
    pub max_operation_bytes: u32,
    /// Most blocks that the device compares and writes as one, if it does so at all; longer COMPARE
    /// AND WRITEs are refused.
    pub compare_and_write_blocks: u32,
}

/// Features of a logical unit beyond reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitFeatures {
    /// Writes; without it all that would write is refused with WRITE PROTECTED.
    pub write: bool,
    /// A write that was done may be lost with the power until a flush is done.
    pub volatile_cache: bool,
    /// Discard gives space back: UNMAP, and UNMAP of WRITE SAME.
    pub discard: bool,
    /// Discarded blocks read as zeroes (LBPRZ).
    pub discard_zeroes: bool,
    /// [`super::UnitRequestKind::WriteZeroes`] works; otherwise zeroes are written as data.
    pub write_zeroes: bool,
    /// [`super::UnitRequestKind::Compare`] and [`super::UnitRequestKind::CompareAndWrite`] work.
    pub compare: bool,
}

/// Names of a logical unit. Texts are cut off to their fields; what is not printable ASCII becomes
/// a question mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitIdentity {
    /// T10 vendor identification, 8 characters.
    pub vendor: String,
    /// Product identification, 16 characters.
    pub product: String,
    /// Product revision level, 4 characters.
    pub revision: String,
    /// Serial number, at most 36 characters.
    pub serial: String,
    /// UUID, which stays with the data: initiators know the disk again by it.
    pub uuid: [u8; 16],
    /// NGUID, where the data has one: told as the EUI-64 based designator of 16 bytes.
    pub nguid: Option<[u8; 16]>,
    /// NAA identifier, 8 or 16 bytes; empty: one that is made of the UUID.
    pub naa: Vec<u8>,
    /// T10 vendor ID based designator, up to 64 characters; `None`: made of vendor, product and
    /// serial number.
    pub t10: Option<String>,
}

/// A logical unit as it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitConfig {
    /// Size and limits.
    pub geometry: UnitGeometry,
    /// Its features.
    pub features: UnitFeatures,
    /// Its names.
    pub identity: UnitIdentity,
}
