//! The names of the sessions of one device, and the end of a session whose place another may take.

use crate::control::Control;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_base::lock::Lock;
use weft_connection::settle::registry::{Pair, Unsettled};

use uuid::Uuid;
use weft_io::{DriverId, RemoteLoop, Time};
use weft_proto::iscsi::pdu::Isid;

/// The ISIDs of one device.
pub(super) struct SessionNames {
    control: Control,
    user: u64,
    epoch: AtomicU64,
}

impl SessionNames {
    /// None yet.
    pub(super) fn new(control: &Control) -> Self {
        Self { control: control.clone(), user: control.isids().user(), epoch: AtomicU64::new(0) }
    }

    /// The ISID of the `n`th session for `purpose` of an opener.
    pub(super) fn take(&self, purpose: &str, n: u16, opener: Option<Uuid>) -> Isid {
        let (isid, epoch) =
            self.control.isids().take(self.user, purpose, n, opener, self.control.identities());
        if n == 0 {
            self.epoch.store(epoch, Ordering::Relaxed);
        }
        isid
    }

    /// The session with this ISID is over.
    pub(super) fn release(&self, isid: Isid) {
        self.control.isids().release(self.user, isid);
    }

    /// The target has said that it was started anew, or does not know these sessions: what it had
    /// cached may be lost.
    pub(super) fn begin_epoch(&self) {
        let epoch = u64::from_le_bytes(self.control.identities().random());
        self.epoch.store(epoch, Ordering::Relaxed);
        self.control.isids().set_epoch(self.user, epoch);
    }

    /// Another number whenever the target's cache may have been lost.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    pub(super) fn control(&self) -> &Control {
        &self.control
    }
}

impl Drop for SessionNames {
    fn drop(&mut self) {
        self.control.isids().leave(self.user);
    }
}

/// What two sessions have in common of which the later one takes the place of the earlier: the
/// names of both ends, and the epoch, as a target that was started anew does not know the earlier
/// one.
pub(super) fn pair(nexus: &str, epoch: u64) -> Pair {
    format!("iscsi {nexus} {epoch:x}")
}

/// The end of a session that had writes.
pub(super) struct SessionEnd {
    at: Lock<Time>,
    /// The driver that waits for it, and its loop.
    user: (RemoteLoop, DriverId),
}

impl SessionEnd {
    pub(super) fn new(at: Time, user: (RemoteLoop, DriverId)) -> Self {
        Self { at: Lock::new(at), user }
    }

    /// When the target executes nothing of the session any more.
    pub(super) fn at(&self) -> Time {
        *self.at.lock()
    }
}

impl Unsettled for SessionEnd {
    fn settle(&self, at: Time) {
        let mut settled = self.at.lock();
        *settled = at.min(*settled);
        let (remote, driver) = &self.user;
        remote.wake(*driver);
    }

    fn settled_at(&self) -> Option<Time> {
        Some(self.at())
    }
}
