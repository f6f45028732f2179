//! The log page Cross-Controller Reset of one controller (Base 2.3 §5.4.3).

use crate::nvme::cross_reset::CrossControllerReset;
use crate::nvme::log_page::{CrossResetEntry, CrossResetHeader, CrossResetStatus};

/// The log page Cross-Controller Reset of one controller: the oldest operation that is over makes
/// room for a new one.
#[derive(Debug, Default)]
pub(in crate::nvme::controller) struct CrossResetLog(Vec<CrossResetEntry>);

impl CrossResetLog {
    pub const BYTES: usize =
        CrossResetHeader::BYTES + CrossResetHeader::ENTRIES_MAX * CrossResetEntry::BYTES;

    pub fn under_way(&self) -> impl Iterator<Item = &CrossResetEntry> {
        self.0.iter().filter(|entry| entry.ccrs == CrossResetStatus::IN_PROGRESS)
    }

    /// Adds an operation.
    pub fn add(&mut self, entry: CrossResetEntry) {
        if self.0.len() == CrossResetHeader::ENTRIES_MAX
            && let Some(oldest) =
                self.0.iter().position(|entry| entry.ccrs != CrossResetStatus::IN_PROGRESS)
        {
            self.0.remove(oldest);
        }
        self.0.push(entry);
    }

    pub fn remove_completed(&mut self) {
        self.0.retain(|entry| entry.ccrs == CrossResetStatus::IN_PROGRESS);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn page(&self) -> Vec<u8> {
        let mut page = CrossResetHeader { ne: self.0.len() as u16 }.encode();
        self.0.iter().for_each(|entry| page.extend(entry.encode()));
        page.resize(Self::BYTES, 0);
        page
    }

    /// Ends an operation successfully; `false`: there is no such one under way.
    pub fn complete(&mut self, named: CrossControllerReset) -> bool {
        let found = self.0.iter_mut().find(|entry| {
            (entry.icid, entry.ciu, entry.ccrs)
                == (named.icid, named.ciu, CrossResetStatus::IN_PROGRESS)
        });
        found.map(|entry| entry.ccrs = CrossResetStatus::SUCCESSFUL).is_some()
    }
}
