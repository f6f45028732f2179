//! The simulated network: hosts, listening ports, connections, and the queue of what is still to
//! happen.
//!
//! Everything is behind one lock, because streams may change threads; in a simulation there is one
//! thread, and the lock is never held while drivers run.

mod carry;
mod faults;
mod handshake;

use super::config::{CutAt, NetConfig, PortAnswer};
use super::rdma::{Rdma, Step};
use super::trace::Trace;
use crate::event_loop::{DriverId, Ready};
use crate::rng::Rng;
use crate::sim::config::Cut;
use crate::time::Time;
use core::cmp::Reverse;
use core::time::Duration;
pub use faults::SimConnection;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, MutexGuard};
use weft_base::lock::Lock;

/// First port that is assigned for port 0.
const FIRST_EPHEMERAL_PORT: u16 = 49152;

/// Connections that may wait to be accepted, as with real listeners; more wait to be established.
pub(super) const BACKLOG: usize = 1024;

/// Time for which a system retransmits unacknowledged data before it gives the connection up: about
/// that of Linux.
const GIVE_UP: Duration = Duration::from_secs(127);

/// First wait before a packet of a handshake is repeated; doubles each time.
pub(super) const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The network, shared by the world, its backends and its streams.
#[derive(Clone)]
pub(super) struct SharedNet(Arc<Lock<Net>>);

impl SharedNet {
    pub(super) fn new(seed: u64, config: NetConfig) -> Self {
        Self(Arc::new(Lock::new(Net::new(seed, config))))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Net> {
        self.0.lock()
    }
}

/// A connection's number; never used twice.
pub(super) type ConnId = u64;

/// The drivers to notify of readiness.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    pub(super) on_loop: usize,
    pub(super) driver: DriverId,
}

/// A future event.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A request to connect arrives; the wait before it is repeated.
    Request(ConnId, Duration),
    /// Its answer arrives back.
    Answered(ConnId),
    /// A refusal arrives back.
    Refused(ConnId),
    /// The acknowledgement of the answer arrives: the listener has a connection.
    Established(ConnId),
    /// Bytes from this end (0: client) arrive.
    Arrive(ConnId, usize),
    /// A reset arrives at this end.
    Reset(ConnId, usize),
    /// The client stops waiting for an answer.
    Unanswered(ConnId),
    /// This end loses patience if at most this many bytes were carried by now.
    GiveUp(ConnId, usize, u64),
    /// Something of a queue pair.
    Rdma(Step),
}

struct Due {
    at: Time,
    /// Decides by chance between events of the same moment.
    tie: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.tie, &self.event).cmp(&(other.at, other.tie, &other.event))
    }
}

struct Host {
    ip: IpAddr,
    up: bool,
    next_port: u16,
    /// No descriptor is left: nothing connects and nothing is accepted.
    exhausted: bool,
    /// Lead of its clock over the world's.
    ahead: Duration,
    answers: BTreeMap<u16, PortAnswer>,
}

struct Port {
    /// Distinguishes it from an earlier listener on the same port.
    id: u64,
    backlog: VecDeque<ConnId>,
    watch: Option<Watch>,
    armed: bool,
}

pub(super) struct Net {
    now: Time,
    pub(super) config: NetConfig,
    pub(super) rng: Rng,
    pub(super) trace: Trace,
    events: BinaryHeap<Reverse<Due>>,
    hosts: Vec<Host>,
    /// By host and port.
    ports: BTreeMap<(usize, u16), Port>,
    conns: BTreeMap<ConnId, Conn>,
    /// When a server last received from a client that had ended the connection, while the end had
    /// not arrived; by their addresses.
    pub(in crate::sim) received_behind: BTreeMap<(IpAddr, IpAddr), Time>,
    next_conn: ConnId,
    /// Directions in which nothing passes, by host.
    walls: BTreeSet<(usize, usize)>,
    /// Faults of the next connections to an address.
    plans: BTreeMap<SocketAddr, VecDeque<Option<CutAt>>>,
    pub(super) rdma: Rdma,
    /// Drivers to wake, by loop.
    ready: Vec<Vec<Ready>>,
}

