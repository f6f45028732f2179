//! Keyed SGL Data Block descriptors (Base §4.3.2, "Keyed SGL Data Block descriptor"; NVMe RDMA
//! Transport Specification, "Data Transfer").
//!
//! One descriptor describes all data of a command: what is scattered in the host's memory is one
//! range behind a key, or is gathered before. A command therefore never has more descriptors than
//! any controller allows (MSDBD). Data of the host may also be in the capsule right behind the
//! command (ICDOFF 0).

use super::work::RemoteMemory;
use crate::nvme::sqe::{HostMemory, Sgl, Sqe};
use crate::nvme::status::Status;

pub use crate::nvme::sqe::KEYED_BYTES_MAX;

/// SGL descriptor types (upper half of the last byte): Segment and Last Segment, which point to
/// further descriptors.
const SEGMENTS: [u8; 2] = [2, 3];

/// Memory of the host, as a command describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyed {
    /// The first byte.
    pub address: u64,
    /// Bytes, at most [`KEYED_BYTES_MAX`].
    pub bytes: u32,
    /// The key of the memory.
    pub key: u32,
    /// The response invalidates the key.
    pub invalidate: bool,
}

impl Keyed {
    /// Of a command without data.
    pub const NONE: Self = Self { address: 0, bytes: 0, key: 0, invalidate: false };

    /// Writes the descriptor into a command.
    pub fn put(&self, sqe: &mut Sqe) {
        sqe.set_keyed(self.address, self.bytes, self.key);
        if self.invalidate {
            sqe.0[39] = Sgl::KEYED_INVALIDATE;
        }
    }

    /// Reads the descriptor of a command; the error is the status to answer it with.
    pub fn read(sqe: &Sqe) -> Result<Self, Status> {
        let sgl = sqe.sgl();
        match HostMemory::Keyed.bytes(sgl) {
            Some(bytes) => {
                let invalidate = sgl.identifier == Sgl::KEYED_INVALIDATE;
                Ok(Self { address: sgl.address, bytes, key: sqe.key(), invalidate })
            }
            None if SEGMENTS.contains(&(sgl.identifier >> 4)) => Err(Status::INVALID_SGL_COUNT),
            None => Err(Status::SGL_TYPE_INVALID),
        }
    }

    /// The first `bytes` of the memory (more than zero), to be read or written; the error is the
    /// status to answer the command with.
    pub fn start(&self, bytes: u32) -> Result<RemoteMemory, Status> {
        if bytes > self.bytes {
            return Err(Status::DATA_SGL_LENGTH_INVALID);
        }
        // No device hands out key 0: it stands for memory that was never made accessible.
        if self.key == 0 {
            return Err(Status::INVALID_FIELD);
        }
        if self.address.checked_add(u64::from(self.bytes.saturating_sub(1))).is_none() {
            return Err(Status::DATA_SGL_LENGTH_INVALID);
        }
        Ok(RemoteMemory { address: self.address, key: self.key })
    }

    /// The key that the response is to invalidate.
    pub fn invalidates(&self) -> Option<u32> {
        (self.invalidate && self.bytes > 0 && self.key != 0).then_some(self.key)
    }
}
