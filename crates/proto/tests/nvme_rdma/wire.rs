//! A reliable connected queue pair in memory: two send queues that are worked off in order,
//! receives, keys, and completions that wait for as long as a test likes. When it fails everything
//! that is posted is flushed.

use std::collections::{HashMap, HashSet, VecDeque};

use weft_proto::nvme_rdma::{
    Exposure, HostQueuePair, QueuePairEngine, RdmaHostConfig, RdmaHostEvent, RdmaTargetConfig,
    ReceiveBuffer, Received, RemoteMemory, TargetQueuePair, Work, WorkError, WorkId, WorkKind,
    WorkOutcome,
};
use weft_proto::stream::Tag;

use crate::nvme_rdma::layer::Layer;

/// Completion at one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    Message { buffer: ReceiveBuffer, bytes: Vec<u8>, invalidated: Option<u32> },
    ReceiveFlushed(ReceiveBuffer),
    Work(WorkId, WorkOutcome),
}

/// One end's queues.
#[derive(Default)]
pub struct Queues {
    pub send: VecDeque<Work>,
    pub receives: VecDeque<ReceiveBuffer>,
    /// Completions in order: of the send queue, and of the receives. The order of the two is open:
    /// an acknowledgement may be slower than an answer.
    pub sent: VecDeque<Completion>,
    pub received: VecDeque<Completion>,
    /// Entries of the send queue in use: posted, and not told to be free.
    pub used: u16,
    /// Unsignaled work that was executed, and whose entries the next signaled one frees.
    executed: u16,
    reads: u16,
}

/// Access by a key.
#[derive(Clone, Copy, Debug)]
struct Access {
    tag: Tag,
    bytes: u32,
    writable: bool,
}

/// A host, and a target with a [`Layer`] above it.
pub struct Wire {
    pub host: HostQueuePair,
    pub target: TargetQueuePair,
    pub queues: [Queues; 2],
    pub layer: Layer,
    /// Payload of each host tag.
    pub memory: Vec<Vec<u8>>,
    /// Answers, in order.
    pub responses: Vec<RdmaHostEvent>,
    /// Sends that found no receive.
    pub not_ready: u32,
    pub failed: bool,
    /// Everything that was done, for each end.
    pub log: [Vec<Work>; 2],
    /// The next memory cannot be made accessible.
    pub refuse_exposure: bool,
    /// The target's responses do not invalidate what they are asked to.
    pub keeps_keys: bool,
    config: (RdmaHostConfig, RdmaTargetConfig),
    keys: HashMap<u32, Access>,
    next_key: u32,
    capsules: HashMap<ReceiveBuffer, Vec<u8>>,
    released: HashSet<Tag>,
}

pub const HOST: usize = 0;
pub const TARGET: usize = 1;

impl Wire {
    /// A connected pair.
    pub fn new(host: RdmaHostConfig, target: RdmaTargetConfig) -> Self {
        let mut wire = Self::unconnected(host, target);
        wire.work();
        let accept = wire.target.accept().encode();
        wire.host.established(&accept);
        wire.target.established(&[]);
        wire.work();
        wire
    }

    /// A pair of which nothing is done yet.
    pub fn unconnected(host: RdmaHostConfig, target: RdmaTargetConfig) -> Self {
        let engine = HostQueuePair::new(host);
        let request = engine.request();
        let target = RdmaTargetConfig {
            receives: request.entries(),
            host_receives: request.receives,
            ..target
        };
        Self {
            host: engine,
            target: TargetQueuePair::new(target),
            queues: Default::default(),
            layer: Layer::new(request.entries()),
            memory: vec![Vec::new(); 1024],
            responses: Vec::new(),
            not_ready: 0,
            failed: false,
            log: Default::default(),
            refuse_exposure: false,
            keeps_keys: false,
            config: (host, target),
            keys: HashMap::new(),
            next_key: 1,
            capsules: HashMap::new(),
            released: HashSet::new(),
        }
    }

    /// Keys that give access to host memory.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Both ends post what they have.
    pub fn work(&mut self) {
        while let Some(work) = self.host.next_work() {
            self.log[HOST].push(work);
            self.host_work(work);
        }
        while let Some(event) = self.host.poll_event() {
            self.host_event(event);
        }
        self.layer.take_events(&mut self.target);
        while let Some(work) = self.target.next_work() {
            self.log[TARGET].push(work);
            self.target_work(work);
        }
        self.layer.take_events(&mut self.target);
    }

