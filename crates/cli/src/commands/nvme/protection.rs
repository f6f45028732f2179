//! Metadata of blocks, and what protects them from end to end: the options of commands, and their
//! fields (NVM Command Set §5.3).

use super::connected::ConnectedSession;
use super::target::{number, with_unit};
use crate::process::exit::Failure;
use clap::Args;
use weft_block::ErrorKind;
use weft_proto::nvme::identify::{Cns, IdentifyNamespace};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Nsid;

/// Bits of PRINFO in dword 12, counted from its bit 26: PRACT is the highest.
const PRACT: u8 = 8;

/// Dword 12: Storage Tag Check.
const STORAGE_TAG_CHECK: u32 = 1 << 24;

/// FLBAS: the metadata stand behind the data of each block.
const EXTENDED: u8 = 1 << 4;

/// Protection information of the blocks.
#[derive(Args, Debug)]
pub(super) struct Protection {
    /// Protection information field (PRINFO): action in bit 3, checks in bits 2:0
    #[arg(short = 'p', long, value_parser = number::<u8>, default_value = "0", hide_default_value = true)]
    pub prinfo: u8,
    /// Reference tag
    #[arg(short = 'r', long, value_parser = with_unit, default_value = "0", hide_default_value = true)]
    pub ref_tag: u64,
    /// Application tag mask
    #[arg(short = 'm', long, value_parser = number::<u16>, default_value = "0", hide_default_value = true)]
    pub app_tag_mask: u16,
    /// Application tag
    #[arg(short = 'a', long, value_parser = number::<u16>, default_value = "0", hide_default_value = true)]
    pub app_tag: u16,
    /// Check the storage tag
    #[arg(short = 'C', long)]
    pub storage_tag_check: bool,
}

/// The storage tag, whose letter is another one in other verbs.
#[derive(Args, Debug)]
pub(super) struct StorageTag {
    /// Storage tag
    #[arg(short = 'S', long, value_parser = with_unit, default_value = "0", hide_default_value = true)]
    pub storage_tag: u64,
}

/// How a namespace is formatted, as far as commands have to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Format {
    /// Bytes of data of a block.
    pub block_bytes: u64,
    /// Bytes of metadata of a block.
    pub metadata_bytes: u64,
    /// The metadata stand behind the data of each block.
    pub is_extended: bool,
    /// The blocks have protection information.
    pub is_protected: bool,
    /// Bits of the storage tag.
    pub storage_tag_bits: u8,
    /// Protection Information Format: guards of 16, 32 or 64 bits.
    pub guards: u8,
}

impl Format {
    /// That of a namespace.
    pub fn read(connected: &ConnectedSession, nsid: Nsid) -> Result<Self, Failure> {
        let raw = connected.session.identify(Cns::NAMESPACE.0, nsid)?;
        let id = IdentifyNamespace::decode(&raw).map_err(|e| connected.malformed(&e))?;
        let format = id.format().filter(|format| format.ds < 32);
        let format = format.ok_or_else(|| connected.malformed(&"no such LBA format"))?;
        let plain = Self {
            block_bytes: 1 << format.ds,
            metadata_bytes: format.ms.into(),
            is_extended: id.flbas & EXTENDED != 0,
            is_protected: id.dps & 7 != 0,
            ..Self::default()
        };
        if format.ms == 0 {
            return Ok(plain);
        }
        // A controller without this data structure has guards of 16 bits, and no storage tag.
        let index = id.lbaf.iter().position(|of| std::ptr::eq(of, format)).unwrap_or(0);
        let extended = connected.session.identify(Cns::COMMAND_SET_NAMESPACE.0, nsid);
        Ok(extended.map_or(plain, |raw| plain.with_extended(&raw, index)))
    }

    /// With the extended LBA format of this index (NVM §4.1.5.3).
    fn with_extended(self, raw: &[u8], index: usize) -> Self {
        let at = 12 + 4 * index;
        let Some(low) = raw.get(at..at + 2) else { return self };
        let low = u16::from_le_bytes([low[0], low[1]]);
        Self { storage_tag_bits: low as u8 & 0x7f, guards: (low >> 7) as u8 & 3, ..self }
    }

    /// Bytes that a command moves for each block. Networks move data and metadata together, or no
    /// metadata.
    pub fn transferred(&self, nsid: Nsid, prinfo: u8) -> Result<u64, Failure> {
        let only_protects = self.is_protected && self.metadata_bytes == self.protection_bytes();
        if self.metadata_bytes == 0 || prinfo & PRACT != 0 && only_protects {
            return Ok(self.block_bytes);
        }
        if self.is_extended {
            return Ok(self.block_bytes + self.metadata_bytes);
        }
        let text = format!(
            "namespace {nsid} has its metadata apart from its data, which networks do not transfer: only a namespace with extended LBAs can be used"
        );
        Err(Failure::of(ErrorKind::Unsupported, text))
    }

    fn protection_bytes(&self) -> u64 {
        if self.guards == 0 { 8 } else { 16 }
    }

    /// Refuses metadata of their own.
    pub fn refuse_metadata(&self, nsid: Nsid, bytes: u64) -> Result<(), Failure> {
        if bytes == 0 {
            return Ok(());
        }
        let Self { block_bytes, metadata_bytes, .. } = self;
        let text = match (metadata_bytes, self.is_extended) {
            (0, _) => format!(
                "namespace {nsid} has no metadata, of which --metadata-size asks for {bytes} bytes: leave that option out"
            ),
            (_, true) => format!(
                "namespace {nsid} has {metadata_bytes} bytes of metadata behind the {block_bytes} of data of each block: give both in --data, and leave --metadata-size out"
            ),
            (_, false) => format!(
                "namespace {nsid} has its metadata apart from its data, which networks do not transfer: leave --metadata-size out"
            ),
        };
        Err(Failure::of(ErrorKind::Unsupported, text))
    }
}

