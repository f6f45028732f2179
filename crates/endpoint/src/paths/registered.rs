//! Who else is registered with a device, by its Reservation Report: whoever is, may write to it as well.

use crate::control::{Control, Done};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_block::limits::RESERVATION_REPORT_BYTES;
use weft_block::{
    BlockDevice, BlockQueue, Completion, Device, Error, ErrorKind, Op, OpKind, Outcome, Pending, ReservationReport, StatusKind,
};
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Segments, Time};

/// What a device says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// Nobody is registered. weft does not register here, so this is nobody else.
    None,
    /// So many are registered, or more.
    Some(usize),
    /// It answered with something else than a report.
    Unreadable,
}

/// What came of a question: an error if the connection was lost.
pub(super) type Asked = Arc<Mutex<Option<Result<Others, Error>>>>;

/// Until the connection of a queue that was dropped is free for the next one.
const RETURN: Duration = Duration::from_millis(1);

/// Asks on the control loop.
///
/// # Errors
/// That the loop cannot be started.
pub(super) fn ask_from(control: &Control, device: &Device) -> Result<Pending<Others>, Error> {
    let device = Arc::clone(device);
    control.begin(move |on, done| ask(on, &device, done))
}

/// Asks; this is the control loop. `done` is called when the connection that was used is free again.
pub(super) fn ask(on: &Handle, device: &Device, done: Done<Others>) {
    let mut done = Some(done);
    let blocks = RESERVATION_REPORT_BYTES as u32 / device.geometry().block_bytes;
    let spawned = on.try_spawn(|id| {
        let queue = Some(device.open_queue(on, id)?);
        let asked = Ask {
            queue,
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
    /// Blocks of the report; none: it was asked for.
    blocks: u32,
    ops: VecDeque<Op>,
    answer: Option<Result<Others, Error>>,
    /// When the connection is free again.
    free_at: Time,
    done: Option<Done<Others>>,
    id: DriverId,
    timer: TimerSlot,
}

impl Ask {
    /// The question, once there is memory for its answer.
    fn prepare(&mut self, on: &Handle) {
        if self.blocks == 0 {
            return;
        }
        match on.pool().take(RESERVATION_REPORT_BYTES) {
            Some(buf) => {
                let blocks = core::mem::take(&mut self.blocks);
                self.ops.push_back(Op::new(OpKind::ReservationReport, 0, blocks, 0, Segments::from([buf.into()])));
            }
            None => self.timer.arm(on, self.id, on.now() + RETURN),
        }
    }
}

/// What an answer says.
fn read(Completion { op, outcome }: Completion) -> Result<Others, Error> {
    match outcome {
        Outcome::Done(status) if status.is_success() => {
            let report = op.data.first().and_then(|bytes| ReservationReport::decode(bytes));
            Ok(report.map_or(Others::Unreadable, |report| match report.registrants.len() {
                0 if !report.is_cut => Others::None,
                count => Others::Some(count),
            }))
        }
        Outcome::Done(status) if !status.kind.is_passing() && status.kind != StatusKind::Gone => Ok(Others::Unreadable),
        _ => {
            let text = format!("the report of its reservations could not be read: {:?}", outcome.status().kind);
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

/// Whether who is registered with a device decides about writing again what it has lost, and it can say so.
pub(super) fn decides(options: &super::PathOptions, device: &dyn BlockDevice) -> bool {
    options.only_writer_if_alone && !options.only_writer && device.features().reservations
}

/// Says once, when a device was opened, that others may write to it.
pub(super) fn tell(url: &str, others: Others) {
    let why = match others {
        Others::None => return,
        Others::Some(1) => "another host is registered with the disk".to_owned(),
        Others::Some(count) => format!("{count} hosts are registered with the disk"),
        Others::Unreadable => "the disk does not say whether other hosts are registered with it".to_owned(),
    };
    tracing::warn!(
        "{url}: {why}, so weft does not take itself for its only writer: if the target restarts and has lost unflushed data, nothing is written again \
         and the next flush fails, as with --shared. Give --only-writer if nobody else writes to it"
    );
}
