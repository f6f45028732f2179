//! Bytes on their way, and the ways in which a connection ends.

use super::{ConnId, ConnState, Event, Fin, GIVE_UP, Net, Watch};
use crate::sim::config::Cut;
use crate::time::Time;
use core::time::Duration;
use std::io::{self, IoSlice, IoSliceMut};

impl Net {
    pub(in crate::sim) fn recv(
        &mut self,
        id: ConnId,
        end: usize,
        bufs: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        let conn = self.conns.get_mut(&id).ok_or(io::ErrorKind::NotConnected)?;
        if end == 1 && conn.has_client_ended() && !conn.pipes[0].inbox.is_empty() {
            self.received_behind.insert(conn.ips(), self.now);
        }
        let (me, pipe) = (&mut conn.ends[end], &mut conn.pipes[1 - end]);
        let wanted: usize = bufs.iter().map(|b| b.len()).sum();
        if me.state == ConnState::Connecting {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if wanted == 0 {
            return Ok(0);
        }
        if !pipe.inbox.is_empty() {
            let n = self.config.moved(wanted.min(pipe.inbox.len()), &mut self.rng);
            pipe.take(bufs, n);
            let at = self.now + self.config.delay(&mut self.rng);
            self.kick(id, 1 - end, at);
            return Ok(n);
        }
        match me.error.take() {
            Some(error) => Err(error.into()),
            None if me.is_dead() || pipe.fin == Fin::Arrived => Ok(0),
            None => {
                me.read_armed = true;
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
    }

    pub(in crate::sim) fn send(
        &mut self,
        id: ConnId,
        end: usize,
        bufs: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        let conn = self.conns.get_mut(&id).ok_or(io::ErrorKind::NotConnected)?;
        let (me, pipe) = (&mut conn.ends[end], &mut conn.pipes[end]);
        if me.state == ConnState::Connecting {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if let Some(error) = me.error.take() {
            return Err(error.into());
        }
        if me.is_dead() || pipe.shut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = self.config.send_buffer_bytes.saturating_sub(pipe.queue.len());
        let mut left =
            self.config.moved(room.min(bufs.iter().map(|b| b.len()).sum()), &mut self.rng);
        let n = left;
        if room == 0 {
            me.write_armed = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let parts = bufs.iter().map(|b| {
            let part = left.min(b.len());
            left -= part;
            &b[..part]
        });
        pipe.push(parts, self.now + self.config.delay(&mut self.rng));
        self.kick(id, end, self.now);
        Ok(n)
    }

    pub(in crate::sim) fn shutdown(&mut self, id: ConnId, end: usize) -> io::Result<()> {
        let conn = self.conns.get_mut(&id).ok_or(io::ErrorKind::NotConnected)?;
        if conn.ends[end].state != ConnState::Open {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let pipe = &mut conn.pipes[end];
        if !core::mem::replace(&mut pipe.shut, true) && pipe.fin == Fin::None {
            pipe.fin = Fin::Sent;
            pipe.last_arrival = pipe.last_arrival.max(self.now + self.config.delay(&mut self.rng));
            self.kick(id, end, self.now);
        }
        Ok(())
    }

    pub(in crate::sim) fn connected(&mut self, id: ConnId, end: usize) -> io::Result<bool> {
        let conn = self.conns.get_mut(&id).ok_or(io::ErrorKind::NotConnected)?;
        match conn.ends[end].state {
            ConnState::Connecting => Ok(false),
            ConnState::Open => Ok(true),
            ConnState::Dead(why) => Err(why.unwrap_or(io::ErrorKind::NotConnected).into()),
        }
    }

    pub(in crate::sim) fn watch(
        &mut self,
        id: ConnId,
        end: usize,
        watch: Option<Watch>,
    ) -> io::Result<()> {
        let conn = self.conns.get_mut(&id).ok_or(io::ErrorKind::NotConnected)?;
        let (me, incoming, outgoing) =
            (&mut conn.ends[end], &conn.pipes[1 - end], &conn.pipes[end]);
        if watch.is_some() && me.watch.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        me.watch = watch;
        let over = me.is_dead();
        let readable = over || !incoming.inbox.is_empty() || incoming.fin == Fin::Arrived;
        let writable = over
            || me.state == ConnState::Open && outgoing.queue.len() < self.config.send_buffer_bytes;
        (me.read_armed, me.write_armed) = (!readable, !writable);
        if over || incoming.fin == Fin::Arrived {
            self.tell_closed(watch);
        } else if readable || writable {
            self.tell(watch, true);
        }
        Ok(())
    }

    /// The stream object of an end is gone. With `resets` it resets the connection, if that still
    /// stands.
    pub(in crate::sim) fn close(&mut self, id: ConnId, end: usize, resets: bool) {
        let Some(conn) = self.conns.get_mut(&id).filter(|c| c.ends[end].held) else { return };
        conn.ends[end].watch = None;
        if !conn.pipes[1 - end].inbox.is_empty() {
            return self.abort(id, end);
        }
        if resets && conn.ends[end].state == ConnState::Open {
            return self.reset(id, end);
        }
        conn.ends[end].held = false;
        let _ = self.shutdown(id, end);
        self.forget_unheld(id);
    }

    /// Ends a connection from one end without ceremony.
    pub(super) fn abort(&mut self, id: ConnId, end: usize) {
        let delay = self.delay();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.ends[end].held = false;
        conn.ends[end].state = ConnState::Dead(None);
        conn.pipes[end].lose();
        self.after(delay, Event::Reset(id, 1 - end));
        self.forget_unheld(id);
    }

    /// Ends a connection by a reset. What is on its way may still arrive before that.
    fn reset(&mut self, id: ConnId, end: usize) {
        let loses = self.rng.one_in(2);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (from, to) = (conn.ends[end].host, conn.ends[1 - end].host);
        if loses || conn.silent || !conn.pipes[end].is_under_way() || self.is_walled(from, to) {
            return self.abort(id, end);
        }
        let Some(conn) = self.conns.get_mut(&id) else { return };
        (conn.ends[end].held, conn.ends[end].state) = (false, ConnState::Dead(None));
        let pipe = &mut conn.pipes[end];
        (pipe.shut, pipe.fin, pipe.resets) = (true, Fin::Sent, true);
        self.kick(id, end, self.now);
        self.forget_unheld(id);
    }

    pub(super) fn forget_unheld(&mut self, id: ConnId) {
        if self.conns.get(&id).is_some_and(|c| !c.ends[0].held && !c.ends[1].held) {
            self.conns.remove(&id);
        }
    }

    /// Delivers the data in transit from an end, at `not_before` or when it is due.
    pub(super) fn kick(&mut self, id: ConnId, from: usize, not_before: Time) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let pipe = &mut conn.pipes[from];
        if conn.silent {
            return self.lose_patience(id, from);
        }
        if pipe.is_under_way() && !core::mem::replace(&mut pipe.scheduled, true) {
            let at = pipe.next_arrival().max(not_before);
            self.at(at, Event::Arrive(id, from));
        }
    }

    pub(super) fn arrive(&mut self, id: ConnId, from: usize) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (sender, receiver) = (conn.ends[from].host, conn.ends[1 - from].host);
        conn.pipes[from].scheduled = false;
        if conn.silent || self.is_walled(sender, receiver) {
            return self.lose_patience(id, from);
        }
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (end, pipe) = (&conn.ends[1 - from], &mut conn.pipes[from]);
        if end.state == ConnState::Connecting || !pipe.is_under_way() {
            return;
        }
        let open = end.held && !end.is_dead() && pipe.fin != Fin::Arrived;
        match (open, pipe.queue.is_empty()) {
            (true, false) => self.carry(id, from),
            (true, true) => self.end_arrives(id, from),
            (false, false) => {
                pipe.lose();
                let delay = self.delay();
                self.after(delay, Event::Reset(id, from));
            }
            (false, true) => pipe.fin = Fin::Arrived,
        }
    }

    fn carry(&mut self, id: ConnId, from: usize) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (ends, pipe) = (&mut conn.ends, &mut conn.pipes[from]);
        let room = self.config.recv_buffer_bytes.saturating_sub(pipe.inbox.len());
        let until_cut = pipe.cut.map_or(u64::MAX, |(at, _)| at.saturating_sub(pipe.carried));
        let most =
            pipe.due(self.now).min(room).min(usize::try_from(until_cut).unwrap_or(usize::MAX));
        let n = self.config.piece(most, &mut self.rng);
        if n > 0 {
            pipe.carry(n, |bytes| self.trace.bytes(bytes));
            let reader = (ends[1 - from].watch, core::mem::take(&mut ends[1 - from].read_armed));
            let writer = (ends[from].watch, core::mem::take(&mut ends[from].write_armed));
            self.record(["to server", "to client"][from], id, n as u64);
            self.tell(reader.0, reader.1);
            self.tell(writer.0, writer.1);
        }
        self.cut_if_due(id, from);
        self.carry_on(id, from);
    }

    /// Has the next piece arrive soon, unless the receiver has no room: then it does when there is
    /// some again.
    fn carry_on(&mut self, id: ConnId, from: usize) {
        let gap =
            Duration::from_nanos(self.rng.within(0, self.config.jitter.as_nanos() as u64 / 4));
        let full = self
            .conns
            .get(&id)
            .is_some_and(|c| c.pipes[from].inbox.len() >= self.config.recv_buffer_bytes);
        if !full {
            self.kick(id, from, self.now + gap);
        }
    }

    fn end_arrives(&mut self, id: ConnId, from: usize) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.pipes[from].fin = Fin::Arrived;
        if conn.pipes[from].resets {
            return self.end_with(id, 1 - from, io::ErrorKind::ConnectionReset);
        }
        let end = &mut conn.ends[1 - from];
        let watch = end.watch;
        end.read_armed = false;
        self.record("end", id, from as u64);
        self.tell_closed(watch);
    }

    pub(super) fn reset_arrives(&mut self, id: ConnId, end: usize) {
        let Some(conn) = self.conns.get(&id) else { return };
        // Nobody repeats a reset that is lost: that is how connections come to be half open.
        if !conn.silent && !self.is_walled(conn.ends[1 - end].host, conn.ends[end].host) {
            self.end_with(id, end, io::ErrorKind::ConnectionReset);
        }
    }

    fn end_with(&mut self, id: ConnId, end: usize, why: io::ErrorKind) {
        // Some systems still hand out what had arrived before, some do not.
        let forget = self.rng.one_in(2);
        let Some(conn) = self.conns.get_mut(&id).filter(|c| !c.ends[end].is_dead()) else { return };
        let me = &mut conn.ends[end];
        me.die(why);
        let watch = me.watch;
        (me.read_armed, me.write_armed) = (false, false);
        conn.pipes[end].lose();
        if forget {
            conn.pipes[1 - end].inbox.clear();
        }
        self.record("broken", id, end as u64);
        self.tell_closed(watch);
    }

    fn lose_patience(&mut self, id: ConnId, end: usize) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let pipe = &mut conn.pipes[end];
        if !pipe.queue.is_empty() && !core::mem::replace(&mut pipe.impatient, true) {
            let carried = pipe.carried;
            self.after(GIVE_UP, Event::GiveUp(id, end, carried));
        }
    }

    pub(super) fn give_up(&mut self, id: ConnId, end: usize, carried: u64) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let pipe = &mut conn.pipes[end];
        if !core::mem::take(&mut pipe.impatient) || pipe.queue.is_empty() || pipe.scheduled {
            return;
        }
        match pipe.carried == carried {
            true => self.end_with(id, end, io::ErrorKind::TimedOut),
            false => self.lose_patience(id, end),
        }
    }

