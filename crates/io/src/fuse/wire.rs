//! Requests of the kernel, byte by byte, in the byte order of the machine.

/// Bytes in front of the data of a write: `fuse_in_header` and `fuse_write_in`. Other requests have
/// everything that weft reads within this length.
pub const LEAD_BYTES: usize = 80;

/// Bytes of `fuse_in_header`.
pub(super) const HEADER_BYTES: usize = 40;

/// `FUSE_LOOKUP`, which has a name and nothing else.
pub(super) const NAME_OPCODE: u32 = 1;

/// The directory.
pub const ROOT: u64 = 1;

/// The file in it.
pub const FILE: u64 = 2;

/// The name of the file.
pub const NAME: &str = "disk";

/// Bits of `fuse_setattr_in.valid`: the attributes to change.
mod change {
    pub const MODE: u32 = 1;
    pub const OWNER: u32 = 2;
    pub const GROUP: u32 = 4;
    pub const SIZE: u32 = 8;
    pub const TIMES: u32 = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8;
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FuseRequest {
    /// Its name; the answer has the same one.
    pub unique: u64,
    /// [`ROOT`] or [`FILE`]; anything else is a fault of the kernel.
    pub node: u64,
    /// The operation.
    pub kind: FuseRequestKind,
}

/// The operation of a request. Offsets and lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuseRequestKind {
    /// The first request, with the version of the kernel's interface and its flags.
    Init {
        /// See above.
        version: (u32, u32),
        /// See above, with those of `flags2` above them.
        flags: u64,
    },
    /// Looks up a name.
    Lookup {
        /// The name is [`NAME`].
        is_known: bool,
    },
    /// The attributes of a node.
    Attributes,
    /// Sets the size, and no other attribute that weft keeps.
    Truncate {
        /// See above.
        size: u64,
    },
    /// Sets the mode, owner or times.
    ChangeAttributes,
    /// Opens the file.
    Open,
    /// Opens the directory.
    OpenDirectory,
    /// Closes one of both.
    Release,
    /// Reads the file.
    Read {
        /// See above.
        offset: u64,
        /// See above.
        len: u32,
    },
    /// Writes the data behind the lead to the file.
    Write {
        /// See above.
        offset: u64,
        /// See above.
        len: u32,
    },
    /// Reads the directory.
    ReadDirectory {
        /// The number of entries that were read.
        offset: u64,
        /// The most bytes of the answer.
        len: u32,
    },
    /// The size of the file system.
    Space,
    /// Makes completed writes durable.
    Sync,
    /// `fallocate(2)` of a range.
    Allocate {
        /// See above.
        offset: u64,
        /// See above.
        len: u64,
        /// Its flags.
        mode: u32,
    },
    /// Creates, removes or renames a file.
    ChangeNames,
    /// `ioctl(2)`.
    Control,
    /// No answer is expected.
    Unanswered,
    /// Any other, by its number.
    Other(u32),
}

impl FuseRequest {
    /// Decodes a request from its first [`LEAD_BYTES`], or from all of it if it is shorter. `None`:
    /// it is cut off.
    pub fn decode(lead: &[u8]) -> Option<Self> {
        let kind = match u32_at(lead, 4)? {
            NAME_OPCODE => FuseRequestKind::Lookup {
                is_known: body(lead)?.strip_suffix(&[0]) == Some(NAME.as_bytes()),
            },
            3 => FuseRequestKind::Attributes,
            4 => changed(lead)?,
            6 | 8 | 9 | 10 | 11 | 12 | 13 | 35 | 45 => FuseRequestKind::ChangeNames,
            14 => FuseRequestKind::Open,
            15 => FuseRequestKind::Read { offset: u64_at(lead, 48)?, len: u32_at(lead, 56)? },
            16 => FuseRequestKind::Write { offset: u64_at(lead, 48)?, len: u32_at(lead, 56)? },
            17 => FuseRequestKind::Space,
            18 | 29 => FuseRequestKind::Release,
            20 | 30 => FuseRequestKind::Sync,
            26 => FuseRequestKind::Init {
                version: (u32_at(lead, 40)?, u32_at(lead, 44)?),
                flags: u64::from(u32_at(lead, 52)?)
                    | u64::from(u32_at(lead, 56).unwrap_or(0)) << 32,
            },
            27 => FuseRequestKind::OpenDirectory,
            28 => {
                FuseRequestKind::ReadDirectory { offset: u64_at(lead, 48)?, len: u32_at(lead, 56)? }
            }
            39 => FuseRequestKind::Control,
            43 => FuseRequestKind::Allocate {
                offset: u64_at(lead, 48)?,
                len: u64_at(lead, 56)?,
                mode: u32_at(lead, 64)?,
            },
            2 | 36 | 42 => FuseRequestKind::Unanswered,
            other => FuseRequestKind::Other(other),
        };
        Some(Self { unique: u64_at(lead, 8)?, node: u64_at(lead, 16)?, kind })
    }

