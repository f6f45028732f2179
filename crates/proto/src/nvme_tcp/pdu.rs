//! The PDUs of NVMe/TCP: types, flags, the common header, and the header of each type (NVMe TCP 1.1
//! §2 and §3.6.2). This file defines only the encoding; the two ends check the values.

use super::digest::Digests;
use crate::nvme::cqe::Cqe;
use crate::nvme::sqe::Sqe;
use crate::nvme::types::Cid;

/// Bytes of the common header.
pub const COMMON_BYTES: usize = 8;
/// Bytes of ICReq and ICResp.
pub const IC_BYTES: usize = 128;
/// Bytes of a command capsule's header.
pub const CAPSULE_CMD_BYTES: usize = 72;
/// Bytes of a response capsule.
pub const CAPSULE_RESP_BYTES: usize = 24;
/// Bytes of the header of H2CData, C2HData and R2T.
pub const TRANSFER_BYTES: usize = 24;
/// Bytes of a TermReq's header.
pub const TERM_REQ_BYTES: usize = 24;
/// Bytes of a TermReq with as much of the offending header as it may carry.
pub const TERM_REQ_BYTES_MAX: usize = 152;
/// Largest HPDA or CPDA: data starts at a multiple of 4 × (value + 1) bytes.
pub const ALIGNMENT_MAX: u8 = 31;
/// Smallest MAXH2CDATA that a controller may state, in bytes (§3.6.2.3).
pub const MAX_H2C_DATA_BYTES_MIN: u32 = 4096;
/// In-capsule data, in bytes, that every controller takes with Fabrics and Admin commands (§3.3.1).
pub const FABRICS_CAPSULE_DATA_BYTES: u32 = 8192;

/// PDU-Type (§3.3, figure "NVMe/TCP PDU Types"). Even types go from host to controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PduType(pub u8);

impl PduType {
    /// ICReq: Initialize Connection Request (§3.6.2.2).
    pub const IC_REQ: Self = Self(0x00);
    /// ICResp: Initialize Connection Response (§3.6.2.3).
    pub const IC_RESP: Self = Self(0x01);
    /// H2CTermReq: Host to Controller Terminate Connection Request (§3.6.2.4).
    pub const H2C_TERM_REQ: Self = Self(0x02);
    /// C2HTermReq: Controller to Host Terminate Connection Request (§3.6.2.5).
    pub const C2H_TERM_REQ: Self = Self(0x03);
    /// CapsuleCmd: Command Capsule (§3.6.2.6).
    pub const CAPSULE_CMD: Self = Self(0x04);
    /// CapsuleResp: Response Capsule (§3.6.2.7).
    pub const CAPSULE_RESP: Self = Self(0x05);
    /// H2CData: Host to Controller Data (§3.6.2.8).
    pub const H2C_DATA: Self = Self(0x06);
    /// C2HData: Controller to Host Data (§3.6.2.9).
    pub const C2H_DATA: Self = Self(0x07);
    /// R2T: Ready to Transfer (§3.6.2.10).
    pub const R2T: Self = Self(0x09);

    /// HLEN of the type, if it is known.
    pub const fn header_bytes(self) -> Option<usize> {
        match self {
            Self::IC_REQ | Self::IC_RESP => Some(IC_BYTES),
            Self::H2C_TERM_REQ | Self::C2H_TERM_REQ => Some(TERM_REQ_BYTES),
            Self::CAPSULE_CMD => Some(CAPSULE_CMD_BYTES),
            Self::CAPSULE_RESP => Some(CAPSULE_RESP_BYTES),
            Self::H2C_DATA | Self::C2H_DATA | Self::R2T => Some(TRANSFER_BYTES),
            _ => None,
        }
    }
}

