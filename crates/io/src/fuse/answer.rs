//! Answers and notifications, byte by byte, in the byte order of the machine.

use super::wire::{FILE, NAME, ROOT};

/// Bytes of `fuse_out_header`.
pub(super) const HEADER_BYTES: usize = 16;

/// The version of the interface that weft speaks, and the oldest one that it accepts: that of
/// Linux 4.20.
pub(super) const VERSION: (u32, u32) = (7, 31);
/// See above.
pub(super) const OLDEST: (u32, u32) = (7, 28);

/// Flags of `fuse_init_in` that weft asks for: several reads at a time, `O_TRUNC` as a part of
/// open, which does nothing to a disk, writes of more than a page, asynchronous direct I/O, and
/// requests of more than 32 pages.
pub(super) const FLAGS: u64 = 1 | 1 << 3 | 1 << 5 | 1 << 15 | 1 << 22;

/// `FUSE_INIT_EXT` and `FUSE_OVER_IO_URING`: requests come by a ring, and none comes before it is
/// there.
pub(super) const OVER_RING: u64 = 1 << 30 | 1 << 41;

/// `FOPEN_DIRECT_IO` and `FOPEN_PARALLEL_DIRECT_WRITES`: nothing is cached by the kernel, and
/// writes do not wait for each other.
const OPEN_FLAGS: u32 = 1 | 1 << 6;

/// Seconds that the kernel keeps attributes. A change of size is notified.
const VALID_S: u64 = 1;

/// `S_IFDIR` and `S_IFREG`.
const DIRECTORY: u32 = 0o040_000;
/// See above.
const REGULAR: u32 = 0o100_000;

/// Attributes of the directory and its file, as the kernel gets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAttributes {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of a block of it.
    pub block_bytes: u32,
    /// Writes are refused.
    pub is_read_only: bool,
    /// User and group.
    pub owner: (u32, u32),
    /// Start of its server, seconds since 1970.
    pub since: u64,
}

/// Size of the file system, as the kernel gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
}

/// `fuse_out_header` of an answer, or of a notification, whose number stands for the error.
pub(super) fn header(unique: u64, error: i32, payload: usize) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&((HEADER_BYTES + payload) as u32).to_ne_bytes());
    bytes[4..8].copy_from_slice(&error.to_ne_bytes());
    bytes[8..].copy_from_slice(&unique.to_ne_bytes());
    bytes
}

/// `fuse_init_out`: `request_bytes` are the most data of a request, a multiple of a page.
pub(super) fn init(
    version: (u32, u32),
    flags: u64,
    request_bytes: u32,
    (background, congested): (u16, u16),
) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    let minor = version.1.min(VERSION.1);
    // No read-ahead, as nothing is kept.
    [VERSION.0, minor, 0, flags as u32].iter().for_each(|word| u32_to(&mut out, *word));
    [background, congested].iter().for_each(|word| out.extend(word.to_ne_bytes()));
    // Times have whole seconds.
    [request_bytes, 1_000_000_000].iter().for_each(|word| u32_to(&mut out, *word));
    let pages = request_bytes as usize / rustix::param::page_size();
    // Mappings have no alignment.
    [u16::try_from(pages).unwrap_or(u16::MAX), 0]
        .iter()
        .for_each(|word| out.extend(word.to_ne_bytes()));
    u32_to(&mut out, (flags >> 32) as u32);
    out.resize(64, 0);
    out
}

/// `fuse_attr` of a node.
fn plain_attributes(out: &mut Vec<u8>, of: &FileAttributes, node: u64) {
    let (kind, bytes, links) = match node {
        FILE => (REGULAR | if of.is_read_only { 0o400 } else { 0o600 }, of.bytes, 1),
        _ => (DIRECTORY | if of.is_read_only { 0o500 } else { 0o700 }, 0, 2),
    };
    [node, bytes, bytes.div_ceil(512)].iter().for_each(|word| u64_to(out, *word));
    // The times of the last access, and of the last changes of data and attributes.
    (0..3).for_each(|_| u64_to(out, of.since));
    let optimal = of.block_bytes.max(4096);
    let (user, group) = of.owner;
    // The first three are the nanoseconds of the times.
    let words = [0, 0, 0, kind, links, user, group, 0, optimal, 0];
    words.iter().for_each(|word| u32_to(out, *word));
}

/// `fuse_attr_out`: the attributes of a node.
pub fn attributes(of: &FileAttributes, node: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(104);
    [VALID_S, 0].iter().for_each(|word| u64_to(&mut out, *word));
    plain_attributes(&mut out, of, node);
    out
}

/// `fuse_entry_out`: the file was found.
pub fn entry(of: &FileAttributes) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    // Its name lasts as long as the directory; then what is measured in nanoseconds.
    [FILE, 0, u32::MAX.into(), VALID_S, 0].iter().for_each(|word| u64_to(&mut out, *word));
    plain_attributes(&mut out, of, FILE);
    out
}

/// `fuse_open_out`.
pub fn opened(node: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    u64_to(&mut out, 0);
    [if node == FILE { OPEN_FLAGS } else { 0 }, 0].iter().for_each(|word| u32_to(&mut out, *word));
    out
}

