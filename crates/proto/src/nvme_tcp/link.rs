//! Code of both ends: the state of a connection, the checks of the common header, and writing PDUs
//! into a gather list.

use super::digest::{self, Digests, crc32c};
use super::pdu::{
    COMMON_BYTES, CommonHeader, Flags, IC_BYTES, PduType, TERM_REQ_BYTES, TERM_REQ_BYTES_MAX,
};
use super::term::{self, Termination};
use super::violation::Violation;
use crate::nvme::deviation::{Deviation, Deviations};
use crate::stream::{Rx, Tag, Transmit};

/// Parameters agreed on with ICReq and ICResp (NVMe TCP 1.1 §3.6.2.2 and §3.6.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Digests in use.
    pub digests: Digests,
    /// Data in C2HData starts at a multiple of this many bytes.
    pub host_alignment_bytes: u32,
    /// Data in command capsules and H2CData starts at a multiple of this many bytes.
    pub controller_alignment_bytes: u32,
    /// R2Ts that the host lets be outstanding per command, at least 1.
    pub max_r2t: u32,
    /// Data bytes in one H2CData PDU, at most.
    pub max_h2c_data_bytes: u32,
}

/// Data bytes that a PDU is given at most, whatever both sides would allow, so that PLEN cannot
/// overflow.
pub(super) const PDU_DATA_BYTES_MAX: u32 = 1 << 30;

/// Bytes of an alignment as HPDA and CPDA state it.
pub(super) const fn alignment_bytes(pda: u8) -> u32 {
    (pda as u32 + 1) * 4
}

/// Format of PDUs after negotiation.
#[derive(Clone, Copy)]
pub(super) struct Format {
    digests: Digests,
    header_digest_bytes: u32,
    data_digest_bytes: u32,
    flags: Flags,
    /// Flags of digests that were not agreed on.
    foreign_flags: u8,
    rx_alignment: u32,
    tx_alignment: u32,
}

/// Place of the data of a received PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Body {
    /// Bytes of header, header digest and padding.
    pub start: usize,
    /// Bytes of data.
    pub bytes: u32,
    /// True if a data digest follows.
    pub digest: bool,
}

impl Body {
    /// Bytes of data and data digest.
    pub fn wire_bytes(&self) -> u32 {
        self.bytes + if self.digest { digest::BYTES as u32 } else { 0 }
    }
}

const PADDING: [u8; 128] = [0; 128];

impl Format {
    #[inline]
    pub(super) fn has_data_digest(&self) -> bool {
        self.data_digest_bytes > 0
    }

    pub fn new(digests: Digests, rx_alignment: u32, tx_alignment: u32) -> Self {
        let digest_bytes = |on| if on { digest::BYTES as u32 } else { 0 };
        Self {
            digests,
            header_digest_bytes: digest_bytes(digests.header),
            data_digest_bytes: digest_bytes(digests.data),
            flags: if digests.header { Flags::HEADER_DIGEST } else { Flags(0) },
            foreign_flags: [
                (digests.header, Flags::HEADER_DIGEST),
                (digests.data, Flags::DATA_DIGEST),
            ]
            .into_iter()
            .fold(0, |foreign, (agreed, flag)| if agreed { foreign } else { foreign | flag.0 }),
            rx_alignment,
            tx_alignment,
        }
    }

    /// Checks HDGSTF (a flag for a digest that was not agreed on means nothing), the header digest
    /// and HLEN of a PDU whose type has a header of `N` bytes; gives the bytes up to the end of the
    /// digest. The digest comes first, as without it no other field can be relied on (§3.5.2).
    #[inline(always)]
    fn check_head<const N: usize>(&self, header: CommonHeader, bytes: &[u8]) -> Result<u32, Halt> {
        if self.digests.header && !header.flags.has(Flags::HEADER_DIGEST) {
            return Err(Violation::HeaderDigestFlag.into());
        }
        if self.digests.header {
            check_digest::<N>(bytes)?;
        }
        if usize::from(header.hlen) != N {
            return Err(Violation::HeaderLength.into());
        }
        Ok(N as u32 + self.header_digest_bytes)
    }

