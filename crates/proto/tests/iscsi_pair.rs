//! The two ends of a session wired to each other, on virtual time: every combination of what they
//! can agree on, bytes that arrive in pieces of any size, and connections that break off at any
//! place.

use crate::support::{ConnectionEnd, Next};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;
use weft_proto::iscsi::chap::Credentials;
use weft_proto::iscsi::digest::Digests;
use weft_proto::iscsi::initiator::{
    CommandOutcome, CommandResponse as Got, Initiator, InitiatorCommand, InitiatorConfig,
    InitiatorEvent, ScsiData, SessionFault, TargetProof,
};
use weft_proto::iscsi::pdu::{Isid, Lun, ScsiCommand};
use weft_proto::iscsi::target::{
    ChapPolicy, ChapUser, Entropy, IscsiTargetConfig, Portals, TargetConnection, TargetEvent,
    TargetResponse,
};
use weft_proto::iscsi::text::{Name, OfferedParameters};
use weft_proto::scsi::status::ScsiStatus;
use weft_proto::stream::Tag;

/// Commands of the store: the byte offset stands in bytes 4 to 7.
const READ: u8 = 1;
const WRITE: u8 = 2;
const FAIL: u8 = 3;

const STORE_BYTES: usize = 1 << 16;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn initiator() -> InitiatorConfig {
    InitiatorConfig::new(
        name("iqn.2026-01.example.weft:initiator"),
        Isid::random([1, 2, 3], 4),
        Some(name("iqn.2026-01.example.weft:target")),
    )
}

fn target() -> IscsiTargetConfig {
    IscsiTargetConfig::new(name("iqn.2026-01.example.weft:target"))
}

/// Both ends, and a store behind the target.
struct Pair {
    host: ConnectionEnd<Initiator>,
    disk: ConnectionEnd<TargetConnection>,
    store: Vec<u8>,
    commands: HashMap<Tag, ScsiCommand>,
    events: Vec<InitiatorEvent>,
    /// Bytes that move at a time, in both directions.
    piece: usize,
    to_host: Vec<u8>,
    to_disk: Vec<u8>,
    over: bool,
}

impl Pair {
    fn new(initiator: InitiatorConfig, target: IscsiTargetConfig, piece: usize) -> Self {
        let entropy: Entropy = [9; 33];
        let target =
            TargetConnection::new(Arc::new(target), Portals::one("192.0.2.1:3260"), entropy);
        Self {
            host: ConnectionEnd::new(Initiator::new(initiator, Duration::ZERO)),
            disk: ConnectionEnd::new(target),
            store: (0..STORE_BYTES).map(|n| (n % 251) as u8).collect(),
            commands: HashMap::new(),
            events: Vec::new(),
            piece,
            to_host: Vec::new(),
            to_disk: Vec::new(),
            over: false,
        }
    }

    /// Moves bytes until nothing moves.
    fn run(&mut self) {
        while self.turn() {}
    }

    fn turn(&mut self) -> bool {
        self.host.flush();
        self.to_disk.extend(self.host.take_wire());
        self.disk.flush();
        self.to_host.extend(self.disk.take_wire());
        let (a, b) = (self.piece.min(self.to_disk.len()), self.piece.min(self.to_host.len()));
        let (to_disk, to_host): (Vec<u8>, Vec<u8>) =
            (self.to_disk.drain(..a).collect(), self.to_host.drain(..b).collect());
        self.disk.stage(&to_disk);
        self.host.stage(&to_host);
        self.run_disk();
        self.run_host();
        a + b > 0
    }

    fn run_host(&mut self) {
        loop {
            match self.host.next() {
                Next::Event(event) => self.events.push(event),
                Next::Starved => return,
                Next::Closed => return self.over = true,
            }
        }
    }

    fn run_disk(&mut self) {
        while let Next::Event(event) = self.disk.next() {
            match event {
                TargetEvent::Login => self.disk.engine.admit(1, None),
                TargetEvent::Command { tag, command } => self.command(tag, command),
                TargetEvent::DataArrived { tag } => self.write(tag),
                other => panic!("{other:?}"),
            }
        }
    }

    fn command(&mut self, tag: Tag, command: ScsiCommand) {
        let bytes = command.expected_bytes as usize;
        self.disk.memory(tag, bytes.next_multiple_of(4));
        self.commands.insert(tag, command);
        match command.cdb[0] {
            READ => {
                let at = offset(&command);
                self.disk.memory[tag.index()][..bytes].copy_from_slice(&self.store[at..at + bytes]);
                let (data_bytes, total_bytes) = (command.expected_bytes, command.expected_bytes);
                self.disk.engine.complete(
                    tag,
                    &TargetResponse { data_bytes, total_bytes, ..TargetResponse::GOOD },
                );
            }
            WRITE => assert_eq!(
                self.disk.engine.fetch(tag, command.expected_bytes),
                command.expected_bytes
            ),
            _ => {
                let sense = [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0, 0, 0];
                let status = ScsiStatus::CHECK_CONDITION;
                self.disk.engine.complete(
                    tag,
                    &TargetResponse { status, sense: &sense, ..TargetResponse::GOOD },
                );
            }
        }
    }