impl Net {
    fn new(seed: u64, config: NetConfig) -> Self {
        Self {
            now: Time::ZERO,
            config,
            rng: Rng::new(seed),
            trace: Trace::new(),
            events: BinaryHeap::new(),
            hosts: Vec::new(),
            ports: BTreeMap::new(),
            conns: BTreeMap::new(),
            received_behind: BTreeMap::new(),
            next_conn: 0,
            walls: BTreeSet::new(),
            plans: BTreeMap::new(),
            rdma: Rdma::new(seed),
            ready: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// The time by the clock of a host.
    pub(super) fn now_on(&self, host: usize) -> Time {
        self.now + self.hosts[host].ahead
    }

    /// When it is so late by the clock of a host.
    pub(super) fn of_world(&self, host: usize, at: Time) -> Time {
        Time::ZERO + (at - (Time::ZERO + self.hosts[host].ahead))
    }

    pub(super) fn set_now(&mut self, now: Time) {
        debug_assert!(now >= self.now, "time does not run backwards");
        self.now = now;
    }

    pub(super) fn record(&mut self, what: &'static str, subject: u64, value: u64) {
        self.trace.record(self.now, what, subject, value);
    }

    pub(super) fn host(&mut self, ip: IpAddr) -> usize {
        self.find_host(ip).unwrap_or_else(|| {
            let next_port = FIRST_EPHEMERAL_PORT;
            let (exhausted, ahead) = (false, Duration::ZERO);
            self.hosts.push(Host {
                ip,
                up: true,
                next_port,
                exhausted,
                ahead,
                answers: BTreeMap::new(),
            });
            self.hosts.len() - 1
        })
    }

    fn find_host(&self, ip: IpAddr) -> Option<usize> {
        self.hosts.iter().position(|h| h.ip == ip)
    }

    pub(super) fn add_loop(&mut self) -> usize {
        self.ready.push(Vec::new());
        self.ready.len() - 1
    }

    pub(super) fn is_ready(&self, on_loop: usize) -> bool {
        !self.ready[on_loop].is_empty()
    }

    /// Moves the drivers to wake to `into`.
    pub(super) fn take_ready(&mut self, on_loop: usize, into: &mut Vec<Ready>) {
        into.append(&mut self.ready[on_loop]);
    }

    /// When the next event is due.
    pub(super) fn next_event(&self) -> Option<Time> {
        self.events.peek().map(|Reverse(due)| due.at)
    }

    /// Lets the next event happen, whose time has come.
    pub(super) fn happen(&mut self) {
        let Some(Reverse(due)) = self.events.pop() else { return };
        match due.event {
            Event::Request(id, again_in) => self.request(id, again_in),
            Event::Answered(id) => self.answered(id),
            Event::Refused(id) => self.refused(id),
            Event::Established(id) => self.established(id),
            Event::Arrive(id, from) => self.arrive(id, from),
            Event::Reset(id, end) => self.reset_arrives(id, end),
            Event::Unanswered(id) => self.unanswered(id),
            Event::GiveUp(id, end, carried) => self.give_up(id, end, carried),
            Event::Rdma(step) => self.happen_rdma(step),
        }
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now + delay, event);
    }

    fn at(&mut self, at: Time, event: Event) {
        let tie = self.rng.bits();
        self.events.push(Reverse(Due { at, tie, event }));
    }

    pub(super) fn after_rdma(&mut self, delay: Duration, step: Step) {
        self.after(delay, Event::Rdma(step));
    }

    pub(super) fn at_rdma(&mut self, at: Time, step: Step) {
        self.at(at, Event::Rdma(step));
    }

    pub(super) fn delay(&mut self) -> Duration {
        self.config.delay(&mut self.rng)
    }

    /// Returns the cost of a turn of a loop.
    pub(super) fn turn_cost(&mut self) -> Duration {
        self.config.turn_cost(&mut self.rng)
    }

    /// Tells a driver that waited for it, and now and then one that did not.
    pub(super) fn tell(&mut self, watch: Option<Watch>, armed: bool) {
        let Some(Watch { on_loop, driver }) = watch else { return };
        if armed || self.rng.one_in(self.config.spurious_one_in) {
            self.ready[on_loop].push(Ready { driver, closed: false });
        }
    }

    /// Tells a driver that the other end of its socket is closed. Systems do so whether it waited
    /// for something or not.
    pub(super) fn tell_closed(&mut self, watch: Option<Watch>) {
        let Some(Watch { on_loop, driver }) = watch else { return };
        self.ready[on_loop].push(Ready { driver, closed: true });
    }

    /// Returns whether a packet from one host cannot reach the other.
    pub(super) fn is_walled(&self, from: usize, to: usize) -> bool {
        !self.hosts[from].up || !self.hosts[to].up || self.walls.contains(&(from, to))
    }
}

// One connection: two ends, and a pipe in each direction.

struct Conn {
    /// The client's and the server's.
    ends: [ConnEnd; 2],
    /// From the client and from the server.
    pipes: [Pipe; 2],
    /// Nothing arrives.
    silent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnState {
    Connecting,
    Open,
    /// Never stood, or no longer stands.
    Dead(Option<io::ErrorKind>),
}

struct ConnEnd {
    host: usize,
    addr: SocketAddr,
    state: ConnState,
    /// The error of the next call; after that the stream is at its end.
    error: Option<io::ErrorKind>,
    /// A stream object, a backlog or a handshake in progress uses it.
    held: bool,
    watch: Option<Watch>,
    /// Saw `WouldBlock` since the last wake.
    read_armed: bool,
    write_armed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fin {
    #[default]
    None,
    Sent,
    Arrived,
}

#[derive(Default)]
struct Pipe {
    /// Sent and not yet arrived, with the times at which they are due.
    queue: VecDeque<u8>,
    segments: VecDeque<(Time, usize)>,
    last_arrival: Time,
    /// Arrived and not yet received.
    inbox: VecDeque<u8>,
    fin: Fin,
    /// The sender has ended it.
    shut: bool,
    /// Its end is a reset.
    resets: bool,
    /// Bytes that arrived so far.
    carried: u64,
    /// After how many of them the connection is cut, and how.
    cut: Option<(u64, Cut)>,
    /// After how many of them one bit arrives wrong.
    corrupt: Option<u64>,
    /// An arrival is in the queue of events.
    scheduled: bool,
    /// The sender's loss of patience is.
    impatient: bool,
}

impl Conn {
    /// The client's and the server's.
    fn ips(&self) -> (IpAddr, IpAddr) {
        (self.ends[0].addr.ip(), self.ends[1].addr.ip())
    }

