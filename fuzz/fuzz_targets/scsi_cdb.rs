//! A SCSI target with a disk in memory: arbitrary CDBs and data from several hosts, faults of the
//! disk, resets, and hosts that come and go. Each command ends, no request leaves the disk, and no
//! response is longer than what was allocated for it. Then a probe is given arbitrary answers.

use weft_fuzz::{Input, Scsi, scsi_probe};

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    if input.one_in(4) {
        return scsi_probe(&mut input);
    }
    let mut scsi = Scsi::new(&mut input);
    while !input.is_empty() {
        scsi.step(&mut input);
    }
}
