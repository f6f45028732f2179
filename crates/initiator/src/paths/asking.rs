//! One operation on the reservation of a device that no user has open, on the control loop.

use crate::control::{Control, Done};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::limits::RESERVATION_REPORT_BYTES;
use weft_block::{
    BlockQueue, Completion, Device, Error, ErrorKind, Op, OpKind, Outcome, Pending,
    ReservationReport, StatusKind,
};
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Segments, Time};

/// What the device has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done(StatusKind),
    Report(ReservationReport),
}

/// What came of a question: an error if the connection was lost.
pub(super) type Asked = Arc<Lock<Option<Result<Answer, Error>>>>;

/// Until the connection of a queue that was dropped is free for the next one.
const RETURN: Duration = Duration::from_millis(1);

/// Asks on the control loop. The later error is that the connection was lost.
///
/// # Errors
/// That the loop cannot be started.
pub(super) fn ask_from(
    control: &Control,
    device: &Device,
    kind: OpKind,
) -> Result<Pending<Answer>, Error> {
    let device = Arc::clone(device);
    control.begin(move |on, done| ask(on, &device, kind, done))
}

/// Asks; this is the control loop. `done` is called when the connection that was used is free
/// again.
pub(super) fn ask(on: &Handle, device: &Device, kind: OpKind, done: Done<Answer>) {
    let mut done = Some(done);
    let is_report = kind == OpKind::ReservationReport;
    let blocks =
        if is_report { RESERVATION_REPORT_BYTES as u32 / device.geometry().block_bytes } else { 0 };
    let spawned = on.try_spawn(|id| {
        let queue = Some(device.open_queue(on, id)?);
        let asked = Ask {
            queue,
            kind: Some(kind),
            blocks,
            ops: VecDeque::new(),
            answer: None,
            free_at: Time::ZERO,
            done: done.take(),
            id,
            timer: TimerSlot::default(),
        };
        Ok::<_, Error>(asked)
    });
    match spawned {
        Ok(driver) => on.wake(driver),
        Err(e) => done.into_iter().for_each(|done| done(Err(Error::new(e.kind(), e.to_string())))),
    }
}

struct Ask {
    queue: Option<Box<dyn BlockQueue>>,
    /// What is to be asked for; none: it was.
    kind: Option<OpKind>,
    /// Blocks of a report.
    blocks: u32,
    ops: VecDeque<Op>,
    answer: Option<Result<Answer, Error>>,
    /// When the connection is free again.
    free_at: Time,
    done: Option<Done<Answer>>,
    id: DriverId,
    timer: TimerSlot,
}

impl Ask {
    /// The question, once there is memory for its answer.
    fn prepare(&mut self, on: &Handle) {
        let Some(kind) = self.kind.take() else { return };
        if self.blocks == 0 {
            return self.ops.push_back(Op::bare(kind, 0, 0, 0));
        }
        match on.pool().take(RESERVATION_REPORT_BYTES) {
            Some(buf) => {
                self.ops.push_back(Op::new(kind, 0, self.blocks, 0, Segments::from([buf.into()])))
            }
            None => {
                self.kind = Some(kind);
                self.timer.arm(on, self.id, on.now() + RETURN);
            }
        }
    }
}

/// What an answer says.
fn read(Completion { op, outcome }: Completion) -> Result<Answer, Error> {
    match outcome {
        Outcome::Done(status) if status.is_success() => {
            let report = op.data.first().and_then(|bytes| ReservationReport::decode(bytes));
            let other = if op.kind == OpKind::ReservationReport {
                StatusKind::Invalid
            } else {
                StatusKind::Success
            };
            Ok(report.map_or(Answer::Done(other), Answer::Report))
        }
        Outcome::Done(status) if !status.kind.is_passing() && status.kind != StatusKind::Gone => {
            Ok(Answer::Done(status.kind))
        }
        _ => {
            let text = format!(
                "its reservation could not be asked for or changed: {:?}",
                outcome.status().kind
            );
            Err(Error::new(ErrorKind::Io, text))
        }
    }
}

impl Driver for Ask {
    fn work(&mut self, on: &Handle) -> Activity {
        self.prepare(on);
        if let Some(queue) = &mut self.queue {
            queue.submit(&mut self.ops);
            let mut ended = Vec::new();
            queue.reap(&mut ended);
            let Some(completion) = ended.pop() else { return Activity::Idle };
            self.answer = Some(read(completion));
            self.queue = None;
            self.free_at = on.now() + RETURN;
            self.timer.arm(on, self.id, self.free_at);
            return Activity::Busy;
        }
        if on.now() < self.free_at {
            return Activity::Idle;
        }
        if let (Some(done), Some(answer)) = (self.done.take(), self.answer.take()) {
            done(answer);
        }
        on.remove(self.id);
        Activity::Busy
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
    }
}
