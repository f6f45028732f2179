//! A SCSI target device, and its nexuses.

use super::attention::Attention;
use super::name::{NexusName, TransportId};
use super::nexus::Nexus;
use super::table::UnitTable;
use super::unit::NexusId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A target.
#[derive(Debug)]
pub struct Target {
    name: String,
    next_nexus: AtomicU64,
}

/// The reason for a new nexus, which its initiator receives as a unit attention condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// For the first time.
    New,
    /// The same initiator port was here before, and its session ended or was reinstated.
    Again,
}

impl Target {
    /// A target with the name that iSCSI has for it. The names of its ports are made from it and
    /// their numbers, which are portal group tags.
    pub fn new(name: &str) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), next_nexus: AtomicU64::new(1) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The initiator port `initiator` is logged in at the target port `target_port` (its relative
    /// identifier, 1 and on), and sees `units`.
    pub fn attach(
        self: &Arc<Self>,
        initiator: TransportId,
        target_port: u16,
        arrival: Arrival,
        units: &UnitTable,
    ) -> Nexus {
        let id = NexusId(self.next_nexus.fetch_add(1, Ordering::Relaxed));
        let attention = match arrival {
            Arrival::New => Attention::PowerOn,
            Arrival::Again => Attention::NexusLoss,
        };
        Nexus::new(self.clone(), id, NexusName { initiator, target_port }, attention, units)
    }
}

/// The number of a logical unit in the 8 bytes of a LUN (SAM-5 §4.7): single level, peripheral
/// device or flat space addressing.
#[inline]
pub fn unit_number(lun: u64) -> Option<usize> {
    let (first, rest) = ((lun >> 48) as u16, lun & 0xffff_ffff_ffff);
    match first >> 14 {
        // Bus identifier zero.
        0 if first >> 8 == 0 && rest == 0 => Some(usize::from(first)),
        1 if rest == 0 => Some(usize::from(first & 0x3fff)),
        _ => None,
    }
}

/// The 8 bytes of the LUN of a logical unit's number, which is below 16384.
pub const fn lun_of(number: usize) -> u64 {
    let first = if number < 256 { number as u64 } else { 0x4000 | number as u64 };
    first << 48
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luns_are_of_one_level() {
        for number in [0, 1, 255, 256, 0x3fff] {
            assert_eq!(unit_number(lun_of(number)), Some(number));
        }
        assert_eq!(unit_number(0x4001_0000_0000_0000), Some(1));
        assert_eq!(unit_number(0x0101_0000_0000_0000), None);
        assert_eq!(unit_number(0x0001_0001_0000_0000), None);
        assert_eq!(unit_number(0xc101_0000_0000_0000), None);
    }
}
