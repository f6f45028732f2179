//! The memory of a guest that a virtual machine monitor shares, and how both notify each other: what
//! vhost-user needs of Linux.
//!
//! * [`mapping`]: a file of memory, mapped; `truncated`: what happens if it shrinks under us.
//! * [`memory`]: the regions of a guest by their addresses, and the log of what was written.
//! * [`foreign`]: descriptors of the other side, on which no call may wait; [`notify`]: those by
//!   which one side wakes the other, and `signal`, how that does not wait.
//! * [`messages`]: a Unix socket whose messages bring descriptors.
//!
//! The guest and its monitor write to the memory whenever they like, so no reference to it exists:
//! bytes are copied, by plain copies of the processor. That a copy may be a mix of old and new data
//! is the guest's own affair.

pub mod foreign;
pub mod mapping;
pub mod memory;
pub mod messages;
pub mod notify;
mod signal;
mod truncated;

#[cfg(test)]
mod tests;
