//! Output of commands: tables, numbers and progress.

pub(super) mod figures;
pub(super) mod held_table;
pub(super) mod hex;
pub(super) mod nvme_bits;
pub(super) mod nvme_json;
pub(super) mod progress;
pub(super) mod table;
