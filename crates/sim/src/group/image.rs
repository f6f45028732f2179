//! The image as one client has it open.

use super::cluster::Cluster;
use super::late_writes::GatewayLateWrites;
use super::objects::Client;
use crate::store::BlockStore;
use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_base::lock::Lock;
use weft_block::{
    BlockDevice, BlockQueue, Completion, DeviceChange, Error, Features, Geometry, Identity, Op,
};
use weft_io::event_loop::TimerSlot;
use weft_io::{DriverId, Handle};

/// How often a client asks for the lock again.
const RETRY: Duration = Duration::from_millis(20);

/// Operations that wait for the cluster in a queue.
const WAITING_MAX: usize = 64;

/// See the module.
pub struct SimImage {
    pub cluster: Arc<Lock<Cluster>>,
    pub store: Arc<BlockStore>,
    pub client: Client,
    /// Queues that were opened.
    pub queues: AtomicU64,
    /// Late writes, if hosts do not wait.
    pub late: Option<GatewayLateWrites>,
}

struct ImageQueue {
    cluster: Arc<Lock<Cluster>>,
    client: Client,
    /// Which one it is of the process.
    number: u64,
    inner: Box<dyn BlockQueue>,
    waiting: VecDeque<Op>,
    late: Option<GatewayLateWrites>,
    /// Those that nobody waits for any more, as far as that was seen.
    late_ops: BTreeSet<u64>,
    on: Handle,
    owner: DriverId,
    timer: TimerSlot,
    /// `submit` left operations with the caller.
    refused: bool,
}

impl BlockDevice for SimImage {
    fn url(&self) -> &str {
        "rbd:pool/image"
    }

    fn geometry(&self) -> Geometry {
        self.store.geometry()
    }

    fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
        self.store.renew_size()
    }

    fn features(&self) -> Features {
        self.store.features()
    }

    fn identity(&self) -> Identity {
        self.store.identity()
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let inner = self.store.open_queue_of(self.client, on, owner);
        let (cluster, waiting, timer) =
            (Arc::clone(&self.cluster), VecDeque::new(), TimerSlot::default());
        let number = self.queues.fetch_add(1, Ordering::Relaxed);
        let (client, on) = (self.client, on.clone());
        let (late, late_ops) = (self.late.clone(), BTreeSet::new());
        Ok(Box::new(ImageQueue {
            cluster,
            client,
            number,
            inner,
            waiting,
            late,
            late_ops,
            on,
            owner,
            timer,
            refused: false,
        }))
    }
}

impl ImageQueue {
    /// Gives the cluster what it takes, in order.
    fn advance(&mut self) {
        if let Some(late) = &self.late {
            self.late_ops
                .extend(self.waiting.iter().filter(|op| late.may_be(op)).map(|op| op.user));
        }
        let mut taken = VecDeque::new();
        let shared = Arc::clone(&self.cluster);
        let mut cluster = shared.lock();
        while let Some(op) = self.waiting.front() {
            let may = if op.kind.is_write() {
                cluster.may_write(self.client, self.on.now())
            } else {
                cluster.may_read(self.client)
            };
            if !may {
                break;
            }
            taken.extend(self.waiting.pop_front());
        }
        let writes = self.waiting.iter().filter(|op| op.kind.is_write());
        cluster.set_waiting((self.client, self.number), writes.map(|op| op.lba).collect());
        let is_member = cluster.is_member(self.client);
        drop(cluster);
        if let Some(late) = self.late.as_ref().filter(|_| is_member) {
            taken
                .iter()
                .filter(|op| self.late_ops.contains(&op.user))
                .for_each(|op| late.lands(op));
        }
        self.inner.submit(&mut taken);
        while let Some(op) = taken.pop_back() {
            self.waiting.push_front(op);
        }
        if !self.waiting.is_empty() {
            self.timer.arm(&self.on, self.owner, self.on.now() + RETRY);
        }
    }
}

impl BlockQueue for ImageQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let count = ops.len().min(WAITING_MAX.saturating_sub(self.waiting.len()));
        self.waiting.extend(ops.drain(..count));
        self.refused = !ops.is_empty();
        self.advance();
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.advance();
        let before = done.len();
        self.inner.reap(done);
        for ended in &done[before..] {
            // A write that began meanwhile may have been executed before it.
            if self.late_ops.remove(&ended.op.user)
                && let Some(late) = &self.late
            {
                late.lands(&ended.op);
            }
        }
        if core::mem::take(&mut self.refused) {
            self.on.wake(self.owner);
        }
    }

    /// Neither what waits for the lock nor what the cluster has comes back, as with the library.
    fn cancel(&mut self, _: u64) {}

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.inner.in_flight()
    }

    fn change(&mut self) -> Option<DeviceChange> {
        self.inner.change()
    }
}

impl Drop for ImageQueue {
    fn drop(&mut self) {
        self.waiting.drain(..).for_each(Op::give_up);
        let mut cluster = self.cluster.lock();
        cluster.set_waiting((self.client, self.number), Vec::new());
    }
}
