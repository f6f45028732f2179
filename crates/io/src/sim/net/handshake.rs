//! Listening, connecting, accepting.

use super::{
    BACKLOG, Conn, ConnEnd, ConnId, ConnState, Event, FIRST_EPHEMERAL_PORT, FIRST_RETRY, GIVE_UP,
    Net, Pipe, Port, Watch, exhausted,
};
use crate::sim::config::{CutAt, PortAnswer};
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

impl Net {
    /// Listens; returns the address and the listener's number.
    pub(in crate::sim) fn listen(
        &mut self,
        host: usize,
        at: SocketAddr,
    ) -> io::Result<(SocketAddr, u64)> {
        if self.hosts[host].exhausted {
            return Err(exhausted());
        }
        let ip = at.ip();
        if !self.is_own_address(host, ip) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let port = if at.port() == 0 { self.free_port(host) } else { at.port() };
        if self.ports.contains_key(&(host, port)) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let id = self.next_number();
        self.ports
            .insert((host, port), Port { id, backlog: VecDeque::new(), watch: None, armed: false });
        self.record("listen", id, u64::from(port));
        Ok((SocketAddr::new(ip, port), id))
    }

    /// Returns whether a host may listen there.
    pub(in crate::sim) fn is_own_address(&self, host: usize, ip: IpAddr) -> bool {
        ip.is_unspecified() || ip.is_loopback() || ip == self.hosts[host].ip
    }

    /// An address of a host with a port that nothing has.
    pub(in crate::sim) fn client_address(&mut self, host: usize) -> SocketAddr {
        SocketAddr::new(self.hosts[host].ip, self.free_port(host))
    }

    /// A number for a connection or a listener.
    pub(in crate::sim) fn next_number(&mut self) -> u64 {
        self.next_conn += 1;
        self.next_conn
    }

    /// Returns whether a host has no descriptor left.
    pub(in crate::sim) fn is_exhausted(&self, host: usize) -> bool {
        self.hosts[host].exhausted
    }

    /// Returns the answer of a port.
    pub(in crate::sim) fn answer_of(&self, host: usize, port: u16) -> PortAnswer {
        self.hosts[host].answers.get(&port).copied().unwrap_or_default()
    }

    fn free_port(&mut self, host: usize) -> u16 {
        loop {
            let next = &mut self.hosts[host].next_port;
            let port = *next;
            *next = next.checked_add(1).unwrap_or(FIRST_EPHEMERAL_PORT);
            if !self.ports.contains_key(&(host, port)) {
                return port;
            }
        }
    }

    fn port(&mut self, host: usize, port: u16, id: u64) -> Option<&mut Port> {
        self.ports.get_mut(&(host, port)).filter(|p| p.id == id)
    }

    pub(in crate::sim) fn watch_port(
        &mut self,
        host: usize,
        port: u16,
        id: u64,
        watch: Option<Watch>,
    ) -> io::Result<()> {
        let port = self.port(host, port, id).ok_or(io::ErrorKind::NotConnected)?;
        if watch.is_some() && port.watch.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        port.watch = watch;
        port.armed = port.backlog.is_empty();
        if !port.armed {
            self.tell(watch, true);
        }
        Ok(())
    }

