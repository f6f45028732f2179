//! Recognition of data on a disk by the magic numbers at its start and end: a partition table, a
//! file system, swap space, or a part of a volume manager, of an array or of encryption. Each
//! format documents its numbers.
//!
//! Recognition is for people who are about to overwrite a disk. So it prefers to recognise too
//! much: also a signature that was left over counts.

mod checks;
mod ends;
#[cfg(test)]
mod tests;

pub use ends::{Content, DiskEnds, END_BYTES, START_BYTES};

/// Returns the first recognised content; `None`: nothing.
pub fn find(ends: &DiskEnds<'_>) -> Option<Content> {
    SIGNATURES.iter().find_map(|signature| signature.find(ends))
}

// The signatures. Formats that contain one another's numbers stand in order: a FAT file system has
// the mark of an MBR.

/// Place of a magic number.
#[derive(Clone, Copy)]
enum At {
    /// From the start of the disk.
    Start(&'static [u64]),
    /// From the end of the disk, backwards.
    End(&'static [u64]),
    /// Places that a rule returns.
    Rule(fn(bytes: u64) -> Vec<u64>),
}

/// A label within the format: an offset from its magic number, and a length, in bytes.
#[derive(Clone, Copy)]
struct Label(i64, usize);

/// A format.
struct Signature {
    what: &'static str,
    at: At,
    magic: &'static [u8],
    label: Option<Label>,
    /// Additional condition, given the place of the magic number.
    check: Option<fn(&DiskEnds<'_>, u64) -> bool>,
}

impl Signature {
    const fn new(what: &'static str, at: At, magic: &'static [u8]) -> Self {
        Self { what, at, magic, label: None, check: None }
    }

    const fn start(what: &'static str, at: &'static [u64], magic: &'static [u8]) -> Self {
        Self::new(what, At::Start(at), magic)
    }

    const fn end(what: &'static str, at: &'static [u64], magic: &'static [u8]) -> Self {
        Self::new(what, At::End(at), magic)
    }

    const fn label(self, offset: i64, len: usize) -> Self {
        Self { label: Some(Label(offset, len)), ..self }
    }

    const fn if_(self, check: fn(&DiskEnds<'_>, u64) -> bool) -> Self {
        Self { check: Some(check), ..self }
    }

    fn find(&self, ends: &DiskEnds<'_>) -> Option<Content> {
        let places = match self.at {
            At::Start(places) => places.to_vec(),
            At::End(places) => {
                places.iter().filter_map(|back| ends.bytes.checked_sub(*back)).collect()
            }
            At::Rule(places) => places(ends.bytes),
        };
        let mut found = places.into_iter().filter(|at| ends.has(*at, self.magic));
        let at = found.find(|at| self.check.is_none_or(|check| check(ends, *at)))?;
        let label = self
            .label
            .and_then(|Label(offset, len)| text(ends.at(at.checked_add_signed(offset)?, len)?));
        Some(Content { what: self.what, label })
    }
}

/// The text before the first zero byte, without spaces around it.
fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]).trim().to_owned();
    (!text.is_empty() && text != "NO NAME").then_some(text)
}

const EXT_MAGIC: &[u8] = &[0x53, 0xef];

/// `s_magic`, and `s_volume_name` behind it.
const EXT_AT: &[u64] = &[1024 + 0x38];

const MD_MAGIC: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];

const MD_MAGIC_BIG_ENDIAN: &[u8] = &[0xa9, 0x2b, 0x4e, 0xfc];

const MD: &str = "a member of a Linux RAID (md)";

const SWAP: &str = "swap space";

/// The end of the first page, for pages of 4 to 64 KiB.
const SWAP_AT: &[u64] = &[4096 - 10, 8192 - 10, 16_384 - 10, 32_768 - 10, 65_536 - 10];

const ZFS: &str = "a member of a ZFS pool";

const DRBD: &str = "a DRBD volume";

const BOOT_MARK: &[u8] = &[0x55, 0xaa];

