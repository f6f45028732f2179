//! Why a command is refused, and the checks of its data pointer that all commands share.

use crate::nvme::cqe::Cqe;
use crate::nvme::sqe::{HostMemory, Sgl, Sqe};
use crate::nvme::status::Status;

/// A refused command: its status, and the byte and bit of the submission queue entry that is to
/// blame (Base §5.16.1.2, Parameter Error Location).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub status: Status,
    /// Byte in bits 7:0, bit in bits 10:8; [`Fault::NOWHERE`] where no field is to blame.
    pub location: u16,
}

impl Fault {
    pub const NOWHERE: u16 = 0xffff;

    /// A fault without a field to blame.
    pub const fn new(status: Status) -> Self {
        Self { status, location: Self::NOWHERE }
    }

    /// A fault of the field that starts at `byte`.
    pub const fn at(status: Status, byte: u16) -> Self {
        Self { status, location: byte }
    }

    /// Invalid Field in Command.
    pub const fn field(byte: u16) -> Self {
        Self::at(Status::INVALID_FIELD, byte)
    }

    /// Invalid Namespace or Format.
    pub const fn namespace() -> Self {
        Self::at(Status::INVALID_NAMESPACE, at::NSID)
    }

    /// The same command would fail again, unless another path might execute it.
    pub fn do_not_retry(self) -> bool {
        let is_busy = matches!(
            self.status,
            Status::CROSS_CONTROLLER_RESET_IN_PROGRESS
                | Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED
        );
        !self.status.is_path() && !is_busy
    }

    /// The completion.
    pub fn cqe(self, sqe: &Sqe) -> Cqe {
        Cqe { do_not_retry: self.do_not_retry(), ..Cqe::new(sqe.cid(), self.status) }
    }
}

/// Where fields stand in a submission queue entry (Base, "Common Command Format").
pub(super) mod at {
    pub const OPCODE: u16 = 0;
    pub const FLAGS: u16 = 1;
    pub const NSID: u16 = 4;
    pub const SGL_ADDRESS: u16 = 24;
    pub const SGL_LENGTH: u16 = 32;
    pub const SGL_IDENTIFIER: u16 = 39;
    pub const CDW10: u16 = 40;
    pub const CDW11: u16 = 44;
    pub const CDW12: u16 = 48;
    pub const CDW14: u16 = 56;
}

/// Checks a data pointer for data that the controller sends: exactly `bytes`, moved by the
/// transport, which takes `memory`.
#[inline]
pub(super) fn data_to_host(sqe: &Sqe, bytes: u32, memory: HostMemory) -> Result<(), Fault> {
    match memory.bytes(data_pointer(sqe)?) {
        Some(described) if described == bytes => Ok(()),
        Some(_) => Err(Fault::at(Status::DATA_SGL_LENGTH_INVALID, at::SGL_LENGTH)),
        None => Err(Fault::at(Status::SGL_TYPE_INVALID, at::SGL_IDENTIFIER)),
    }
}

/// Checks a data pointer for data of the host, in the capsule or moved by the transport, and
/// returns how many bytes it describes. `in_capsule_bytes` is what came with the command; the
/// transport takes `memory`.
#[inline]
pub(super) fn data_from_host(
    sqe: &Sqe,
    in_capsule_bytes: u32,
    memory: HostMemory,
) -> Result<u32, Fault> {
    let sgl = data_pointer(sqe)?;
    match sgl.identifier {
        Sgl::IN_CAPSULE if sgl.address != 0 => {
            Err(Fault::at(Status::SGL_OFFSET_INVALID, at::SGL_ADDRESS))
        }
        Sgl::IN_CAPSULE if sgl.length > in_capsule_bytes => {
            Err(Fault::at(Status::SGL_OFFSET_INVALID, at::SGL_LENGTH))
        }
        Sgl::IN_CAPSULE if sgl.length < in_capsule_bytes => {
            Err(Fault::at(Status::DATA_SGL_LENGTH_INVALID, at::SGL_LENGTH))
        }
        Sgl::IN_CAPSULE => Ok(sgl.length),
        _ => memory.bytes(sgl).ok_or(Fault::at(Status::SGL_TYPE_INVALID, at::SGL_IDENTIFIER)),
    }
}

/// The data pointer of a command that moves data: on fabrics always an SGL (Base §3.3.3.1, PSDT 01b
/// or 10b; as no namespace has metadata the two mean the same).
fn data_pointer(sqe: &Sqe) -> Result<Sgl, Fault> {
    match sqe.psdt() {
        1 | 2 => Ok(sqe.sgl()),
        _ => Err(Fault::field(at::FLAGS)),
    }
}
