//! Common parts of the fuzz targets.
//!
//! The engines are driven by the pump of `weft-proto`'s own tests ([`support`], [`fake`],
//! [`world`], [`rdma_layer`]), which checks every promise that an engine makes on the way. An
//! [`Input`] decides what arrives: the fuzzer's bytes, read as choices.
#![forbid(unsafe_code)]

#[path = "../../crates/proto/tests/nvme_host_control/fake.rs"]
pub mod fake;
#[path = "../../crates/proto/tests/nvme_rdma/layer.rs"]
pub mod rdma_layer;
#[path = "../../crates/proto/tests/reservations/model.rs"]
pub mod reservation_model;
#[path = "../../crates/proto/tests/scsi_unit/rig.rs"]
pub mod scsi_rig;
#[allow(clippy::should_implement_trait, reason = "a test's pump may call its step `next`")]
#[path = "../../crates/proto/tests/support/mod.rs"]
pub mod support;
#[path = "../../crates/proto/tests/nvme_host_control/world.rs"]
pub mod world;

mod admin;
mod input;
mod io;
mod pdu;
pub mod rdma;
mod reservations;
mod scsi;
mod sqe;

pub use admin::Admin;
pub use input::Input;
pub use io::Io;
pub use pdu::{digests, pdu};
pub use reservations::Reserving;
pub use scsi::{Scsi, scsi_probe};
