//! Cross-Controller Reset log page (Base 2.3 §5.2.12.3.1): a header, then an entry per operation
//! that the controller was asked for.

use crate::nvme::types::Cntlid;
use crate::nvme::wire::{codes, structure};

codes! {
    /// Cross-Controller Reset Status (CCRS).
    pub struct CrossResetStatus(u8) {
        0 IN_PROGRESS "in progress";
        1 SUCCESSFUL "successful";
        2 FAILED "failed";
    }
}

structure! {
    /// The header.
    pub struct CrossResetHeader[8] {
        /// NE, Number of Entries, at most [`Self::ENTRIES_MAX`].
        0 ne: u16,
    }
}

impl CrossResetHeader {
    /// Entries in the log page, at most.
    pub const ENTRIES_MAX: usize = 511;
    /// Log Specific Parameter bit 0 of Get Log Page, Remove Completed (RMC): the controller removes
    /// the entries of operations that are over once they have been read.
    pub const REMOVE_COMPLETED: u8 = 1;
}

structure! {
    /// An entry.
    pub struct CrossResetEntry[8] {
        /// ICID, Impacted Controller ID.
        0 icid: Cntlid,
        /// CIU of the impacted controller.
        2 ciu: u8,
        /// ACID, Alternate Controller ID: the controller that the command was sent to.
        4 acid: Cntlid,
        /// CCRS: how far the operation is.
        6 ccrs: CrossResetStatus,
        /// CCRF, Cross-Controller Reset Flags.
        7 ccrf: u8,
    }
}

impl CrossResetEntry {
    /// CCRF: the impacted controller was found.
    pub const VALIDATED: u8 = 1;
    /// CCRF: its reset has begun.
    pub const INITIATED: u8 = 1 << 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_bytes() {
        let bytes = [5, 0, 9, 0, 2, 1, 1, 0];
        let entry = CrossResetEntry::decode(&bytes).unwrap();
        assert_eq!((entry.icid, entry.ciu, entry.acid), (Cntlid(5), 9, Cntlid(0x102)));
        assert_eq!(entry.ccrs, CrossResetStatus::SUCCESSFUL);
        assert_eq!(entry.encode(), bytes);
        assert_eq!(CrossResetHeader { ne: 511 }.encode(), [0xff, 1, 0, 0, 0, 0, 0, 0]);
    }
}