/// FLAGS of the common header (the figure of each type in §3.6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// HDGSTF: a header digest is present.
    pub const HEADER_DIGEST: Self = Self(1);
    /// DDGSTF: a data digest is present.
    pub const DATA_DIGEST: Self = Self(1 << 1);
    /// LAST_PDU: the last data PDU of a command or of an R2T.
    pub const LAST: Self = Self(1 << 2);
    /// SUCCESS: the command completed successfully, and no response capsule follows. In C2HData
    /// only.
    pub const SUCCESS: Self = Self(1 << 3);

    /// Returns whether all bits of `other` are set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The first eight bytes of every PDU (§3.6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonHeader {
    /// PDU-Type.
    pub pdu_type: PduType,
    /// FLAGS.
    pub flags: Flags,
    /// HLEN: bytes of the header, without its digest.
    pub hlen: u8,
    /// PDO: where the data starts, in bytes from the start of the PDU.
    pub pdo: u8,
    /// PLEN: bytes of the whole PDU.
    pub plen: u32,
}

impl CommonHeader {
    /// Reads the wire form.
    #[inline]
    pub const fn decode(b: &[u8; COMMON_BYTES]) -> Self {
        Self {
            pdu_type: PduType(b[0]),
            flags: Flags(b[1]),
            hlen: b[2],
            pdo: b[3],
            plen: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        }
    }

    /// Wire form.
    #[inline]
    pub const fn encode(self) -> [u8; COMMON_BYTES] {
        let plen = self.plen.to_le_bytes();
        [self.pdu_type.0, self.flags.0, self.hlen, self.pdo, plen[0], plen[1], plen[2], plen[3]]
    }

    /// A PDU without digests and without data.
    pub(super) const fn plain(pdu_type: PduType, bytes: usize) -> Self {
        Self { pdu_type, flags: Flags(0), hlen: bytes as u8, pdo: 0, plen: bytes as u32 }
    }
}

/// Common part of ICReq and ICResp.
#[derive(Clone, Copy)]
struct Ic {
    pfv: u16,
    pda: u8,
    digests: Digests,
    dword: u32,
}

impl Ic {
    fn encode(self, pdu_type: PduType) -> [u8; IC_BYTES] {
        let mut out = [0; IC_BYTES];
        out[..8].copy_from_slice(&CommonHeader::plain(pdu_type, IC_BYTES).encode());
        out[8..10].copy_from_slice(&self.pfv.to_le_bytes());
        out[10] = self.pda;
        out[11] = self.digests.encode();
        out[12..16].copy_from_slice(&self.dword.to_le_bytes());
        out
    }

    fn decode(b: &[u8; IC_BYTES]) -> Self {
        Self {
            pfv: u16::from_le_bytes([b[8], b[9]]),
            pda: b[10],
            digests: Digests::decode(b[11]),
            dword: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
        }
    }
}

/// Initialize Connection Request (§3.6.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcReq {
    /// PFV: PDU Format Version; 0 is the only one.
    pub pfv: u16,
    /// HPDA: data that the host receives starts at a multiple of 4 × (HPDA + 1) bytes.
    pub hpda: u8,
    /// DGST: what the host wants.
    pub digests: Digests,
    /// MAXR2T: R2Ts that the host lets be outstanding per command, minus one.
    pub maxr2t: u32,
}

impl IcReq {
    /// Wire form.
    pub fn encode(&self) -> [u8; IC_BYTES] {
        Ic { pfv: self.pfv, pda: self.hpda, digests: self.digests, dword: self.maxr2t }
            .encode(PduType::IC_REQ)
    }

    /// Reads what follows the common header.
    pub fn decode(bytes: &[u8; IC_BYTES]) -> Self {
        let Ic { pfv, pda, digests, dword } = Ic::decode(bytes);
        Self { pfv, hpda: pda, digests, maxr2t: dword }
    }
}

