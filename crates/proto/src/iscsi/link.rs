//! Code of both ends: the positions of a received PDU's parts, and writing a PDU into a gather
//! list.

use super::digest::{self, Digests, crc32c, crc32c_append, without_tail};
use super::pdu::{BHS_BYTES, Head, padding};
use crate::limits::AHS_BYTES_MAX;
use crate::stream::{HEADER_MAX, Tag, Transmit};

const _: () = assert!(
    BHS_BYTES + AHS_BYTES_MAX + digest::BYTES <= HEADER_MAX,
    "a header has to be seen whole"
);

/// Contents of a header of `Framed::bytes`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framed<'a> {
    /// The basic header segment.
    pub bhs: &'a [u8; BHS_BYTES],
    /// Its common fields.
    pub head: Head,
    /// Bytes of both segments and the digest.
    pub bytes: usize,
}

/// Why a header could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// This many bytes are needed.
    More(usize),
    /// Additional header segments of more than [`AHS_BYTES_MAX`].
    LongHeader,
    /// The header digest is wrong.
    HeaderDigest,
}

/// Finds the header at the start of `bytes`.
#[inline]
pub(super) fn frame(bytes: &[u8], digests: Digests) -> Result<Framed<'_>, Halt> {
    let Some(bhs) = bytes.first_chunk::<BHS_BYTES>() else { return Err(Halt::More(BHS_BYTES)) };
    let head = Head::decode(bhs);
    if head.ahs_bytes > AHS_BYTES_MAX {
        return Err(Halt::LongHeader);
    }
    let end = BHS_BYTES + head.ahs_bytes;
    let whole = end + digests.header_bytes();
    if bytes.len() < whole {
        return Err(Halt::More(whole));
    }
    if digests.header && bytes[end..whole] != crc32c(&bytes[..end]).to_le_bytes() {
        return Err(Halt::HeaderDigest);
    }
    Ok(Framed { bhs, head, bytes: whole })
}

/// Rest of a PDU behind data that goes to the pump: padding and digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    padding: usize,
    digest: bool,
}

impl Tail {
    /// Behind `data_bytes` of data.
    #[inline]
    pub fn of(data_bytes: u32, digests: Digests) -> Self {
        Self { padding: padding(data_bytes), digest: digests.data && data_bytes > 0 }
    }

    /// Returns whether there is one.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.bytes() == 0
    }

    /// Returns whether the digest of the data is asked for.
    #[inline]
    pub fn has_digest(self) -> bool {
        self.digest
    }

    /// Its length.
    #[inline]
    pub fn bytes(self) -> usize {
        self.padding + if self.digest { digest::BYTES } else { 0 }
    }

    /// Reads it, once `bytes` holds it: the digest that the data alone has to have, if there is
    /// one.
    #[inline]
    pub fn expected(self, bytes: &[u8]) -> Option<u32> {
        let (padding, rest) = bytes.split_at_checked(self.padding)?;
        let digest = rest.first_chunk().filter(|_| self.digest)?;
        Some(without_tail(u32::from_le_bytes(*digest), padding))
    }
}

/// Appends a header, and its digest.
#[inline]
pub(super) fn put_header(bhs: &[u8; BHS_BYTES], digests: Digests, out: &mut Transmit) {
    out.header(bhs);
    if digests.header {
        out.header(&crc32c(bhs).to_le_bytes());
    }
}

/// Appends `bytes` (more than zero) of payload with its padding, which is read from the same
/// memory, and its digest.
#[inline]
pub(super) fn put_payload(tag: Tag, offset: u32, bytes: u32, digests: Digests, out: &mut Transmit) {
    out.payload(tag, offset, bytes + padding(bytes) as u32, digests.data);
}

/// Appends a whole PDU whose data is at hand.
pub(super) fn encode(bhs: &[u8; BHS_BYTES], data: &[u8], digests: Digests, out: &mut Vec<u8>) {
    out.extend_from_slice(bhs);
    if digests.header {
        out.extend_from_slice(&crc32c(bhs).to_le_bytes());
    }
    if data.is_empty() {
        return;
    }
    let zeroes = &[0; 3][..padding(data.len() as u32)];
    out.extend_from_slice(data);
    out.extend_from_slice(zeroes);
    if digests.data {
        out.extend_from_slice(&crc32c_append(crc32c(data), zeroes).to_le_bytes());
    }
}

