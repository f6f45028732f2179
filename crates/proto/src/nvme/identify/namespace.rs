//! Identify Namespace of the NVM command set (NVM §4.1.5.1 and §4.1.5.3) and the part that no
//! command set owns (Base §5.17.2.8).

use crate::nvme::types::Id128;
use crate::nvme::wire::structure;

structure! {
    /// LBA Format (NVM, "LBA Format Data Structure").
    pub struct LbaFormat[4] {
        /// MS, Metadata Size, bytes per logical block.
        0 ms: u16,
        /// LBADS, LBA Data Size, as a power of two; below 9 the format is not available.
        2 ds: u8,
        /// RP, Relative Performance, bits 1:0: 0 is best.
        3 rp: u8,
    }
}

structure! {
    /// Identify Namespace data structure, CNS 00h (NVM §4.1.5.1). All zero for a namespace that is
    /// not active. Sizes without a unit are in logical blocks.
    pub struct IdentifyNamespace[4096] {
        /// Namespace Size.
        0 nsze: u64,
        /// Namespace Capacity.
        8 ncap: u64,
        /// Namespace Utilization.
        16 nuse: u64,
        /// Namespace Features (`NSFEAT_…`).
        24 nsfeat: u8,
        /// Number of LBA Formats, counted from zero.
        25 nlbaf: u8,
        /// Formatted LBA Size: see [`Self::format`].
        26 flbas: u8,
        /// Metadata Capabilities.
        27 mc: u8,
        /// End-to-end Data Protection Capabilities.
        28 dpc: u8,
        /// End-to-end Data Protection Type Settings: type in bits 2:0, 0 means none.
        29 dps: u8,
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities ([`Self::NMIC_SHARED`]).
        30 nmic: u8,
        /// Reservation Capabilities.
        31 rescap: u8,
        /// Format Progress Indicator.
        32 fpi: u8,
        /// Deallocate Logical Block Features: what a deallocated block reads as in bits 2:0
        /// (`DLFEAT_…`).
        33 dlfeat: u8,
        /// Namespace Atomic Write Unit Normal, counted from zero.
        34 nawun: u16,
        /// Namespace Atomic Write Unit Power Fail, counted from zero.
        36 nawupf: u16,
        /// Namespace Atomic Compare & Write Unit, counted from zero.
        38 nacwu: u16,
        /// Namespace Atomic Boundary Size Normal, counted from zero; 0 means no boundary.
        40 nabsn: u16,
        /// Namespace Atomic Boundary Offset.
        42 nabo: u16,
        /// Namespace Atomic Boundary Size Power Fail, counted from zero; 0 means no boundary.
        44 nabspf: u16,
        /// Namespace Optimal I/O Boundary; 0 means none.
        46 noiob: u16,
        /// NVM Capacity, bytes.
        48 nvmcap: u128,
        /// Namespace Preferred Write Granularity, counted from zero.
        64 npwg: u16,
        /// Namespace Preferred Write Alignment, counted from zero.
        66 npwa: u16,
        /// Namespace Preferred Deallocate Granularity, counted from zero.
        68 npdg: u16,
        /// Namespace Preferred Deallocate Alignment, counted from zero.
        70 npda: u16,
        /// Namespace Optimal Write Size, counted from zero.
        72 nows: u16,
        /// Maximum Single Source Range Length (Copy).
        74 mssrl: u16,
        /// Maximum Copy Length.
        76 mcl: u32,
        /// Maximum Source Range Count (Copy), counted from zero.
        80 msrc: u8,
        /// Number of Unique Capability LBA Formats.
        82 nulbaf: u8,
        /// ANA Group Identifier.
        92 anagrpid: u32,
        /// Namespace Attributes ([`Self::NSATTR_WRITE_PROTECTED`]).
        99 nsattr: u8,
        /// NVM Set Identifier.
        100 nvmsetid: u16,
        /// Endurance Group Identifier.
        102 endgid: u16,
        /// Namespace Globally Unique Identifier, most significant byte first; zero means none.
        104 nguid: Id128,
        /// IEEE Extended Unique Identifier, most significant byte first; zero means none.
        120 eui64: [u8; 8],
        /// LBA Formats; the first `nlbaf` + 1 are valid.
        128 lbaf: [LbaFormat; 64],
    }
}

impl IdentifyNamespace {
    /// NSFEAT: NAWUN, NAWUPF and NACWU are valid and replace AWUN, AWUPF and ACWU.
    pub const NSFEAT_ATOMIC: u8 = 1 << 1;
    /// NSFEAT: NPWG, NPWA, NPDG, NPDA and NOWS are valid.
    pub const NSFEAT_PREFERRED: u8 = 1 << 4;

    /// NMIC: more than one controller may be attached.
    pub const NMIC_SHARED: u8 = 1;

    /// DLFEAT bits 2:0: deallocated blocks read as zeroes.
    pub const DLFEAT_READS_ZERO: u8 = 1;
    /// DLFEAT: Write Zeroes takes the Deallocate bit.
    pub const DLFEAT_WRITE_ZEROES: u8 = 1 << 3;

    /// NSATTR: write protected at present.
    pub const NSATTR_WRITE_PROTECTED: u8 = 1;

    /// The format in use: index in FLBAS bits 3:0 and, with more than 16 formats, 6:5. `None` where
    /// that is not one of the `nlbaf` + 1 formats.
    pub fn format(&self) -> Option<&LbaFormat> {
        let high = if self.nlbaf > 15 { self.flbas >> 5 & 3 } else { 0 };
        let index = self.flbas & 0xf | high << 4;
        self.lbaf.get(usize::from(index)).filter(|_| index <= self.nlbaf)
    }
}

structure! {
    /// I/O Command Set Independent Identify Namespace data structure, CNS 08h (Base §5.17.2.8).
    pub struct IdentifyIndependentNamespace[4096] {
        /// Common Namespace Features: NSFEAT bit 3 and, since 2.1, others.
        0 nsfeat: u8,
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
        1 nmic: u8,
        /// Reservation Capabilities.
        2 rescap: u8,
        /// Format Progress Indicator.
        3 fpi: u8,
        /// ANA Group Identifier.
        4 anagrpid: u32,
        /// Namespace Attributes.
        8 nsattr: u8,
        /// NVM Set Identifier.
        10 nvmsetid: u16,
        /// Endurance Group Identifier.
        12 endgid: u16,
        /// Namespace Status ([`Self::NSTAT_READY`]).
        14 nstat: u8,
    }
}

impl IdentifyIndependentNamespace {
    /// NSTAT: ready for commands.
    pub const NSTAT_READY: u8 = 1;
}

structure! {
    /// Identify Namespace data structure of the NVM command set, CNS 05h, CSI 00h (NVM §4.1.5.3).
    pub struct IdentifyNvmNamespace[4096] {
        /// Logical Block Storage Tag Mask.
        0 lbstm: u64,
        /// Protection Information Capabilities.
        8 pic: u8,
        /// Extended LBA Formats: storage tag size in bits 6:0, protection information format in
        /// bits 8:7.
        12 elbaf: [u32; 64],
    }
}
