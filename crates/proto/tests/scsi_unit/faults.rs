//! Translation of a device's failures.

use super::rig::{BLOCK, Rig};
use weft_proto::scsi::cdb::{Command, Extent};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense as Code, ScsiStatus, SenseKey as Key};

const READ: Command =
    Command::Read { extent: Extent { lba: 0, blocks: 1 }, dpo: false, fua: false };
const WRITE: Command =
    Command::Write { extent: Extent { lba: 0, blocks: 1 }, dpo: false, fua: false };

#[test]
fn status_and_sense_data_of_the_device_come_out_as_they_are() {
    let mut rig = Rig::new();
    let host = &mut rig.host(1);
    let own = Sense::new(Key::HARDWARE_ERROR, Code(0x4182)).with_information(5);
    rig.disk.faults = vec![
        (ScsiStatus::RESERVATION_CONFLICT, None),
        (ScsiStatus::BUSY, None),
        (ScsiStatus::CHECK_CONDITION, Some(own)),
    ];
    let ended = rig.run(host, READ, &[]);
    assert_eq!(ended.sense, Some(own));
    assert_eq!((ended.data.len(), ended.transfer_bytes), (0, 0));
    assert_eq!(rig.run(host, WRITE, &[0; BLOCK]).status, ScsiStatus::BUSY);
    assert_eq!(rig.run(host, READ, &[]).status, ScsiStatus::RESERVATION_CONFLICT);
    assert!(rig.run(host, READ, &[]).is_good());
}
