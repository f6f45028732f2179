//! The controller's end of an RDMA queue pair: any private data, capsules and completions, under a
//! layer above that does all that it may.

use std::time::Duration;

use weft_fuzz::Input;
use weft_fuzz::rdma::{Posted, limits};
use weft_fuzz::rdma_layer::{CommandStage, Layer};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Nsid};
use weft_proto::nvme_rdma::cm::{CmOffer, CmRequest};
use weft_proto::nvme_rdma::keyed::Keyed;
use weft_proto::nvme_rdma::{
    QueuePairEngine, RdmaTargetConfig, Received, TargetQueuePair, Work, WorkError,
};
use weft_proto::stream::Tag;

/// Entries of the queue.
const ENTRIES: u16 = 8;

struct Scene {
    target: TargetQueuePair,
    layer: Layer,
    posted: Posted,
    config: RdmaTargetConfig,
    now: Duration,
}

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut config = RdmaTargetConfig {
        receives: ENTRIES,
        host_receives: input.below(10) as u16,
        ..RdmaTargetConfig::default()
    };
    if input.one_in(8) {
        let offer = CmOffer { io_queues: 4, admin_entries: 4, io_entries: ENTRIES };
        let Ok(request) = CmRequest::decode(&input.bytes(40)) else { return };
        if request.check(&offer, input.byte()).is_err() {
            return;
        }
        config = RdmaTargetConfig::for_request(&request);
        assert!((2..=ENTRIES).contains(&config.receives));
    }
    let config = RdmaTargetConfig {
        in_capsule_bytes: 128,
        max_data_bytes: 8192,
        limits: limits(&mut input),
        ..config
    };
    let mut scene = Scene {
        target: TargetQueuePair::new(config),
        layer: Layer::with_store(ENTRIES, 0),
        posted: Posted::new(config.limits),
        config,
        now: Duration::ZERO,
    };
    scene.layer.holds = true;
    scene.work();
    if !input.one_in(8) {
        scene.target.established(&[]);
        scene.target.set_queue_entries(ENTRIES);
    }
    while !input.is_empty() {
        scene.step(&mut input);
        scene.work();
    }
    scene.end();
}

impl Scene {
    fn step(&mut self, input: &mut Input) {
        match input.below(16) {
            0..5 => self.receive(input),
            5..9 => self.act(input),
            9..14 => {
                if let Some((id, ended)) = self.posted.complete(input) {
                    self.target.completed(id, ended);
                }
            }
            14 => {
                self.now += Duration::from_secs(input.below(20) as u64);
                self.target.tick(self.now);
            }
            _ => match input.below(32) {
                0 => self.target.close(),
                1 => self.target.disconnected(),
                2 => self.destroy(),
                3 => {
                    let error = input.flag().then_some(WorkError::LocalLength);
                    if let Some(buffer) = self.posted.receives.pop_front() {
                        self.target.receive_ended(buffer, error);
                    }
                }
                4 => {
                    if let Some((id, ended)) = self.posted.any_other(input) {
                        self.target.completed(id, ended);
                    }
                }
                5 => self.target.established(&[]),
                6 => self.target.set_queue_entries(ENTRIES),
                7 => self.layer.drop_pending(&mut self.target),
                _ => {}
            },
        }
    }

    /// A command capsule, right or wrong.
    fn receive(&mut self, input: &mut Input) {
        let Some(buffer) = self.posted.receives.pop_front() else { return };
        let mut sqe = Sqe::new(input.byte(), Nsid(1));
        sqe.set_cid(Cid(input.below(10) as u16));
        let mut data = Vec::new();
        if input.one_in(4) {
            data = vec![0x33; input.below(140)];
            let length = if input.one_in(8) { input.u32() } else { data.len() as u32 };
            let address = if input.one_in(16) { input.u64() } else { 0 };
            sqe.set_sgl(Sgl { address, length, identifier: Sgl::IN_CAPSULE });
        } else {
            let address = if input.one_in(8) { input.u64() } else { 0x1000 };
            let bytes = if input.one_in(8) { input.u32() } else { input.below(4096) as u32 };
            let key = if input.one_in(16) { 0 } else { 5 };
            Keyed { address, bytes, key, invalidate: input.flag() }.put(&mut sqe);
        }
        if input.one_in(32) {
            sqe.0[39] = input.byte();
        }
        let mut bytes = [&sqe.0[..], &data].concat();
        if input.one_in(64) {
            bytes.truncate(input.below(80));
        }
        let received = Received {
            buffer,
            bytes: &bytes,
            immediate: input.one_in(128).then_some(7),
            invalidated: input.one_in(128).then_some(5),
        };
        self.target.received(&received);
    }

    /// What the layer above does with some command.
    fn act(&mut self, input: &mut Input) {
        let Self { target, layer, .. } = self;
        let held = layer.tags(CommandStage::Held);
        let Some(&tag) = held.get(input.below(held.len().max(1))) else { return };
        match input.below(8) {
            0..3 => fetch(target, layer, tag, input),
            3..6 => {
                let bytes = input.below(9000) as u32;
                let command = layer.commands.get_mut(&tag).expect("it is held");
                command.memory = vec![0x55; bytes as usize];
                layer.complete(target, tag, Status::SUCCESS, bytes);
            }
            6 => layer.abandon(target, tag),
            _ => target.ignore_data(tag),
        }
    }

    fn work(&mut self) {
        self.layer.take_events(&mut self.target);
        while let Some(work) = self.target.next_work() {
            self.posted.post(work);
            match work {
                Work::Place { tag, bytes, .. } => {
                    self.layer.memory_mut(tag, 0, bytes);
                    self.target.placed(tag);
                }
                Work::Read { tag, offset, bytes, .. } => {
                    self.layer.memory_mut(tag, offset, bytes);
                }
                Work::Write { tag, offset, bytes, .. } => {
                    self.layer.memory(tag, offset, bytes);
                }
                Work::Send { tag, .. } => drop(Cqe::decode(&self.target.capsule(tag))),
                Work::Destroy => self.destroy(),
                _ => {}
            }
        }
        self.layer.take_events(&mut self.target);
    }

    fn destroy(&mut self) {
        self.posted = Posted::new(self.config.limits);
        self.posted.is_over = true;
        self.target.destroyed();
    }

    /// Everything is flushed, and everything ends with that.
    fn end(&mut self) {
        self.target.disconnected();
        self.work();
        self.posted.is_over = true;
        let mut input = Input::new(&[]);
        while let Some((id, ended)) = self.posted.complete(&mut input) {
            self.target.completed(id, ended);
        }
        while let Some(buffer) = self.posted.receives.pop_front() {
            self.target.receive_ended(buffer, None);
        }
        self.work();
        assert!(self.target.has_ended() && self.target.deadline().is_none());
        let left = [CommandStage::Fetching, CommandStage::Dropping, CommandStage::Answered]
            .map(|stage| self.layer.tags(stage).len());
        assert_eq!(left, [0; 3], "something does not end");
    }
}

/// Asks for the data of a command, or for something else.
fn fetch(target: &mut TargetQueuePair, layer: &mut Layer, tag: Tag, input: &mut Input) {
    let command = layer.commands.get_mut(&tag).expect("it is held");
    let described = Keyed::read(&command.sqe).map_or(command.sqe.sgl().length, |keyed| keyed.bytes);
    let bytes = if input.one_in(8) { input.u32() } else { described };
    match target.fetch(tag, bytes) {
        Ok(()) => {
            command.memory = vec![0x66; bytes as usize];
            command.stage = CommandStage::Fetching;
        }
        Err(status) => layer.complete(target, tag, status, 0),
    }
}
