//! PDUs built by hand, right or wrong.

use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme_tcp::digest::{Digests, crc32c};

/// A PDU whose every field can be set. PDO and PLEN come out right unless they are given.
#[derive(Clone, Debug)]
pub struct Raw {
    pub pdu_type: u8,
    pub flags: u8,
    pub hlen: Option<u8>,
    pub pdo: Option<u8>,
    pub plen: Option<u32>,
    /// The header behind the common header.
    pub specific: Vec<u8>,
    pub data: Vec<u8>,
    pub padding: usize,
    /// True if the header digest is spoilt.
    pub bad_header_digest: bool,
}

impl Raw {
    pub fn new(pdu_type: u8, specific: &[u8]) -> Self {
        Self {
            pdu_type,
            flags: 0,
            hlen: None,
            pdo: None,
            plen: None,
            specific: specific.to_vec(),
            data: Vec::new(),
            padding: 0,
            bad_header_digest: false,
        }
    }

    /// ICReq or ICResp.
    pub fn ic(pdu_type: u8, pfv: u16, pda: u8, digests: u8, dword: u32) -> Self {
        let mut specific = vec![0; 120];
        specific[..2].copy_from_slice(&pfv.to_le_bytes());
        specific[2] = pda;
        specific[3] = digests;
        specific[4..8].copy_from_slice(&dword.to_le_bytes());
        Self::new(pdu_type, &specific)
    }

    /// Command capsule.
    pub fn capsule(sqe: &Sqe) -> Self {
        Self::new(4, &sqe.0)
    }

    /// H2CData, C2HData or R2T.
    pub fn transfer(pdu_type: u8, cid: u16, ttag: u16, offset: u32, bytes: u32) -> Self {
        let mut specific = Vec::new();
        specific.extend_from_slice(&cid.to_le_bytes());
        specific.extend_from_slice(&ttag.to_le_bytes());
        specific.extend_from_slice(&offset.to_le_bytes());
        specific.extend_from_slice(&bytes.to_le_bytes());
        specific.extend_from_slice(&[0; 4]);
        Self::new(pdu_type, &specific)
    }

    pub fn flags(self, flags: u8) -> Self {
        Self { flags, ..self }
    }

    pub fn hlen(self, hlen: u8) -> Self {
        Self { hlen: Some(hlen), ..self }
    }

    pub fn pdo(self, pdo: u8) -> Self {
        Self { pdo: Some(pdo), ..self }
    }

    pub fn plen(self, plen: u32) -> Self {
        Self { plen: Some(plen), ..self }
    }

    pub fn data(self, data: &[u8]) -> Self {
        Self { data: data.to_vec(), ..self }
    }

    pub fn padding(self, padding: usize) -> Self {
        Self { padding, ..self }
    }

    pub fn bad_header_digest(self) -> Self {
        Self { bad_header_digest: true, ..self }
    }

    /// The bytes, without digests whatever the flags say.
    pub fn bytes(&self) -> Vec<u8> {
        self.sealed(Digests::NONE)
    }

    /// The bytes, with the flags of these digests set and the digests in place.
    pub fn sealed(&self, digests: Digests) -> Vec<u8> {
        let header = 8 + self.specific.len();
        let start = header + if digests.header { 4 } else { 0 } + self.padding;
        let trailer = if digests.data && !self.data.is_empty() { 4 } else { 0 };
        let flags = self.flags | u8::from(digests.header) | u8::from(trailer > 0) << 1;
        let mut out = vec![self.pdu_type, flags, self.hlen.unwrap_or(header as u8)];
        out.push(self.pdo.unwrap_or(if self.data.is_empty() { 0 } else { start as u8 }));
        out.extend_from_slice(
            &self.plen.unwrap_or((start + self.data.len() + trailer) as u32).to_le_bytes(),
        );
        out.extend_from_slice(&self.specific);
        if digests.header {
            let digest = crc32c(&out) ^ u32::from(self.bad_header_digest);
            out.extend_from_slice(&digest.to_le_bytes());
        }
        out.resize(start, 0);
        out.extend_from_slice(&self.data);
        if trailer > 0 {
            out.extend_from_slice(&crc32c(&self.data).to_le_bytes());
        }
        out
    }
}
