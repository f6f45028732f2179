//! Work of the engines for each command, and nothing else, in functions whose instructions can be
//! counted: `cargo xtask race --gates` runs this program under callgrind, which collects inside of
//! `measured_…` only. The plain test pass runs it so that it cannot rot.
//!
//! Both ends are recorded first. Then a fresh engine of one end is shown what the other end sent,
//! so that nothing of the other is counted. Payload is never moved, as in the engines. The target's
//! end is the transport engine and the controller's I/O queue.

mod nvme_controller_support;

use nvme_controller_support::Rig;
use weft_proto::nvme::controller::{DeviceOutcome, IoNext, IoQueue};
use weft_proto::nvme::host::command;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Lba, Nsid};
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::{
    HostConnection, HostData, TcpHostConfig, TcpHostEvent, TcpTargetConfig, TcpTargetConnection,
    TcpTargetEvent,
};
use weft_proto::stream::{Part, Rx, StreamEngine, Tag, Transmit};

/// Commands under way together: fewer than the queue's 32 entries.
const DEPTH: usize = 16;

/// Number of times that commands are sent and answered, and of those before the count.
const ROUNDS: usize = 260;
const WARM_UP: usize = 10;

/// Commands that are counted.
const COUNTED: usize = (ROUNDS - WARM_UP) * DEPTH;

const BYTES: u32 = 4096;
const BLOCKS: u32 = 8;

/// The header bytes that one end sent: of the handshake, then of each round.
struct Recorded {
    handshake: Vec<u8>,
    rounds: Vec<Vec<u8>>,
}

struct Host {
    engine: HostConnection,
    out: Transmit,
    write: bool,
}

struct Target {
    engine: TcpTargetConnection,
    queue: IoQueue,
    out: Transmit,
}

impl Host {
    fn new(write: bool) -> Self {
        let config = TcpHostConfig {
            digests: Digests::NONE,
            queue_entries: 32,
            in_capsule_bytes: 8192,
            ..TcpHostConfig::default()
        };
        let mut host =
            Self { engine: HostConnection::new(config), out: Transmit::new(1024), write };
        host.engine.transmit(&mut host.out);
        host
    }

    fn ready(&mut self, answer: &[u8]) {
        assert!(matches!(self.engine.receive(answer), (128, Rx::Event(TcpHostEvent::Ready(_)))));
    }

    fn submit(&mut self, round: usize) {
        self.out.clear();
        for at in 0..DEPTH {
            let lba = Lba(((round * DEPTH + at) % 120) as u64 * u64::from(BLOCKS));
            let (sqe, data): (Sqe, HostData) = match self.write {
                true => (command::write(Nsid(1), lba, BLOCKS, false), HostData::Out(BYTES)),
                false => (command::read(Nsid(1), lba, BLOCKS), HostData::In(BYTES)),
            };
            self.engine.submit(sqe, data).unwrap();
        }
        self.engine.transmit(&mut self.out);
        for part in &self.out.parts {
            if let Part::Release { tag } = *part {
                assert!(self.engine.sent(tag).is_none());
            }
        }
    }

    /// Takes in a round's answers; how many commands they complete.
    fn complete(&mut self, bytes: &[u8]) -> usize {
        let (mut at, mut done) = (0, 0);
        loop {
            let (used, rx) = self.engine.receive(&bytes[at..]);
            at += used;
            let event = match rx {
                Rx::More { .. } => return done,
                Rx::Event(event) => Some(event),
                Rx::Payload { .. } => self.engine.payload_received(),
                other => panic!("{other:?}"),
            };
            if let Some(TcpHostEvent::Response { tag, .. }) = event {
                self.engine.release(tag);
                done += 1;
            }
        }
    }
}

impl Target {
    fn new() -> Self {
        let config = TcpTargetConfig { queue_entries: 32, ..TcpTargetConfig::default() };
        let mut engine = TcpTargetConnection::new(config);
        engine.set_success_flag(true);
        Self { engine, queue: Rig::io().connect_io(1).unwrap(), out: Transmit::new(1024) }
    }

    fn ready(&mut self, request: &[u8]) {
        assert!(matches!(self.engine.receive(request), (128, Rx::Event(TcpTargetEvent::Ready(_)))));
        self.engine.transmit(&mut self.out);
    }

