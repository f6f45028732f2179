//! The transport of messages in these tests: pairs of queue pairs, in memory. Every message,
//! completion and access to the other's memory takes a while, in order; a send finds a receive that
//! the other end has posted, or is refused.

use super::target_end::TargetEnd;
use crate::export::nvme::connection::NvmeConnection;
use crate::export::nvme::ports::PortAddress;
use crate::export::nvme::target_state::TargetState;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weft_base::lock::Lock;
use weft_io::sim::Rng;
use weft_io::{DriverId, Handle, RemoteLoop, Time};
use weft_proto::nvme::controller::TransportAddress;
use weft_proto::nvme::log_page::{AddressFamily, SecureChannelNeed, TransportType};
use weft_proto::nvme::sqe::HostMemory;
use weft_proto::nvme::wire::Ascii;
use weft_proto::stream::Tag;

/// Receives that an end keeps posted: fewer than there are commands, so that sends are refused.
const RECEIVES: usize = 4;

/// The longest that anything takes, nanoseconds.
const DELAY_NS: u64 = 20_000;

/// In-capsule data that the port announces, bytes.
pub(super) const IN_CAPSULE_BYTES: u32 = 1024;

/// What an end finds.
pub(super) enum Message {
    /// A capsule, with data behind it. It used a receive up.
    Capsule(Vec<u8>),
    /// The capsule that was sent under this tag is with the other end: its memory is free.
    Sent(Tag),
    /// The other end reads this end's memory.
    Read { tag: Tag, key: u32, len: u32 },
    /// What came of reading the other end's memory.
    ReadDone { tag: Tag, data: Option<Vec<u8>> },
    /// The other end writes to this end's memory.
    Write { tag: Tag, key: u32, data: Vec<u8> },
    /// What came of writing to the other end's memory.
    WriteDone { tag: Tag, allowed: bool },
}

/// What there is for an end.
pub(super) enum Next {
    Now(Message),
    Later(Time),
    Nothing,
}

#[derive(Default)]
struct Side {
    inbox: VecDeque<(Time, Message)>,
    last: Time,
    receives: usize,
    home: Option<(RemoteLoop, DriverId)>,
}

struct Pair {
    sides: [Side; 2],
    /// Nothing is sent any more.
    over: bool,
    rng: Rng,
    refused: Arc<AtomicU64>,
}

/// One end of a pair.
#[derive(Clone)]
pub(super) struct FabricEnd {
    pair: Arc<Lock<Pair>>,
    side: usize,
}

impl Pair {
    fn put(&mut self, side: usize, now: Time, message: Message) {
        let delay = Duration::from_nanos(self.rng.below(DELAY_NS));
        let to = &mut self.sides[side];
        to.last = to.last.max(now + delay);
        to.inbox.push_back((to.last, message));
        self.wake(side);
    }

    fn wake(&self, side: usize) {
        if let Some((remote, driver)) = &self.sides[side].home {
            remote.wake(*driver);
        }
    }
}

impl FabricEnd {
    /// Says which driver is to be woken for this end.
    pub(super) fn settle(&self, home: Option<(RemoteLoop, DriverId)>) {
        let mut pair = self.pair.lock();
        pair.sides[self.side].home = home;
        pair.wake(self.side);
    }

    /// Makes room for one more capsule.
    pub(super) fn post_receive(&self) {
        let mut pair = self.pair.lock();
        pair.sides[self.side].receives += 1;
        pair.wake(1 - self.side);
    }