    pub(in crate::sim) fn accept(
        &mut self,
        host: usize,
        port: u16,
        id: u64,
    ) -> io::Result<(ConnId, SocketAddr, SocketAddr)> {
        if self.hosts[host].exhausted {
            return Err(exhausted());
        }
        let listener = self.port(host, port, id).ok_or(io::ErrorKind::InvalidInput)?;
        let Some(conn_id) = listener.backlog.pop_front() else {
            listener.armed = true;
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let conn = self.conns.get(&conn_id).ok_or(io::ErrorKind::ConnectionAborted)?;
        let (peer, local, dead) = (conn.ends[0].addr, conn.ends[1].addr, conn.ends[1].is_dead());
        // Some systems hand out a dead connection, some say that it is gone.
        if dead && self.rng.one_in(2) {
            self.close(conn_id, 1, false);
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.record("accept", conn_id, id);
        Ok((conn_id, local, peer))
    }

    pub(in crate::sim) fn close_port(&mut self, host: usize, port: u16, id: u64) {
        if self.port(host, port, id).is_none() {
            return;
        }
        let closed = self.ports.remove(&(host, port));
        for conn in closed.into_iter().flat_map(|p| p.backlog) {
            self.abort(conn, 1);
        }
    }

    /// Starts to connect; returns the connection and the client's address.
    pub(in crate::sim) fn connect(
        &mut self,
        host: usize,
        to: SocketAddr,
    ) -> io::Result<(ConnId, SocketAddr)> {
        if self.hosts[host].exhausted {
            return Err(exhausted());
        }
        let (from, id) = (self.client_address(host), self.next_number());
        let mut ends = [ConnEnd::new(host, from), ConnEnd::new(host, to)];
        ends[1].held = false;
        self.conns
            .insert(id, Conn { ends, pipes: [Pipe::default(), Pipe::default()], silent: false });
        self.record("connect", id, u64::from(to.port()));
        let delay = self.delay();
        self.after(delay, Event::Request(id, FIRST_RETRY));
        self.after(GIVE_UP, Event::Unanswered(id));
        Ok((id, from))
    }

    /// The host that a client on `from` reaches under `ip`.
    pub(in crate::sim) fn reached(&self, from: usize, ip: IpAddr) -> Option<usize> {
        if ip.is_loopback() || ip.is_unspecified() { Some(from) } else { self.find_host(ip) }
    }

    pub(super) fn request(&mut self, id: ConnId, again_in: Duration) {
        let Some(conn) = self.conns.get(&id) else { return };
        let (from, addr) = (conn.ends[0].host, conn.ends[1].addr);
        if conn.ends[0].state != ConnState::Connecting {
            return;
        }
        let to = self.reached(from, addr.ip()).filter(|&to| !self.is_walled(from, to));
        let answer = to.map_or(PortAnswer::Never, |to| self.answer_of(to, addr.port()));
        match (answer, to) {
            (PortAnswer::Usual, Some(to)) if self.ports.contains_key(&(to, addr.port())) => {
                self.answer(id, to)
            }
            (PortAnswer::Never, _) | (_, None) => {
                self.after(again_in, Event::Request(id, again_in * 2))
            }
            _ => {
                let delay = self.delay();
                self.after(delay, Event::Refused(id));
            }
        }
    }

    fn answer(&mut self, id: ConnId, host: usize) {
        let delay = self.delay();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.ends[1].host = host;
        conn.ends[1].held = true;
        self.after(delay, Event::Answered(id));
    }

    pub(super) fn refused(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let client = &mut conn.ends[0];
        client.die(io::ErrorKind::ConnectionRefused);
        let watch = client.watch;
        self.record("refused", id, 0);
        self.tell(watch, true);
    }

    pub(super) fn answered(&mut self, id: ConnId) {
        let Some(hosts) = self.conns.get(&id).map(|c| [c.ends[0].host, c.ends[1].host]) else {
            return;
        };
        if self.is_walled(hosts[1], hosts[0]) {
            return self.after(FIRST_RETRY, Event::Answered(id));
        }
        let established = self.now + self.delay();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let client = &mut conn.ends[0];
        if !client.held || client.state != ConnState::Connecting {
            conn.ends[1].held = false;
            return self.forget_unheld(id);
        }
        client.state = ConnState::Open;
        let watch = client.watch;
        let server = conn.ends[1].addr;
        conn.pipes[0].last_arrival = established;
        self.plan_cut(id, server);
        self.record("open", id, 0);
        self.tell(watch, true);
        self.at(established, Event::Established(id));
    }

    /// The fate that was planned for the next connection to an address, or one by chance.
    pub(in crate::sim) fn cut_for(&mut self, server: SocketAddr) -> Option<CutAt> {
        let planned = self.plans.get_mut(&server).and_then(VecDeque::pop_front);
        planned.unwrap_or_else(|| self.config.drawn_cut(&mut self.rng))
    }

    /// Gives the connection its fate.
    fn plan_cut(&mut self, id: ConnId, server: SocketAddr) {
        let cut = self.cut_for(server);
        if let (Some(cut), Some(conn)) = (cut, self.conns.get_mut(&id)) {
            conn.pipes[cut.from.index()].cut = Some((cut.after_bytes, cut.how));
        }
    }

    pub(super) fn established(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(&id) else { return };
        let key = (conn.ends[1].host, conn.ends[1].addr.port());
        let Some(port) = self.ports.get(&key) else { return self.abort(id, 1) };
        if self.is_walled(conn.ends[0].host, key.0) || port.backlog.len() >= BACKLOG {
            return self.after(FIRST_RETRY, Event::Established(id));
        }
        self.enqueue(id, key);
        self.kick(id, 0, self.now);
        for from in 0..2 {
            self.cut_if_due(id, from);
        }
    }

    fn enqueue(&mut self, id: ConnId, key: (usize, u16)) {
        let (Some(conn), Some(port)) = (self.conns.get_mut(&id), self.ports.get_mut(&key)) else {
            return;
        };
        if conn.ends[1].state == ConnState::Connecting {
            conn.ends[1].state = ConnState::Open;
        }
        port.backlog.push_back(id);
        let (watch, armed) = (port.watch, core::mem::take(&mut port.armed));
        self.record("established", id, 0);
        self.tell(watch, armed);
    }
}
