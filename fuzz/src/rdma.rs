//! A queue pair of which only what is posted is known: what completes, and how, is the fuzzer's
//! choice.

use std::collections::VecDeque;

use weft_proto::nvme_rdma::{
    QueuePairLimits, ReceiveBuffer, Work, WorkError, WorkId, WorkKind, WorkOutcome,
};
use weft_proto::stream::Tag;

use crate::Input;

/// The work that is posted.
#[derive(Default)]
pub struct Posted {
    limits: QueuePairLimits,
    pub receives: VecDeque<ReceiveBuffer>,
    sends: VecDeque<(WorkId, bool)>,
    /// It has failed, which the engine may not know.
    pub is_over: bool,
    /// The engine has ended it.
    is_ended: bool,
}

impl Posted {
    /// Nothing, on such a queue pair.
    pub fn new(limits: QueuePairLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Posts work, whatever it is.
    pub fn post(&mut self, work: Work) {
        let (tag, kind, signaled) = match work {
            Work::PostReceive(buffer) => {
                assert!(!self.receives.contains(&buffer), "{buffer:?} is posted twice");
                return self.receives.push_back(buffer);
            }
            Work::Send { tag, .. } => (tag, WorkKind::Send, true),
            Work::Read { tag, .. } => (tag, WorkKind::Read, true),
            Work::Write { tag, signaled, .. } => (tag, WorkKind::Write, signaled),
            Work::Invalidate { tag, .. } => (tag, WorkKind::Invalidate, true),
            Work::Expose { tag, .. } => (tag, WorkKind::Bind, false),
            Work::Disconnect | Work::Destroy => {
                (self.is_over, self.is_ended) = (true, true);
                return;
            }
            Work::Conceal { .. } | Work::Place { .. } => return,
        };
        assert!(!self.is_ended, "{work:?} is posted to a queue pair that was ended");
        self.sends.push_back((WorkId { tag, kind }, signaled));
        assert!(
            self.sends.len() <= usize::from(self.limits.send_queue.max(2)),
            "the send queue is full"
        );
        let reads = self.sends.iter().filter(|(id, _)| id.kind == WorkKind::Read).count();
        assert!(reads <= usize::from(self.limits.reads.max(1)), "{reads} reads are outstanding");
    }

    /// Completes what was posted first. What is unsignaled says nothing if it succeeds, and takes
    /// room until something behind it ends.
    pub fn complete(&mut self, input: &mut Input) -> Option<(WorkId, WorkOutcome)> {
        let ended = if self.is_over { WorkOutcome::Flushed } else { ended(input) };
        if ended == WorkOutcome::Done {
            let at = self.sends.iter().position(|(_, signaled)| *signaled)?;
            let (id, _) = self.sends.drain(..=at).next_back()?;
            return Some((id, ended));
        }
        self.is_over = true;
        self.sends.pop_front().map(|(id, _)| (id, ended))
    }

    /// The completion of work that is not posted.
    pub fn any_other(&self, input: &mut Input) -> Option<(WorkId, WorkOutcome)> {
        let kinds =
            [WorkKind::Send, WorkKind::Read, WorkKind::Write, WorkKind::Invalidate, WorkKind::Bind];
        let any = WorkId::from_number(input.u64());
        let id = if input.flag() {
            any?
        } else {
            WorkId { tag: Tag(input.below(10) as u16), kind: input.pick(&kinds) }
        };
        let is_posted = self.sends.iter().any(|(posted, _)| *posted == id);
        (!is_posted).then(|| (id, ended(input)))
    }
}

/// Mostly success.
fn ended(input: &mut Input) -> WorkOutcome {
    match input.below(32) {
        30 => WorkOutcome::Failed(input.pick(&[
            WorkError::RemoteAccess,
            WorkError::RetriesExceeded,
            WorkError::Other(99),
        ])),
        31 => WorkOutcome::Flushed,
        _ => WorkOutcome::Done,
    }
}

/// Queues and devices of all kinds.
pub fn limits(input: &mut Input) -> QueuePairLimits {
    QueuePairLimits {
        send_queue: input.below(12) as u16,
        reads: input.below(4) as u16,
        message_bytes: input.pick(&[1 << 30, 700, 64, 1, 0]),
        sges: input.below(4) as u16,
        sge_bytes: input.pick(&[u32::MAX, 512, 100, 0]),
    }
}