    fn host_work(&mut self, work: Work) {
        match work {
            Work::Expose { tag, bytes, writable } => {
                if std::mem::take(&mut self.refuse_exposure) {
                    return self.host.not_exposed(tag);
                }
                let key = self.next_key;
                self.next_key += 1;
                self.host.exposed(tag, address(tag), key);
                let access = Access { tag, bytes, writable };
                if self.config.0.exposure == Exposure::Window {
                    self.post(HOST, work);
                }
                self.keys.insert(key, access);
            }
            Work::Conceal { tag } => self.keys.retain(|_, access| access.tag != tag),
            _ => self.post(HOST, work),
        }
    }

    fn host_event(&mut self, event: RdmaHostEvent) {
        let RdmaHostEvent::Response { tag, .. } = event;
        if self.config.0.exposure != Exposure::Standing && !self.failed {
            assert!(
                self.keys.values().all(|access| access.tag != tag),
                "{tag:?} is still accessible"
            );
        }
        assert!(self.released.insert(tag), "{tag:?} is answered twice");
        self.keys.retain(|_, access| access.tag != tag);
        self.responses.push(event);
    }

    /// The host has done with an answer.
    pub fn release(&mut self, tag: Tag) {
        assert!(self.released.remove(&tag));
        self.host.release(tag);
    }

    fn target_work(&mut self, work: Work) {
        match work {
            Work::Place { tag, buffer, bytes } => {
                let capsule = &self.capsules[&buffer];
                self.layer
                    .memory_mut(tag, 0, bytes)
                    .copy_from_slice(&capsule[64..64 + bytes as usize]);
                self.target.placed(tag);
            }
            _ => self.post(TARGET, work),
        }
    }

    fn post(&mut self, end: usize, work: Work) {
        let limits = [self.config.0.limits, self.config.1.limits][end];
        let queues = &mut self.queues[end];
        match work {
            Work::PostReceive(buffer) if self.failed => {
                return queues.received.push_back(Completion::ReceiveFlushed(buffer));
            }
            Work::PostReceive(buffer) => return queues.receives.push_back(buffer),
            Work::Disconnect => return self.fail(),
            Work::Destroy => return self.destroy(end),
            Work::Read { bytes, .. } => {
                queues.reads += 1;
                assert!(queues.reads <= limits.reads.max(1), "too many reads are outstanding");
                assert!((1..=limits.message_bytes.max(1)).contains(&bytes));
            }
            Work::Write { bytes, .. } => {
                assert!((1..=limits.message_bytes.max(1)).contains(&bytes))
            }
            _ => {}
        }
        queues.used += 1;
        assert!(queues.used <= limits.send_queue.max(2), "the send queue is full");
        queues.send.push_back(work);
    }

    /// Executes what is first in a send queue; `false` if there is nothing, or it cannot be
    /// executed now.
    pub fn step(&mut self, end: usize) -> bool {
        let Some(&work) = self.queues[end].send.front() else { return false };
        if self.failed {
            self.queues[end].send.pop_front();
            self.finish(end, id(work, true), WorkOutcome::Flushed, 1);
            return true;
        }
        let Some(ended) = self.execute(end, work) else { return false };
        self.queues[end].send.pop_front();
        let free = 1 + std::mem::take(&mut self.queues[end].executed);
        match id(work, ended != WorkOutcome::Done) {
            None => self.queues[end].executed = free,
            some => self.finish(end, some, ended, free),
        }
        if ended != WorkOutcome::Done {
            self.fail();
        }
        true
    }

    fn finish(&mut self, end: usize, id: Option<WorkId>, ended: WorkOutcome, entries: u16) {
        let queues = &mut self.queues[end];
        queues.used -= entries;
        if let Some(id) = id {
            queues.reads -= u16::from(id.kind == WorkKind::Read);
            queues.sent.push_back(Completion::Work(id, ended));
        }
    }

