//! Behaviour and faults of the simulated network.

use crate::rng::Rng;
use core::time::Duration;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// That which connected.
    Client,
    /// That which accepted.
    Server,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// Place in arrays: the client's comes first.
    pub(super) const fn index(self) -> usize {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }

    /// The other end.
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Way in which a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Both ends get a connection reset.
    Reset,
    /// Both ends find the end of the stream, as if the other had closed.
    Close,
    /// Nothing arrives after that, and neither end is notified.
    Silence,
    /// This end gets a reset; the other end gets one when it sends.
    HalfOpen(Side),
}

/// When and how a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutAt {
    /// The side whose bytes count.
    pub from: Side,
    /// Behind how many of them, once they have arrived.
    pub after_bytes: u64,
    /// The kind of cut.
    pub how: Cut,
}

/// Answer of a port to a request to connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortAnswer {
    /// By its listener, or with a refusal when there is none.
    #[default]
    Usual,
    /// With a refusal.
    Refuse,
    /// Not at all.
    Never,
}

/// Splitting of sent data into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// Each send arrives whole.
    Whole,
    /// Pieces of every size, small ones as likely as large ones.
    Mixed,
    /// Pieces of at most this many bytes.
    AtMost(usize),
}

/// Behaviour of the network.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// Time that every byte takes from host to host.
    pub latency: Duration,
    /// Time that is added by chance: from none to this.
    pub jitter: Duration,
    /// Bytes that an end takes before the other has them; more is `WouldBlock`.
    pub send_buffer_bytes: usize,
    /// Bytes that arrive before they are received.
    pub recv_buffer_bytes: usize,
    /// Pieces in which bytes arrive.
    pub chunking: Chunking,
    /// One in `n` receives and sends moves fewer bytes than it could (0: none).
    pub short_one_in: u32,
    /// One in `n` arrivals wakes a driver that did not wait for it (0: none). A driver that never
    /// saw `WouldBlock` is not woken in any other case. A driver that never saw `WouldBlock` is not
    /// told otherwise.
    pub spurious_one_in: u32,
    /// One in `n` connections is cut by chance (0: none)...
    pub cut_one_in: u32,
    /// ...after at most this many bytes in one direction...
    pub cut_within_bytes: u64,
    /// ...in one of these ways.
    pub cuts: Vec<Cut>,
    /// Virtual time that a loop's turn takes, at least and at most.
    pub turn: (Duration, Duration),
}

impl Default for NetConfig {
    /// A well-behaved network: 20 µs, no jitter, everything arrives as it was sent.
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(20),
            jitter: Duration::ZERO,
            send_buffer_bytes: 256 << 10,
            recv_buffer_bytes: 256 << 10,
            chunking: Chunking::Whole,
            short_one_in: 0,
            spurious_one_in: 0,
            cut_one_in: 0,
            cut_within_bytes: 0,
            cuts: vec![Cut::Reset],
            turn: (Duration::from_micros(1), Duration::from_micros(1)),
        }
    }
}

impl NetConfig {
    /// A network drawn by chance, from quick and smooth to slow and ragged. It cuts nothing.
    pub fn drawn(rng: &mut Rng) -> Self {
        let chunking = match rng.below(8) {
            0 => Chunking::Whole,
            1 => Chunking::AtMost(rng.magnitude(4096) as usize),
            _ => Chunking::Mixed,
        };
        Self {
            latency: Duration::from_nanos(rng.magnitude(2_000_000)),
            jitter: Duration::from_nanos(rng.magnitude(1_000_000)),
            send_buffer_bytes: 1024 + rng.magnitude(1 << 20) as usize,
            recv_buffer_bytes: 1024 + rng.magnitude(1 << 20) as usize,
            chunking,
            short_one_in: *rng.pick(&[0, 4, 32]),
            spurious_one_in: *rng.pick(&[0, 1, 8]),
            turn: (Duration::from_nanos(300), Duration::from_nanos(300 + rng.magnitude(20_000))),
            ..Self::default()
        }
    }

    pub(super) fn delay(&self, rng: &mut Rng) -> Duration {
        self.latency + part(self.jitter, rng)
    }

    /// The size of the next piece of `len` bytes: 1 to `len`.
    pub(super) fn piece(&self, len: usize, rng: &mut Rng) -> usize {
        match self.chunking {
            Chunking::Whole => len,
            Chunking::Mixed if rng.one_in(4) => len,
            Chunking::Mixed => rng.magnitude(len as u64) as usize,
            Chunking::AtMost(max) => len.min(max.max(1)),
        }
    }

    /// Bytes that a call moves which could move `len`.
    pub(super) fn moved(&self, len: usize, rng: &mut Rng) -> usize {
        if rng.one_in(self.short_one_in) { rng.magnitude(len as u64) as usize } else { len }
    }

    /// A cut for a new connection, if chance has one for it.
    pub(super) fn drawn_cut(&self, rng: &mut Rng) -> Option<CutAt> {
        if !rng.one_in(self.cut_one_in) || self.cuts.is_empty() {
            return None;
        }
        let after_bytes = match rng.one_in(2) {
            true => rng.magnitude(self.cut_within_bytes),
            false => rng.within(0, self.cut_within_bytes),
        };
        Some(CutAt { from: *rng.pick(&Side::BOTH), after_bytes, how: *rng.pick(&self.cuts) })
    }

    pub(super) fn turn_cost(&self, rng: &mut Rng) -> Duration {
        self.turn.0 + part(self.turn.1.saturating_sub(self.turn.0), rng)
    }
}

fn part(whole: Duration, rng: &mut Rng) -> Duration {
    Duration::from_nanos(rng.within(0, whole.as_nanos() as u64))
}
