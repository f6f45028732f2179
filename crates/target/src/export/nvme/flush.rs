//! Flushes written data when a host shuts its controller down.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{BlockDevice, BlockQueue, Completion, Op, OpKind};
use weft_connection::limits::QUEUE_RETRY_MS;
use weft_connection::refusals::Refusals;
use weft_io::event_loop::TimerSlot;
use weft_io::{DriverId, Handle};

/// Flushes that wait for a queue, for the log.
static LATE: Refusals = Refusals::new();

/// Flushes that failed, for the log.
static FAILED: Refusals = Refusals::of_errors();

/// A flush of every device that needs one.
pub(super) struct Flush {
    /// Devices that have not granted a queue yet.
    waiting: Vec<Arc<dyn BlockDevice>>,
    queues: Vec<Box<dyn BlockQueue>>,
    /// Flushes in progress.
    left: usize,
    /// Flushes for which a queue had no room, by its index.
    ops: Vec<VecDeque<Op>>,
    timer: TimerSlot,
}

impl Flush {
    /// Flushes those of `devices` that may lose acknowledged data.
    pub(super) fn new(devices: &[Arc<dyn BlockDevice>]) -> Self {
        let waiting: Vec<_> =
            devices.iter().filter(|device| device.features().volatile_cache).cloned().collect();
        Self {
            left: waiting.len(),
            waiting,
            queues: Vec::new(),
            ops: Vec::new(),
            timer: TimerSlot::default(),
        }
    }

    /// Continues; returns whether everything is done. A device that cannot flush is logged, because
    /// the host cannot be told.
    pub(super) fn go_on(&mut self, on: &Handle, id: DriverId) -> bool {
        self.waiting.retain(|device| match device.open_queue(on, id) {
            Ok(queue) => {
                self.queues.push(queue);
                self.ops.push(VecDeque::from([Op::bare(OpKind::Flush, 0, 0, 0)]));
                false
            }
            Err(e) => {
                LATE.log_now(|| format!("cannot flush {} yet: {e}", device.url()));
                true
            }
        });
        if !self.waiting.is_empty() {
            self.timer.arm(on, id, on.now() + Duration::from_millis(QUEUE_RETRY_MS));
        }
        let mut done: Vec<Completion> = Vec::new();
        for (queue, ops) in self.queues.iter_mut().zip(&mut self.ops) {
            queue.submit(ops);
            queue.reap(&mut done);
        }
        for failed in done.iter().filter(|completion| !completion.outcome.is_success()) {
            FAILED.log_now(|| format!("a flush at shutdown failed: {:?}", failed.outcome.status()));
        }
        self.left -= done.len();
        self.left == 0
    }
}

impl Drop for Flush {
    /// The connection has ended before.
    fn drop(&mut self) {
        self.ops.iter_mut().flat_map(|ops| ops.drain(..)).for_each(Op::give_up);
    }
}