/// The same into a gather list.
#[inline]
pub(super) fn put_whole(bhs: &[u8; BHS_BYTES], data: &[u8], digests: Digests, out: &mut Transmit) {
    put_header(bhs, digests, out);
    if data.is_empty() {
        return;
    }
    let zeroes = &[0; 3][..padding(data.len() as u32)];
    out.header(data);
    out.header(zeroes);
    if digests.data {
        out.header(&crc32c_append(crc32c(data), zeroes).to_le_bytes());
    }
}

/// Collects the data segment of a PDU that the engine reads itself, padding and digest included, as
/// it comes.
#[derive(Debug, Default)]
pub(super) struct Inline {
    bytes: Vec<u8>,
    left: usize,
    data_bytes: usize,
    digest: bool,
}

impl Inline {
    /// Begins a segment of `data_bytes`.
    pub fn begin(&mut self, data_bytes: u32, digests: Digests) {
        self.bytes.clear();
        self.data_bytes = data_bytes as usize;
        self.digest = digests.data && data_bytes > 0;
        self.left = self.data_bytes + Tail::of(data_bytes, digests).bytes();
    }

    /// Takes the bytes that belong to it from the front of `bytes`; returns their number.
    pub fn take(&mut self, bytes: &[u8]) -> usize {
        let n = self.left.min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..n]);
        self.left -= n;
        n
    }

    /// Returns whether all of it is there.
    pub fn is_whole(&self) -> bool {
        self.left == 0
    }

    /// The data of a segment that is whole; `None`: its digest is wrong.
    pub fn data(&self) -> Option<&[u8]> {
        let (covered, digest) =
            self.bytes.split_at(self.bytes.len() - if self.digest { digest::BYTES } else { 0 });
        let intact = !self.digest || crc32c(covered).to_le_bytes() == *digest;
        intact.then(|| &covered[..self.data_bytes])
    }

    /// Gives the memory back.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::pdu::NopOut;

    #[test]
    fn headers_are_found_whole_or_not_at_all() {
        let mut bytes = Vec::new();
        encode(&NopOut::default().encode(5), b"hello", Digests::BOTH, &mut bytes);
        assert_eq!(bytes.len(), 48 + 4 + 8 + 4);
        for cut in 0..52 {
            let need = if cut < 48 { 48 } else { 52 };
            assert_eq!(frame(&bytes[..cut], Digests::BOTH).unwrap_err(), Halt::More(need));
        }
        let framed = frame(&bytes, Digests::BOTH).unwrap();
        assert_eq!((framed.bytes, framed.head.data_bytes), (52, 5));
        let mut inline = Inline::default();
        inline.begin(5, Digests::BOTH);
        assert_eq!(inline.take(&bytes[52..]), 12);
        assert_eq!(inline.data(), Some(&b"hello"[..]));
        let tail = Tail::of(5, Digests::BOTH);
        assert_eq!(tail.expected(&bytes[57..]), Some(crc32c(b"hello")));
        bytes[3] ^= 1;
        assert_eq!(frame(&bytes, Digests::BOTH).unwrap_err(), Halt::HeaderDigest);
        assert!(frame(&bytes, Digests::NONE).is_ok());
    }

    #[test]
    fn damage_in_a_segment_is_seen() {
        let mut bytes = Vec::new();
        encode(&NopOut::default().encode(2), b"hi", Digests::BOTH, &mut bytes);
        bytes[54] ^= 0x10;
        let mut inline = Inline::default();
        inline.begin(2, Digests::BOTH);
        inline.take(&bytes[52..]);
        assert!(inline.is_whole());
        assert_eq!(inline.data(), None);
    }

    #[test]
    fn long_additional_headers_are_refused() {
        let mut bhs = NopOut::default().encode(0);
        bhs[4] = (AHS_BYTES_MAX / 4 + 1) as u8;
        assert_eq!(frame(&bhs, Digests::NONE).unwrap_err(), Halt::LongHeader);
        bhs[4] -= 1;
        assert_eq!(frame(&bhs, Digests::NONE).unwrap_err(), Halt::More(BHS_BYTES + AHS_BYTES_MAX));
    }
}
