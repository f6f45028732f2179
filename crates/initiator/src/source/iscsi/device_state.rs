//! State that the queues of a device share: its sessions, its time limits, its size, and the
//! drivers to wake when it changes.

use super::session_names::SessionNames;
use crate::paths::Failover;
use crate::source::ConnectOptions;
use crate::source::idle::Idle;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::queue_owners::QueueOwners;
use weft_block::{AccessState, Presence};
use weft_connection::iscsi_remarks::Remarks;
use weft_io::{DriverId, RemoteLoop};
use weft_proto::iscsi::initiator::Initiator;
use weft_proto::scsi::initiator::{PortState, ScsiDisk};

/// State that all queues of one iSCSI device share.
pub(super) struct DeviceState {
    pub(super) idle: Arc<Idle<Initiator>>,
    /// Our part of the names of the sessions.
    pub(super) isids: Arc<SessionNames>,
    /// How well the target's port reaches the logical unit.
    access: Lock<AccessState>,
    /// How long the disk may be busy.
    pub(super) limit: Duration,
    /// How long a target that was lost may take to end what it has.
    pub(super) quiesce: Duration,
    /// When writes that were lost end.
    pub(super) failover: Failover,
    /// How often an idle disk is asked whether something has happened. Zero: never.
    pub(super) interval: Duration,
    /// The device has no other session, and no other path.
    pub(super) is_only_session: bool,
    blocks: AtomicU64,
    /// Who has asked for that.
    pub(super) size: SizeQuestions,
    /// What was said of the target.
    pub(super) remarks: Remarks,
    /// Why the logical unit is not used any more: it is another one.
    replaced: OnceLock<String>,
    /// Sessions that say that there is no such logical unit at present.
    absent: AtomicUsize,
    /// Drivers of the queues that are in use.
    users: QueueOwners,
}

impl DeviceState {
    pub(super) fn new(
        idle: Arc<Idle<Initiator>>,
        isids: Arc<SessionNames>,
        options: &ConnectOptions,
        disk: &ScsiDisk,
    ) -> Self {
        Self {
            is_only_session: options.nr_io_queues <= 1 && options.paths.further.is_empty(),
            idle,
            isids,
            access: Lock::new(access_of(disk.access)),
            limit: options.io_timeout,
            quiesce: options.quiesce_time,
            failover: options.paths.failover,
            interval: Duration::from_millis(options.keep_alive_ms.into()),
            blocks: AtomicU64::new(disk.blocks),
            size: SizeQuestions::default(),
            remarks: Remarks::default(),
            replaced: OnceLock::new(),
            absent: AtomicUsize::new(0),
            users: QueueOwners::default(),
        }
    }

    /// Blocks of the device, now.
    #[inline]
    pub(super) fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// How well the target's port reaches the logical unit.
    pub(super) fn access(&self) -> AccessState {
        *self.access.lock()
    }

    /// The target has told that: wakes all queues if it is news.
    pub(super) fn set_access(&self, state: AccessState, url: &str) {
        let before = core::mem::replace(&mut *self.access.lock(), state);
        if before != state {
            tracing::info!("{url}: access state {before:?}, now {state:?}");
            self.users.wake_all();
        }
    }

    /// The device has so many blocks now: wakes all queues if that is news.
    pub(super) fn resize(&self, blocks: u64) {
        if self.blocks.swap(blocks, Ordering::Relaxed) == blocks {
            return;
        }
        self.users.wake_all();
    }

    /// Has the sessions that are in use ask for the size; returns the number of this question.
    pub(super) fn ask_size(&self) -> u64 {
        let number = self.size.add();
        self.users.wake_all();
        number
    }

    /// Whether a queue is in use.
    pub(super) fn has_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// Another logical unit has the number of the one that was opened: no queue uses it any more.
    pub(super) fn end(&self, why: String) {
        if self.replaced.set(why).is_ok() {
            self.users.wake_all();
            self.size.wake();
        }
    }

    /// Why the device has ended, if it has.
    #[inline]
    pub(super) fn why_ended(&self) -> Option<&str> {
        self.replaced.get().map(String::as_str)
    }

    /// A session says whether there is such a logical unit at present; `counted` is what it said
    /// before.
    pub(super) fn tell_absent(&self, counted: &mut bool, is_absent: bool, url: &str) {
        if core::mem::replace(counted, is_absent) == is_absent {
            return;
        }
        let (others, text) = if is_absent {
            (
                self.absent.fetch_add(1, Ordering::AcqRel),
                "the logical unit no longer exists; it may come back",
            )
        } else {
            (self.absent.fetch_sub(1, Ordering::AcqRel) - 1, "the logical unit is back")
        };
        if others == 0 {
            tracing::warn!("{url}: {text}");
            self.users.wake_all();
        }
    }