    fn write(&mut self, tag: Tag) {
        let command = self.commands[&tag];
        let (at, bytes) = (offset(&command), command.expected_bytes as usize);
        self.store[at..at + bytes].copy_from_slice(&self.disk.memory[tag.index()][..bytes]);
        self.disk.engine.complete(
            tag,
            &TargetResponse { total_bytes: command.expected_bytes, ..TargetResponse::GOOD },
        );
    }

    fn submit(&mut self, opcode: u8, at: u32, data: ScsiData) -> Tag {
        let mut cdb = [0; 16];
        cdb[0] = opcode;
        cdb[4..8].copy_from_slice(&at.to_be_bytes());
        let tag = self
            .host
            .engine
            .submit(Duration::ZERO, InitiatorCommand { lun: Lun(0), cdb, data })
            .unwrap();
        let (ScsiData::In(len) | ScsiData::Out(len)) = data else { return tag };
        let fill = |n: usize| (n * 7 + at as usize) as u8;
        self.host
            .memory(tag, (len as usize).next_multiple_of(4))
            .iter_mut()
            .enumerate()
            .for_each(|(n, byte)| *byte = fill(n));
        tag
    }
}

fn offset(command: &ScsiCommand) -> usize {
    u32::from_be_bytes([command.cdb[4], command.cdb[5], command.cdb[6], command.cdb[7]]) as usize
}

const COMMANDS: [(u8, u32, ScsiData); 8] = [
    (WRITE, 0, ScsiData::Out(512)),
    (WRITE, 4096, ScsiData::Out(20_000)),
    (READ, 40_000, ScsiData::In(9001)),
    (FAIL, 0, ScsiData::None),
    (WRITE, 30_000, ScsiData::Out(4096)),
    (READ, 50_000, ScsiData::In(3)),
    (FAIL, 0, ScsiData::In(512)),
    (READ, 60_000, ScsiData::In(4096)),
];

/// Runs all commands, and checks their outcomes.
fn work(pair: &mut Pair) {
    pair.run();
    assert_eq!(
        pair.events,
        [InitiatorEvent::Ready],
        "{:?} {:?}",
        pair.host.engine.fault(),
        pair.disk.engine.violation()
    );
    pair.events.clear();
    let tags = COMMANDS.map(|(opcode, at, data)| pair.submit(opcode, at, data));
    pair.run();
    assert_eq!((pair.host.engine.fault(), pair.disk.engine.violation()), (None, None));
    assert_eq!(pair.events.len(), tags.len());
    for event in &pair.events {
        let InitiatorEvent::Ended {
            tag,
            end: CommandOutcome::Answered(Got { status, received_bytes, damaged: false, .. }),
        } = *event
        else {
            panic!("{event:?}")
        };
        let (opcode, at, data) = COMMANDS[tags.iter().position(|other| *other == tag).unwrap()];
        assert_eq!(status, if opcode == FAIL { 2 } else { 0 });
        assert_eq!(pair.host.engine.sense(tag).len(), if opcode == FAIL { 18 } else { 0 });
        let memory = &pair.host.memory[tag.index()];
        match (opcode, data) {
            (READ, ScsiData::In(len)) => {
                assert_eq!(received_bytes, len);
                assert!(memory[..len as usize] == pair.store[at as usize..(at + len) as usize]);
            }
            (WRITE, ScsiData::Out(len)) => {
                assert!(memory[..len as usize] == pair.store[at as usize..(at + len) as usize])
            }
            _ => {}
        }
    }
    tags.into_iter().for_each(|tag| pair.host.engine.release(tag));
    assert_eq!(pair.host.engine.outstanding(), 0);
}

/// Offers of targets: large and small pieces, with and without unsolicited data.
fn offers() -> Vec<OfferedParameters> {
    let mut offers = Vec::new();
    for (max_recv_bytes, max_burst_bytes, first_burst_bytes) in
        [(8192, 262_144, 65_536), (512, 2048, 1024), (1024, 1 << 20, 512)]
    {
        for (initial_r2t, immediate_data) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            for max_outstanding_r2t in [1, 3] {
                let base = OfferedParameters {
                    max_recv_bytes,
                    max_burst_bytes,
                    first_burst_bytes,
                    ..OfferedParameters::default()
                };
                offers.push(OfferedParameters {
                    initial_r2t,
                    immediate_data,
                    max_outstanding_r2t,
                    ..base
                });
            }
        }
    }
    offers
}