    /// The client has ended it, and the server does not know as long as it reads what came before.
    fn has_client_ended(&self) -> bool {
        let ended = self.pipes[0].shut || !self.ends[0].held || self.ends[0].is_dead();
        ended && self.ends[1].held && !self.ends[1].is_dead()
    }

    /// The client has ended it, and the server cannot know yet.
    fn is_end_unheard(&self) -> bool {
        self.has_client_ended() && self.pipes[0].fin != Fin::Arrived
    }
}

impl ConnEnd {
    fn new(host: usize, addr: SocketAddr) -> Self {
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
    fn die(&mut self, why: io::ErrorKind) {
        self.state = ConnState::Dead(Some(why));
        self.error = Some(why);
    }

    fn is_dead(&self) -> bool {
        matches!(self.state, ConnState::Dead(_))
    }
}

impl Pipe {
    /// Takes bytes that are due to arrive at `at`.
    fn push<'a>(&mut self, bytes: impl Iterator<Item = &'a [u8]>, at: Time) {
        let before = self.queue.len();
        bytes.for_each(|b| self.queue.extend(b));
        self.last_arrival = self.last_arrival.max(at);
        self.segments.push_back((self.last_arrival, self.queue.len() - before));
    }

    /// Returns whether something is still to arrive.
    fn is_under_way(&self) -> bool {
        !self.queue.is_empty() || self.fin == Fin::Sent
    }

    /// When the next of it is due.
    fn next_arrival(&self) -> Time {
        self.segments.front().map_or(self.last_arrival, |(at, _)| *at)
    }

    /// Bytes due by now.
    fn due(&self, now: Time) -> usize {
        self.segments.iter().take_while(|(at, _)| *at <= now).map(|(_, len)| len).sum()
    }

    /// Moves `n` bytes from the queue to the inbox, showing them to `see`.
    fn carry(&mut self, n: usize, mut see: impl FnMut(&[u8])) {
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
    fn lose(&mut self) {
        self.queue.clear();
        self.segments.clear();
    }

    /// Moves arrived bytes out, at most `n`.
    fn take(&mut self, bufs: &mut [io::IoSliceMut<'_>], n: usize) {
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

/// Error of a system without a free descriptor.
pub(in crate::sim) fn exhausted() -> io::Error {
    io::Error::from_raw_os_error(if cfg!(windows) { 10024 } else { 24 })
}