    /// Takes in a round's commands and answers them; how many there were.
    fn serve(&mut self, bytes: &[u8]) -> usize {
        self.out.clear();
        let (mut at, mut done) = (0, 0);
        loop {
            let (used, rx) = self.engine.receive(&bytes[at..]);
            at += used;
            let event = match rx {
                Rx::More { .. } => break,
                Rx::Event(event) => Some(event),
                Rx::Payload { .. } => self.engine.payload_received(),
                other => panic!("{other:?}"),
            };
            match event {
                Some(TcpTargetEvent::Command { tag, in_capsule_bytes }) => {
                    let next = self.queue.start(tag, self.engine.sqe(), in_capsule_bytes);
                    done += self.follow(tag, next);
                }
                Some(TcpTargetEvent::DataArrived { tag }) => {
                    let next = self.queue.data(tag, &[]);
                    done += self.follow(tag, next);
                }
                _ => {}
            }
        }
        self.engine.transmit(&mut self.out);
        for part in &self.out.parts {
            if let Part::Release { tag } = *part {
                self.engine.sent(tag);
            }
        }
        done
    }

    /// Does what the queue says; the device is always done at once. Whether the command was
    /// answered.
    fn follow(&mut self, tag: Tag, next: IoNext) -> usize {
        match next {
            IoNext::Fetch { bytes } => {
                self.engine.fetch(tag, bytes).unwrap();
                0
            }
            IoNext::Submit(_) => match self.queue.finished(tag, DeviceOutcome::DONE, &[]) {
                IoNext::Reply { cqe, data_bytes } => {
                    self.engine.complete(tag, cqe, data_bytes);
                    1
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

/// Records the messages between host and target.
fn record(write: bool) -> [Recorded; 2] {
    let (mut host, mut target) = (Host::new(write), Target::new());
    let asked = host.out.headers.clone();
    target.ready(&asked);
    let answered = target.out.headers.clone();
    host.ready(&answered);
    let mut of_host = Recorded { handshake: asked, rounds: Vec::new() };
    let mut of_target = Recorded { handshake: answered, rounds: Vec::new() };
    for round in 0..ROUNDS {
        host.submit(round);
        assert_eq!(target.serve(&host.out.headers), DEPTH);
        of_host.rounds.push(host.out.headers.clone());
        assert_eq!(host.complete(&target.out.headers), DEPTH);
        of_target.rounds.push(target.out.headers.clone());
    }
    [of_host, of_target]
}

/// Counted: both halves of the host's work.
#[inline(never)]
fn measured_host(host: &mut Host, answers: &[Vec<u8>], first: usize) -> usize {
    let mut done = 0;
    for (round, answer) in (first..).zip(answers) {
        host.submit(round);
        done += host.complete(answer);
    }
    done
}

/// Counted: the target's work.
#[inline(never)]
fn measured_target(target: &mut Target, commands: &[Vec<u8>]) -> usize {
    commands.iter().map(|round| target.serve(round)).sum()
}

fn host(write: bool) {
    let [_, answers] = record(write);
    let mut host = Host::new(write);
    host.ready(&answers.handshake);
    for (round, answer) in answers.rounds[..WARM_UP].iter().enumerate() {
        host.submit(round);
        assert_eq!(host.complete(answer), DEPTH);
    }
    assert_eq!(measured_host(&mut host, &answers.rounds[WARM_UP..], WARM_UP), COUNTED);
    println!("commands {COUNTED}");
}

fn target(write: bool) {
    let [commands, _] = record(write);
    let mut target = Target::new();
    target.ready(&commands.handshake);
    for round in &commands.rounds[..WARM_UP] {
        assert_eq!(target.serve(round), DEPTH);
    }
    assert_eq!(measured_target(&mut target, &commands.rounds[WARM_UP..]), COUNTED);
    println!("commands {COUNTED}");
}

#[test]
fn host_read() {
    host(false);
}

#[test]
fn host_write() {
    host(true);
}

#[test]
fn target_read() {
    target(false);
}

#[test]
fn target_write() {
    target(true);
}
