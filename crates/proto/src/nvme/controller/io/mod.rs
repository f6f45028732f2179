//! I/O queues, and the commands that they take.

pub(super) mod command;
pub(super) mod conflict_check;
pub(super) mod copy_command;
pub(super) mod copy_work;
pub(super) mod next;
pub(super) mod queue;
pub(super) mod reservation_command;
pub(super) mod slot;
