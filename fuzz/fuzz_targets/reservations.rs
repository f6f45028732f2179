//! Reservations of one namespace by hosts of NVMe and initiators of SCSI, with their own commands:
//! each is answered as a model of the standards says, nobody reads or writes who must not, and what
//! is stored outlasts a restart; a state file that was changed is refused.

use weft_fuzz::{Input, Reserving};

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut reserving = Reserving::default();
    while !input.is_empty() {
        reserving.step(&mut input);
    }
}