    fn execute(&mut self, end: usize, work: Work) -> Option<WorkOutcome> {
        match work {
            Work::Send { tag, data_bytes, invalidate } => {
                let Some(buffer) = self.queues[1 - end].receives.pop_front() else {
                    self.not_ready += 1;
                    return None;
                };
                let bytes = if end == HOST {
                    [
                        &self.host.capsule(tag).0[..],
                        &self.memory[tag.index()][..data_bytes as usize],
                    ]
                    .concat()
                } else {
                    self.target.capsule(tag).to_vec()
                };
                let invalidated = invalidate.filter(|_| !self.keeps_keys);
                if let Some(key) = invalidated {
                    self.keys.remove(&key).expect("the key is one of the host's");
                }
                self.queues[1 - end].received.push_back(Completion::Message {
                    buffer,
                    bytes,
                    invalidated,
                });
            }
            Work::Read { tag, offset, bytes, from } => {
                let Some((of, at)) = self.access(from, bytes, false) else {
                    return Some(WorkOutcome::Failed(WorkError::RemoteAccess));
                };
                let data = self.memory[of.index()][at..at + bytes as usize].to_vec();
                self.layer.memory_mut(tag, offset, bytes).copy_from_slice(&data);
            }
            Work::Write { tag, offset, bytes, to, .. } => {
                let Some((of, at)) = self.access(to, bytes, true) else {
                    return Some(WorkOutcome::Failed(WorkError::RemoteAccess));
                };
                let data = self.layer.memory(tag, offset, bytes).to_vec();
                self.memory[of.index()][at..at + bytes as usize].copy_from_slice(&data);
            }
            Work::Invalidate { key, .. } => {
                self.keys.remove(&key).expect("a key is invalidated once");
            }
            Work::Expose { .. } => {}
            other => panic!("{other:?} is not posted to a send queue"),
        }
        Some(WorkOutcome::Done)
    }

    /// The host memory that the target may access there.
    fn access(&self, remote: RemoteMemory, bytes: u32, write: bool) -> Option<(Tag, usize)> {
        let access = self.keys.get(&remote.key)?;
        let at = remote.address.checked_sub(address(access.tag))?;
        (access.writable == write && at + u64::from(bytes) <= access.bytes.into())
            .then_some((access.tag, at as usize))
    }

    /// The queue pair fails, or is disconnected. What was not executed is flushed.
    pub fn fail(&mut self) {
        self.failed = true;
        for queues in &mut self.queues {
            while let Some(buffer) = queues.receives.pop_front() {
                queues.received.push_back(Completion::ReceiveFlushed(buffer));
            }
        }
    }

    /// One end destroys its queue pair.
    pub fn destroy(&mut self, end: usize) {
        self.fail();
        self.queues[end] = Queues::default();
        if end == HOST {
            self.host.destroyed();
        } else {
            self.target.destroyed();
        }
    }

    /// Tells an end of what completed first; `false` if nothing has.
    pub fn tell(&mut self, end: usize) -> bool {
        let queues = &mut self.queues[end];
        let Some(completion) = queues.sent.pop_front().or_else(|| queues.received.pop_front())
        else {
            return false;
        };
        self.tell_of(end, completion);
        true
    }

    /// The same of what was received first.
    pub fn tell_received(&mut self, end: usize) -> bool {
        let Some(completion) = self.queues[end].received.pop_front() else { return false };
        self.tell_of(end, completion);
        true
    }

    fn tell_of(&mut self, end: usize, completion: Completion) {
        match completion {
            Completion::Message { buffer, bytes, invalidated } => {
                let received = Received { buffer, bytes: &bytes, immediate: None, invalidated };
                if end == HOST {
                    self.host.received(&received);
                } else {
                    self.target.received(&received);
                    self.capsules.insert(buffer, bytes);
                }
            }
            Completion::ReceiveFlushed(buffer) if end == HOST => {
                self.host.receive_ended(buffer, None)
            }
            Completion::ReceiveFlushed(buffer) => self.target.receive_ended(buffer, None),
            Completion::Work(id, ended) if end == HOST => self.host.completed(id, ended),
            Completion::Work(id, ended) => self.target.completed(id, ended),
        }
    }

    /// Runs until nothing more happens.
    pub fn run(&mut self) {
        loop {
            self.work();
            let stepped = self.step(HOST) | self.step(TARGET);
            let told = self.tell(HOST) | self.tell(TARGET);
            self.work();
            if !stepped && !told {
                break;
            }
        }
    }
}

/// Returns the target's address for the memory of a host's tag.
pub fn address(tag: Tag) -> u64 {
    0x7000_0000 + (u64::from(tag.0) << 24)
}

/// Under which name work completes. What is unsignaled does only if it does not succeed.
fn id(work: Work, always: bool) -> Option<WorkId> {
    let (tag, kind) = match work {
        Work::Send { tag, .. } => (tag, WorkKind::Send),
        Work::Read { tag, .. } => (tag, WorkKind::Read),
        Work::Write { tag, signaled, .. } if signaled || always => (tag, WorkKind::Write),
        Work::Invalidate { tag, .. } => (tag, WorkKind::Invalidate),
        Work::Expose { tag, .. } if always => (tag, WorkKind::Bind),
        _ => return None,
    };
    Some(WorkId { tag, kind })
}
