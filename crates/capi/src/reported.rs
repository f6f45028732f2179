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
