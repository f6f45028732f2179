//! Finding the way, asking for connections, accepting and rejecting them.

use super::{Pair, PairEnd, Phase, Port, Step};
use crate::rdma::QueuePairEvent;
use crate::sim::config::PortAnswer;
use crate::sim::net::{BACKLOG, FIRST_RETRY, Net, Watch, exhausted};
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

/// Attempts to find the way to another end, a second apart.
const RESOLVE_TRIES: u32 = 4;

/// Time after which a request that nobody answers is given up.
const UNANSWERED: Duration = Duration::from_secs(60);

/// Bytes of private data that a connection manager hands out at least, now and then: zeros stand
/// behind what was sent.
const PADDED_BYTES: usize = 56;

impl Net {
    /// Starts to connect; the queue pair's number, and this end's address.
    pub(in crate::sim) fn connect_rdma(
        &mut self,
        host: usize,
        to: SocketAddr,
    ) -> io::Result<(u64, SocketAddr)> {
        if self.is_exhausted(host) {
            return Err(exhausted());
        }
        let (from, id) = (self.client_address(host), self.next_number());
        let ends = [PairEnd::new(host, from, true), PairEnd::new(host, to, false)];
        self.rdma.pairs.insert(id, Pair { ends, silent: false, carried: [0; 2], cut: [None; 2] });
        self.record("rdma connect", id, to.port().into());
        self.rdma_after_delay(Step::Resolve(id, 0));
        Ok((id, from))
    }

    /// Listens; the address, and the listener's number.
    pub(in crate::sim) fn listen_rdma(
        &mut self,
        host: usize,
        at: SocketAddr,
    ) -> io::Result<(SocketAddr, u64)> {
        if self.is_exhausted(host) {
            return Err(exhausted());
        }
        if !self.is_own_address(host, at.ip()) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let port = if at.port() == 0 { self.client_address(host).port() } else { at.port() };
        if self.rdma.ports.contains_key(&(host, port)) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let id = self.next_number();
        self.rdma
            .ports
            .insert((host, port), Port { id, backlog: VecDeque::new(), watch: None, armed: false });
        self.record("rdma listen", id, port.into());
        Ok((SocketAddr::new(at.ip(), port), id))
    }

    fn rdma_port(&mut self, host: usize, port: u16, id: u64) -> Option<&mut Port> {
        self.rdma.ports.get_mut(&(host, port)).filter(|port| port.id == id)
    }

    pub(super) fn rdma_watch_port(
        &mut self,
        host: usize,
        port: u16,
        id: u64,
        watch: Option<Watch>,
    ) -> io::Result<()> {
        let port = self.rdma_port(host, port, id).ok_or(io::ErrorKind::NotConnected)?;
        if watch.is_some() && port.watch.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        (port.watch, port.armed) = (watch, port.backlog.is_empty());
        if !port.armed {
            self.tell(watch, true);
        }
        Ok(())
    }

    /// The next connection that is asked for: its number, this end's address and the other one's.
    pub(super) fn rdma_accept(
        &mut self,
        host: usize,
        port: u16,
        id: u64,
    ) -> io::Result<(u64, SocketAddr, SocketAddr)> {
        if self.is_exhausted(host) {
            return Err(exhausted());
        }
        let listener = self.rdma_port(host, port, id).ok_or(io::ErrorKind::InvalidInput)?;
        let Some(asked) = listener.backlog.pop_front() else {
            listener.armed = true;
            return Err(io::ErrorKind::WouldBlock.into());
        };
        self.record("rdma accept", asked, id);
        let pair = self.rdma.pairs.get(&asked).ok_or(io::ErrorKind::ConnectionAborted)?;
        Ok((asked, pair.ends[1].addr, pair.ends[0].addr))
    }

    pub(super) fn rdma_close_port(&mut self, host: usize, port: u16, id: u64) {
        if self.rdma_port(host, port, id).is_some()
            && let Some(closed) = self.rdma.ports.remove(&(host, port))
        {
            closed.backlog.into_iter().for_each(|asked| self.rdma_destroy(asked, 1));
        }
    }

    pub(super) fn rdma_resolve(&mut self, id: u64, tries: u32) {
        let Some(pair) = self.rdma.pairs.get(&id) else { return };
        let (from, to) = (pair.ends[0].host, pair.ends[1].addr.ip());
        if self
            .reached(from, to)
            .is_some_and(|to| !self.is_walled(from, to) && !self.is_walled(to, from))
        {
            self.rdma_report(id, 0, QueuePairEvent::Resolved, Vec::new());
        } else if tries < RESOLVE_TRIES {
            self.after_rdma(FIRST_RETRY, Step::Resolve(id, tries + 1));
        } else {
            self.rdma_fail_to_connect(id, "no way leads there");
        }
    }

    fn rdma_fail_to_connect(&mut self, id: u64, why: &'static str) {
        let Some(asking) = self.rdma.end(id, 0) else { return };
        (asking.phase, asking.trouble) = (Phase::Over, Some(why));
        self.record("rdma failed", id, 0);
        self.rdma_report(id, 0, QueuePairEvent::Failed, Vec::new());
    }

