//! The command layer of a controller: arbitrary admin and I/O commands, Connects, events and times.
//! Each command is answered once, and no request leaves its namespace.

use weft_fuzz::{Admin, Input};
use weft_proto::nvme::controller::ControllerKind;

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let kind = if input.one_in(8) { ControllerKind::Discovery } else { ControllerKind::Io };
    let mut admin = Admin::new(kind);
    while !input.is_empty() && admin.step(&mut input) {}
}