    pub(super) fn unanswered(&mut self, id: ConnId) {
        if self.conns.get(&id).is_some_and(|c| c.ends[0].state == ConnState::Connecting) {
            self.end_with(id, 0, io::ErrorKind::TimedOut);
        }
    }

    pub(super) fn cut_if_due(&mut self, id: ConnId, from: usize) {
        let Some(pipe) = self.conns.get_mut(&id).map(|c| &mut c.pipes[from]) else { return };
        if let Some((_, how)) = pipe.cut.take_if(|(at, _)| pipe.carried >= *at) {
            self.cut(id, how);
        }
    }

    pub(in crate::sim) fn cut(&mut self, id: ConnId, how: Cut) {
        self.record("cut", id, 0);
        match how {
            Cut::Reset => {
                (0..2).for_each(|end| self.end_with(id, end, io::ErrorKind::ConnectionReset))
            }
            Cut::HalfOpen(side) => {
                self.end_with(id, side.index(), io::ErrorKind::ConnectionReset);
            }
            Cut::Close => (0..2).for_each(|from| {
                let Some(conn) = self.conns.get_mut(&id) else { return };
                conn.pipes[from].lose();
                self.end_arrives(id, from);
            }),
            Cut::Silence => {
                let Some(conn) = self.conns.get_mut(&id) else { return };
                conn.silent = true;
                (0..2).for_each(|end| self.lose_patience(id, end));
            }
        }
    }
}
