//! The integration tests of this crate, in one program, since each program links all of weft.
//! Those that need a process of their own stand in `Cargo.toml`.

mod authentication;
#[path = "common/chap.rs"]
mod chap;
#[path = "common/checker.rs"]
mod checker;
#[path = "common/devices.rs"]
mod devices;
mod disk_names;
mod gateways;
mod hostile;
#[path = "common/intruder.rs"]
mod intruder;
mod inventory;
mod iscsi_own;
mod iscsi_wire;
mod listeners;
mod loopback;
mod nbd_unaligned;
#[path = "common/page.rs"]
mod page;
mod reservations;
mod send_ahead;
#[path = "common/served.rs"]
mod served;
mod sim;
mod sizes;
mod tls;
mod two_targets;
#[path = "common/wire.rs"]
mod wire;
