//! Data structures of reservations (Base 2.1 §7.4 to 7.7, §5.2.12.3).

use super::types::{Cntlid, Id128, Nsid};
use super::wire::structure;

structure! {
    /// Header of the Reservation Status data structure in its extended form (Base 2.1 §7.7);
    /// registrants follow it.
    pub struct ReservationStatus[64] {
        /// Generation: counts registering, clearing and preempting.
        0 generation: u32,
        /// Reservation Type; 0: no reservation is held.
        4 rtype: u8,
        /// Number of Registrants: those that follow.
        5 regctl: u16,
        /// Persist Through Power Loss State.
        9 ptpls: u8,
    }
}

structure! {
    /// A registrant in its extended form (Base 2.1 §7.7).
    pub struct RegisteredController[64] {
        /// Controller Identifier; FFFFh with controllers that are made for each association.
        0 cntlid: Cntlid,
        /// Reservation Status: bit 0 [`Self::HOLDS`].
        2 rcsts: u8,
        /// Reservation Key.
        8 rkey: u64,
        /// Host Identifier.
        16 hostid: Id128,
    }
}

structure! {
    /// A registrant in the form for hosts with identifiers of 64 bits (Base 2.1 §7.7). The header
    /// in front of it has the fields of [`ReservationStatus`] in [`Self::BYTES`] bytes.
    pub struct RegisteredHost[24] {
        /// Controller Identifier.
        0 cntlid: Cntlid,
        /// Reservation Status, as in [`RegisteredController`].
        2 rcsts: u8,
        /// Host Identifier.
        8 hostid: u64,
        /// Reservation Key.
        16 rkey: u64,
    }
}

impl RegisteredController {
    /// RCSTS: the host holds the reservation.
    pub const HOLDS: u8 = 1;
}

structure! {
    /// Reservation Notification log page (Base 2.1 §5.2.12.3): one notification. All zero: there is
    /// none.
    pub struct ReservationNotification[64] {
        /// Log Page Count: counts notifications, those that were lost as well.
        0 count: u64,
        /// Reservation Notification Log Page Type: 1 registration preempted, 2 reservation
        /// released, 3 reservation preempted.
        8 kind: u8,
        /// Number of further available log pages.
        9 available: u8,
        /// Namespace.
        12 nsid: Nsid,
    }
}

/// RESCAP of Identify Namespace (Base 2.1, "Reservation Capabilities").
pub struct ReservationCapabilities;

impl ReservationCapabilities {
    /// Persist Through Power Loss.
    pub const PERSIST: u8 = 1;
    /// All six types, in bits 6:1.
    pub const ALL_TYPES: u8 = 0x7e;
    /// Ignore Existing Key is as in NVMe 1.3 and later.
    pub const IGNORE_KEY_1_3: u8 = 1 << 7;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_laid_out_as_the_figures_show() {
        let status =
            ReservationStatus { generation: 0x0102_0304, rtype: 3, regctl: 2, ptpls: 1 }.encode();
        assert_eq!(status[..10], [4, 3, 2, 1, 3, 2, 0, 0, 0, 1]);
        assert_eq!((status.len(), status[10..].iter().any(|byte| *byte != 0)), (64, false));
        let registrant = RegisteredController {
            cntlid: Cntlid(0xffff),
            rcsts: 1,
            rkey: 0xabcd,
            hostid: Id128([9; 16]),
        }
        .encode();
        assert_eq!(registrant[..16], [0xff, 0xff, 1, 0, 0, 0, 0, 0, 0xcd, 0xab, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            (registrant.len(), &registrant[16..32], registrant[32..].iter().any(|byte| *byte != 0)),
            (64, &[9; 16][..], false)
        );
        let host = RegisteredHost { cntlid: Cntlid(3), rcsts: 1, hostid: 9, rkey: 0xabcd }.encode();
        let expected =
            [3, 0, 1, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0xcd, 0xab, 0, 0, 0, 0, 0, 0];
        assert_eq!(host, expected);
        let page =
            ReservationNotification { count: 7, kind: 2, available: 1, nsid: Nsid(5) }.encode();
        assert_eq!(page[..16], [7, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 5, 0, 0, 0]);
        assert_eq!(page.len(), 64);
    }
}
