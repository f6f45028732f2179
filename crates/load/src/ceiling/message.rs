//! The messages. Their lengths are those of NVMe/TCP; of their content only the first bytes are
//! used.
//!
//! | bytes | field (little endian) |
//! |---|---|
//! | 0 | kind |
//! | 1..4 | magic |
//! | 4..8 | number of the operation |
//! | 8..16 | offset in the region, bytes; in an answer to a hello, the region's length; in one to a count, system calls |
//! | 16..20 | length of the payload, bytes; in a hello, socket buffers |
//!
//! A hello says how the connection is tuned on both sides: in the place of the length the socket
//! buffers in bytes (0: the system's), in that of the number up to how many bytes payloads are
//! copied behind their headers, in that of the offset whether to prefetch.

/// Bytes of a request: a command capsule (NVMe TCP 1.1 §3.6.2.4).
pub const REQUEST_BYTES: usize = 72;

/// Bytes of all others: the headers of H2CData, C2HData and R2T, and a response capsule, are
/// equally long.
pub const HEADER_BYTES: usize = 24;

/// Maximum payload, bytes; a peer that announces more is disconnected.
pub const PAYLOAD_BYTES_MAX: u32 = 1 << 30;

/// The number in the answer to a [`CeilingMessageKind::Count`].
pub const COUNT_NUMBER: u32 = u32::MAX;

const MAGIC: [u8; 3] = *b"wc1";

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CeilingMessageKind {
    /// Client: who are you? A request.
    Hello = 1,
    /// Client: send me payload. A request.
    Read = 2,
    /// Client: here is payload. A request, and payload behind it.
    Write = 3,
    /// Client: I have payload for you. A request.
    WriteLarge = 4,
    /// Both: payload, behind this header.
    Data = 5,
    /// Server: send the payload.
    Grant = 6,
    /// Server: the operation is over.
    Done = 7,
    /// Client: how many productive system calls have you made? A request; the answer is a
    /// [`CeilingMessageKind::Done`] of [`COUNT_NUMBER`].
    Count = 8,
}

impl CeilingMessageKind {
    const ALL: [Self; 8] = [
        Self::Hello,
        Self::Read,
        Self::Write,
        Self::WriteLarge,
        Self::Data,
        Self::Grant,
        Self::Done,
        Self::Count,
    ];

    /// Bytes of the message without its payload.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Hello | Self::Read | Self::Write | Self::WriteLarge | Self::Count => {
                REQUEST_BYTES
            }
            Self::Data | Self::Grant | Self::Done => HEADER_BYTES,
        }
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CeilingMessage {
    /// Its kind.
    pub kind: CeilingMessageKind,
    /// Of which operation.
    pub number: u32,
    /// Its place.
    pub offset: u64,
    /// Length of the payload that it requests or carries.
    pub len: u32,
}

impl CeilingMessage {
    /// The message, without payload, with zeroes behind.
    #[inline]
    pub fn encode(&self) -> ([u8; REQUEST_BYTES], usize) {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[0] = self.kind as u8;
        bytes[1..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.len.to_le_bytes());
        (bytes, self.kind.bytes())
    }

    /// The message that `bytes` begin with and its length without payload; `Ok(None)` while it is
    /// not all there.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let kind = CeilingMessageKind::ALL
            .into_iter()
            .find(|kind| *kind as u8 == head[0])
            .ok_or(Malformed)?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let message = Self {
            kind,
            number: word(4),
            offset: u64::from(word(8)) | u64::from(word(12)) << 32,
            len: word(16),
        };
        if head[1..4] != MAGIC || message.len > PAYLOAD_BYTES_MAX {
            return Err(Malformed);
        }
        Ok((bytes.len() >= kind.bytes()).then_some((message, kind.bytes())))
    }

    /// Bytes of payload behind the message.
    #[inline]
    pub fn payload(&self) -> usize {
        match self.kind {
            CeilingMessageKind::Write | CeilingMessageKind::Data => self.len as usize,
            _ => 0,
        }
    }
}

