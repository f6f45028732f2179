//! The properties of a disk.

use crate::scsi::bytes::{be16, be32, be64};

/// Names of a disk. Texts come without padding; what is not printable ASCII comes as a question
/// mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InquiryNames {
    /// T10 vendor identification.
    pub vendor: String,
    /// Product identification.
    pub product: String,
    /// Product revision level.
    pub revision: String,
    /// Unit serial number, where it tells one.
    pub serial: Option<String>,
    /// A UUID that stays with the data: the UUID or the 16-byte NAA or EUI-64 based designator,
    /// where there is one.
    pub uuid: Option<[u8; 16]>,
    /// The logical unit's own designators that are unique everywhere (SPC-4 §7.8.6), ascending:
    /// code set, type and value of each.
    pub designators: Vec<(u8, u8, Vec<u8>)>,
}

/// Verdict of a page of names on a known logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamesVerdict {
    /// It is this one.
    Same,
    /// It is another one.
    Other,
    /// There is none under this number.
    Absent,
}

/// Vital product data pages that tell names.
pub(super) const SERIAL_NUMBER: u8 = 0x80;
pub(super) const IDENTIFICATION: u8 = 0x83;

impl InquiryNames {
    /// Returns the page that shows whether a logical unit is this one; `None`: it has no names.
    pub fn page(&self) -> Option<u8> {
        match self {
            Self { designators, .. } if !designators.is_empty() => Some(IDENTIFICATION),
            Self { serial: Some(_), .. } => Some(SERIAL_NUMBER),
            _ => None,
        }
    }

    /// Compares the page that [`Self::page`] names, as it is now.
    pub fn naming(&self, data: &[u8]) -> NamesVerdict {
        // Peripheral qualifier: 000b where there is a logical unit.
        if data.first().is_some_and(|byte| byte & 0xe0 != 0) {
            return NamesVerdict::Absent;
        }
        let same =
            match self.page() {
                Some(IDENTIFICATION) => page(data, IDENTIFICATION)
                    .is_some_and(|list| designators(list) == self.designators),
                Some(_) => page(data, SERIAL_NUMBER)
                    .is_some_and(|payload| Some(text(payload)) == self.serial),
                None => true,
            };
        if same { NamesVerdict::Same } else { NamesVerdict::Other }
    }
}

/// The designators of the logical unit itself (association 00b) that are unique everywhere,
/// ascending: by T10 vendor, EUI-64, NAA, SCSI name and UUID.
fn designators(mut list: &[u8]) -> Vec<(u8, u8, Vec<u8>)> {
    let mut found = Vec::new();
    while let [set, kind, _, length, ..] = *list {
        let Some((designator, rest)) = list.split_at_checked(4 + usize::from(length)) else {
            break;
        };
        if matches!(kind & 0x3f, 0x01 | 0x02 | 0x03 | 0x08 | 0x0a) && length > 0 {
            found.push((set & 0xf, kind & 0x3f, designator[4..].to_vec()));
        }
        list = rest;
    }
    found.sort();
    found
}

/// Asymmetric access state of a target port group (SPC-4 §6.37).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortState(pub u8);

impl PortState {
    /// Active/optimized.
    pub const OPTIMIZED: Self = Self(0x0);
    /// Active/non-optimized.
    pub const NON_OPTIMIZED: Self = Self(0x1);
    /// Standby.
    pub const STANDBY: Self = Self(0x2);
    /// Unavailable.
    pub const UNAVAILABLE: Self = Self(0x3);
    /// Logical block dependent.
    pub const BLOCK_DEPENDENT: Self = Self(0x4);
    /// Offline.
    pub const OFFLINE: Self = Self(0xe);
    /// Transitioning between states.
    pub const TRANSITIONING: Self = Self(0xf);

    /// Returns the state of `group` in the data of REPORT TARGET PORT GROUPS (without extended
    /// header), if it is there.
    pub fn of_group(data: &[u8], group: u16) -> Option<Self> {
        let (head, rest) = data.split_at_checked(4)?;
        let mut rest = &rest[..rest.len().min(be32(head, 0) as usize)];
        while let Some((descriptor, behind)) = rest.split_at_checked(8) {
            if be16(descriptor, 2) == group {
                return Some(Self(descriptor[0] & 0xf));
            }
            rest = behind.get(4 * usize::from(descriptor[7])..)?;
        }
        None
    }
}

