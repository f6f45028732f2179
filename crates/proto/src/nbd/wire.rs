//! Magic numbers, and decoding big-endian numbers and strings.

use crate::limits::NBD_STRING_BYTES_MAX;

/// First word of a server: "NBDMAGIC".
pub(super) const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second word of a newstyle server, and first of every option: "IHAVEOPT".
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Second word of an oldstyle server.
pub(super) const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// First word of the reply to an option.
pub(super) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First word of a compact request.
pub(super) const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First word of an extended request.
pub(super) const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// First word of a simple reply.
pub(super) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First word of a structured reply chunk.
pub(super) const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// First word of an extended reply chunk.
pub(super) const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Bytes of what a server greets with.
pub(super) const GREETING_BYTES: usize = 18;
/// Bytes of what an oldstyle server greets with, without the zeroes behind it.
pub(super) const OLDSTYLE_GREETING_BYTES: usize = 28;
/// Bytes of an option's header.
pub(super) const OPTION_BYTES: usize = 16;
/// Bytes of the header of the reply to an option.
pub(super) const OPTION_REPLY_BYTES: usize = 20;
/// Zeroes behind the reply to an export name, where the client did not ask to leave them out.
pub(super) const EXPORT_NAME_ZEROES: usize = 124;

/// Reads numbers and strings from the front of bytes. `None`: there is not so much, and then
/// nothing more either.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = core::mem::take(&mut self.0).split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = core::mem::take(&mut self.0).split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string with its length before it.
    pub fn string(&mut self) -> Option<&'a str> {
        let len = self.u32()? as usize;
        text(self.bytes(len)?)
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Bytes as a string of the protocol: UTF-8 without NUL, not too long.
pub(super) fn text(bytes: &[u8]) -> Option<&str> {
    let fits = bytes.len() <= NBD_STRING_BYTES_MAX && !bytes.contains(&0);
    if fits { core::str::from_utf8(bytes).ok() } else { None }
}

/// Appends the header of an option.
pub(super) fn put_option(out: &mut Vec<u8>, option: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// Appends a reply to an option.
pub(super) fn put_option_reply(out: &mut Vec<u8>, option: u32, reply: u32, data: &[&[u8]]) {
    let len: usize = data.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&reply.to_be_bytes());
    out.extend_from_slice(&(len as u32).to_be_bytes());
    data.iter().for_each(|part| out.extend_from_slice(part));
}

/// Sends what the negotiation has to say, as much as one gather list takes. `from` is how much of
/// it was sent before.
#[inline]
pub(super) fn transmit_bytes(
    bytes: &mut Vec<u8>,
    from: &mut usize,
    out: &mut crate::stream::Transmit,
) {
    while *from < bytes.len() && !out.is_full() {
        let to = bytes.len().min(*from + crate::stream::Transmit::HEADERS_PER_STEP);
        out.header(&bytes[*from..to]);
        *from = to;
    }
    if *from == bytes.len() {
        bytes.clear();
        *from = 0;
    }
}
