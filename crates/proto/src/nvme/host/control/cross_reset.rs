//! Asks the controller to reset another one of its subsystem that this host has lost (Base 2.3
//! §5.4.3, §9.6). Once that is done, none of that controller's commands will be executed.

use core::time::Duration;

use super::{AssociationStage, CrossReset, CrossResetProgress, HostControl};
use crate::limits::CROSS_RESETS_MAX;
use crate::nvme::cqe::Cqe;
use crate::nvme::cross_reset::CrossControllerReset;
use crate::nvme::host::HostAction;
use crate::nvme::host::config::AdminData;
use crate::nvme::host::request::{self, Purpose};
use crate::nvme::host::timer::Timer;
use crate::nvme::log_page::{CrossResetEntry, CrossResetHeader, CrossResetStatus};
use crate::nvme::status::Status;

/// Pause before a command is repeated for which the controller had no room, and between two looks
/// at the log page if no event comes.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Bytes of the whole log page.
const LOG_BYTES: u32 =
    (CrossResetHeader::BYTES + CrossResetHeader::ENTRIES_MAX * CrossResetEntry::BYTES) as u32;

impl HostControl {
    /// Returns whether the controller can reset others.
    pub fn can_cross_reset(&self) -> bool {
        self.stage == AssociationStage::Ready
            && self.remote.identify.ccrl != 0
            && !self.config.discovery
    }

    /// Asks the controller to reset `lost`. [`HostAction::CrossReset`] reports the outcome; nothing
    /// comes if the association ends before.
    pub fn cross_reset(&mut self, now: Duration, lost: CrossControllerReset) {
        let known = self.cross_resets.iter().any(|reset| reset.lost == lost);
        if self.can_cross_reset() && !known {
            self.cross_resets.push(CrossReset { lost, progress: CrossResetProgress::Waiting });
            self.send_cross_resets(now);
        }
    }

    /// Sends what waits, as much as the controller takes at a time (CCRL).
    fn send_cross_resets(&mut self, now: Duration) {
        let limit = usize::from(self.remote.identify.ccrl).min(CROSS_RESETS_MAX);
        let busy = self
            .cross_resets
            .iter()
            .filter(|reset| reset.progress != CrossResetProgress::Waiting)
            .count();
        let mut free = limit.saturating_sub(busy);
        for n in 0..self.cross_resets.len() {
            if free > 0 && self.cross_resets[n].progress == CrossResetProgress::Waiting {
                free -= 1;
                self.cross_resets[n].progress = CrossResetProgress::Sent;
                let lost = self.cross_resets[n].lost;
                // The controller answers when the devices have let go of the last write.
                self.send(now, Purpose::CrossReset(lost), lost.encode(), AdminData::None, None);
            }
        }
    }

    /// The command was answered.
    pub(super) fn cross_reset_answered(
        &mut self,
        now: Duration,
        lost: CrossControllerReset,
        cqe: &Cqe,
    ) {
        let immediate = cqe.result as u32 & CrossControllerReset::IMMEDIATE_RESET_SUCCESSFUL != 0;
        let progress = match cqe.status {
            Status::SUCCESS if immediate => return self.cross_reset_over(now, lost, true),
            Status::SUCCESS => CrossResetProgress::UnderWay,
            Status::CROSS_CONTROLLER_RESET_IN_PROGRESS
            | Status::CROSS_CONTROLLER_RESET_LOG_FULL
            | Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED => CrossResetProgress::Waiting,
            _ => return self.cross_reset_over(now, lost, false),
        };
        if let Some(reset) = self.cross_resets.iter_mut().find(|reset| reset.lost == lost) {
            reset.progress = progress;
        }
        self.timers.set(Timer::CrossReset, now.saturating_add(RETRY_DELAY));
    }

    fn cross_reset_over(&mut self, now: Duration, lost: CrossControllerReset, stopped: bool) {
        self.cross_resets.retain(|reset| reset.lost != lost);
        self.push(HostAction::CrossReset { lost, stopped });
        self.send_cross_resets(now);
    }

    /// Sends again what there was no room for, and looks how far the others are: it is time, or an
    /// event says that one is over.
    pub(super) fn look_at_cross_resets(&mut self, now: Duration) {
        self.send_cross_resets(now);
        let under_way =
            self.cross_resets.iter().any(|reset| reset.progress == CrossResetProgress::UnderWay);
        if under_way && self.requests.count(Purpose::CrossResetLog) == 0 {
            let sqe = request::cross_reset_log(LOG_BYTES);
            let limit = Some(self.config.command_timeout);
            self.send(now, Purpose::CrossResetLog, sqe, AdminData::In { len: LOG_BYTES }, limit);
        }
    }

    /// The log page has been read, or could not be.
    pub(super) fn cross_reset_log_read(&mut self, now: Duration, cqe: &Cqe, data: &[u8]) {
        let entries = if cqe.status.is_success() { entries(data) } else { Vec::new() };
        let under_way =
            self.cross_resets.iter().filter(|reset| reset.progress == CrossResetProgress::UnderWay);
        for lost in under_way.map(|reset| reset.lost).collect::<Vec<_>>() {
            let own = |entry: &&CrossResetEntry| {
                (entry.icid, entry.ciu, entry.acid) == (lost.icid, lost.ciu, self.remote.cntlid)
            };
            match entries.iter().rfind(own).map(|entry| entry.ccrs) {
                Some(CrossResetStatus::IN_PROGRESS) => {}
                Some(status) => {
                    self.cross_reset_over(now, lost, status == CrossResetStatus::SUCCESSFUL)
                }
                None => self.cross_reset_over(now, lost, false),
            }
        }
        if !self.cross_resets.is_empty() {
            self.timers.set(Timer::CrossReset, now.saturating_add(RETRY_DELAY));
        }
    }
}

/// The entries that the header counts, as far as they are there.
fn entries(page: &[u8]) -> Vec<CrossResetEntry> {
    let Ok(header) = CrossResetHeader::decode(page) else { return Vec::new() };
    let entries = page[CrossResetHeader::BYTES..].chunks_exact(CrossResetEntry::BYTES);
    entries.take(header.ne.into()).flat_map(CrossResetEntry::decode).collect()
}
