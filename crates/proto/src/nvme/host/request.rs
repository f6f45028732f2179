//! Admin commands of a host: what each is for, how it is built, and the table of those that are
//! outstanding.

use core::fmt;
use core::time::Duration;

use crate::nvme::cross_reset::CrossControllerReset;
use crate::nvme::feature::{FeatureId, QueueCounts};
use crate::nvme::identify::{Cns, Csi};
use crate::nvme::log_page::{CrossResetHeader, LogPageId};
use crate::nvme::opcode::AdminOpcode;
use crate::nvme::sqe::Sqe;
use crate::nvme::types::{Cid, Nsid, Qid};

/// Name of an admin command from the action that asks to submit it to its completion. Not used
/// twice in an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// A step on the way of an association, as errors name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AssociationStep {
    /// Fabrics Connect of the admin queue.
    Connect,
    /// Property Get of CAP.
    ReadCapabilities,
    /// Property Get of VS.
    ReadVersion,
    /// Property Set of CC with EN.
    Enable,
    /// Waiting for CSTS.RDY.
    AwaitReady,
    /// Identify Controller.
    IdentifyController,
    /// Identify Controller of the NVM command set.
    IdentifyNvmController,
    /// Set Features, Number of Queues.
    SetQueueCount,
    /// Set Features, Asynchronous Event Configuration.
    ConfigureEvents,
    /// Get Log Page, Changed Namespace List.
    ReadChangedNamespaces,
    /// Identify, Active Namespace ID list.
    ListNamespaces,
    /// Identify, Namespace Identification Descriptor list.
    IdentifyDescriptors(Nsid),
    /// Identify Namespace.
    IdentifyNamespace(Nsid),
    /// Get Log Page, Discovery.
    ReadDiscoveryLog,
    /// Get Log Page, Asymmetric Namespace Access.
    ReadAnaLog,
    /// Get Log Page, SMART / Health Information.
    ReadHealth,
    /// Cross-Controller Reset.
    CrossReset,
    /// Get Log Page, Cross-Controller Reset.
    ReadCrossResetLog,
    /// Connection and Connect of an I/O queue.
    OpenQueue(Qid),
    /// Keep Alive.
    KeepAlive,
    /// Abort of an I/O command.
    Abort,
    /// Property Set of CC without EN.
    Reset,
    /// Waiting for CSTS.RDY to go away.
    AwaitStopped,
    /// Property Set of CC with SHN.
    Shutdown,
    /// Waiting for CSTS.SHST.
    AwaitShutdown,
}

impl fmt::Display for AssociationStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "Connect",
            Self::ReadCapabilities => "Property Get of CAP",
            Self::ReadVersion => "Property Get of VS",
            Self::Enable => "enabling the controller",
            Self::AwaitReady => "the controller becoming ready",
            Self::IdentifyController => "Identify Controller",
            Self::IdentifyNvmController => "Identify Controller of the NVM command set",
            Self::SetQueueCount => "Set Features (Number of Queues)",
            Self::ConfigureEvents => "Set Features (Asynchronous Event Configuration)",
            Self::ReadChangedNamespaces => "Get Log Page (Changed Namespace List)",
            Self::ListNamespaces => "Identify (Active Namespace ID list)",
            Self::IdentifyDescriptors(nsid) => {
                return write!(f, "Identify (descriptors of namespace {nsid})");
            }
            Self::IdentifyNamespace(nsid) => return write!(f, "Identify Namespace {nsid}"),
            Self::ReadDiscoveryLog => "Get Log Page (Discovery)",
            Self::ReadAnaLog => "Get Log Page (Asymmetric Namespace Access)",
            Self::ReadHealth => "Get Log Page (SMART / Health Information)",
            Self::CrossReset => "Cross-Controller Reset",
            Self::ReadCrossResetLog => "Get Log Page (Cross-Controller Reset)",
            Self::OpenQueue(qid) => return write!(f, "Connect of I/O queue {qid}"),
            Self::KeepAlive => "Keep Alive",
            Self::Abort => "Abort",
            Self::Reset => "disabling the controller",
            Self::AwaitStopped => "the controller stopping",
            Self::Shutdown => "shutting the controller down",
            Self::AwaitShutdown => "the controller having shut down",
        })
    }
}

