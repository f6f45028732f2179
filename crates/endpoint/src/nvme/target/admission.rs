//! A queue between its Connect and the connection that serves it.

use super::shared::Shared;
use super::subsystems::{ControllerId, View};
use std::sync::Arc;
use weft_proto::nvme::controller::{Control, IoQueue};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::types::Qid;

/// A queue that was admitted, and the answer to its Connect.
pub(crate) struct Admitted {
    pub(super) controller: ControllerId,
    pub(super) queue: Queue,
    pub(super) cqe: Cqe,
    pub(super) claim: Claim,
}

/// What was admitted.
pub(super) enum Queue {
    Admin(Box<Control>),
    Io(Box<IoQueue>, View),
}

impl Admitted {
    /// The identifier of the queue.
    pub(super) fn qid(&self) -> Qid {
        match &self.queue {
            Queue::Admin(_) => Qid(0),
            Queue::Io(queue, _) => queue.qid(),
        }
    }
}

/// The place of an admitted queue in its association. Given up when this is dropped: the connection did not get to its loop.
pub(super) struct Claim {
    shared: Option<Arc<Shared>>,
    controller: ControllerId,
    qid: Qid,
}

impl Claim {
    pub(super) fn new(shared: &Arc<Shared>, controller: ControllerId, qid: Qid) -> Self {
        Self { shared: Some(Arc::clone(shared)), controller, qid }
    }

    /// A connection serves the queue from now on, and says itself when it has ended.
    pub(super) fn served(mut self) -> Arc<Shared> {
        self.shared.take().expect("a claim is taken once")
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        if self.qid == Qid(0) {
            shared.give_up(self.controller);
        } else {
            shared.queue_gone(self.controller, self.qid);
        }
    }
}
