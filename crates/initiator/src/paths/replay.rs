//! Looks for the unflushed writes, or writes them again, on the control loop, at a device that has
//! just been opened.

use super::compare::{Look, Lost};
use super::path_group::PathGroup;
use super::unflushed::{Unflushed, UnflushedPiece};
use std::collections::VecDeque;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_block::{BlockQueue, Completion, Device, Error, Op, OpKind, Outcome, Status, StatusKind};
use weft_connection::limits::REPLAY_OPS;
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Segments};

/// How it ended.
pub(super) enum Ended {
    /// So many were written again. Where nobody knows which of two writes is the last one, neither
    /// was found in these blocks.
    Written(usize, Lost),
    /// All were looked for; this was not found, and these, which lie below unresolved writes.
    Looked(Lost, Vec<UnflushedPiece>),
}

impl Ended {
    /// What the device does not have is hidden by the unresolved writes over it, or lost if one of
    /// them has ended meanwhile.
    pub(super) fn hide(self, group: &PathGroup) -> Self {
        let Self::Looked(mut lost, below) = self else { return self };
        for piece in below {
            if !group.unresolved.hide(piece.lba, piece.lba + u64::from(piece.blocks)) {
                group.log.iter().for_each(|log| log.lose(&piece));
                lost.add(&piece);
            }
        }
        Self::Looked(lost, Vec::new())
    }
}

/// What came of it.
pub(super) type Replayed = Arc<Lock<Option<Result<Ended, Failure>>>>;

/// Why not all were written or looked for. Some may have been written, over newer data.
pub(super) struct Failure {
    pub(super) why: String,
    /// The device answered with an error about the data that does not pass. Otherwise its
    /// connection was lost, say.
    pub(super) is_answered: bool,
    /// Some may have been written.
    pub(super) is_begun: bool,
}

impl Failure {
    /// Nothing was written.
    pub(super) fn before_all(why: String) -> Self {
        Self { why, is_answered: false, is_begun: false }
    }
}

/// Who writes, and so what is done.
pub(super) enum Writers {
    /// Nobody else: what is not flushed is written again.
    OnlyThis,
    /// Perhaps others: it is looked for. These blocks (the first, and the one behind the last) have
    /// unresolved writes.
    Several(Vec<(u64, u64)>),
}

/// Starts; `keeper` is woken at the end.
pub(super) fn replay(
    on: &Handle,
    device: &Device,
    log: Arc<Unflushed>,
    writers: &Writers,
    keeper: DriverId,
) -> Result<Replayed, Error> {
    let outcome = Replayed::default();
    let told = Arc::clone(&outcome);
    let driver = on.try_spawn(|id| {
        let queue = device.open_queue(on, id)?;
        let look = || Some(Look::new(device.geometry().block_bytes));
        let (pieces, look) = match writers {
            Writers::OnlyThis => match log.pieces_in_doubt() {
                none if none.is_empty() => (log.pieces(), None),
                some => (some, look()),
            },
            Writers::Several(unresolved) => (log.pieces_to_look_at(unresolved), look()),
        };
        Ok::<_, Error>(Replay {
            queue,
            log,
            look,
            writes: matches!(writers, Writers::OnlyThis),
            lost: Lost::default(),
            pieces,
            ops: VecDeque::new(),
            under_way: 0,
            count: 0,
            is_begun: false,
            failure: None,
            told,
            keeper,
            id,
            timer: TimerSlot::default(),
        })
    })?;
    on.wake(driver);
    Ok(outcome)
}

struct Replay {
    queue: Box<dyn BlockQueue>,
    log: Arc<Unflushed>,
    /// Nobody else writes: what is not looked at is written.
    writes: bool,
    /// What was not found before the writes.
    lost: Lost,
    /// What was found; nothing is written meanwhile.
    look: Option<Look>,
    /// What is still to be written or looked for.
    pieces: VecDeque<UnflushedPiece>,
    ops: VecDeque<Op>,
    under_way: usize,
    count: usize,
    /// A write may have been executed.
    is_begun: bool,
    /// The first one.
    failure: Option<Failure>,
    told: Replayed,
    keeper: DriverId,
    id: DriverId,
    timer: TimerSlot,
}

