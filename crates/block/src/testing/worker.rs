//! The end of a [`super::Rig`] that lives on an event loop: it owns the queue, and holds it to its
//! word.

use crate::device::{BlockDevice, BlockQueue, DeviceChange};
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::status::StatusKind;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use weft_io::segment::total_len;
use weft_io::{Activity, Driver, DriverId, Handle, Segments};

/// An operation to be done, with its data as plain bytes.
#[derive(Clone, Debug)]
pub struct TestOp {
    /// Kind of the operation.
    pub kind: OpKind,
    /// First block.
    pub lba: u64,
    /// Blocks.
    pub blocks: u32,
    /// Initial contents of the operation's memory: as many bytes as the kind needs.
    pub data: Vec<u8>,
    /// Where the memory is cut into pieces, in bytes from its start, ascending.
    pub cuts: Vec<usize>,
}

/// Outcome of a request.
#[derive(Clone, Debug)]
pub struct TestOutcome {
    /// The outcome.
    pub outcome: Outcome,
    /// The memory of the operation.
    pub data: Vec<u8>,
}

pub(super) enum Command {
    /// Submit, and answer under this name.
    Submit(u64, TestOp),
    Cancel(u64),
    /// Drop the queue and what waits for it, and open another; answer when the memory has come
    /// back.
    Reopen(Sender<()>),
    /// Tell the next change of the device.
    Change(Sender<DeviceChange>),
    End,
}

pub(super) struct Worker {
    device: Arc<dyn BlockDevice>,
    queue: Box<dyn BlockQueue>,
    id: DriverId,
    commands: Receiver<Command>,
    answers: Sender<(u64, TestOutcome)>,
    waiting: VecDeque<Op>,
    /// Requests, and the places of their memory.
    asked: HashMap<u64, (OpKind, u64, u32, Vec<usize>)>,
    done: Vec<Completion>,
    reopened: Option<Sender<()>>,
    wants_change: Option<Sender<DeviceChange>>,
}

impl Worker {
    pub(super) fn new(
        device: &Arc<dyn BlockDevice>,
        on: &Handle,
        id: DriverId,
        commands: Receiver<Command>,
        answers: Sender<(u64, TestOutcome)>,
    ) -> Self {
        let queue = device.open_queue(on, id).unwrap_or_else(|e| panic!("no queue: {e}"));
        Self {
            device: Arc::clone(device),
            queue,
            id,
            commands,
            answers,
            waiting: VecDeque::new(),
            asked: HashMap::new(),
            done: Vec::new(),
            reopened: None,
            wants_change: None,
        }
    }

    fn execute(&mut self, on: &Handle, command: Command) {
        match command {
            Command::Submit(user, request) => {
                let data = segments(on, &request);
                let places = data.iter().map(|s| s.as_ptr().addr()).collect();
                self.asked.insert(user, (request.kind, request.lba, request.blocks, places));
                self.waiting.push_back(Op::new(
                    request.kind,
                    request.lba,
                    request.blocks,
                    user,
                    data,
                ));
            }
            Command::Cancel(user) => self.queue.cancel(user),
            Command::Reopen(reply) => {
                self.waiting.drain(..).for_each(Op::give_up);
                self.asked.clear();
                self.queue = self
                    .device
                    .open_queue(on, self.id)
                    .unwrap_or_else(|e| panic!("no second queue: {e}"));
                self.reopened = Some(reply);
            }
            Command::Change(reply) => self.wants_change = Some(reply),
            Command::End => on.stop(),
        }
    }

    fn take_in(&mut self, completion: Completion) {
        let Completion { op, outcome } = completion;
        let asked = self
            .asked
            .remove(&op.user)
            .expect("an operation completes once, under the name it was given");
        assert_eq!(
            (op.kind, op.lba, op.blocks),
            (asked.0, asked.1, asked.2),
            "an operation comes back as it was"
        );
        let places: Vec<_> = op.data.iter().map(|s| s.as_ptr().addr()).collect();
        let lost = matches!(outcome, Outcome::MayHaveExecuted { status, .. } if status.kind == StatusKind::Gone)
            && places.is_empty();
        assert!(places == asked.3 || lost, "an operation comes back with its own memory");
        let mut data = Vec::with_capacity(total_len(&op.data));
        op.data.iter().for_each(|segment| data.extend_from_slice(segment));
        let _ = self.answers.send((op.user, TestOutcome { outcome, data }));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.waiting.drain(..).for_each(Op::give_up);
    }
}

fn segments(on: &Handle, request: &TestOp) -> Segments {
    let ends = request.cuts.iter().copied().chain([request.data.len()]);
    let mut start = 0;
    let mut all = Segments::new();
    for end in ends.filter(|&end| end > 0) {
        let mut buf = on
            .pool()
            .take(end - start)
            .expect("the rig does not ask for more memory than a loop has");
        buf.copy_from_slice(&request.data[start..end]);
        all.push(buf.into());
        start = end;
    }
    all
}

impl Driver for Worker {
    fn work(&mut self, on: &Handle) -> Activity {
        let mut busy = false;
        while let Ok(command) = self.commands.try_recv() {
            self.execute(on, command);
            busy = true;
        }
        let before = (self.waiting.len(), self.queue.in_flight());
        self.queue.submit(&mut self.waiting);
        assert_eq!(
            before.0 - self.waiting.len(),
            self.queue.in_flight() - before.1,
            "what is taken is in flight"
        );
        let in_flight = self.queue.in_flight();
        self.queue.reap(&mut self.done);
        assert_eq!(
            in_flight - self.queue.in_flight(),
            self.done.len(),
            "what is reaped is no longer in flight"
        );
        busy |= !self.done.is_empty();
        let mut done = core::mem::take(&mut self.done);
        done.drain(..).for_each(|completion| self.take_in(completion));
        self.done = done;
        if self.reopened.is_some() && on.pool().taken_bytes() > 0 {
            on.wake_at(self.id, on.now() + core::time::Duration::from_millis(1));
        } else if let Some(reply) = self.reopened.take() {
            let _ = reply.send(());
        }
        if self.wants_change.is_some()
            && let Some(change) = self.queue.change()
            && let Some(reply) = self.wants_change.take()
        {
            let _ = reply.send(change);
        }
        Activity::busy_if(busy)
    }
}