    /// Bytes of data that come with it.
    pub(super) fn data_bytes(&self) -> usize {
        match self.kind {
            FuseRequestKind::Write { len, .. } => len as usize,
            _ => 0,
        }
    }
}

/// The operation of `fuse_setattr_in`.
fn changed(lead: &[u8]) -> Option<FuseRequestKind> {
    let valid = u32_at(lead, 40)?;
    let is_kept = valid & (change::MODE | change::OWNER | change::GROUP) == 0;
    Some(match valid & change::SIZE {
        0 if is_kept && valid & change::TIMES == 0 => FuseRequestKind::Attributes,
        0 => FuseRequestKind::ChangeAttributes,
        _ if is_kept => FuseRequestKind::Truncate { size: u64_at(lead, 56)? },
        _ => FuseRequestKind::ChangeAttributes,
    })
}

/// The part of the lead behind the header.
fn body(lead: &[u8]) -> Option<&[u8]> {
    let len = usize::try_from(u32_at(lead, 0)?).ok()?;
    lead.get(HEADER_BYTES..len.min(lead.len()))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request as the kernel writes it.
    fn request(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
        let len = (HEADER_BYTES + body.len()) as u32;
        let mut bytes = [len.to_ne_bytes(), opcode.to_ne_bytes()].concat();
        bytes.extend(7u64.to_ne_bytes());
        bytes.extend(node.to_ne_bytes());
        bytes.extend([0; 16]);
        bytes.extend(body);
        bytes
    }

    fn kind(opcode: u32, body: &[u8]) -> FuseRequestKind {
        let request = FuseRequest::decode(&request(opcode, FILE, body)).unwrap();
        assert_eq!((request.unique, request.node), (7, FILE));
        request.kind
    }

    #[test]
    fn requests_are_read_as_the_kernel_writes_them() {
        let words = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        let io = words(&[1, 8192, 4096, 0, 0]);
        assert_eq!(kind(15, &io), FuseRequestKind::Read { offset: 8192, len: 4096 });
        assert_eq!(kind(16, &io), FuseRequestKind::Write { offset: 8192, len: 4096 });
        let range = words(&[1, 4096, 1 << 40, 3]);
        let punch = FuseRequestKind::Allocate { offset: 4096, len: 1 << 40, mode: 3 };
        assert_eq!(kind(43, &range), punch);
        assert_eq!(kind(1, b"disk\0"), FuseRequestKind::Lookup { is_known: true });
        for name in [&b"disk"[..], b"disk2\0", b"dis\0", b"\0", &[b'd'; 64]] {
            assert_eq!(kind(1, name), FuseRequestKind::Lookup { is_known: false });
        }
        assert_eq!(kind(36, &words(&[7])), FuseRequestKind::Unanswered);
        assert_eq!(kind(99, &[]), FuseRequestKind::Other(99));
    }

    #[test]
    fn a_size_is_distinguished_from_other_attributes() {
        let set = |valid: u32| {
            let mut body = [0; 88];
            body[..4].copy_from_slice(&valid.to_ne_bytes());
            body[16..24].copy_from_slice(&4096u64.to_ne_bytes());
            kind(4, &body)
        };
        assert_eq!(set(8), FuseRequestKind::Truncate { size: 4096 });
        assert_eq!(set(8 | 1 << 6 | 1 << 5 | 1 << 10), FuseRequestKind::Truncate { size: 4096 });
        assert_eq!(set(8 | 1), FuseRequestKind::ChangeAttributes);
        assert_eq!(set(1 << 8), FuseRequestKind::ChangeAttributes);
        assert_eq!(set(1 << 10), FuseRequestKind::Attributes);
    }

    #[test]
    fn a_request_that_is_cut_off_is_none() {
        for opcode in 0..60 {
            let whole = request(opcode, FILE, &[0; 40]);
            assert!((0..24).all(|len| FuseRequest::decode(&whole[..len]).is_none()));
            // Some requests need no more than the header.
            let mut decoded =
                (24..whole.len()).filter_map(|len| FuseRequest::decode(&whole[..len]));
            assert!(decoded.all(|request| request.unique == 7));
        }
    }
}