impl Replay {
    /// Reads what is to be looked for.
    fn prepare_look(&mut self, on: &Handle) {
        let Some(look) = &mut self.look else { return };
        while self.under_way < REPLAY_OPS
            && let Some(piece) = look.next(&mut self.pieces)
        {
            let Some(buf) = on.pool().take(look.bytes(&piece)) else {
                self.pieces.push_front(piece);
                // Those under way give memory back.
                return self.timer.arm(
                    on,
                    self.id,
                    on.now() + core::time::Duration::from_millis(1),
                );
            };
            self.ops.extend(look.read(piece, buf));
            self.under_way += 1;
        }
    }

    fn prepare(&mut self, on: &Handle) {
        if self.look.is_some() {
            return self.prepare_look(on);
        }
        while self.under_way < REPLAY_OPS
            && let Some(piece) = self.pieces.front()
        {
            let mut data = Segments::new();
            if piece.len > 0 {
                let Some(mut buf) = on.pool().take(piece.len) else {
                    // Those under way give memory back.
                    return self.timer.arm(
                        on,
                        self.id,
                        on.now() + core::time::Duration::from_millis(1),
                    );
                };
                if !self.log.copy(piece, &mut buf) {
                    self.pieces.pop_front();
                    continue;
                }
                data.push(buf.into());
            }
            self.ops.push_back(Op::new(
                piece.kind,
                piece.lba,
                piece.blocks,
                self.pieces.len() as u64,
                data,
            ));
            self.under_way += 1;
            self.pieces.pop_front();
        }
    }

    fn take(&mut self, completion: Completion) {
        self.under_way -= 1;
        if let Some(look) = &mut self.look {
            if let Some(why) = look.take(&self.log, completion) {
                self.fail(Failure::before_all(why));
            }
            return;
        }
        let Completion { op, outcome } = completion;
        let is_refused = match outcome {
            Outcome::Done(Status { kind: StatusKind::Path | StatusKind::Gone, .. })
            | Outcome::NotSent(_) => true,
            Outcome::Done(_) | Outcome::MayHaveExecuted { .. } => false,
        };
        self.is_begun |= !is_refused;
        // A discard is a hint.
        if outcome.is_success() || op.kind == OpKind::Discard {
            self.count += 1;
            return;
        }
        // What passes was not refused: this path does not reach the data at present, say.
        let is_answered = matches!(outcome, Outcome::Done(status) if !status.kind.is_passing());
        let why = format!(
            "writing unflushed data again failed at block {}: {:?}",
            op.lba,
            outcome.status().kind
        );
        self.fail(Failure { why, is_answered, is_begun: true });
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
        // What is under way ends before the next attempt begins: executed after that, it would undo
        // newer data.
        self.under_way -= self.ops.len();
        self.ops.drain(..).for_each(Op::give_up);
    }
}

impl Driver for Replay {
    fn work(&mut self, on: &Handle) -> Activity {
        if Arc::strong_count(&self.told) == 1 {
            // The device was closed.
            on.remove(self.id);
            return Activity::Idle;
        }
        if self.failure.is_none() {
            self.prepare(on);
        }
        self.queue.submit(&mut self.ops);
        let mut done = Vec::new();
        self.queue.reap(&mut done);
        if !done.is_empty() {
            on.wake(self.id);
        }
        done.into_iter().for_each(|completion| self.take(completion));
        let is_over = self.failure.is_some() || self.pieces.is_empty();
        if self.under_way == 0
            && is_over
            && self.writes
            && self.failure.is_none()
            && let Some(mut look) = self.look.take()
        {
            self.lost = look.lost(&self.log).0;
            self.pieces = self.log.pieces();
            on.wake(self.id);
            return Activity::Busy;
        }
        if self.under_way == 0 && is_over {
            let is_begun = self.is_begun;
            let ended = |replay: &mut Self| match &mut replay.look {
                Some(look) => {
                    let (lost, below) = look.lost(&replay.log);
                    Ended::Looked(lost, below)
                }
                None => Ended::Written(replay.count, replay.lost),
            };
            let result = match self.failure.take() {
                Some(failure) => Err(Failure { is_begun, ..failure }),
                None => Ok(ended(self)),
            };
            *self.told.lock() = Some(result);
            on.wake(self.keeper);
            on.remove(self.id);
            return Activity::Busy;
        }
        Activity::Idle
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
    }
}