    /// Whether the logical unit can be reached.
    pub(super) fn presence(&self) -> Presence {
        if self.why_ended().is_some() || self.idle.standing() == 0 {
            return Presence::Gone;
        }
        if self.absent.load(Ordering::Acquire) > 0 { Presence::Away } else { Presence::Here }
    }

    /// Enters the driver of a queue.
    pub(super) fn enter(&self, remote: RemoteLoop, driver: DriverId) {
        self.users.enter(remote, driver);
    }

    /// Takes it out again.
    pub(super) fn leave(&self, remote: &RemoteLoop, driver: DriverId) {
        self.users.leave(remote, driver);
        self.size.wake();
    }
}

/// What an access state of SCSI is to users of the device. Where the target tells none, its port
/// reaches all that there is.
pub(super) fn access_of(state: Option<PortState>) -> AccessState {
    match state {
        None | Some(PortState::OPTIMIZED) => AccessState::Optimized,
        Some(PortState::NON_OPTIMIZED | PortState::BLOCK_DEPENDENT) => AccessState::NonOptimized,
        Some(PortState::OFFLINE) => AccessState::PersistentLoss,
        Some(PortState::TRANSITIONING) => AccessState::Transition,
        Some(_) => AccessState::Inaccessible,
    }
}

/// The questions for the size of a disk that come from outside of its queues, and their answers.
///
/// Each question has a number. The sessions that are in use ask the target; what answers a command
/// that was sent after the question answers the question.
#[derive(Default)]
pub(super) struct SizeQuestions {
    /// The number of the last question; 0: there was none.
    last: AtomicU64,
    answers: Lock<Answers>,
    /// Drivers that wait for answers.
    waiting: QueueOwners,
}

#[derive(Default)]
struct Answers {
    /// The last question that was answered with a size, and all before it.
    answered: u64,
    /// The last question that was answered without one, and why.
    refused: Option<(u64, String)>,
}

impl SizeQuestions {
    /// Another question; returns its number.
    fn add(&self) -> u64 {
        self.last.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The number of the last question.
    #[inline]
    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// The last question that was answered with a size.
    pub(super) fn answered(&self) -> u64 {
        self.answers.lock().answered
    }

    /// What the target says to a command that was sent after the question `number`.
    pub(super) fn answer(&self, number: u64, outcome: Result<(), String>) {
        {
            let answers = &mut *self.answers.lock();
            match outcome {
                Ok(()) => answers.answered = answers.answered.max(number),
                Err(why) => {
                    let is_late = answers.refused.as_ref().is_some_and(|(of, _)| *of > number);
                    if !is_late {
                        answers.refused = Some((number, why));
                    }
                }
            }
        }
        self.wake();
    }

    /// The answer to a question, if there is one.
    pub(super) fn outcome(&self, number: u64) -> Option<Result<(), String>> {
        let answers = self.answers.lock();
        if answers.answered >= number {
            return Some(Ok(()));
        }
        let refused = answers.refused.as_ref().filter(|(of, _)| *of >= number);
        refused.map(|(_, why)| Err(why.clone()))
    }

    /// Enters a driver that waits for an answer.
    pub(super) fn enter(&self, remote: RemoteLoop, driver: DriverId) {
        self.waiting.enter(remote, driver);
    }

    /// Takes it out again.
    pub(super) fn leave(&self, remote: &RemoteLoop, driver: DriverId) {
        self.waiting.leave(remote, driver);
    }

    /// Wakes those who wait.
    fn wake(&self) {
        self.waiting.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_before_a_question_does_not_answer_it() {
        let questions = SizeQuestions::default();
        questions.answer(questions.last(), Ok(()));
        let first = questions.add();
        assert_eq!((first, questions.outcome(first)), (1, None));
        let second = questions.add();
        questions.answer(first, Ok(()));
        assert_eq!([first, second].map(|number| questions.outcome(number)), [Some(Ok(())), None]);
        questions.answer(first, Err("late".into()));
        assert_eq!(questions.outcome(second), None);
        questions.answer(second, Err("no".into()));
        assert_eq!(questions.outcome(second), Some(Err("no".into())));
        questions.answer(first, Err("late".into()));
        assert_eq!(questions.outcome(second), Some(Err("no".into())), "the newer one stays");
        questions.answer(second, Ok(()));
        assert_eq!((questions.outcome(second), questions.answered()), (Some(Ok(())), 2));
    }
}