/// Purpose of an outstanding admin command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The one command of the sequence of steps.
    Line(AssociationStep),
    /// Asynchronous Event Request.
    AsyncEvent,
    /// Keep Alive.
    KeepAlive,
    /// Abort of an I/O command.
    Abort,
    /// Cross-Controller Reset of this controller.
    CrossReset(CrossControllerReset),
    /// Get Log Page, Cross-Controller Reset.
    CrossResetLog,
}

#[derive(Debug)]
struct Request {
    id: RequestId,
    purpose: Purpose,
    sent: Duration,
    deadline: Option<Duration>,
}

/// The admin commands that are outstanding: at most one of the line, one event request, one Keep
/// Alive, the Aborts, and Cross-Controller Resets with one reading of their log page.
#[derive(Debug, Default)]
pub(super) struct Requests {
    list: Vec<Request>,
    next: u64,
}

impl Requests {
    /// Enters a command.
    pub fn add(&mut self, purpose: Purpose, now: Duration, limit: Option<Duration>) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        self.list.push(Request {
            id,
            purpose,
            sent: now,
            deadline: limit.map(|limit| now.saturating_add(limit)),
        });
        id
    }

    /// Takes a command out: the first answer counts, and only it.
    pub fn take(&mut self, id: RequestId) -> Option<Purpose> {
        let at = self.list.iter().position(|request| request.id == id)?;
        Some(self.list.swap_remove(at).purpose)
    }

    /// Takes out a command whose time is over; says how long it was waited for.
    pub fn take_expired(&mut self, now: Duration) -> Option<(Purpose, Duration)> {
        let at = self
            .list
            .iter()
            .position(|request| request.deadline.is_some_and(|deadline| deadline <= now))?;
        let request = self.list.swap_remove(at);
        Some((request.purpose, now.saturating_sub(request.sent)))
    }

    /// Returns whether a command like this is outstanding.
    pub fn any(&self, matches: impl Fn(Purpose) -> bool) -> bool {
        self.list.iter().any(|request| matches(request.purpose))
    }

    /// Returns the number of outstanding commands for this purpose.
    pub fn count(&self, purpose: Purpose) -> usize {
        self.list.iter().filter(|request| request.purpose == purpose).count()
    }

    /// Forgets all: their completions will be ignored.
    pub fn forget(&mut self) {
        self.list.clear();
    }

    /// When the first of them expires.
    pub fn deadline(&self) -> Option<Duration> {
        self.list.iter().filter_map(|request| request.deadline).min()
    }
}

/// Identify (Base §5.17).
pub(super) fn identify(cns: Cns, nsid: Nsid, csi: Csi) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::IDENTIFY.0, nsid);
    sqe.set_dword(10, u32::from(cns.0));
    sqe.set_dword(11, u32::from(csi.0) << 24);
    sqe
}

/// Get Log Page (Base §5.16) of `len` bytes (a multiple of four, not zero) from `offset`. With
/// `retain` the asynchronous event that the page belongs to stays as it is; without it the
/// controller may report the next one.
pub(super) fn log_page(page: LogPageId, offset: u64, len: u32, retain: bool) -> Sqe {
    let dwords = len / 4 - 1;
    let nsid = if page == LogPageId::DISCOVERY { Nsid(0) } else { Nsid::ALL };
    let mut sqe = Sqe::new(AdminOpcode::GET_LOG_PAGE.0, nsid);
    sqe.set_dword(10, u32::from(page.0) | u32::from(retain) << 15 | (dwords & 0xffff) << 16);
    sqe.set_dword(11, dwords >> 16);
    sqe.set_qword(12, offset);
    sqe
}