    /// Asks for the connection, or accepts it.
    pub(super) fn rdma_open(&mut self, id: u64, end: usize, private_data: &[u8]) -> io::Result<()> {
        let pair = self.rdma.pairs.get_mut(&id).ok_or(io::ErrorKind::NotConnected)?;
        if pair.ends[end].phase != Phase::Beginning || pair.ends[end].config.is_none() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let mut private_data = private_data.to_vec();
        if self.rng.one_in(2) && private_data.len() < PADDED_BYTES {
            private_data.resize(PADDED_BYTES, 0);
        }
        pair.ends[1 - end].private_data = private_data;
        (pair.ends[end].phase, pair.ends[end].stood) =
            if end == 0 { (Phase::Asked, false) } else { (Phase::Open, true) };
        if end == 0 {
            self.after_rdma(UNANSWERED, Step::Unanswered(id));
            self.rdma_after_delay(Step::Request(id, FIRST_RETRY));
        } else {
            self.rdma_after_delay(Step::Accepted(id, FIRST_RETRY));
        }
        Ok(())
    }

    pub(super) fn rdma_request(&mut self, id: u64, again_in: Duration) {
        let Some(pair) = self.rdma.pairs.get(&id).filter(|pair| pair.ends[0].phase == Phase::Asked)
        else {
            return;
        };
        let (from, addr, silent) = (pair.ends[0].host, pair.ends[1].addr, pair.silent);
        let to = self.reached(from, addr.ip()).filter(|&to| !silent && !self.is_walled(from, to));
        let answer = to.map_or(PortAnswer::Never, |to| self.answer_of(to, addr.port()));
        let is_full = |port: &Port| port.backlog.len() >= BACKLOG;
        match (answer, to.map(|to| (to, self.rdma.ports.get(&(to, addr.port()))))) {
            (PortAnswer::Usual, Some((host, Some(port)))) if !is_full(port) => {
                self.rdma_enqueue(id, (host, addr.port()))
            }
            (PortAnswer::Never, _) | (_, None | Some((_, Some(_))))
                if answer != PortAnswer::Refuse =>
            {
                self.after_rdma(again_in, Step::Request(id, again_in * 2));
            }
            _ => self.rdma_after_delay(Step::Rejected(id, None)),
        }
    }

    fn rdma_enqueue(&mut self, id: u64, key: (usize, u16)) {
        let (Some(pair), Some(port)) =
            (self.rdma.pairs.get_mut(&id), self.rdma.ports.get_mut(&key))
        else {
            return;
        };
        (pair.ends[1].host, pair.ends[1].held) = (key.0, true);
        port.backlog.push_back(id);
        let (watch, armed) = (port.watch, core::mem::take(&mut port.armed));
        self.record("rdma asked", id, 0);
        self.tell(watch, armed);
    }

    pub(super) fn rdma_accepted(&mut self, id: u64, again_in: Duration) {
        let cut_off = self.rdma_is_cut_off(id, 0);
        let Some(pair) = self.rdma.pairs.get_mut(&id).filter(|pair| pair.ends[1].is_open()) else {
            return;
        };
        if cut_off {
            return self.after_rdma(again_in, Step::Accepted(id, again_in * 2));
        }
        if !pair.ends[0].held || pair.ends[0].phase != Phase::Asked {
            return self.rdma_after_delay(Step::Disconnected(id, 1));
        }
        (pair.ends[0].phase, pair.ends[0].stood) = (Phase::Open, true);
        let (private_data, server) = (pair.ends[0].private_data.clone(), pair.ends[1].addr);
        let cut = self.cut_for(server);
        if let (Some(cut), Some(pair)) = (cut, self.rdma.pairs.get_mut(&id)) {
            pair.cut[cut.from.index()] = Some((cut.after_bytes, cut.how));
        }
        self.record("rdma open", id, 0);
        self.rdma_report(id, 0, QueuePairEvent::Established, private_data);
        self.rdma_after_delay(Step::Ready(id));
        (0..2).for_each(|end| self.rdma_kick(id, end));
    }

    pub(super) fn rdma_ready(&mut self, id: u64) {
        if self.rdma_is_cut_off(id, 1) {
            if self.rdma.pairs.get(&id).is_some_and(|pair| !pair.silent) {
                self.after_rdma(FIRST_RETRY, Step::Ready(id));
            }
        } else if let Some(accepting) = self.rdma.end(id, 1).filter(|end| end.is_open()) {
            let private_data = accepting.private_data.clone();
            self.rdma_report(id, 1, QueuePairEvent::Established, private_data);
        }
    }

    /// The accepting end does not want the connection.
    pub(super) fn rdma_reject(&mut self, id: u64, private_data: &[u8]) {
        if let Some(accepting) = self.rdma.end(id, 1).filter(|end| end.phase == Phase::Beginning) {
            accepting.phase = Phase::Over;
            self.rdma_after_delay(Step::Rejected(id, Some(private_data.to_vec())));
        }
    }

    pub(super) fn rdma_rejected(&mut self, id: u64, private_data: Option<Vec<u8>>) {
        // Nobody repeats a rejection that is lost.
        if private_data.is_some() && self.rdma_is_cut_off(id, 0) {
            return;
        }
        let Some(asking) = self.rdma.end(id, 0).filter(|end| end.phase == Phase::Asked) else {
            return;
        };
        (asking.phase, asking.trouble) = (Phase::Over, Some("the connection was rejected"));
        self.record("rdma rejected", id, 0);
        self.rdma_report(id, 0, QueuePairEvent::Rejected, private_data.unwrap_or_default());
    }

    pub(super) fn rdma_unanswered(&mut self, id: u64) {
        if self.rdma.end(id, 0).is_some_and(|asking| asking.phase == Phase::Asked) {
            self.rdma_fail_to_connect(id, "nobody answers");
        }
    }
}
