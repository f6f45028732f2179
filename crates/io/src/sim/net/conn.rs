//! One connection: two ends, and a pipe in each direction.

use super::Watch;
use crate::sim::config::Cut;
use crate::time::Time;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

pub(super) struct Conn {
    /// The client's and the server's.
    pub(super) ends: [ConnEnd; 2],
    /// From the client and from the server.
    pub(super) pipes: [Pipe; 2],
    /// Nothing arrives.
    pub(super) silent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnState {
    Connecting,
    Open,
    /// Never stood, or no longer stands.
    Dead(Option<io::ErrorKind>),
}

pub(super) struct ConnEnd {
    pub(super) host: usize,
    pub(super) addr: SocketAddr,
    pub(super) state: ConnState,
    /// The error of the next call; after that the stream is at its end.
    pub(super) error: Option<io::ErrorKind>,
    /// A stream object, a backlog or a handshake in progress uses it.
    pub(super) held: bool,
    pub(super) watch: Option<Watch>,
    /// Saw `WouldBlock` since the last wake.
    pub(super) read_armed: bool,
    pub(super) write_armed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fin {
    #[default]
    None,
    Sent,
    Arrived,
}

#[derive(Default)]
pub(super) struct Pipe {
    /// Sent and not yet arrived, with the times at which they are due.
    pub(super) queue: VecDeque<u8>,
    segments: VecDeque<(Time, usize)>,
    pub(super) last_arrival: Time,
    /// Arrived and not yet received.
    pub(super) inbox: VecDeque<u8>,
    pub(super) fin: Fin,
    /// The sender has ended it.
    pub(super) shut: bool,
    /// Its end is a reset.
    pub(super) resets: bool,
    /// Bytes that arrived so far.
    pub(super) carried: u64,
    /// After how many of them the connection is cut, and how.
    pub(super) cut: Option<(u64, Cut)>,
    /// After how many of them one bit arrives wrong.
    pub(super) corrupt: Option<u64>,
    /// An arrival is in the queue of events.
    pub(super) scheduled: bool,
    /// The sender's loss of patience is.
    pub(super) impatient: bool,
}

impl Conn {
    /// The client's and the server's.
    pub(super) fn ips(&self) -> (IpAddr, IpAddr) {
        (self.ends[0].addr.ip(), self.ends[1].addr.ip())
    }

    /// The client has ended it, and the server does not know as long as it reads what came before.
    pub(super) fn has_client_ended(&self) -> bool {
        let ended = self.pipes[0].shut || !self.ends[0].held || self.ends[0].is_dead();
        ended && self.ends[1].held && !self.ends[1].is_dead()
    }

    /// The client has ended it, and the server cannot know yet.
    pub(super) fn is_end_unheard(&self) -> bool {
        self.has_client_ended() && self.pipes[0].fin != Fin::Arrived
    }
}

impl ConnEnd {
    pub(super) fn new(host: usize, addr: SocketAddr) -> Self {
        Self {
            host,
            addr,
            state: ConnState::Connecting,
            error: None,
            held: true,
            watch: None,
            read_armed: false,
            write_armed: false,
        }
    }

    /// Ends it; the next call returns the reason.
    pub(super) fn die(&mut self, why: io::ErrorKind) {
        self.state = ConnState::Dead(Some(why));
        self.error = Some(why);
    }

    pub(super) fn is_dead(&self) -> bool {
        matches!(self.state, ConnState::Dead(_))
    }
}

impl Pipe {
    /// Takes bytes that are due to arrive at `at`.
    pub(super) fn push<'a>(&mut self, bytes: impl Iterator<Item = &'a [u8]>, at: Time) {
        let before = self.queue.len();
        bytes.for_each(|b| self.queue.extend(b));
        self.last_arrival = self.last_arrival.max(at);
        self.segments.push_back((self.last_arrival, self.queue.len() - before));
    }

    /// Returns whether something is still to arrive.
    pub(super) fn is_under_way(&self) -> bool {
        !self.queue.is_empty() || self.fin == Fin::Sent
    }

    /// When the next of it is due.
    pub(super) fn next_arrival(&self) -> Time {
        self.segments.front().map_or(self.last_arrival, |(at, _)| *at)
    }

    /// Bytes due by now.
    pub(super) fn due(&self, now: Time) -> usize {
        self.segments.iter().take_while(|(at, _)| *at <= now).map(|(_, len)| len).sum()
    }

    /// Moves `n` bytes from the queue to the inbox, showing them to `see`.
    pub(super) fn carry(&mut self, n: usize, mut see: impl FnMut(&[u8])) {
        let (front, back) = self.queue.as_slices();
        let front = &front[..front.len().min(n)];
        let back = &back[..n - front.len()];
        see(front);
        see(back);
        self.inbox.extend(front);
        self.inbox.extend(back);
        self.queue.drain(..n);
        self.damage(n);
        self.carried += n as u64;
        self.forget_segments(n);
    }

    /// Flips the bit that is to arrive wrong, if it is among the `n` bytes that have just arrived.
    fn damage(&mut self, n: usize) {
        let Some(at) = self.corrupt.take_if(|at| *at < self.carried + n as u64) else { return };
        let first = self.inbox.len() - n;
        let offset = at.saturating_sub(self.carried);
        self.inbox[first + offset as usize] ^= 1 << (at % 8);
    }

    fn forget_segments(&mut self, mut n: usize) {
        while n > 0
            && let Some((_, len)) = self.segments.front_mut()
        {
            let part = n.min(*len);
            *len -= part;
            n -= part;
            if *len == 0 {
                self.segments.pop_front();
            }
        }
    }

    /// Loses what has not arrived.
    pub(super) fn lose(&mut self) {
        self.queue.clear();
        self.segments.clear();
    }

    /// Moves arrived bytes out, at most `n`.
    pub(super) fn take(&mut self, bufs: &mut [io::IoSliceMut<'_>], n: usize) {
        let mut left = n;
        for buf in bufs {
            let part = left.min(buf.len());
            let (front, back) = self.inbox.as_slices();
            let from_front = part.min(front.len());
            buf[..from_front].copy_from_slice(&front[..from_front]);
            buf[from_front..part].copy_from_slice(&back[..part - from_front]);
            self.inbox.drain(..part);
            left -= part;
        }
    }
}
