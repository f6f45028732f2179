//! The Get Log Page command (Base §5.16): its rules. What the pages say comes from where their
//! subject is.

use super::super::fault::{Fault, at};
use super::super::namespace::NamespaceMap;
use super::support::{self, ControllerKind};
use crate::nvme::log_page::{AnaHeader, CrossResetHeader, LogPageId};
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::nvme::types::Nsid;

/// A checked Get Log Page command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nvme::controller) struct LogRequest {
    pub page: LogPageId,
    /// First byte of the page.
    pub offset: u64,
    pub bytes: u32,
    /// Log Specific Parameter.
    pub specific: u8,
    /// Retain Asynchronous Event: reading does not count as having heard of the event.
    pub retain: bool,
}

/// Offset Type: the offset is an index, which no page here takes.
const CDW14_INDEX_OFFSET: u32 = 1 << 23;

impl LogRequest {
    /// Checks everything but the offset against the length of the page.
    pub fn parse(
        sqe: &Sqe,
        kind: ControllerKind,
        transfer_bytes_max: u32,
        namespaces: &NamespaceMap,
    ) -> Result<Self, Fault> {
        let page = LogPageId(sqe.dword(10) as u8);
        if !support::log_page(kind, page) {
            return Err(Fault::at(Status::INVALID_LOG_PAGE, at::CDW10));
        }
        if Self::names_namespace(sqe) {
            check_namespace(page, sqe.nsid(), namespaces)?;
        }
        if sqe.dword(14) & CDW14_INDEX_OFFSET != 0 {
            return Err(Fault::field(at::CDW14));
        }
        let offset = sqe.qword(12);
        if offset & 3 != 0 {
            return Err(Fault::field(at::CDW12));
        }
        let dwords = u64::from(sqe.dword(10) >> 16 | sqe.dword(11) << 16) + 1;
        let bytes = u32::try_from(dwords * 4).ok().filter(|&bytes| bytes <= transfer_bytes_max);
        let bytes = bytes.ok_or(Fault::field(at::CDW10))?;
        let specific = (sqe.dword(10) >> 8) as u8 & 0x7f;
        Ok(Self { page, offset, bytes, specific, retain: sqe.dword(10) >> 15 & 1 != 0 })
    }

    /// Returns whether a namespace is named, although all pages are about the controller or the
    /// subsystem.
    pub fn names_namespace(sqe: &Sqe) -> bool {
        ![Nsid(0), Nsid::ALL].contains(&sqe.nsid())
    }

    /// Return Groups Only (RGO), of the log page Asymmetric Namespace Access.
    pub fn groups_only(&self) -> bool {
        self.specific & AnaHeader::GROUPS_ONLY != 0
    }

    /// Remove Completed (RMC), of the log page Cross-Controller Reset.
    pub fn removes_completed(&self) -> bool {
        self.page == LogPageId::CROSS_CONTROLLER_RESET
            && self.specific & CrossResetHeader::REMOVE_COMPLETED != 0
    }

    /// Refuses an offset behind the end of a page of this length.
    pub fn check_offset(self, page_bytes: u64) -> Result<Self, Fault> {
        if self.offset > page_bytes { Err(Fault::field(at::CDW12)) } else { Ok(self) }
    }

    /// Copies the wanted part of the page; behind its end there are zeroes.
    pub fn copy(&self, page: &[u8], out: &mut [u8]) {
        let from =
            usize::try_from(self.offset).ok().and_then(|offset| page.get(offset..)).unwrap_or(&[]);
        let bytes = from.len().min(out.len());
        out[..bytes].copy_from_slice(&from[..bytes]);
        out[bytes..].fill(0);
    }
}

/// nvmet and SPDK give out SMART / Health Information by namespace, too, and the discovery log
/// whatever namespace is named.
fn check_namespace(page: LogPageId, nsid: Nsid, namespaces: &NamespaceMap) -> Result<(), Fault> {
    match page {
        LogPageId::DISCOVERY => Ok(()),
        LogPageId::SMART => namespaces.find(nsid).map(|_| ()).ok_or(Fault::namespace()),
        _ => Err(Fault::field(at::NSID)),
    }
}
