//! The process: its exit status, signals, log and descriptors, and disks that it serves.

pub(super) mod announce;
pub(super) mod attached;
pub(super) mod defect;
pub(super) mod descriptors;
pub(super) mod exit;
pub(super) mod exit_on_loss;
pub(super) mod log;
pub(super) mod signals;
pub(super) mod windows_service;