const SIGNATURES: &[Signature] = &[
    Signature::start("a partition table (GPT)", &[512, 4096], b"EFI PART"),
    Signature::start("a LUKS volume", &[0], b"LUKS\xba\xbe").label(24, 48).if_(checks::is_luks2),
    Signature::start("a LUKS volume", &[0], b"LUKS\xba\xbe"),
    Signature::start(
        "a LUKS volume",
        &[0x4000, 0x8000, 0x10000, 0x20000, 0x40000, 0x80000],
        b"SKUL\xba\xbe",
    ),
    Signature::start("an LVM physical volume", &[0, 512, 1024, 1536], b"LABELONE")
        .if_(checks::is_lvm2),
    Signature::start("an ext4 file system", EXT_AT, EXT_MAGIC).label(0x40, 16).if_(checks::is_ext4),
    Signature::start("an ext3 file system", EXT_AT, EXT_MAGIC).label(0x40, 16).if_(checks::is_ext3),
    Signature::start("an ext2 file system", EXT_AT, EXT_MAGIC).label(0x40, 16).if_(checks::is_ext),
    Signature::start("an XFS file system", &[0], b"XFSB").label(108, 12),
    Signature::start("a btrfs file system", &[0x10040], b"_BHRfS_M").label(299 - 64, 256),
    Signature::start("an NTFS file system", &[3], b"NTFS    "),
    Signature::start("a ReFS file system", &[3], b"ReFS\0"),
    Signature::start("a BitLocker volume", &[3], b"-FVE-FS-"),
    Signature::start("an exFAT file system", &[3], b"EXFAT   "),
    Signature::start("a FAT file system", &[82], b"FAT32   ")
        .label(71 - 82, 11)
        .if_(checks::is_boot_sector),
    Signature::start("a FAT file system", &[54], b"FAT16   ")
        .label(43 - 54, 11)
        .if_(checks::is_boot_sector),
    Signature::start("a FAT file system", &[54], b"FAT12   ")
        .label(43 - 54, 11)
        .if_(checks::is_boot_sector),
    Signature::start("a partition table (MBR)", &[510], BOOT_MARK).if_(checks::is_mbr),
    Signature::start(SWAP, SWAP_AT, b"SWAPSPACE2").if_(checks::is_swap),
    Signature::start(SWAP, SWAP_AT, b"SWAP-SPACE"),
    Signature::start("a hibernated system's memory", SWAP_AT, b"S1SUSPEND"),
    Signature::new(MD, At::Rule(checks::md_1_places), MD_MAGIC).label(32, 32).if_(checks::is_md_1),
    Signature::new(MD, At::Rule(checks::md_0_places), MD_MAGIC),
    Signature::new(MD, At::Rule(checks::md_0_places), MD_MAGIC_BIG_ENDIAN),
    Signature::new(ZFS, At::Rule(checks::zfs_places), &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0]),
    Signature::new(ZFS, At::Rule(checks::zfs_places), &[0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c]),
    Signature::start(
        "a bcache device",
        &[4096 + 24],
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf7\x7f\x48\xba\x6d\x81",
    ),
    Signature::start(
        "a bcachefs file system",
        &[4096 + 24],
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
    ),
    Signature::start("a Ceph OSD (BlueStore)", &[0], b"bluestore block device"),
    Signature::start("a VMFS volume", &[0x10_0000], &[0x0d, 0xd0, 0x01, 0xc0]),
    Signature::start("a VDO volume", &[0], b"dmvdo001"),
    Signature::start("an Oracle ASM disk", &[32], b"ORCLDISK"),
    Signature::start("an APFS container", &[32], b"NXSB"),
    Signature::start("an HFS+ file system", &[1024], b"H+\0\x04"),
    Signature::start("an HFS+ file system", &[1024], b"HX\0\x05"),
    Signature::start("an F2FS file system", &[1024], &[0x10, 0x20, 0xf5, 0xf2]),
    Signature::start("a JFS file system", &[32_768], b"JFS1"),
    Signature::start("a ReiserFS file system", &[65_536 + 52], b"ReIsEr"),
    Signature::start("an ISO 9660 file system", &[32_769], b"CD001").label(39, 32),
    Signature::start("a squashfs file system", &[0], b"hsqs"),
    Signature::start("a disk image (qcow2)", &[0], b"QFI\xfb"),
    Signature::start("a disk image (VHDX)", &[0], b"vhdxfile"),
    Signature::new(DRBD, At::Rule(checks::drbd_places), &[0x83, 0x74, 0x02, 0x6b]),
    Signature::new(DRBD, At::Rule(checks::drbd_places), &[0x83, 0x74, 0x02, 0x6c]),
    Signature::new(DRBD, At::Rule(checks::drbd_places), &[0x83, 0x74, 0x02, 0x6d]),
    Signature::end("a member of a RAID (DDF)", &[512, 257 * 512], &[0xde, 0x11, 0xde, 0x11]),
    Signature::end("a member of a RAID (Intel)", &[1024, 8192], b"Intel Raid ISM Cfg Sig. "),
    Signature::new("a member of a weft mirror", At::Rule(checks::mirror_places), b"WEFTMIRR"),
    Signature::end("a partition table (GPT, the copy at its end)", &[512, 4096], b"EFI PART"),
];
