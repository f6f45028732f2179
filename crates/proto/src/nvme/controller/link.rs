//! Shared state of the parts of one controller, each on its own loop. Nothing here is touched per
//! command that succeeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};

use weft_base::lock::Lock;

use super::admin::error_log::{CommandError, ErrorLog};
use super::instance::{Instance, Instances};
use super::statistics::Health;
use crate::nvme::sqe::HostMemory;
use crate::nvme::types::{Cntlid, Id128};

/// Shared by the control value of a controller, its I/O queues, and its subsystem.
#[derive(Debug)]
pub(super) struct Link {
    pub cntlid: Cntlid,
    /// HOSTID of the admin queue's Connect, by which the host registers for reservations.
    pub host: Id128,
    /// Form in which the controller's transport names memory.
    pub host_memory: HostMemory,
    pub health: Arc<Health>,
    accepts_queues: AtomicBool,
    io_queues: AtomicU32,
    copy_formats: AtomicU16,
    errors: Lock<ErrorLog>,
    instances: Arc<Instances>,
    instance: Lock<Instance>,
}

impl Link {
    pub fn new(
        cntlid: Cntlid,
        host: Id128,
        host_memory: HostMemory,
        health: Arc<Health>,
        instances: Arc<Instances>,
    ) -> Self {
        Self {
            instance: Lock::new(instances.next()),
            instances,
            cntlid,
            host,
            host_memory,
            health,
            accepts_queues: AtomicBool::new(false),
            io_queues: AtomicU32::new(0),
            copy_formats: AtomicU16::new(0),
            errors: Lock::default(),
        }
    }

    /// Returns whether the controller is enabled, for I/O queues of the right entry sizes. It is
    /// cleared before a reset or shutdown asks for the queues to be stopped: a queue that is
    /// connected after that is refused, one from before is among those to stop.
    pub fn accepts_queues(&self) -> bool {
        self.accepts_queues.load(Ordering::Acquire)
    }

    pub fn set_accepts_queues(&self, accepts: bool) {
        self.accepts_queues.store(accepts, Ordering::Release);
    }

    /// Returns the present instance of the controller.
    pub fn instance(&self) -> Instance {
        *self.instance.lock()
    }

    /// The controller is enabled: it is another instance from now on.
    pub fn renew(&self) {
        *self.instance.lock() = self.instances.next();
    }

    /// I/O queues that are connected.
    pub fn io_queues(&self) -> u32 {
        self.io_queues.load(Ordering::Acquire)
    }

    pub fn set_io_queues(&self, count: u32) {
        self.io_queues.store(count, Ordering::Release);
    }

    /// Formats of the source ranges of Copy that the host has enabled, by their bits.
    pub fn copy_formats(&self) -> u16 {
        self.copy_formats.load(Ordering::Acquire)
    }

    pub fn set_copy_formats(&self, formats: u16) {
        self.copy_formats.store(formats, Ordering::Release);
    }

    pub fn log_error(&self, error: CommandError) {
        self.health.count_error();
        self.errors.lock().push(error);
    }

    pub fn error_page(&self) -> Vec<u8> {
        self.errors.lock().page()
    }
}
