//! Queue pairs of a world ([`crate::rdma`]), found by its addresses.
//!
//! Devices execute work without the processes at either end: it reaches the other end in order,
//! after the network's delays, whatever the loops there do, and its acknowledgement comes back
//! later. A message takes a receive that is posted, or is tried again. What gets no answer is tried
//! again for a while ([`RdmaConfig::patience`]) and then fails, with the queue pair. Connections
//! that are cut, hosts that are apart and hosts without descriptors are those of byte streams; a
//! host that was killed or lost its power is found out by those who send to it.
//!
//! Bits do not arrive wrong: RDMA has checksums of its own, and sends again what is damaged.

mod config;
mod end;
mod execute;
mod faults;
mod handshake;
mod listener;
mod pair;
#[cfg(test)]
mod tests;

pub use config::{RdmaConfig, RdmaCounts};
pub(super) use end::SimQueuePair;
pub(super) use listener::SimQueuePairListener;

use super::net::{Net, Watch};
use crate::rdma::QueuePairEvent;
use crate::rng::Rng;
use core::time::Duration;
use pair::{Pair, PairEnd, Watcher};
use std::collections::{BTreeMap, VecDeque};

/// A future event of a queue pair, by its number and perhaps an end of it (0: the requester).
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// The way to the other end is looked for; how often that was in vain.
    Resolve(u64, u32),
    /// The request arrives; the wait before it is repeated.
    Request(u64, Duration),
    /// The acceptance arrives.
    Accepted(u64, Duration),
    /// The accepting end hears that it did.
    Ready(u64),
    /// A rejection arrives, with private data or without.
    Rejected(u64, Option<Vec<u8>>),
    /// The end that asks stops waiting.
    Unanswered(u64),
    /// Work of this end arrives at the other one.
    Execute(u64, usize),
    /// An acknowledgement arrives at this end.
    Acknowledge(u64, usize),
    /// This end hears that the other one has disconnected.
    Disconnected(u64, usize),
    /// The connection manager of this end confirms that it has disconnected.
    Gone(u64, usize),
    /// This end loses patience if nothing got across since.
    GiveUp(u64, usize, u64),
}

struct Port {
    /// Distinguishes it from an earlier listener on the same port.
    id: u64,
    backlog: VecDeque<u64>,
    watch: Option<Watch>,
    armed: bool,
}

/// All queue pairs of a world.
pub(super) struct Rdma {
    pub(super) config: RdmaConfig,
    pub(super) counts: RdmaCounts,
    pairs: BTreeMap<u64, Pair>,
    /// By host and port, which are not those of TCP.
    ports: BTreeMap<(usize, u16), Port>,
}

impl Rdma {
    pub(super) fn new(seed: u64) -> Self {
        let config = RdmaConfig::drawn(&mut Rng::new(seed ^ 0x7264_6d61));
        Self {
            config,
            counts: RdmaCounts::default(),
            pairs: BTreeMap::new(),
            ports: BTreeMap::new(),
        }
    }

    fn end(&mut self, id: u64, end: usize) -> Option<&mut PairEnd> {
        self.pairs.get_mut(&id).map(|pair| &mut pair.ends[end])
    }
}

impl Net {
    /// Lets a step happen, whose time has come.
    pub(super) fn happen_rdma(&mut self, step: Step) {
        match step {
            Step::Resolve(id, tries) => self.rdma_resolve(id, tries),
            Step::Request(id, again_in) => self.rdma_request(id, again_in),
            Step::Accepted(id, again_in) => self.rdma_accepted(id, again_in),
            Step::Ready(id) => self.rdma_ready(id),
            Step::Rejected(id, private_data) => self.rdma_rejected(id, private_data),
            Step::Unanswered(id) => self.rdma_unanswered(id),
            Step::Execute(id, end) => self.rdma_execute(id, end),
            Step::Acknowledge(id, end) => self.rdma_acknowledge(id, end),
            Step::Disconnected(id, end) => self.rdma_disconnected(id, end),
            Step::Gone(id, end) => self.rdma_gone(id, end),
            Step::GiveUp(id, end, progress) => self.rdma_give_up(id, end, progress),
        }
    }

    fn rdma_after_delay(&mut self, step: Step) {
        let delay = self.delay();
        self.after_rdma(delay, step);
    }

    /// Reports something to an end, with the bytes that belong to it.
    fn rdma_report(&mut self, id: u64, end: usize, event: QueuePairEvent, bytes: Vec<u8>) {
        let Some(of) = self.rdma.end(id, end).filter(|of| of.held) else { return };
        of.events.push_back((event, bytes));
        let armed = core::mem::take(&mut of.armed);
        match of.watcher.clone() {
            Some(Watcher::Here(watch)) => self.tell(Some(watch), armed),
            Some(Watcher::Elsewhere(remote, driver)) => remote.wake(driver),
            None => {}
        }
    }

    /// Returns whether an end hears nothing of the other one.
    fn rdma_is_cut_off(&self, id: u64, end: usize) -> bool {
        let Some(pair) = self.rdma.pairs.get(&id) else { return true };
        pair.silent || self.is_walled(pair.ends[1 - end].host, pair.ends[end].host)
    }

    fn rdma_forget_unheld(&mut self, id: u64) {
        if self.rdma.pairs.get(&id).is_some_and(|pair| !pair.ends[0].held && !pair.ends[1].held) {
            self.rdma.pairs.remove(&id);
        }
    }
}