/// `fuse_write_out`: bytes that were written.
pub fn written(len: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&len.to_ne_bytes());
    out
}

/// `fuse_statfs_out`.
pub fn space(of: &Space) -> Vec<u8> {
    let mut out = Vec::with_capacity(80);
    let blocks = of.bytes / u64::from(of.block_bytes.max(1));
    // No free blocks, and no free files.
    [blocks, 0, 0, 1, 0].iter().for_each(|word| u64_to(&mut out, *word));
    let name_max = NAME.len() as u32;
    [of.block_bytes, name_max, of.block_bytes].iter().for_each(|word| u32_to(&mut out, *word));
    out.resize(80, 0);
    out
}

/// `fuse_dirent`s of the directory, without the first `offset`: those that fit into `len` bytes.
pub fn directory(offset: u64, len: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let entries = [(ROOT, DIRECTORY, "."), (ROOT, DIRECTORY, ".."), (FILE, REGULAR, NAME)];
    for (number, (node, kind, name)) in (1u64..).zip(entries).skip(offset.min(3) as usize) {
        let room = (len as usize).saturating_sub(out.len());
        if room < 24 + name.len().next_multiple_of(8) {
            break;
        }
        [node, number].iter().for_each(|word| u64_to(&mut out, *word));
        [name.len() as u32, kind >> 12].iter().for_each(|word| u32_to(&mut out, *word));
        out.extend(name.as_bytes());
        out.resize(out.len().next_multiple_of(8), 0);
    }
    out
}

/// `fuse_notify_inval_inode_out`: drops the attributes of the file that the kernel keeps.
pub(super) fn attributes_changed() -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    // No offset: the kernel keeps no data of it.
    [FILE, u64::MAX, 0].iter().for_each(|word| u64_to(&mut out, *word));
    out
}

/// The number of this notification.
pub(super) const ATTRIBUTES_CHANGED: i32 = 2;

fn u32_to(out: &mut Vec<u8>, word: u32) {
    out.extend(word.to_ne_bytes());
}

fn u64_to(out: &mut Vec<u8>, word: u64) {
    out.extend(word.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: FileAttributes = FileAttributes {
        bytes: 1 << 20,
        block_bytes: 512,
        is_read_only: false,
        owner: (1000, 100),
        since: 1 << 30,
    };

    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn answers_have_the_lengths_of_the_header() {
        assert_eq!(attributes(&OF, FILE).len(), 104);
        assert_eq!(entry(&OF).len(), 128);
        assert_eq!(opened(FILE).len(), 16);
        assert_eq!(space(&Space { bytes: 1 << 20, block_bytes: 512 }).len(), 80);
        assert_eq!(attributes_changed().len(), 24);
        assert_eq!(init((7, 45), FLAGS | OVER_RING, 1 << 20, (64, 48)).len(), 64);
        assert_eq!(
            header(7, -5, 0),
            *[&16u32.to_ne_bytes()[..], &(-5i32).to_ne_bytes(), &7u64.to_ne_bytes()].concat()
        );
    }

    #[test]
    fn the_file_and_the_directory_have_their_modes() {
        let mode = |of: &FileAttributes, node| u32_at(&attributes(of, node), 16 + 48 + 12);
        assert_eq!((mode(&OF, FILE), mode(&OF, ROOT)), (0o100_600, 0o040_700));
        let read_only = FileAttributes { is_read_only: true, ..OF };
        assert_eq!((mode(&read_only, FILE), mode(&read_only, ROOT)), (0o100_400, 0o040_500));
        assert_eq!(u32_at(&entry(&OF), 40 + 48 + 12), 0o100_600);
    }

    #[test]
    fn the_beginning_agrees_on_no_more_than_both_know() {
        let older = init((7, 28), 1, 1 << 17, (64, 48));
        assert_eq!((u32_at(&older, 4), u32_at(&older, 12)), (28, 1));
        let newer = init((7, 45), FLAGS | OVER_RING, 1 << 20, (64, 48));
        assert_eq!((u32_at(&newer, 4), u32_at(&newer, 12)), (VERSION.1, (FLAGS | 1 << 30) as u32));
        assert_eq!(u32_at(&newer, 32), 1 << 9, "the flags above the first 32");
        assert_eq!(u32_at(&newer, 20), 1 << 20);
        let pages = u16::from_ne_bytes(newer[28..30].try_into().unwrap());
        assert_eq!(usize::from(pages) * rustix::param::page_size(), 1 << 20);
    }

    #[test]
    fn a_directory_is_read_in_parts() {
        let whole = directory(0, 4096);
        assert_eq!(whole.len(), 3 * 32);
        assert_eq!(&whole[64 + 24..64 + 28], NAME.as_bytes());
        assert_eq!(directory(2, 4096), whole[64..]);
        assert_eq!(directory(0, 95), whole[..64]);
        assert!(directory(3, 4096).is_empty() && directory(u64::MAX, 4096).is_empty());
        assert!(directory(0, 31).is_empty());
    }
}