/// Get Log Page, Cross-Controller Reset, of `len` bytes; the controller forgets what is over.
pub(super) fn cross_reset_log(len: u32) -> Sqe {
    let mut sqe = log_page(LogPageId::CROSS_CONTROLLER_RESET, 0, len, false);
    sqe.set_dword(10, sqe.dword(10) | u32::from(CrossResetHeader::REMOVE_COMPLETED) << 8);
    sqe
}

/// Set Features (Base §5.27) of a feature whose value is dword 11, not saved.
fn set_feature(feature: FeatureId, value: u32) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::SET_FEATURES.0, Nsid(0));
    sqe.set_dword(10, u32::from(feature.0));
    sqe.set_dword(11, value);
    sqe
}

/// Asks for `queues` I/O queues.
pub(super) fn set_queue_count(queues: u16) -> Sqe {
    let queues = u32::from(queues);
    set_feature(
        FeatureId::NUMBER_OF_QUEUES,
        QueueCounts { submission: queues, completion: queues }.encode(),
    )
}

/// Asks for the asynchronous events of `bits` ([`crate::nvme::feature::AsyncEventBits`]).
pub(super) fn configure_events(bits: u32) -> Sqe {
    set_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, bits)
}

/// Asynchronous Event Request (Base §5.2).
pub(super) fn async_event() -> Sqe {
    Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, Nsid(0))
}

/// Keep Alive (Base §5.18).
pub(super) fn keep_alive() -> Sqe {
    Sqe::new(AdminOpcode::KEEP_ALIVE.0, Nsid(0))
}

/// Abort (Base §5.1) of the command `cid` on queue `qid`.
pub(super) fn abort(qid: Qid, cid: Cid) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::ABORT.0, Nsid(0));
    sqe.set_dword(10, u32::from(qid.0) | u32::from(cid.0) << 16);
    sqe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_bytes() {
        let sqe = log_page(LogPageId::DISCOVERY, 0x1_0000_0400, 0x8_0000, true);
        assert_eq!(sqe.0[..8], [2, 0x40, 0, 0, 0, 0, 0, 0]);
        assert_eq!(log_page(LogPageId::CHANGED_NAMESPACES, 0, 4096, false).nsid(), Nsid::ALL);
        assert_eq!(sqe.0[40..56], [0x70, 0x80, 0xff, 0xff, 1, 0, 0, 0, 0, 4, 0, 0, 1, 0, 0, 0]);
        let sqe = identify(Cns::COMMAND_SET_CONTROLLER, Nsid(0), Csi::ZONED);
        assert_eq!((sqe.0[0], sqe.0[40], sqe.0[47]), (6, 6, 2));
        assert_eq!(set_queue_count(4).0[40..48], [7, 0, 0, 0, 3, 0, 3, 0]);
        assert_eq!(configure_events(0x100).0[40..48], [0x0b, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(
            cross_reset_log(4096).0[..44],
            [&[2, 0x40, 0, 0, 0xff, 0xff, 0xff, 0xff][..], &[0; 32], &[0x1e, 1, 0xff, 3]].concat()
        );
        assert_eq!(log_page(LogPageId::ANA, 0, 60, false).0[40..44], [0x0c, 0, 14, 0]);
        assert_eq!(abort(Qid(2), Cid(0x0304)).0[40..44], [2, 0, 4, 3]);
        assert_eq!((async_event().opcode(), keep_alive().opcode()), (0x0c, 0x18));
    }

    #[test]
    fn a_request_ends_once() {
        let mut requests = Requests::default();
        let id = requests.add(Purpose::KeepAlive, Duration::ZERO, Some(Duration::from_secs(1)));
        let event = requests.add(Purpose::AsyncEvent, Duration::ZERO, None);
        assert_eq!(requests.deadline(), Some(Duration::from_secs(1)));
        assert_eq!(requests.take_expired(Duration::from_millis(999)), None);
        assert_eq!(requests.take(id), Some(Purpose::KeepAlive));
        assert_eq!(requests.take(id), None);
        assert_eq!(requests.take_expired(Duration::MAX), None);
        assert_eq!(requests.take(event), Some(Purpose::AsyncEvent));
    }
}
