//! Statuses of devices in words, from the numbers that a completion has.

use weft_block::{Raw, RawScsi};
use weft_endpoint::reported;

/// The status that a device reported, with its protocol; `None` if it reported none.
pub fn words(protocol: u32, status: u32) -> Option<String> {
    let [scsi, sense_key, code, qualifier] = status.to_be_bytes();
    let additional_sense = u16::from_be_bytes([code, qualifier]);
    let raw = match protocol {
        1 => Raw::Nvme(status as u16),
        2 => Raw::Scsi(RawScsi { status: scsi, sense_key, additional_sense, information: None }),
        3 => Raw::Nbd(status),
        4 => Raw::Os(status.cast_signed()),
        _ => return None,
    };
    Some(reported::words(&raw))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Completion;
    use weft_block::{Outcome, Status, StatusKind};

    #[test]
    fn the_numbers_of_a_completion_are_those_of_the_status() {
        let scsi = RawScsi { status: 2, sense_key: 3, additional_sense: 0x1100, information: None };
        for raw in [Raw::Nvme(0x4281), Raw::Scsi(scsi), Raw::Nbd(28), Raw::Os(5)] {
            let outcome = Outcome::Done(Status::with_raw(StatusKind::Media, raw));
            let Completion { protocol, status, .. } = Completion::of(1, &outcome);
            assert_eq!(words(protocol, status), Some(reported::words(&raw)));
        }
        assert_eq!(words(0, 0), None);
    }
}