    /// Checks the common header of a PDU that never has data. Gives the header and the length of
    /// the PDU.
    #[inline]
    pub fn check_plain<'a, const N: usize>(
        &self,
        header: CommonHeader,
        bytes: &'a [u8],
    ) -> Result<(&'a [u8; N], usize), Halt> {
        let end = self.check_head::<N>(header, bytes)?;
        if header.plen != end {
            return Err(Violation::PduLength.into());
        }
        Ok((first(bytes, end as usize)?, end as usize))
    }

    /// Checks the common header of a PDU that may have data. Gives the header and where the data
    /// is.
    #[inline]
    pub fn check_data<'a, const N: usize>(
        &self,
        header: CommonHeader,
        bytes: &'a [u8],
    ) -> Result<(&'a [u8; N], Body), Halt> {
        let end = self.check_head::<N>(header, bytes)?;
        let body = if header.plen == end {
            Body { start: end as usize, bytes: 0, digest: false }
        } else {
            self.find_body(header, end)?
        };
        Ok((first(bytes, body.start)?, body))
    }

    /// Finds the data of a PDU whose header and digest end at `end`.
    #[inline]
    fn find_body(&self, header: CommonHeader, end: u32) -> Result<Body, Violation> {
        if header.plen < end {
            return Err(Violation::PduLength);
        }
        let pdo = u32::from(header.pdo);
        let aligned = pdo.is_multiple_of(4)
            && (self.rx_alignment == 4 || pdo.is_multiple_of(self.rx_alignment));
        if pdo < end || pdo > header.plen || !aligned {
            return Err(Violation::DataOffset);
        }
        let behind = header.plen - pdo;
        if behind == 0 {
            return Ok(Body { start: pdo as usize, bytes: 0, digest: false });
        }
        if self.digests.data && !header.flags.has(Flags::DATA_DIGEST) {
            return Err(Violation::DataDigestFlag);
        }
        let bytes = behind.checked_sub(self.data_digest_bytes).ok_or(Violation::PduLength)?;
        Ok(Body { start: pdo as usize, bytes, digest: self.digests.data })
    }

    /// The common header of a PDU without data.
    #[inline]
    pub fn plain(&self, pdu_type: PduType, header_bytes: usize) -> CommonHeader {
        CommonHeader {
            pdu_type,
            flags: self.flags,
            hlen: header_bytes as u8,
            pdo: 0,
            plen: header_bytes as u32 + self.header_digest_bytes,
        }
    }

    /// The common header of a PDU with `bytes` (more than zero) of data.
    #[inline]
    pub fn with_data(
        &self,
        pdu_type: PduType,
        header_bytes: usize,
        flags: Flags,
        bytes: u32,
    ) -> CommonHeader {
        let mut pdo = header_bytes as u32 + self.header_digest_bytes;
        if self.tx_alignment != 4 {
            pdo = pdo.next_multiple_of(self.tx_alignment);
        }
        let digest = if self.digests.data { Flags::DATA_DIGEST } else { Flags(0) };
        CommonHeader {
            pdu_type,
            flags: self.flags.with(flags).with(digest),
            hlen: header_bytes as u8,
            pdo: pdo as u8,
            plen: pdo + bytes + self.data_digest_bytes,
        }
    }

    /// Appends a header and its digest.
    #[inline]
    pub fn put<const N: usize>(&self, header: &[u8; N], out: &mut Transmit) {
        out.header(header);
        if self.digests.header {
            out.header(&crc32c(header).to_le_bytes());
        }
    }

    /// Appends a header made from [`Self::with_data`], padding, and a payload.
    #[inline]
    pub fn put_data<const N: usize>(
        &self,
        header: &[u8; N],
        tag: Tag,
        offset: u32,
        bytes: u32,
        out: &mut Transmit,
    ) {
        self.put(header, out);
        let padding = usize::from(header[3]) - N - self.header_digest_bytes as usize;
        if padding > 0 {
            out.header(&PADDING[..padding]);
        }
        out.payload(tag, offset, bytes, self.digests.data);
    }
}

/// Progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// ICReq or ICResp is awaited.
    Connecting,
    /// Initialized.
    Open,
    /// Nothing more is received; at most a TermReq is still to be sent.
    Closed,
}

/// Result of one step of a receiver.
pub(super) enum Step<E> {
    /// This many bytes were used up, without an event.
    Used(usize),
    /// This many bytes were used up, with this event.
    Tell(usize, Rx<E>),
}

impl<E> Step<E> {
    /// The same behind a header of `bytes` that was used up before.
    #[inline]
    pub fn behind(self, bytes: usize) -> Self {
        match self {
            Self::Used(n) => Self::Used(n + bytes),
            Self::Tell(n, what) => Self::Tell(n + bytes, what),
        }
    }
}

/// Why a step was not made.
pub(super) enum Halt {
    /// This many bytes are needed.
    More(usize),
    Broken(Violation),
}

impl From<Violation> for Halt {
    fn from(violation: Violation) -> Self {
        Self::Broken(violation)
    }
}

/// The outcome of a step.
pub(super) type Received<E> = Result<Step<E>, Halt>;

/// The first `N` of at least `need` bytes.
#[inline]
pub(super) fn first<const N: usize>(bytes: &[u8], need: usize) -> Result<&[u8; N], Halt> {
    match bytes.first_chunk() {
        Some(chunk) if bytes.len() >= need => Ok(chunk),
        _ => Err(Halt::More(need)),
    }
}

/// Compares the digest of a header with the one behind it.
#[inline]
fn check_digest<const N: usize>(bytes: &[u8]) -> Result<(), Halt> {
    let header = first::<N>(bytes, N + digest::BYTES)?;
    let received = read_digest(&bytes[N..])?;
    if received == crc32c(header) { Ok(()) } else { Err(Violation::HeaderDigest(received).into()) }
}

/// A digest as it stands on the wire.
#[inline]
pub(super) fn read_digest(bytes: &[u8]) -> Result<u32, Halt> {
    first(bytes, digest::BYTES).map(|digest| u32::from_le_bytes(*digest))
}