impl Protection {
    /// Refuses what has no place in a command.
    pub fn check(&self) -> Result<(), Failure> {
        if self.prinfo <= 0xf {
            return Ok(());
        }
        let text = format!("--prinfo {}: the field has 4 bits, so give at most 15", self.prinfo);
        Err(Failure::of(ErrorKind::Usage, text))
    }

    /// Returns whether the place of the fields depends on the format of the namespace.
    pub fn needs_format(&self, storage_tag: u64) -> bool {
        self.ref_tag != 0 || storage_tag != 0
    }

    /// Puts it into a command.
    pub fn put(&self, sqe: &mut Sqe, storage_tag: u64, format: Format) -> Result<(), Failure> {
        let check = if self.storage_tag_check { STORAGE_TAG_CHECK } else { 0 };
        sqe.set_dword(12, sqe.dword(12) | u32::from(self.prinfo) << 26 | check);
        sqe.set_dword(15, u32::from(self.app_tag_mask) << 16 | u32::from(self.app_tag));
        let tags = tags(self.ref_tag, storage_tag, format)?;
        sqe.set_dword(14, tags as u32);
        // Tags of 32 bits leave these alone.
        if tags >> 32 != 0 {
            sqe.set_dword(3, (tags >> 32) as u32);
            sqe.set_dword(2, (tags >> 64) as u32);
        }
        Ok(())
    }
}

/// The storage tag and the reference tag in one number, the storage tag in its highest bits.
fn tags(reference: u64, storage: u64, format: Format) -> Result<u128, Failure> {
    let Format { storage_tag_bits: bits, guards, .. } = format;
    let of_both: u8 = match guards {
        0 => 32,
        1 => 80,
        _ => 48,
    };
    let of_reference = of_both.saturating_sub(bits);
    let wrong = |option: &str, value: u64, bits: u8| {
        let text =
            format!("{option} {value:#x} does not fit: the namespace has {bits} bits for it");
        Failure::of(ErrorKind::Usage, text)
    };
    let (reference_wide, storage_wide) = (u128::from(reference), u128::from(storage));
    if bits < 64 && storage_wide >> bits != 0 {
        return Err(wrong("--storage-tag", storage, bits));
    }
    if reference_wide >> of_reference != 0 {
        return Err(wrong("--ref-tag", reference, of_reference));
    }
    Ok(storage_wide << of_reference | reference_wide)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_METADATA: Format = Format {
        block_bytes: 4096,
        metadata_bytes: 8,
        is_extended: true,
        is_protected: true,
        storage_tag_bits: 0,
        guards: 0,
    };

    #[test]
    fn metadata_move_behind_the_data_of_their_block_or_not_at_all() {
        let bytes = |format: Format, prinfo| format.transferred(Nsid(1), prinfo).ok();
        let plain = Format { block_bytes: 512, ..Format::default() };
        assert_eq!((bytes(plain, 0), bytes(plain, 0xf)), (Some(512), Some(512)));
        assert_eq!((bytes(WITH_METADATA, 7), bytes(WITH_METADATA, 8)), (Some(4104), Some(4096)));
        let more = Format { metadata_bytes: 64, ..WITH_METADATA };
        assert_eq!(bytes(more, 8), Some(4160), "it has more than what protects it");
        let unprotected = Format { is_protected: false, ..WITH_METADATA };
        assert_eq!(bytes(unprotected, 8), Some(4104));
        let apart = Format { is_extended: false, ..WITH_METADATA };
        assert_eq!((bytes(apart, 0), bytes(apart, 8)), (None, Some(4096)));
        for (format, reason) in [
            (plain, "has no metadata, of which --metadata-size asks for 64"),
            (WITH_METADATA, "give both in --data"),
            (apart, "apart from its data"),
        ] {
            let text = format.refuse_metadata(Nsid(1), 64).unwrap_err().to_string();
            assert!(text.contains(reason), "{text}");
            format.refuse_metadata(Nsid(1), 0).unwrap();
        }
    }

    #[test]
    fn tags_share_their_bits() {
        let of = |bits, guards| Format { storage_tag_bits: bits, guards, ..WITH_METADATA };
        let both = |reference, storage, format| tags(reference, storage, format).ok();
        assert_eq!(both(0x1234, 0, of(0, 0)), Some(0x1234));
        assert_eq!(both(1 << 32, 0, of(0, 0)), None);
        assert_eq!(both(1, 1, of(0, 0)), None);
        assert_eq!(both(1, 0xab, of(8, 0)), Some(0xab00_0001));
        assert_eq!(both(1 << 24, 0, of(8, 0)), None);
        assert_eq!(both(u64::MAX, 0xffff, of(16, 1)), Some((1 << 80) - 1));
        assert_eq!(both(1 << 47, 0, of(0, 2)), Some(1 << 47));
        assert_eq!(both(1, 1, of(48, 2)), None, "all bits are the storage tag's");
        assert_eq!(both(0, u64::MAX, of(64, 1)), Some(u128::from(u64::MAX) << 16));
    }

    #[test]
    fn the_extended_format_is_read_where_there_is_one() {
        let mut raw = vec![0; 4096];
        raw[16..18].copy_from_slice(&(2_u16 << 7 | 40).to_le_bytes());
        let read = WITH_METADATA.with_extended(&raw, 1);
        assert_eq!((read.storage_tag_bits, read.guards), (40, 2));
        assert_eq!(WITH_METADATA.with_extended(&raw, 0), WITH_METADATA);
        assert_eq!(WITH_METADATA.with_extended(&[], 1), WITH_METADATA);
    }
}
