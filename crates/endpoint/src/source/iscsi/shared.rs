//! What the queues of a device share: its sessions, its time limits, its size, and whom to wake when that changes.

use crate::iscsi_remarks::Remarks;
use crate::source::idle::Idle;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use weft_io::{DriverId, Remote};
use weft_proto::iscsi::initiator::Initiator;

/// State that all queues of one iSCSI device share.
pub(super) struct Shared {
    pub(super) idle: Arc<Idle<Initiator>>,
    /// How long the disk may be busy.
    pub(super) limit: Duration,
    /// How often an idle disk is asked whether something has happened. Zero: never.
    pub(super) interval: Duration,
    blocks: AtomicU64,
    /// What was said of the target.
    pub(super) remarks: Remarks,
    /// Why the logical unit is not used any more: it is another one.
    replaced: OnceLock<String>,
    /// Drivers of the queues that are in use.
    users: Mutex<Vec<(Remote, DriverId)>>,
}

impl Shared {
    pub(super) fn new(idle: Arc<Idle<Initiator>>, limit: Duration, interval: Duration, blocks: u64) -> Self {
        let (blocks, remarks) = (AtomicU64::new(blocks), Remarks::default());
        Self { idle, limit, interval, blocks, remarks, replaced: OnceLock::new(), users: Mutex::default() }
    }

    fn users(&self) -> MutexGuard<'_, Vec<(Remote, DriverId)>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks of the device, now.
    #[inline]
    pub(super) fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// The device has so many blocks now: wakes all queues if that is news.
    pub(super) fn resize(&self, blocks: u64) {
        if self.blocks.swap(blocks, Ordering::Relaxed) == blocks {
            return;
        }
        self.wake_all();
    }

    /// Another logical unit has the number of the one that was opened: no queue uses it any more.
    pub(super) fn end(&self, why: String) {
        if self.replaced.set(why).is_ok() {
            self.wake_all();
        }
    }

    /// Why the device has ended, if it has.
    #[inline]
    pub(super) fn why_ended(&self) -> Option<&str> {
        self.replaced.get().map(String::as_str)
    }

    fn wake_all(&self) {
        for (remote, driver) in self.users().iter() {
            let driver = *driver;
            remote.wake(driver);
        }
    }

    /// Enters the driver of a queue.
    pub(super) fn enter(&self, remote: Remote, driver: DriverId) {
        self.users().push((remote, driver));
    }

    /// Takes it out again.
    pub(super) fn leave(&self, remote: &Remote, driver: DriverId) {
        self.users().retain(|(of, user)| *user != driver || !of.is_same_loop(remote));
    }
}
