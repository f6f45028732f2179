//! Blocks of a file in the format pcapng (draft-ietf-opsawg-pcapng §4), in little-endian order,
//! with one interface whose packets begin with the header of IP, and times in nanoseconds.

use core::time::Duration;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;

/// First bytes of every file.
pub const MAGIC: [u8; 4] = SECTION_HEADER.to_le_bytes();
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
/// `LINKTYPE_RAW`.
const RAW_IP: u16 = 101;

mod option {
    pub(super) const END: u16 = 0;
    pub(super) const COMMENT: u16 = 1;
    pub(super) const USER_APPLICATION: u16 = 4;
    pub(super) const INTERFACE_NAME: u16 = 2;
    pub(super) const TIME_RESOLUTION: u16 = 9;
    pub(super) const PACKET_FLAGS: u16 = 2;
    pub(super) const STATISTICS_START: u16 = 2;
    pub(super) const STATISTICS_END: u16 = 3;
    pub(super) const RECEIVED: u16 = 4;
    pub(super) const DROPPED: u16 = 5;
}

/// Times are in nanoseconds.
const NANOSECONDS: u8 = 9;

/// Direction of a packet at the place of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// Statistics at the end of a file.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceStatistics {
    /// When it began, since 1970.
    pub start: Duration,
    /// When it ended, since 1970.
    pub end: Duration,
    /// Packets that there were.
    pub received: u64,
    /// Those of them that are not in the file.
    pub dropped: u64,
}

/// Appends the beginning of a file: `program` wrote it, and `comment` says what it is.
pub fn begin(program: &str, comment: &str, out: &mut Vec<u8>) {
    block(SECTION_HEADER, out, |out| {
        out.extend_from_slice(&BYTE_ORDER.to_le_bytes());
        // Version 1.0, and a length that is not given.
        out.extend_from_slice(&[1, 0, 0, 0]);
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        put(option::COMMENT, comment.as_bytes(), out);
        put(option::USER_APPLICATION, program.as_bytes(), out);
        put(option::END, &[], out);
    });
    block(INTERFACE_DESCRIPTION, out, |out| {
        out.extend_from_slice(&RAW_IP.to_le_bytes());
        // Packets are not cut.
        out.extend_from_slice(&[0; 6]);
        put(option::INTERFACE_NAME, program.as_bytes(), out);
        put(option::TIME_RESOLUTION, &[NANOSECONDS], out);
        put(option::END, &[], out);
    });
}

/// Appends a packet, which `encode` writes.
pub fn packet(at: Duration, way: Way, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    block(ENHANCED_PACKET, out, |out| {
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&time(at));
        let lengths = out.len();
        out.extend_from_slice(&[0; 8]);
        encode(out);
        let bytes = (out.len() - lengths - 8) as u32;
        out[lengths..][..4].copy_from_slice(&bytes.to_le_bytes());
        out[lengths + 4..][..4].copy_from_slice(&bytes.to_le_bytes());
        pad(out, bytes as usize);
        let direction = match way {
            Way::In => 1u32,
            Way::Out => 2,
        };
        put(option::PACKET_FLAGS, &direction.to_le_bytes(), out);
        put(option::END, &[], out);
    });
}

/// Appends the end of a file.
pub fn end(statistics: &InterfaceStatistics, out: &mut Vec<u8>) {
    block(INTERFACE_STATISTICS, out, |out| {
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&time(statistics.end));
        put(option::STATISTICS_START, &time(statistics.start), out);
        put(option::STATISTICS_END, &time(statistics.end), out);
        put(option::RECEIVED, &statistics.received.to_le_bytes(), out);
        put(option::DROPPED, &statistics.dropped.to_le_bytes(), out);
        put(option::END, &[], out);
    });
}

/// Bytes of the end of a file.
pub const END_BYTES: usize = 12 + 12 + 4 * 12 + 4;

/// A time, its upper half first.
fn time(at: Duration) -> [u8; 8] {
    let nanoseconds = at.as_nanos() as u64;
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&((nanoseconds >> 32) as u32).to_le_bytes());
    bytes[4..].copy_from_slice(&(nanoseconds as u32).to_le_bytes());
    bytes
}

/// A block, whose length stands at both of its ends.
fn block(kind: u32, out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    content(out);
    let length = ((out.len() - start + 4) as u32).to_le_bytes();
    out.extend_from_slice(&length);
    out[start + 4..][..4].copy_from_slice(&length);
}

fn put(option: u16, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&option.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(out, value.len());
}

fn pad(out: &mut Vec<u8>, bytes: usize) {
    out.resize(out.len() + bytes.next_multiple_of(4) - bytes, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_tell_their_length_at_both_ends() {
        let mut file = Vec::new();
        begin("weft", "a capture", &mut file);
        packet(Duration::from_nanos(5 << 32 | 7), Way::Out, &mut file, |out| {
            out.extend_from_slice(b"abcde");
        });
        let statistics = InterfaceStatistics {
            start: Duration::ZERO,
            end: Duration::from_secs(1),
            received: 3,
            dropped: 1,
        };
        let before = file.len();
        end(&statistics, &mut file);
        assert_eq!(file.len() - before, END_BYTES);
        let (mut at, mut kinds) = (0, Vec::new());
        while at < file.len() {
            let word = |at: usize| u32::from_le_bytes(*file[at..].first_chunk().unwrap());
            let length = word(at + 4);
            assert_eq!(length % 4, 0);
            assert_eq!(word(at + length as usize - 4), length);
            kinds.push(word(at));
            if word(at) == ENHANCED_PACKET {
                assert_eq!([word(at + 12), word(at + 16), word(at + 20)], [5, 7, 5]);
            }
            at += length as usize;
        }
        let all = [SECTION_HEADER, INTERFACE_DESCRIPTION, ENHANCED_PACKET, INTERFACE_STATISTICS];
        assert_eq!(kinds, all);
    }
}