/// The group of the target port (association 01b, type 5h) among designators.
fn port_group(mut list: &[u8]) -> Option<u16> {
    while let [_, kind, _, length, ..] = *list {
        let (designator, rest) = list.split_at_checked(4 + usize::from(length))?;
        if kind & 0x3f == 0x15 && length == 4 {
            return Some(be16(designator, 6));
        }
        list = rest;
    }
    None
}

/// A disk as its answers describe it. A limit of zero means that it tells none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScsiDisk {
    /// Its names.
    pub identity: InquiryNames,
    /// Bytes of a block; a power of two from 512 on.
    pub block_bytes: u32,
    /// Blocks.
    pub blocks: u64,
    /// Blocks of a physical block.
    pub physical_blocks: u32,
    /// It takes no writes.
    pub write_protected: bool,
    /// A write that was done may be lost with the power until a SYNCHRONIZE CACHE is done.
    pub volatile_cache: bool,
    /// True if there is such a cache could not be asked, as another host has reserved the disk;
    /// then it is taken to have one.
    pub cache_unknown: bool,
    /// FUA is taken.
    pub fua: bool,
    /// UNMAP works.
    pub unmap: bool,
    /// Blocks that were unmapped read as zeroes.
    pub unmapped_zeroes: bool,
    /// WRITE SAME(16) works.
    pub write_same: bool,
    /// WRITE SAME(16) may give space back (UNMAP bit).
    pub write_same_unmap: bool,
    /// WRITE SAME(16) needs no data (NDOB).
    pub write_same_no_data: bool,
    /// COMPARE AND WRITE works for this many blocks.
    pub compare_and_write_blocks: u8,
    /// VERIFY(16) compares with data (BYTCHK 01b).
    pub verify_compares: bool,
    /// Granularity of good transfers, in blocks.
    pub granularity_blocks: u32,
    /// Longest READ and WRITE, in blocks.
    pub transfer_blocks_max: u32,
    /// Longest UNMAP in all, in blocks.
    pub unmap_blocks_max: u32,
    /// Ranges of one UNMAP, at most.
    pub unmap_ranges_max: u32,
    /// Longest WRITE SAME, in blocks.
    pub write_same_blocks_max: u64,
    /// It has reported a restart since the last question of this nexus, or that the nexus is new.
    pub started: bool,
    /// The target tells access states of its ports (TPGS).
    pub asymmetric: bool,
    /// The group of the port through which it was asked.
    pub port_group: Option<u16>,
    /// It answers READ FULL STATUS, and Write Exclusive is among the reservations that can be had.
    pub reservations: bool,
    /// The reported access state of that group.
    pub access: Option<PortState>,
}

/// Printable ASCII without padding.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let text = bytes[..end]
        .iter()
        .map(|&byte| if byte == b' ' || byte.is_ascii_graphic() { byte as char } else { '?' });
    text.collect::<String>().trim().to_owned()
}

/// The payload of a vital product data page, if it is this page: behind its head, as long as it
/// says and as far as it was sent.
pub(super) fn page(data: &[u8], code: u8) -> Option<&[u8]> {
    let (head, rest) = data.split_at_checked(4)?;
    let length = usize::from(be16(head, 2));
    (head[1] == code).then(|| &rest[..length.min(rest.len())])
}

/// A field of a payload that may be cut off: its number, or zero.
fn field(payload: &[u8], at: usize, bytes: usize) -> u64 {
    payload.get(at..at + bytes).map_or(0, crate::scsi::bytes::number)
}

impl ScsiDisk {
    /// Standard INQUIRY data (SPC-4 §6.6.2). Says whether there is a block device at this LUN.
    pub(super) fn standard(&mut self, data: &[u8]) -> bool {
        if data.len() < 36 {
            return false;
        }
        self.identity.vendor = text(&data[8..16]);
        self.identity.product = text(&data[16..32]);
        self.identity.revision = text(&data[32..36]);
        self.asymmetric = data[5] & 0x30 != 0;
        // Peripheral qualifier 000b; a direct access device, or a simplified one.
        matches!(data[0], 0x00 | 0x0e)
    }

