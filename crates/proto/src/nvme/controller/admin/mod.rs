//! Admin commands, registers, log pages and events of a controller.

pub(super) mod cross_reset_log;
pub(super) mod error_log;
pub(super) mod event;
pub(super) mod events;
pub(super) mod features;
pub(super) mod identify;
pub(super) mod keep_alive;
pub(super) mod log_request;
pub(super) mod notices;
pub(super) mod registers;
pub(super) mod slot;
pub(super) mod support;
