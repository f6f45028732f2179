//! The Copy command (NVM 1.1 §3.2.2): its dwords, its source ranges, and the feature Host Behavior
//! Support by which a host enables descriptor formats (Base 2.1 §5.2.26.1.18).

use super::opcode::NvmOpcode;
use super::sqe::Sqe;
use super::types::{Lba, Nsid};
use super::wire::codes;

codes! {
    /// Descriptor format of a Copy command: dword 12 bits 11:8.
    pub struct CopyFormat(u8) {
        0 SAME_NAMESPACE "Source Range Entries Copy Descriptor Format 0h";
        1 SAME_NAMESPACE_LONG_TAGS "Source Range Entries Copy Descriptor Format 1h";
        2 ACROSS_NAMESPACES "Source Range Entries Copy Descriptor Format 2h";
        3 ACROSS_NAMESPACES_LONG_TAGS "Source Range Entries Copy Descriptor Format 3h";
    }
}

impl CopyFormat {
    /// Its bit in CDFS of Identify Controller and in CDFE of Host Behavior Support.
    pub const fn bit(self) -> u16 {
        1 << (self.0 & 0xf)
    }
}

/// Dword 12: Force Unit Access.
const FORCE_UNIT_ACCESS: u32 = 1 << 30;

/// The dwords of a Copy command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// First block that is written (SDLBA).
    pub to: Lba,
    /// Source ranges, 1 to 256.
    pub ranges: u32,
    /// Their format.
    pub format: CopyFormat,
    /// Force Unit Access for what is written.
    pub fua: bool,
}

impl Copy {
    /// Reads the dwords.
    pub fn decode(sqe: &Sqe) -> Self {
        let dword = sqe.dword(12);
        Self {
            to: Lba(sqe.qword(10)),
            ranges: (dword & 0xff) + 1,
            format: CopyFormat((dword >> 8 & 0xf) as u8),
            fua: dword & FORCE_UNIT_ACCESS != 0,
        }
    }

    /// The command, on the namespace to which it writes. Panics where `ranges` is not 1 to 256,
    /// which is the caller's mistake.
    pub fn encode(self, to: Nsid) -> Sqe {
        assert!((1..=256).contains(&self.ranges), "{} ranges do not fit a command", self.ranges);
        let mut sqe = Sqe::new(NvmOpcode::COPY.0, to);
        sqe.set_qword(10, self.to.0);
        let fua = if self.fua { FORCE_UNIT_ACCESS } else { 0 };
        sqe.set_dword(12, (self.ranges - 1) | u32::from(self.format.0 & 0xf) << 8 | fua);
        sqe
    }
}

/// A source range: an entry of the data of a Copy command in the formats 0h and 2h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRange {
    /// The namespace that is read (SNSID), in format 2h; reserved in format 0h.
    pub nsid: Nsid,
    /// First block.
    pub lba: Lba,
    /// Blocks, 1 to 65,536.
    pub blocks: u32,
    /// Fast Copy Only, in format 2h: the host does not want it copied in a way that may take longer
    /// than its own reads and writes.
    pub fast_only: bool,
}

/// Source Options, bytes 23:22 of a range: Fast Copy Only.
const FAST_COPY_ONLY: u8 = 1 << 7;

impl CopyRange {
    /// Bytes of an entry.
    pub const BYTES: usize = 32;

    /// Reads an entry.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let mut lba = [0; 8];
        lba.copy_from_slice(&bytes[8..16]);
        Self {
            nsid: Nsid(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
            lba: Lba(u64::from_le_bytes(lba)),
            blocks: u32::from(u16::from_le_bytes([bytes[16], bytes[17]])) + 1,
            fast_only: bytes[23] & FAST_COPY_ONLY != 0,
        }
    }

    /// The entry. A number of blocks beyond the range of the field is cut to it.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.nsid.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.lba.0.to_le_bytes());
        let blocks = (self.blocks.clamp(1, 0x1_0000) - 1) as u16;
        bytes[16..18].copy_from_slice(&blocks.to_le_bytes());
        bytes[23] = if self.fast_only { FAST_COPY_ONLY } else { 0 };
        bytes
    }
}

/// The value of the feature Host Behavior Support. What is not named here is kept as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostBehavior {
    /// Advanced Command Retry Enable, Extended Telemetry Data Area 4 Supported, LBA Format Extension
    /// Enable, Host Dispersed Namespace Support: 0 or 1 each.
    pub enabled: [u8; 4],
    /// Copy Descriptor Formats Enable: [`CopyFormat::bit`] of those of the formats 2h and above.
    pub copy_formats: u16,
}

impl HostBehavior {
    /// Bytes of the data structure.
    pub const BYTES: usize = 512;

    /// Reads the data structure; `None` where it is shorter.
    pub fn decode(data: &[u8]) -> Option<Self> {
        let &[acre, etdas, lbafee, hdisns, low, high] = data.get(..Self::BYTES)?.first_chunk()?;
        let copy_formats = u16::from_le_bytes([low, high]);
        Some(Self { enabled: [acre, etdas, lbafee, hdisns], copy_formats })
    }

    /// The data structure.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.enabled);
        bytes[4..6].copy_from_slice(&self.copy_formats.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let range = CopyRange { nsid: Nsid(0x0102), lba: Lba(5), blocks: 65536, fast_only: true };
        let bytes = range.encode();
        assert_eq!(bytes[..5], [2, 1, 0, 0, 0]);
        assert_eq!(bytes[8..24], [5, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0x80]);
        assert_eq!(CopyRange::decode(&bytes), range);

        let copy =
            Copy { to: Lba(7), ranges: 128, format: CopyFormat::ACROSS_NAMESPACES, fua: true };
        let sqe = copy.encode(Nsid(3));
        assert_eq!((sqe.opcode(), sqe.nsid()), (0x19, Nsid(3)));
        assert_eq!((sqe.qword(10), sqe.dword(12)), (7, 0x4000_027f));
        assert_eq!(Copy::decode(&sqe), copy);

        let behavior = HostBehavior { enabled: [1, 0, 1, 0], copy_formats: 4 };
        assert_eq!(behavior.encode()[..7], [1, 0, 1, 0, 4, 0, 0]);
        assert_eq!(HostBehavior::decode(&behavior.encode()), Some(behavior));
        assert_eq!(HostBehavior::decode(&[0; 511]), None);
    }
}
