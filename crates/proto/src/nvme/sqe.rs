//! Submission queue entry (Base §3.3.3.1) and the SGL descriptors that fabrics use in it (Base
//! §4.3.2).

use super::types::{Cid, Nsid};

/// A command, 64 bytes, as it is on the wire. Fields are read and written in place. Aligned, so
/// that a processor which just stored it need not wait to load it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(align(16))]
pub struct Sqe(pub [u8; 64]);

/// Opcode of all Fabrics commands.
pub const OPCODE_FABRICS: u8 = 0x7f;

/// Bits 1:0 of byte 1 (Base §3.3.3.1, FUSE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fuse {
    /// Not fused.
    Normal,
    /// First command of a pair.
    First,
    /// Second command of a pair.
    Second,
    /// The reserved value.
    Reserved,
}

/// Form in which commands name the host's memory to the transport that moves their data (Base
/// §4.3.2). Each transport takes one kind; data may also be in the capsule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostMemory {
    /// By a Transport SGL Data Block: the command is enough (NVMe/TCP).
    Transport,
    /// By a Keyed SGL Data Block (NVMe/RDMA).
    Keyed,
}

impl HostMemory {
    /// The bytes that a descriptor of this kind describes; `None` if it is of another.
    #[inline]
    pub const fn bytes(self, sgl: Sgl) -> Option<u32> {
        match (self, sgl.identifier) {
            (Self::Transport, Sgl::TRANSPORT) => Some(sgl.length),
            // The key begins in the last byte of what is the length elsewhere.
            (Self::Keyed, Sgl::KEYED | Sgl::KEYED_INVALIDATE) => Some(sgl.length & KEYED_BYTES_MAX),
            _ => None,
        }
    }
}

/// The longest memory of a Keyed SGL Data Block, bytes.
pub const KEYED_BYTES_MAX: u32 = 0xff_ffff;

/// SGL descriptor: type in the upper and subtype in the lower half of its last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sgl {
    /// Address, or offset into the capsule.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// Type and subtype.
    pub identifier: u8,
}

impl Sgl {
    /// Data Block with an offset subtype: data in the command capsule (NVMe TCP §3.3.2.1).
    pub const IN_CAPSULE: u8 = 0x01;
    /// Transport SGL Data Block: data that the transport knows how to move, by the command alone.
    pub const TRANSPORT: u8 = 0x5a;
    /// Keyed SGL Data Block: the host's memory by address and key.
    pub const KEYED: u8 = 0x40;
    /// The same; the response invalidates the key.
    pub const KEYED_INVALIDATE: u8 = 0x4f;

    /// Data in the capsule from its first data byte.
    pub fn in_capsule(length: u32) -> Self {
        Self { address: 0, length, identifier: Self::IN_CAPSULE }
    }

    /// Data moved by the transport.
    pub fn transport(length: u32) -> Self {
        Self { address: 0, length, identifier: Self::TRANSPORT }
    }
}

impl Default for Sqe {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl core::fmt::Debug for Sqe {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "Sqe {{ opcode: {:#04x}, cid: {}, nsid: {:#x}",
            self.opcode(),
            self.cid(),
            self.nsid().0
        )?;
        for n in 10..16 {
            write!(f, ", cdw{n}: {:#x}", self.dword(n))?;
        }
        write!(f, " }}")
    }
}

impl Sqe {
    /// Bytes on the wire.
    pub const BYTES: usize = 64;

    /// A command that uses SGLs (PSDT 01b), as all commands on fabrics do.
    #[inline]
    pub fn new(opcode: u8, nsid: Nsid) -> Self {
        let mut sqe = Self::default();
        sqe.0[0] = opcode;
        sqe.0[1] = 0x40;
        sqe.set_dword(1, nsid.0);
        sqe
    }

    /// A Fabrics command (Base §6).
    pub fn fabrics(command_type: u8) -> Self {
        let mut sqe = Self::default();
        sqe.0[0] = OPCODE_FABRICS;
        sqe.0[1] = 0x40;
        sqe.0[4] = command_type;
        sqe
    }