/// Initialize Connection Response (§3.6.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcResp {
    /// PFV, as in ICReq.
    pub pfv: u16,
    /// CPDA: data that the controller receives starts at a multiple of 4 × (CPDA + 1) bytes.
    pub cpda: u8,
    /// DGST: what is used from now on.
    pub digests: Digests,
    /// MAXH2CDATA: data bytes in one H2CData PDU, at most; a multiple of 4.
    pub max_h2c_data_bytes: u32,
}

impl IcResp {
    /// Wire form.
    pub fn encode(&self) -> [u8; IC_BYTES] {
        Ic { pfv: self.pfv, pda: self.cpda, digests: self.digests, dword: self.max_h2c_data_bytes }
            .encode(PduType::IC_RESP)
    }

    /// Reads what follows the common header.
    pub fn decode(bytes: &[u8; IC_BYTES]) -> Self {
        let Ic { pfv, pda, digests, dword } = Ic::decode(bytes);
        Self { pfv, cpda: pda, digests, max_h2c_data_bytes: dword }
    }
}

/// Fields behind the common header in H2CData, C2HData and R2T (§3.6.2.8 to §3.6.2.10), which share
/// one layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataTransfer {
    /// CCCID: of the command whose data it is.
    pub cid: Cid,
    /// TTAG: names the R2T that an H2CData PDU answers; reserved in C2HData.
    pub ttag: u16,
    /// DATAO or R2TO: first byte within the command's data.
    pub offset: u32,
    /// DATAL or R2TL: bytes.
    pub bytes: u32,
}

impl DataTransfer {
    /// Wire form of the whole header.
    #[inline]
    pub fn encode(&self, common: CommonHeader) -> [u8; TRANSFER_BYTES] {
        let mut out = [0; TRANSFER_BYTES];
        out[..8].copy_from_slice(&common.encode());
        out[8..10].copy_from_slice(&self.cid.0.to_le_bytes());
        out[10..12].copy_from_slice(&self.ttag.to_le_bytes());
        out[12..16].copy_from_slice(&self.offset.to_le_bytes());
        out[16..20].copy_from_slice(&self.bytes.to_le_bytes());
        out
    }

    /// Reads what follows the common header.
    #[inline]
    pub const fn decode(b: &[u8; TRANSFER_BYTES]) -> Self {
        Self {
            cid: Cid(u16::from_le_bytes([b[8], b[9]])),
            ttag: u16::from_le_bytes([b[10], b[11]]),
            offset: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
            bytes: u32::from_le_bytes([b[16], b[17], b[18], b[19]]),
        }
    }
}

/// Wire form of a command capsule's header (§3.6.2.6).
#[inline]
pub fn encode_capsule_cmd(common: CommonHeader, sqe: &Sqe) -> [u8; CAPSULE_CMD_BYTES] {
    let mut out = [0; CAPSULE_CMD_BYTES];
    out[..8].copy_from_slice(&common.encode());
    out[8..].copy_from_slice(&sqe.0);
    out
}

/// The command in a command capsule's header.
#[inline]
pub fn decode_capsule_cmd(bytes: &[u8; CAPSULE_CMD_BYTES]) -> Sqe {
    let mut sqe = Sqe::default();
    sqe.0.copy_from_slice(&bytes[COMMON_BYTES..]);
    sqe
}

/// Wire form of a response capsule (§3.6.2.7).
#[inline]
pub fn encode_capsule_resp(common: CommonHeader, cqe: &Cqe) -> [u8; CAPSULE_RESP_BYTES] {
    let mut out = [0; CAPSULE_RESP_BYTES];
    out[..8].copy_from_slice(&common.encode());
    out[8..].copy_from_slice(&cqe.encode());
    out
}

/// The completion in a response capsule.
#[inline]
pub fn decode_capsule_resp(bytes: &[u8; CAPSULE_RESP_BYTES]) -> Cqe {
    let mut cqe = [0; Cqe::BYTES];
    cqe.copy_from_slice(&bytes[COMMON_BYTES..]);
    Cqe::decode(&cqe)
}
