//! Queue pairs in memory, for the engines and drivers of NVMe over RDMA. Work is executed in order and takes a while; messages and the ends
//! of work are each reported in order, but not in that between both. Where a SEND finds no receive it is tried again, and counted.

mod end;
mod state;

use self::state::{Pair, lock};
use crate::export::nvme_rdma;
use crate::nvme::target::shared::Shared;
use crate::source::nvme_rdma::Dial;
use end::End;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use weft_io::rdma::{QueuePair, QueuePairConfig};
use weft_io::sim::Rng;
use weft_io::{Handle, Remote};
use weft_proto::nvme::types::{Cntlid, Qid};
use weft_proto::nvme_rdma::cm::Request;

/// What the network does, and what it did.
#[derive(Default)]
pub(super) struct Counts {
    /// SENDs that found no receive.
    pub(super) not_ready: AtomicU64,
    /// Memory that was refused.
    pub(super) no_memory: AtomicU64,
}

/// Where hosts find a target.
pub(super) struct Network {
    listener: Mutex<Option<(Remote, Arc<Shared>)>>,
    pairs: Mutex<Vec<Arc<Mutex<Pair>>>>,
    rng: Mutex<Rng>,
    has_windows: bool,
    pub(super) counts: Arc<Counts>,
}

impl Network {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let (rng, has_windows) = (Mutex::new(Rng::new(seed)), seed.is_multiple_of(2));
        let counts = Arc::default();
        Arc::new(Self { listener: Mutex::default(), pairs: Mutex::default(), rng, has_windows, counts })
    }

    pub(super) fn listen(&self, on: &Handle, shared: &Arc<Shared>) {
        *lock(&self.listener) = Some((on.remote(), Arc::clone(shared)));
    }

    /// Cuts a connection by its number, in one of the ways in which that happens.
    pub(super) fn cut(&self, nth: usize) {
        let how = lock(&self.rng).below(3);
        if let Some(pair) = lock(&self.pairs).get(nth) {
            lock(pair).cut(how);
        }
    }

    fn dial(self: &Arc<Self>) -> End {
        let rng = lock(&self.rng).fork();
        let pair = Arc::new(Mutex::new(Pair::new(rng, self.has_windows, Arc::clone(&self.counts))));
        lock(&self.pairs).push(Arc::clone(&pair));
        let host = End::new(Arc::clone(&pair), 0);
        let (remote, shared) = lock(&self.listener).clone().expect("a target listens");
        host.when_asked(move || {
            let target = End::new(pair, 1);
            remote.post(move |on| nvme_rdma::accept(on, Box::new(target), SocketAddr::from(([10, 0, 0, 1], 4420)), &shared));
        });
        host
    }

    /// A connection of which nobody makes use.
    pub(super) fn connect(self: &Arc<Self>) -> End {
        let mut end = self.dial();
        let config = QueuePairConfig {
            send_queue: 8,
            receives: 8,
            receive_bytes: 16,
            message_bytes: 64,
            slots: 8,
            reads: 0,
            exposure: None,
        };
        end.create(&config).expect("a new queue pair");
        end.open(&Request { qid: Qid(0), receives: 8, hsqsize: 7, cntlid: Cntlid(0) }.encode()).expect("a new queue pair");
        end
    }
}

/// Makes hosts' queue pairs.
pub(super) struct Dialler;

impl Dial for Dialler {
    type Place = Arc<Network>;

    fn dial(_: &Handle, place: &Arc<Network>, nth: usize) -> Option<io::Result<Box<dyn QueuePair>>> {
        (nth == 0).then(|| Ok(Box::new(place.dial()) as Box<dyn QueuePair>))
    }
}