    /// Sends a capsule, unless the other end has posted no receive. [`Message::Sent`] follows.
    pub(super) fn send(&self, now: Time, tag: Tag, capsule: &[u8]) -> bool {
        let mut pair = self.pair.lock();
        let other = 1 - self.side;
        if pair.over || pair.sides[other].receives == 0 {
            pair.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        pair.sides[other].receives -= 1;
        pair.put(other, now, Message::Capsule(capsule.to_vec()));
        pair.put(self.side, now, Message::Sent(tag));
        true
    }

    /// Asks for access to the other end's memory, or answers such a request.
    pub(super) fn put(&self, now: Time, message: Message) {
        let mut pair = self.pair.lock();
        if !pair.over {
            pair.put(1 - self.side, now, message);
        }
    }

    /// The next that this end finds.
    pub(super) fn next(&self, now: Time) -> Next {
        let inbox = &mut self.pair.lock().sides[self.side].inbox;
        match inbox.front() {
            None => Next::Nothing,
            Some((at, _)) if *at > now => Next::Later(*at),
            Some(_) => inbox.pop_front().map_or(Next::Nothing, |(_, message)| Next::Now(message)),
        }
    }

    /// Ends the pair. What was sent before still arrives.
    pub(super) fn close(&self) {
        let mut pair = self.pair.lock();
        pair.over = true;
        (0..2).for_each(|side| pair.wake(side));
    }

    /// As [`FabricEnd::close`]; this end takes nothing more.
    pub(super) fn leave(&self) {
        self.pair.lock().sides[self.side].inbox.clear();
        self.close();
    }

    /// Ends the pair at once.
    pub(super) fn cut(&self) {
        self.pair.lock().sides.iter_mut().for_each(|side| side.inbox.clear());
        self.close();
    }

    /// Whether the pair is over, and nothing is left for this end.
    pub(super) fn has_ended(&self) -> bool {
        let pair = self.pair.lock();
        pair.over && pair.sides[self.side].inbox.is_empty()
    }
}

/// The one port: it has no address outside of these tests.
fn port() -> PortAddress {
    let address = TransportAddress {
        trtype: TransportType::LOOP,
        adrfam: AddressFamily::LOOP,
        traddr: Ascii::new(""),
        trsvcid: Ascii::new(""),
        tsas: [0; 256],
        secure_channel: SecureChannelNeed::NOT_SPECIFIED,
    };
    PortAddress {
        address,
        host_memory: HostMemory::Keyed,
        listener: None,
        in_capsule_bytes: IN_CAPSULE_BYTES,
    }
}

/// The network: where hosts find a target.
pub(super) struct Fabric {
    listener: Lock<Option<(RemoteLoop, Arc<TargetState>)>>,
    ends: Lock<Vec<FabricEnd>>,
    rng: Lock<Rng>,
    refused: Arc<AtomicU64>,
}

impl Fabric {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let rng = Lock::new(Rng::new(seed));
        Arc::new(Self {
            listener: Lock::default(),
            ends: Lock::default(),
            rng,
            refused: Arc::default(),
        })
    }

    pub(super) fn listen(&self, on: &Handle, shared: &Arc<TargetState>) {
        shared.port_opened(&port());
        *self.listener.lock() = Some((on.remote(), Arc::clone(shared)));
    }

    /// Sends that were refused.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Cuts a pair by its number.
    pub(super) fn cut(&self, nth: usize) {
        if let Some(end) = self.ends.lock().get(nth) {
            end.cut();
        }
    }

    /// Pairs that were ever made.
    pub(super) fn pairs(&self) -> usize {
        self.ends.lock().len()
    }

    /// Connects to the target; gives the host's end.
    pub(super) fn connect(&self) -> FabricEnd {
        let rng = self.rng.lock().fork();
        let mut sides = [Side::default(), Side::default()];
        sides.iter_mut().for_each(|side| side.receives = RECEIVES);
        let pair = Arc::new(Lock::new(Pair {
            sides,
            over: false,
            rng,
            refused: Arc::clone(&self.refused),
        }));
        let [host, target] = [0, 1].map(|side| FabricEnd { pair: Arc::clone(&pair), side });
        self.ends.lock().push(host.clone());
        let (remote, shared) = self.listener.lock().clone().expect("a target listens");
        remote.post(move |on| {
            NvmeConnection::accept(
                on,
                TargetEnd::new(target, shared.limits.handshake),
                &shared,
                shared.port(&port(), IpAddr::V4(Ipv4Addr::LOCALHOST)),
                None,
            );
        });
        host
    }
}