#[test]
fn everything_that_can_be_agreed_on_works() {
    for offer in offers() {
        for digests in [(false, false), (true, false), (false, true), (true, true)] {
            let digests = Digests { header: digests.0, data: digests.1 };
            let target = IscsiTargetConfig {
                offer: OfferedParameters { digests: Digests::BOTH, ..offer },
                ..target()
            };
            let mut pair =
                Pair::new(initiator().with_digests(digests, digests), target, usize::MAX);
            work(&mut pair);
            assert_eq!(pair.host.engine.parameters().digests, digests);
        }
    }
}

#[test]
fn bytes_may_arrive_in_pieces() {
    for piece in [1, 7, 47, 48, 53, 1000] {
        let offer = OfferedParameters {
            digests: Digests::BOTH,
            initial_r2t: false,
            max_recv_bytes: 1024,
            ..OfferedParameters::default()
        };
        let mut pair = Pair::new(
            initiator().with_digests(Digests::BOTH, Digests::BOTH),
            IscsiTargetConfig { offer, ..target() },
            piece,
        );
        work(&mut pair);
        work_again(&mut pair);
    }
}

/// The same commands once more, in slots that have been used.
fn work_again(pair: &mut Pair) {
    pair.events.clear();
    for (opcode, at, data) in COMMANDS {
        pair.submit(opcode, at, data);
    }
    pair.run();
    assert_eq!(pair.events.len(), COMMANDS.len());
}

#[test]
fn a_narrow_window_is_waited_for() {
    for commands in [1, 2, 5] {
        let mut pair = Pair::new(initiator(), IscsiTargetConfig { commands, ..target() }, 4096);
        work(&mut pair);
    }
}

#[test]
fn each_proves_itself_to_the_other() {
    let credentials =
        |name: &str, secret: &str| Credentials { name: name.into(), secret: secret.into() };
    let user =
        || ChapUser { credentials: credentials("me", "a secret of mine"), initiators: Vec::new() };
    let policy = |target| ChapPolicy { users: vec![user()], target };
    let proof = |secret| TargetProof {
        credentials: credentials("it", secret),
        identifier: 1,
        challenge: vec![4; 32],
    };
    let with = |secret: &str, proof: Option<TargetProof>, policy| {
        let initiator = InitiatorConfig {
            credentials: Some(credentials("me", secret)),
            target_proof: proof,
            ..initiator()
        };
        let mut pair =
            Pair::new(initiator, IscsiTargetConfig { chap: Some(policy), ..target() }, usize::MAX);
        pair.run();
        (pair.events, pair.host.engine.fault().cloned())
    };
    let ready = (vec![InitiatorEvent::Ready], None);
    assert_eq!(with("a secret of mine", None, policy(None)), ready);
    let of_target = Some(credentials("it", "a secret of its own"));
    assert_eq!(
        with("a secret of mine", Some(proof("a secret of its own")), policy(of_target.clone())),
        ready
    );
    let impostor = with("a secret of mine", Some(proof("another secret")), policy(of_target));
    assert_eq!(impostor, (vec![], Some(SessionFault::Impostor)));
    let (events, fault) = with("another secret", None, policy(None));
    assert!(events.is_empty() && matches!(fault, Some(SessionFault::Refused(_))), "{fault:?}");
}

#[test]
fn discovery_and_logout() {
    let mut pair = Pair::new(InitiatorConfig { target: None, ..initiator() }, target(), 100);
    pair.run();
    assert_eq!(pair.events, [InitiatorEvent::Targets]);
    let targets = pair.host.engine.take_targets();
    assert_eq!((targets.len(), targets[0].addresses.len()), (1, 1));
    assert!(targets[0].addresses[0].starts_with("192.0.2.1:3260"));
}

/// The connection breaks off after a number of turns of a few bytes: it is known which commands
/// were never sent, and nothing ends twice.
#[test]
fn a_connection_may_break_off_anywhere() {
    for turns in (0..400).step_by(3) {
        let offer = OfferedParameters {
            initial_r2t: false,
            max_recv_bytes: 2048,
            ..OfferedParameters::default()
        };
        let mut pair = Pair::new(initiator(), IscsiTargetConfig { offer, ..target() }, 97);
        let tags = COMMANDS.map(|(opcode, at, data)| pair.submit(opcode, at, data));
        for _ in 0..turns {
            pair.turn();
        }
        for tag in tags {
            let ends = pair
                .events
                .iter()
                .filter(
                    |event| matches!(event, InitiatorEvent::Ended { tag: of, .. } if *of == tag),
                )
                .count();
            let unsent = pair.host.engine.never_sent(tag);
            assert!(ends <= 1 && !(ends == 1 && unsent), "{tag:?} after {turns} turns");
            let known =
                pair.commands.values().any(|command| command.task.0 & 0xffff == u32::from(tag.0));
            assert!(!(unsent && known), "{tag:?} reached the target after {turns} turns");
        }
    }
}
