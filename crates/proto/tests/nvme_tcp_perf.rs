//! Cost of the engines alone per command. Nothing is asserted about time; run it on a quiet machine
//! with `cargo test --release -p weft-proto --test proto -- --ignored --nocapture`. The plain test
//! pass runs it with few commands, so that it cannot rot.

use std::time::{Duration, Instant};

use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Nsid};
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::{
    HostConnection, HostData, TcpHostConfig, TcpHostEvent, TcpTargetConfig, TcpTargetConnection,
    TcpTargetEvent,
};
use weft_proto::stream::{Part, Rx, StreamEngine, Tag, Transmit};

const DEPTH: usize = 128;
const BYTES: u32 = 4096;

/// Two engines whose payload is never moved, so that what is between two headers takes no time.
struct Bench {
    host: HostConnection,
    target: TcpTargetConnection,
    /// Of the target's commands.
    cids: [Cid; DEPTH],
    to_target: Transmit,
    to_host: Transmit,
    /// Host sends, target receives, target sends, host receives.
    phases: [Duration; 4],
}

impl Bench {
    fn new(digests: Digests, success_flag: bool) -> Self {
        let host = TcpHostConfig {
            digests,
            queue_entries: DEPTH as u16,
            in_capsule_bytes: 8192,
            ..TcpHostConfig::default()
        };
        let target = TcpTargetConfig { queue_entries: DEPTH as u16, ..TcpTargetConfig::default() };
        let mut bench = Self {
            host: HostConnection::new(host),
            target: TcpTargetConnection::new(target),
            cids: [Cid(0); DEPTH],
            to_target: Transmit::new(1024),
            to_host: Transmit::new(1024),
            phases: [Duration::ZERO; 4],
        };
        bench.target.set_success_flag(success_flag);
        bench.host.transmit(&mut bench.to_target);
        assert!(matches!(
            bench.target.receive(&bench.to_target.headers),
            (128, Rx::Event(TcpTargetEvent::Ready(_)))
        ));
        bench.target.transmit(&mut bench.to_host);
        assert!(matches!(
            bench.host.receive(&bench.to_host.headers),
            (128, Rx::Event(TcpHostEvent::Ready(_)))
        ));
        bench
    }

    /// A full queue of commands, there and back.
    fn round(&mut self, data: HostData) {
        let start = Instant::now();
        self.to_target.clear();
        for i in 0..DEPTH as u32 {
            let mut sqe = Sqe::new(if matches!(data, HostData::In(_)) { 2 } else { 1 }, Nsid(1));
            sqe.set_qword(10, u64::from(i));
            self.host.submit(sqe, data).unwrap();
        }
        self.host.transmit(&mut self.to_target);
        releases(&self.to_target, |tag| assert!(self.host.sent(tag).is_none()));
        let sent = Instant::now();
        self.target_receives();
        let received = Instant::now();
        self.to_host.clear();
        self.target.transmit(&mut self.to_host);
        releases(&self.to_host, |tag| self.target.sent(tag));
        let answered = Instant::now();
        assert_eq!(self.host_receives(), DEPTH);
        self.phases[0] += sent - start;
        self.phases[1] += received - sent;
        self.phases[2] += answered - received;
        self.phases[3] += answered.elapsed();
    }

    fn target_receives(&mut self) {
        let mut at = 0;
        loop {
            let (used, rx) = self.target.receive(&self.to_target.headers[at..]);
            at += used;
            let event = match rx {
                Rx::More { .. } => break,
                Rx::Event(event) => Some(event),
                Rx::Payload { digest: false, .. } => self.target.payload_received(),
                Rx::Digest { .. } => self.target.payload_checked(true),
                Rx::Payload { .. } => None,
                other => panic!("{other:?}"),
            };
            match event {
                Some(TcpTargetEvent::Command { tag, in_capsule_bytes: BYTES }) => {
                    self.cids[tag.index()] = self.target.sqe().cid();
                    self.target.fetch(tag, BYTES).unwrap();
                }
                Some(TcpTargetEvent::Command { tag, .. }) => {
                    let cqe = Cqe::new(self.target.sqe().cid(), Status::SUCCESS);
                    self.target.complete(tag, cqe, BYTES);
                }
                Some(TcpTargetEvent::DataArrived { tag }) => {
                    self.target.complete(tag, Cqe::new(self.cids[tag.index()], Status::SUCCESS), 0);
                }
                _ => {}
            }
        }
    }

    fn host_receives(&mut self) -> usize {
        let (mut at, mut done) = (0, 0);
        loop {
            let (used, rx) = self.host.receive(&self.to_host.headers[at..]);
            at += used;
            let event = match rx {
                Rx::More { .. } => return done,
                Rx::Event(event) => Some(event),
                Rx::Payload { digest: false, .. } => self.host.payload_received(),
                Rx::Digest { .. } => self.host.payload_checked(true),
                Rx::Payload { .. } => None,
                other => panic!("{other:?}"),
            };
            if let Some(TcpHostEvent::Response { tag, .. }) = event {
                self.host.release(tag);
                done += 1;
            }
        }
    }
}

fn releases(list: &Transmit, mut sent: impl FnMut(Tag)) {
    for part in &list.parts {
        if let Part::Release { tag } = *part {
            sent(tag);
        }
    }
}

/// Prints the best of several blocks of rounds, as anything else on the machine only makes them
/// slower.
fn measure(name: &str, digests: Digests, success_flag: bool, data: HostData, rounds: u32) {
    const BLOCKS: u32 = 20;
    let mut bench = Bench::new(digests, success_flag);
    let mut best = [f64::INFINITY; 4];
    for _ in 0..BLOCKS {
        bench.phases = [Duration::ZERO; 4];
        for _ in 0..rounds / BLOCKS {
            bench.round(data);
        }
        for (best, phase) in best.iter_mut().zip(bench.phases) {
            *best = best.min(phase.as_secs_f64() * 1e9 / f64::from(rounds / BLOCKS) / DEPTH as f64);
        }
    }
    let [host_sends, target_receives, target_sends, host_receives] = best;
    println!(
        "{name:30} host sends {host_sends:5.1}  target receives {target_receives:5.1}  target sends {target_sends:5.1}  \
         host receives {host_receives:5.1}  ns/command"
    );
}

fn all(rounds: u32) {
    for (digests, of) in [(Digests::NONE, ""), (Digests::BOTH, ", both digests")] {
        measure(&format!("read{of}"), digests, false, HostData::In(BYTES), rounds);
        measure(&format!("read, SUCCESS{of}"), digests, true, HostData::In(BYTES), rounds);
        measure(&format!("write in capsule{of}"), digests, false, HostData::Out(BYTES), rounds);
    }
}

#[test]
#[ignore = "measures; needs a quiet machine"]
fn perf() {
    all(20_000);
}

#[test]
fn perf_runs() {
    all(20);
}
