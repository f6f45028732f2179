//! The ends of connections, and what a test does to them.

use super::{PairEnd, Phase, Step};
use crate::rdma::{QueuePairEvent, WorkError};
use crate::sim::config::{Cut, CutAt};
use crate::sim::net::{Net, SimConnection};
use std::net::IpAddr;

impl Net {
    /// Ends the connection from one end: what it has posted is flushed, and the other end hears of
    /// it.
    pub(super) fn rdma_disconnect(&mut self, id: u64, end: usize) {
        let Some(of) = self.rdma.end(id, end) else { return };
        if core::mem::replace(&mut of.disconnected, true) {
            return;
        }
        let stood = of.stood;
        self.record("rdma disconnect", id, end as u64);
        self.rdma_fail(id, end);
        if stood {
            self.rdma_after_delay(Step::Disconnected(id, 1 - end));
            self.rdma_after_delay(Step::Gone(id, end));
        }
    }

    pub(super) fn rdma_disconnected(&mut self, id: u64, end: usize) {
        // Nobody repeats this for long.
        if self.rdma_is_cut_off(id, end) {
            return;
        }
        if self.rdma.end(id, end).is_some_and(|of| end == 0 && of.phase == Phase::Asked) {
            return self.rdma_rejected(id, None);
        }
        self.rdma_gone(id, end);
    }

    /// An end hears that the connection is over; what it has posted stays.
    pub(super) fn rdma_gone(&mut self, id: u64, end: usize) {
        let Some(of) = self.rdma.end(id, end).filter(|of| of.held && of.phase != Phase::Beginning)
        else {
            return;
        };
        if !core::mem::replace(&mut of.told, true) {
            self.record("rdma end", id, end as u64);
            self.rdma_report(id, end, QueuePairEvent::Disconnected, Vec::new());
        }
    }

    /// The queue pair of an end is gone.
    pub(super) fn rdma_destroy(&mut self, id: u64, end: usize) {
        let Some(of) = self.rdma.end(id, end).filter(|of| of.held) else { return };
        let (is_request, stands) =
            (end == 1 && of.phase == Phase::Beginning, of.stood && !of.disconnected);
        of.vanish();
        match is_request {
            true => self.rdma_after_delay(Step::Rejected(id, Some(Vec::new()))),
            false if stands && !self.rng.one_in(self.rdma.config.unheard_one_in) => {
                self.rdma_after_delay(Step::Disconnected(id, 1 - end));
            }
            false => {}
        }
        self.record("rdma destroy", id, end as u64);
        self.rdma_forget_unheld(id);
    }

    /// The queue pairs that some end still holds, as a test sees them.
    pub(in crate::sim) fn rdma_connections(&self) -> impl Iterator<Item = SimConnection> {
        self.rdma.pairs.iter().map(|(&id, pair)| SimConnection {
            id,
            client: pair.ends[0].addr,
            server: pair.ends[1].addr,
            open: !pair.silent && pair.ends.iter().all(super::PairEnd::is_open),
            carried: pair.carried,
        })
    }

    /// Clients that have ended a connection, and the servers that do not know yet.
    pub(in crate::sim) fn rdma_unheard(&self) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        let stands = |end: &PairEnd| end.is_open() && !end.told;
        let unheard = self
            .rdma
            .pairs
            .values()
            .filter(move |pair| has_ended(&pair.ends[0]) && stands(&pair.ends[1]));
        unheard.map(|pair| (pair.ends[0].addr.ip(), pair.ends[1].addr.ip()))
    }

    /// A server takes a message: the client may have ended the connection behind it.
    pub(super) fn rdma_taken(&mut self, id: u64) {
        let now = self.now();
        if let Some(pair) = self.rdma.pairs.get(&id).filter(|pair| has_ended(&pair.ends[0])) {
            self.received_behind.insert((pair.ends[0].addr.ip(), pair.ends[1].addr.ip()), now);
        }
    }

    /// Cuts a connection, if it is one of a queue pair.
    pub(in crate::sim) fn rdma_cut(&mut self, id: u64, how: Cut) -> bool {
        let Some(pair) = self.rdma.pairs.get_mut(&id) else { return false };
        pair.silent = true;
        self.record("cut", id, 0);
        match how {
            Cut::Reset => (0..2).for_each(|end| self.rdma_break(id, end)),
            Cut::Close => (0..2).for_each(|end| self.rdma_gone(id, end)),
            Cut::HalfOpen(side) => self.rdma_break(id, side.index()),
            Cut::Silence => {}
        }
        (0..2).for_each(|end| self.rdma_lose_patience(id, end));
        true
    }

    /// An end finds that the connection is broken, in one of the ways in which that happens.
    fn rdma_break(&mut self, id: u64, end: usize) {
        if self.rdma.end(id, end).is_none_or(|of| !of.is_open()) {
            return;
        }
        match self.rng.below(4) {
            0 => self.rdma_gone(id, end),
            1 => {
                if let Some(of) = self.rdma.end(id, end) {
                    (of.phase, of.trouble) = (Phase::Over, Some("the RDMA device is gone"));
                }
                self.rdma_report(id, end, QueuePairEvent::DeviceRemoved, Vec::new());
            }
            _ if self.rdma.end(id, end).is_some_and(|of| !of.has_work()) => self.rdma_gone(id, end),
            2 => self.rdma_end_work(id, end, WorkError::RemoteOperation),
            _ => self.rdma_end_work(id, end, WorkError::RetriesExceeded),
        }
    }

    /// Cuts a connection behind a byte, if it is one of a queue pair.
    pub(in crate::sim) fn rdma_cut_at(&mut self, id: u64, cut: CutAt) -> bool {
        let Some(pair) = self.rdma.pairs.get_mut(&id) else { return false };
        pair.cut[cut.from.index()] = Some((cut.after_bytes, cut.how));
        self.rdma_cut_if_due(id, cut.from.index());
        true
    }

    /// Takes back a cut that is still to come.
    pub(in crate::sim) fn rdma_spare(&mut self, id: u64) {
        if let Some(pair) = self.rdma.pairs.get_mut(&id) {
            pair.cut = [None; 2];
        }
    }

    pub(super) fn rdma_cut_if_due(&mut self, id: u64, from: usize) {
        let Some(pair) = self.rdma.pairs.get_mut(&id) else { return };
        let carried = pair.carried[from];
        if let Some((_, how)) = pair.cut[from].take_if(|(at, _)| carried >= *at) {
            self.rdma_cut(id, how);
        }
    }

    /// Retries everything that waited for a way.
    pub(in crate::sim) fn rdma_kick_all(&mut self) {
        let ids: Vec<u64> = self.rdma.pairs.keys().copied().collect();
        for id in ids {
            (0..2).for_each(|end| self.rdma_kick(id, end));
        }
    }

    /// A host goes dark: its ports and queue pairs are gone, and no peer is notified.
    pub(in crate::sim) fn rdma_power_off(&mut self, host: usize) {
        self.rdma.ports.retain(|(on, _), _| *on != host);
        for pair in self.rdma.pairs.values_mut() {
            pair.ends
                .iter_mut()
                .filter(|end| end.held && end.host == host)
                .for_each(super::PairEnd::vanish);
        }
        self.rdma.pairs.retain(|_, pair| pair.ends[0].held || pair.ends[1].held);
    }
}

fn has_ended(end: &PairEnd) -> bool {
    !end.held || end.disconnected || end.phase == Phase::Over
}
