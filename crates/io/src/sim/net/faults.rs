//! Faults that tests cause to hosts and the ways between them.

use super::{Conn, ConnId, ConnState, Net};
use crate::sim::config::{CutAt, PortAnswer, Side};
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

/// A connection, as a test sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimConnection {
    /// Number of the connection.
    pub id: u64,
    /// Address of the client.
    pub client: SocketAddr,
    /// Address of the server.
    pub server: SocketAddr,
    /// True if both ends still think that it stands.
    pub open: bool,
    /// Bytes that arrived at the server and at the client.
    pub carried: [u64; 2],
}

impl Net {
    pub(in crate::sim) fn connections(&self) -> impl Iterator<Item = SimConnection> {
        self.conns.iter().map(|(&id, c)| SimConnection {
            id,
            client: c.ends[0].addr,
            server: c.ends[1].addr,
            open: c.ends.iter().all(|e| e.held && e.state == ConnState::Open),
            carried: [c.pipes[0].carried, c.pipes[1].carried],
        })
    }

    /// Clients that have ended a connection, and the servers that do not know yet, or did not when
    /// they last received from it, if that was at most `ago` earlier.
    pub(in crate::sim) fn unheard(&self, ago: Duration) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        let now = self.conns.values().filter(|conn| conn.is_end_unheard()).map(Conn::ips);
        let just = self
            .received_behind
            .iter()
            .filter(move |(_, at)| **at + ago >= self.now)
            .map(|(between, _)| *between);
        now.chain(just)
    }

    pub(in crate::sim) fn cut_at(&mut self, id: ConnId, cut: CutAt) {
        let from = cut.from.index();
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.pipes[from].cut = Some((cut.after_bytes, cut.how));
            self.cut_if_due(id, from);
        }
    }

    pub(in crate::sim) fn spare(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.pipes.iter_mut().for_each(|pipe| (pipe.cut, pipe.corrupt) = (None, None));
        }
        self.rdma_spare(id);
    }

    pub(in crate::sim) fn corrupt(&mut self, id: ConnId, from: Side, after_bytes: u64) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.pipes[from.index()].corrupt = Some(after_bytes);
        }
    }

    pub(in crate::sim) fn jump(&mut self, host: usize, by: Duration) {
        self.record("jump", host as u64, by.as_nanos() as u64);
        self.hosts[host].ahead += by;
    }

    pub(in crate::sim) fn plan(&mut self, server: SocketAddr, cut: Option<CutAt>) {
        self.plans.entry(server).or_default().push_back(cut);
    }

    pub(in crate::sim) fn set_answer(&mut self, at: SocketAddr, answer: PortAnswer) {
        let host = self.host(at.ip());
        self.hosts[host].answers.insert(at.port(), answer);
    }

    pub(in crate::sim) fn set_exhausted(&mut self, host: usize, exhausted: bool) {
        self.record("exhausted", host as u64, u64::from(exhausted));
        self.hosts[host].exhausted = exhausted;
    }

    pub(in crate::sim) fn wall(&mut self, from: usize, to: usize) {
        self.record("wall", from as u64, to as u64);
        self.walls.insert((from, to));
    }

    pub(in crate::sim) fn unwall(&mut self, from: usize, to: usize) {
        self.record("heal", from as u64, to as u64);
        self.walls.remove(&(from, to));
        self.kick_all();
    }

    /// Retries everything that waited for a way.
    fn kick_all(&mut self) {
        let ids: Vec<ConnId> = self.conns.keys().copied().collect();
        for id in ids {
            for from in 0..2 {
                let at = self.now + self.delay();
                self.kick(id, from, at);
            }
        }
        self.rdma_kick_all();
    }

    /// A host goes dark: its ports and connections are gone, and no peer is notified.
    pub(in crate::sim) fn power_off(&mut self, host: usize) {
        self.record("power off", host as u64, 0);
        self.hosts[host].up = false;
        self.hosts[host].exhausted = false;
        self.ports.retain(|(on, _), _| *on != host);
        for conn in self.conns.values_mut() {
            for end in 0..2 {
                if conn.ends[end].held && conn.ends[end].host == host {
                    conn.ends[end].held = false;
                    conn.ends[end].watch = None;
                    conn.ends[end].state = ConnState::Dead(None);
                    conn.pipes[end].lose();
                }
            }
        }
        self.conns.retain(|_, c| c.ends[0].held || c.ends[1].held);
        self.rdma_power_off(host);
    }

    pub(in crate::sim) fn power_on(&mut self, host: usize) {
        self.record("power on", host as u64, 0);
        self.hosts[host].up = true;
        self.kick_all();
    }
}
