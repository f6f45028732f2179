//! Statuses of devices in words, as their protocols name them.

use std::io;
use weft_block::{Raw, RawScsi};
use weft_proto::nbd::code::ErrorCode;
use weft_proto::nvme::status::Status as NvmeStatus;
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense, ScsiStatus, SenseKey};

/// Code type and code of an NVMe status.
const NVME_STATUS_BITS: u16 = 0x7ff;

/// A status with its protocol and its name, as in "NVMe status 0x281: Unrecovered Read Error".
pub fn words(raw: &Raw) -> String {
    let named = |text: Option<&str>| text.map(|text| format!(": {text}")).unwrap_or_default();
    match *raw {
        Raw::Nvme(code) => {
            let status = NvmeStatus(code & NVME_STATUS_BITS);
            format!("NVMe status {:#x}{}", status.0, named(status.text()))
        }
        Raw::Scsi(RawScsi { status, sense_key: 0, additional_sense: 0, .. }) => {
            format!("SCSI status {}", ScsiStatus(status))
        }
        Raw::Scsi(RawScsi { sense_key, additional_sense, .. }) => {
            let sense = Sense::new(SenseKey(sense_key), AdditionalSense(additional_sense));
            format!("SCSI sense {sense}")
        }
        Raw::Nbd(code) => format!("NBD error {code}{}", named(ErrorCode(code).text())),
        Raw::Os(code) => io::Error::from_raw_os_error(code).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_has_words() {
        let scsi = |status, sense_key, additional_sense| {
            Raw::Scsi(RawScsi { status, sense_key, additional_sense, information: None })
        };
        for (raw, expected) in [
            (Raw::Nvme(0x4281), "NVMe status 0x281: Unrecovered Read Error"),
            (Raw::Nvme(0x7c0), "NVMe status 0x7c0"),
            (scsi(2, 3, 0x1100), "SCSI sense MEDIUM ERROR: Unrecovered read error (11h/00h)"),
            (scsi(0x18, 0, 0), "SCSI status RESERVATION CONFLICT"),
            (Raw::Nbd(28), "NBD error 28: no space left"),
            (Raw::Nbd(7), "NBD error 7"),
        ] {
            assert_eq!(words(&raw), expected);
        }
        assert!(words(&Raw::Os(5)).ends_with("(os error 5)"));
    }
}