/// An end, which receives step by step.
pub(super) trait Receiver {
    type Event;

    fn link(&mut self) -> &mut Link;

    /// Uses up some of `bytes`, at least one if it is [`Step::Used`].
    fn step(&mut self, bytes: &[u8]) -> Received<Self::Event>;

    #[inline]
    fn receive_steps(&mut self, bytes: &[u8]) -> (usize, Rx<Self::Event>) {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            match self.step(rest) {
                Ok(Step::Used(n)) => used += n,
                Ok(Step::Tell(n, what)) => return (used + n, what),
                Err(Halt::More(need)) => return (used, Rx::More { need }),
                Err(Halt::Broken(violation)) => {
                    self.link().fail(violation, rest);
                    return (used, Rx::Closed);
                }
            }
        }
    }
}

/// State of a connection that does not depend on the end.
pub(super) struct Link {
    pub phase: Phase,
    pub format: Format,
    /// ICReq, ICResp or TermReq: sent ahead of everything else.
    urgent: Vec<u8>,
    violation: Option<Violation>,
    term_req: PduType,
    /// Tolerated deviations of the peer.
    pub deviations: Deviations,
}

impl Link {
    /// `term_req` is the type of TermReq that this end sends.
    pub fn new(term_req: PduType) -> Self {
        Self {
            phase: Phase::Connecting,
            format: Format::new(Digests::NONE, 4, 4),
            urgent: Vec::with_capacity(IC_BYTES + TERM_REQ_BYTES_MAX),
            violation: None,
            term_req,
            deviations: Deviations::default(),
        }
    }

    /// Queues an ICReq or ICResp.
    pub fn greet(&mut self, pdu: &[u8; IC_BYTES]) {
        self.urgent.extend_from_slice(pdu);
    }

    /// Notes flags of digests that were not agreed on.
    #[inline]
    pub fn look_at_flags(&mut self, header: CommonHeader) {
        self.deviations
            .note_if(header.flags.0 & self.format.foreign_flags != 0, Deviation::DigestFlags);
    }

    /// Why this end closed the connection.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// Closes the connection over a violation by the PDU at the start of `bytes`, and queues a
    /// TermReq.
    #[cold]
    fn fail(&mut self, violation: Violation, bytes: &[u8]) {
        self.phase = Phase::Closed;
        self.violation = Some(violation);
        if violation != Violation::MalformedTermReq {
            term::encode(self.term_req, violation.wire(), offender(bytes), &mut self.urgent);
        }
    }

    /// Closes the connection over something that did not come. It sends no termination: a peer that
    /// is this late reads nothing either.
    #[cold]
    pub fn give_up(&mut self, violation: Violation) {
        self.phase = Phase::Closed;
        self.violation = Some(violation);
        self.urgent.clear();
    }

    /// Checks the common header of an ICReq or ICResp, and gives the PDU.
    pub fn check_ic<'a>(
        &self,
        header: CommonHeader,
        bytes: &'a [u8],
    ) -> Result<&'a [u8; IC_BYTES], Halt> {
        if usize::from(header.hlen) != IC_BYTES {
            return Err(Violation::HeaderLength.into());
        }
        if header.plen as usize != IC_BYTES {
            return Err(Violation::PduLength.into());
        }
        first(bytes, IC_BYTES)
    }

    /// Reads the peer's TermReq, whose common header is `header`, and closes the connection. It is
    /// not answered (§3.5.1).
    #[cold]
    pub fn terminated<E>(
        &mut self,
        header: CommonHeader,
        bytes: &[u8],
        event: fn(Termination) -> E,
    ) -> Received<E> {
        let plen = header.plen as usize;
        if usize::from(header.hlen) != TERM_REQ_BYTES
            || !(TERM_REQ_BYTES..=TERM_REQ_BYTES_MAX).contains(&plen)
        {
            return Err(Violation::MalformedTermReq.into());
        }
        let termination = Termination::decode(first(bytes, plen)?, &bytes[TERM_REQ_BYTES..plen]);
        self.phase = Phase::Closed;
        self.urgent.clear();
        Ok(Step::Tell(plen, Rx::Event(event(termination))))
    }

    /// Returns whether something must be sent before everything else.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// Sends that, and returns whether commands, data and responses may follow.
    #[inline]
    pub fn transmit_urgent(&mut self, out: &mut Transmit) -> bool {
        if self.is_urgent() && !out.is_full() {
            out.header(&self.urgent);
            self.urgent.clear();
        }
        self.phase == Phase::Open
    }
}

/// The header at the start of `bytes`, as far as it is there.
fn offender(bytes: &[u8]) -> &[u8] {
    let Some(common) = bytes.first_chunk::<COMMON_BYTES>() else { return bytes };
    let header = CommonHeader::decode(common);
    let end = header
        .pdu_type
        .header_bytes()
        .unwrap_or_else(|| usize::from(header.hlen).max(COMMON_BYTES));
    &bytes[..end.min(bytes.len())]
}
