//! Commands that have arrived and have no slot yet.

use std::collections::VecDeque;

use crate::nvme::sqe::Sqe;
use crate::nvme_rdma::work::ReceiveBuffer;

/// A command as it came.
pub(super) struct Capsule {
    pub sqe: Sqe,
    /// The receive with the data behind it.
    pub buffer: Option<ReceiveBuffer>,
    pub in_capsule_bytes: u32,
}

/// Commands without a slot. A host may send a command as soon as it has the response to another
/// one, which can be before this end knows that the response is out.
#[derive(Default)]
pub(super) struct WaitingCapsules(pub VecDeque<Capsule>);

impl WaitingCapsules {
    pub fn reserve(&mut self, commands: usize) {
        self.0.reserve_exact(commands - self.0.len());
    }
}