    /// Opcode.
    #[inline]
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// Returns the command's part in a fused pair.
    #[inline]
    pub fn fuse(&self) -> Fuse {
        match self.0[1] & 3 {
            0 => Fuse::Normal,
            1 => Fuse::First,
            2 => Fuse::Second,
            _ => Fuse::Reserved,
        }
    }

    /// Sets FUSE.
    pub fn set_fuse(&mut self, fuse: Fuse) {
        self.0[1] = self.0[1] & !3 | fuse as u8;
    }

    /// PRP or SGL for Data Transfer: 0 PRP, 1 SGL, 2 SGL with metadata SGL.
    #[inline]
    pub fn psdt(&self) -> u8 {
        self.0[1] >> 6
    }

    /// Command identifier.
    #[inline]
    pub fn cid(&self) -> Cid {
        Cid(u16::from_le_bytes([self.0[2], self.0[3]]))
    }

    /// Sets the command identifier.
    #[inline]
    pub fn set_cid(&mut self, cid: Cid) {
        self.0[2..4].copy_from_slice(&cid.0.to_le_bytes());
    }

    /// Namespace identifier (not of Fabrics commands, which keep their type there).
    #[inline]
    pub fn nsid(&self) -> Nsid {
        Nsid(self.dword(1))
    }

    /// Type of a Fabrics command (byte 4).
    pub fn fabrics_type(&self) -> u8 {
        self.0[4]
    }

    /// Dword `n`, 0 to 15.
    #[inline]
    pub fn dword(&self, n: usize) -> u32 {
        let at = n * 4;
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    /// Sets dword `n`.
    #[inline]
    pub fn set_dword(&mut self, n: usize, value: u32) {
        self.0[n * 4..n * 4 + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Dwords `n` and `n + 1` as one number.
    #[inline]
    pub fn qword(&self, n: usize) -> u64 {
        u64::from(self.dword(n)) | u64::from(self.dword(n + 1)) << 32
    }

    /// Sets dwords `n` and `n + 1`.
    #[inline]
    pub fn set_qword(&mut self, n: usize, value: u64) {
        self.0[n * 4..n * 4 + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// The data pointer as an SGL descriptor (SGL1, bytes 24 to 39).
    #[inline]
    pub fn sgl(&self) -> Sgl {
        Sgl { address: self.qword(6), length: self.dword(8), identifier: self.0[39] }
    }

    /// The key of SGL1, where that is a Keyed SGL Data Block.
    pub fn key(&self) -> u32 {
        u32::from_le_bytes([self.0[35], self.0[36], self.0[37], self.0[38]])
    }

    /// Sets SGL1 to a Keyed SGL Data Block of `bytes` (below 16 MiB) at `address`.
    pub fn set_keyed(&mut self, address: u64, bytes: u32, key: u32) {
        self.set_sgl(Sgl { address, length: bytes & KEYED_BYTES_MAX, identifier: Sgl::KEYED });
        self.0[35..39].copy_from_slice(&key.to_le_bytes());
    }

    /// Sets SGL1.
    #[inline]
    pub fn set_sgl(&mut self, sgl: Sgl) {
        self.set_qword(6, sgl.address);
        self.set_dword(8, sgl.length);
        self.set_dword(9, u32::from(sgl.identifier) << 24);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyed_descriptors_have_a_length_of_24_bits() {
        let mut sqe = Sqe::new(1, Nsid(1));
        sqe.set_keyed(0x1122_3344_5566_7788, 0x0a_0b0c, 0xd1d2_d3d4);
        let bytes = [
            0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x0c, 0x0b, 0x0a, 0xd4, 0xd3, 0xd2,
            0xd1, 0x40,
        ];
        assert_eq!(sqe.0[24..40], bytes);
        assert_eq!((HostMemory::Keyed.bytes(sqe.sgl()), sqe.key()), (Some(0x0a_0b0c), 0xd1d2_d3d4));
        assert_eq!(HostMemory::Transport.bytes(sqe.sgl()), None);
        assert_eq!(HostMemory::Keyed.bytes(Sgl::transport(512)), None);
        assert_eq!(HostMemory::Transport.bytes(Sgl::transport(512)), Some(512));
    }
}