/// The peer speaks something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Cuts a byte stream into messages and drops their payload.
#[derive(Debug)]
pub struct Parser {
    staging: Box<[u8]>,
    /// Bytes of an unfinished message at the front of `staging`.
    held: usize,
    /// Payload that is still to come and to be dropped.
    skip: usize,
}

impl Parser {
    /// Receives `bytes` at once; at least a request more than that fits.
    pub fn new(bytes: usize) -> Self {
        Self { staging: vec![0; bytes + REQUEST_BYTES].into(), held: 0, skip: 0 }
    }

    /// Returns the place to receive to.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.staging[self.held..]
    }

    /// Takes `received` bytes that are now in [`Parser::room`], and hands over each message.
    #[inline]
    pub fn take(
        &mut self,
        received: usize,
        mut each: impl FnMut(CeilingMessage) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let end = self.held + received;
        let mut at = 0;
        loop {
            let skipped = self.skip.min(end - at);
            at += skipped;
            self.skip -= skipped;
            let Some((message, len)) = CeilingMessage::decode(&self.staging[at..end])? else {
                break;
            };
            at += len;
            self.skip = message.payload();
            each(message)?;
        }
        self.staging.copy_within(at..end, 0);
        self.held = end - at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> (Vec<u8>, Vec<CeilingMessage>) {
        let messages = vec![
            CeilingMessage {
                kind: CeilingMessageKind::Read,
                number: 7,
                offset: 0x1_2345_6789,
                len: 4096,
            },
            CeilingMessage {
                kind: CeilingMessageKind::Write,
                number: u32::MAX,
                offset: 1,
                len: 300,
            },
            CeilingMessage { kind: CeilingMessageKind::Data, number: 0, offset: 0, len: 10 },
            CeilingMessage { kind: CeilingMessageKind::Done, number: 3, offset: 0, len: 0 },
        ];
        let mut bytes = Vec::new();
        for message in &messages {
            let (head, len) = message.encode();
            bytes.extend_from_slice(&head[..len]);
            // Payload that looks like a message.
            bytes.extend(
                CeilingMessage { kind: CeilingMessageKind::Read, ..*message }
                    .encode()
                    .0
                    .iter()
                    .cycle()
                    .take(message.payload()),
            );
        }
        (bytes, messages)
    }

    #[test]
    fn any_cut_gives_the_same_messages() {
        let (bytes, expected) = stream();
        for size in 1..bytes.len() {
            let mut parser = Parser::new(64);
            let mut found = Vec::new();
            for mut chunk in bytes.chunks(size) {
                while !chunk.is_empty() {
                    let room = parser.room();
                    let n = room.len().min(chunk.len());
                    room[..n].copy_from_slice(&chunk[..n]);
                    chunk = &chunk[n..];
                    let each = |message| {
                        found.push(message);
                        Ok(())
                    };
                    parser.take(n, each).unwrap();
                }
            }
            assert_eq!(found, expected, "cut at {size}");
        }
    }

    #[test]
    fn lengths_are_those_of_nvme_tcp() {
        let len = |kind| CeilingMessage { kind, number: 0, offset: 0, len: 0 }.encode().1;
        assert_eq!(
            [CeilingMessageKind::Read, CeilingMessageKind::Write, CeilingMessageKind::WriteLarge]
                .map(len),
            [72; 3]
        );
        assert_eq!(
            [CeilingMessageKind::Data, CeilingMessageKind::Grant, CeilingMessageKind::Done]
                .map(len),
            [24; 3]
        );
    }

    #[test]
    fn other_protocols_are_noticed() {
        assert_eq!(CeilingMessage::decode(&[0; 128]), Err(Malformed));
        assert_eq!(CeilingMessage::decode(b"SSH-2.0-OpenSSH_9.9 and so on"), Err(Malformed));
        let (mut bytes, _) =
            CeilingMessage { kind: CeilingMessageKind::Read, number: 0, offset: 0, len: 1 }
                .encode();
        assert_eq!(CeilingMessage::decode(&bytes[..23]), Ok(None));
        assert_eq!(CeilingMessage::decode(&bytes[..71]), Ok(None));
        bytes[19] = 0xff;
        assert_eq!(CeilingMessage::decode(&bytes), Err(Malformed));
    }
}
