//! The host's end of an RDMA queue pair with commands of all kinds outstanding: any responses, keys
//! and completions.

use std::time::Duration;

use weft_fuzz::Input;
use weft_fuzz::rdma::{Posted, limits};
use weft_fuzz::support::pair::{READ, command};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cid;
use weft_proto::nvme_rdma::cm::{CmAccept, Reject};
use weft_proto::nvme_rdma::{
    Exposure, HostData, HostQueuePair, QueuePairEngine, RdmaHostConfig, RdmaHostEvent, Received,
    Work, WorkError,
};
use weft_proto::stream::Tag;

/// Commands outstanding, at most.
const ENTRIES: u16 = 8;

struct Scene {
    host: HostQueuePair,
    posted: Posted,
    config: RdmaHostConfig,
    outstanding: [bool; ENTRIES as usize],
    now: Duration,
}

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let config = RdmaHostConfig {
        queue_entries: ENTRIES,
        in_capsule_bytes: 128,
        exposure: input.pick(&[Exposure::Window, Exposure::Registration, Exposure::Standing]),
        limits: limits(&mut input),
        ..RdmaHostConfig::default()
    };
    let mut scene = Scene {
        host: HostQueuePair::new(config),
        posted: Posted::new(config.limits),
        config,
        outstanding: Default::default(),
        now: Duration::ZERO,
    };
    scene.work(&mut input);
    let accept = if input.one_in(8) {
        input.bytes(40)
    } else {
        CmAccept { receives: input.below(10) as u16 }.encode().to_vec()
    };
    Reject::decode(&accept);
    scene.host.established(&accept);
    while !input.is_empty() {
        scene.step(&mut input);
        scene.work(&mut input);
    }
    scene.end();
}

impl Scene {
    fn step(&mut self, input: &mut Input) {
        match input.below(16) {
            0..4 => self.submit(input),
            4..8 => self.receive(input),
            8..13 => {
                if let Some((id, ended)) = self.posted.complete(input) {
                    self.host.completed(id, ended);
                }
            }
            13 => {
                self.now += Duration::from_secs(input.below(20) as u64);
                self.host.tick(self.now);
            }
            14 if input.one_in(4) => {
                if let Some((id, ended)) = self.posted.any_other(input) {
                    self.host.completed(id, ended);
                }
            }
            _ => match input.below(32) {
                0 => self.host.close(),
                1 => self.host.disconnected(),
                2 => self.destroy(),
                3 => {
                    let error = input.flag().then_some(WorkError::LocalLength);
                    if let Some(buffer) = self.posted.receives.pop_front() {
                        self.host.receive_ended(buffer, error);
                    }
                }
                n => self.host.set_in_capsule_bytes(n as u32 * 16),
            },
        }
    }

    fn submit(&mut self, input: &mut Input) {
        let bytes = input.below(2048) as u32;
        let data = input.pick(&[
            HostData::In(bytes),
            HostData::Out(bytes),
            HostData::Out(bytes & 63),
            HostData::None,
        ]);
        let Ok(tag) = self.host.submit(command(READ, 0), data) else { return };
        assert!(!std::mem::replace(&mut self.outstanding[tag.index()], true), "{tag:?} is in use");
        assert!(self.host.never_sent(tag));
    }

    /// A response, right or wrong.
    fn receive(&mut self, input: &mut Input) {
        let Some(buffer) = self.posted.receives.pop_front() else { return };
        let tag = Tag(input.below(ENTRIES.into()) as u16);
        let known = self.host.cid(tag).filter(|_| !input.one_in(16));
        let cid = known.unwrap_or(Cid(input.u16()));
        let cqe = Cqe::new(cid, Status(input.below(2) as u16)).encode().to_vec();
        let bytes = if input.one_in(32) { input.bytes(40) } else { cqe };
        let key = if input.one_in(8) { input.u32() } else { u32::from(tag.0) + 1 };
        let received = Received {
            buffer,
            bytes: &bytes,
            immediate: input.one_in(64).then_some(7),
            invalidated: input.flag().then_some(key),
        };
        self.host.received(&received);
    }

    fn work(&mut self, input: &mut Input) {
        while let Some(work) = self.host.next_work() {
            if let Work::Expose { tag, .. } = work {
                if input.one_in(16) {
                    self.host.not_exposed(tag);
                    continue;
                }
                self.host.exposed(tag, input.u64(), u32::from(tag.0) + 1);
                if self.config.exposure != Exposure::Window {
                    continue;
                }
            }
            self.posted.post(work);
            if let Work::Send { tag, .. } = work {
                assert_eq!(Some(self.host.capsule(tag).cid()), self.host.cid(tag));
            }
            if work == Work::Destroy {
                self.destroy();
            }
        }
        while let Some(RdmaHostEvent::Response { tag, .. }) = self.host.poll_event() {
            assert!(
                std::mem::replace(&mut self.outstanding[tag.index()], false),
                "{tag:?} is answered twice"
            );
            self.host.release(tag);
        }
        assert_eq!(self.host.outstanding(), self.outstanding.iter().filter(|used| **used).count());
    }

    fn destroy(&mut self) {
        self.posted = Posted::new(self.config.limits);
        self.posted.is_over = true;
        self.host.destroyed();
    }

    /// Everything is flushed, and that is the end.
    fn end(&mut self) {
        self.host.disconnected();
        let mut input = Input::new(&[]);
        self.work(&mut input);
        self.posted.is_over = true;
        while let Some((id, ended)) = self.posted.complete(&mut input) {
            self.host.completed(id, ended);
        }
        while let Some(buffer) = self.posted.receives.pop_front() {
            self.host.receive_ended(buffer, None);
        }
        self.work(&mut input);
        assert!(self.host.has_ended() && self.host.deadline().is_none());
    }
}