    /// Device identification (SPC-4 §7.8.6): the best of the logical unit's own designators.
    pub(super) fn designators(&mut self, list: &[u8]) {
        let mut best = 0;
        self.port_group = port_group(list);
        self.identity.designators = designators(list);
        for (set, kind, value) in &self.identity.designators {
            let (rank, uuid) = match (kind, set) {
                (0x0a, 1) if value.len() == 18 => (3, <[u8; 16]>::try_from(&value[2..])),
                (0x02 | 0x03, 1) => (2, <[u8; 16]>::try_from(&value[..])),
                _ => (0, <[u8; 16]>::try_from(&[][..])),
            };
            if let Ok(uuid) = uuid
                && rank > best
            {
                best = rank;
                self.identity.uuid = Some(uuid);
            }
        }
    }

    /// Block limits (SBC-3 §6.6.3).
    pub(super) fn limits(&mut self, payload: &[u8]) {
        self.compare_and_write_blocks = field(payload, 1, 1) as u8;
        self.granularity_blocks = field(payload, 2, 2) as u32;
        self.transfer_blocks_max = field(payload, 4, 4) as u32;
        self.unmap_blocks_max = field(payload, 16, 4) as u32;
        self.unmap_ranges_max = field(payload, 20, 4) as u32;
        self.write_same_blocks_max = field(payload, 32, 8);
    }

    /// Logical block provisioning (SBC-3 §6.6.4).
    pub(super) fn provisioning(&mut self, payload: &[u8]) {
        let flags = field(payload, 1, 1);
        self.unmap = flags & 0x80 != 0;
        self.write_same_unmap = flags & 0x40 != 0;
        self.unmapped_zeroes |= flags >> 2 & 7 == 1;
    }

    /// READ CAPACITY(16) data (SBC-3 §5.16.2). Says whether the size makes sense.
    pub(super) fn capacity_16(&mut self, data: &[u8]) -> bool {
        if data.len() < 12 {
            return false;
        }
        self.physical_blocks = 1 << (field(data, 13, 1) & 0xf);
        self.unmapped_zeroes |= field(data, 14, 1) & 0xc0 == 0xc0;
        self.capacity(be64(data, 0), be32(data, 8))
    }

    /// READ CAPACITY(10) data (SBC-3 §5.15.2). Says whether the size makes sense, and whether it is
    /// the whole size.
    pub(super) fn capacity_10(&mut self, data: &[u8]) -> bool {
        self.physical_blocks = 1;
        data.len() >= 8
            && be32(data, 0) != u32::MAX
            && self.capacity(be32(data, 0).into(), be32(data, 4))
    }

    /// Returns whether its pages say that WRITE SAME works: by a length, or because it unmaps.
    pub(super) fn tells_write_same(&self) -> bool {
        self.write_same_blocks_max > 0 || self.write_same_unmap
    }

    fn capacity(&mut self, last: u64, block_bytes: u32) -> bool {
        (self.blocks, self.block_bytes) = (last.wrapping_add(1), block_bytes);
        let is_size = block_bytes.is_power_of_two() && (512..=1 << 16).contains(&block_bytes);
        is_size && self.blocks > 0 && self.blocks.checked_mul(block_bytes.into()).is_some()
    }

    /// MODE SENSE(6) data with the caching page (SBC-3 §6.4.5).
    pub(super) fn mode(&mut self, data: &[u8]) {
        let Some((header, rest)) = data.split_at_checked(4) else { return };
        self.write_protected = header[2] & 0x80 != 0;
        self.fua = header[2] & 0x10 != 0;
        if let Some([code, _, flags, ..]) = rest.get(usize::from(header[3])..)
            && code & 0x3f == 0x08
        {
            self.volatile_cache = flags & 0x04 != 0;
        }
    }

    /// One command of REPORT SUPPORTED OPERATION CODES (SPC-4 §6.35.3): the usage map of a
    /// supported command.
    pub(super) fn usage(data: &[u8]) -> Option<&[u8]> {
        let (head, rest) = data.split_at_checked(4)?;
        (head[1] & 7 == 3).then(|| &rest[..rest.len().min(usize::from(be16(head, 2)))])
    }
}
