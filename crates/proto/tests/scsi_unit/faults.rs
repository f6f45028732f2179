//! What a device's failures become.

use super::rig::{BLOCK, Rig};
use weft_proto::nvme::status::Status;
use weft_proto::scsi::cdb::{Command, Extent};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense as Code, ScsiStatus, SenseKey as Key};
use weft_proto::scsi::translation::{Fault, FaultKind};

const READ: Command = Command::Read { extent: Extent { lba: 0, blocks: 1 }, dpo: false, fua: false };
const WRITE: Command = Command::Write { extent: Extent { lba: 0, blocks: 1 }, dpo: false, fua: false };

#[test]
fn media_errors_name_the_direction() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let media = Fault::Kind(FaultKind::Media);
    rig.disk.faults = vec![media, media];
    let ended = rig.run(host, READ, &[]);
    assert_eq!(ended.sense, Some(Sense::new(Key::MEDIUM_ERROR, Code::UNRECOVERED_READ_ERROR)));
    assert_eq!((ended.data.len(), ended.transfer_bytes), (0, 0));
    assert_eq!(rig.run(host, WRITE, &[0; BLOCK]).sense, Some(Sense::new(Key::MEDIUM_ERROR, Code::WRITE_ERROR)));
}

#[test]
fn the_words_of_nvme_and_scsi_come_out() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let own = Sense::new(Key::HARDWARE_ERROR, Code(0x4182)).with_information(5);
    rig.disk.faults = vec![
        Fault::Nvme(Status(Status::RESERVATION_CONFLICT.0 | Status::DNR)),
        Fault::Kind(FaultKind::Busy),
        Fault::Scsi(ScsiStatus::CHECK_CONDITION, Some(own)),
    ];
    assert_eq!(rig.run(host, READ, &[]).sense, Some(own));
    assert_eq!(rig.run(host, READ, &[]).status, ScsiStatus::BUSY);
    assert_eq!(rig.run(host, READ, &[]).status, ScsiStatus::RESERVATION_CONFLICT);
    assert!(rig.run(host, READ, &[]).is_good());
}
