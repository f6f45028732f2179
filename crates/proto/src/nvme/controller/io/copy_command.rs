//! Copy (NVM 1.1 §3.2.2): its limits, and what is checked before its ranges come.

use super::super::fault::{Fault, at, data_from_host};
use super::super::namespace::Namespace;
use super::command::{Command, Context};
use crate::limits::{COPY_MAX_BYTES, COPY_RANGES_MAX};
use crate::nvme::copy::{Copy, CopyFormat, CopyRange};
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;

/// Formats of source ranges that are understood (CDFS). Those with long tags are for protection
/// information, which no namespace has.
pub(in crate::nvme::controller) const COPY_FORMATS: u16 =
    CopyFormat::SAME_NAMESPACE.bit() | CopyFormat::ACROSS_NAMESPACES.bit();

/// Blocks of one command (MCL).
pub(in crate::nvme::controller) fn blocks_max(namespace: &Namespace) -> u32 {
    COPY_MAX_BYTES / namespace.block_bytes
}

/// Blocks of one range (MSSRL), a number of 16 bits.
pub(in crate::nvme::controller) fn range_blocks_max(namespace: &Namespace) -> u32 {
    blocks_max(namespace).min(u16::MAX.into())
}

impl Context<'_> {
    /// A host has to enable the format with which it reads from other namespaces. PRINFO, tags and
    /// directives are ignored, as those of a Write.
    pub(super) fn copy(&self, sqe: &Sqe) -> Result<Command, Fault> {
        let copy = Copy::decode(sqe);
        let is_enabled = match copy.format {
            CopyFormat::SAME_NAMESPACE => true,
            format => COPY_FORMATS & self.link.copy_formats() & format.bit() != 0,
        };
        if !is_enabled {
            return Err(Fault::field(at::CDW12));
        }
        let (namespace, _) = self.writable(sqe)?;
        if copy.ranges > COPY_RANGES_MAX {
            return Err(Fault::at(Status::COMMAND_SIZE_LIMIT_EXCEEDED, at::CDW12));
        }
        let bytes = data_from_host(sqe, self.in_capsule_bytes, self.host_memory)?;
        let entry = CopyRange::BYTES as u32;
        if bytes < copy.ranges * entry || bytes > COPY_RANGES_MAX * entry {
            return Err(Fault::at(Status::DATA_SGL_LENGTH_INVALID, at::SGL_LENGTH));
        }
        Ok(Command::Copy { namespace, bytes, copy })
    }
}

const _: () = assert!(COPY_RANGES_MAX <= 256, "MSRC counts from zero in 8 bits");
