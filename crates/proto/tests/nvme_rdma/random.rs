//! Whatever is submitted in whatever order things happen, it arrives whole; and however the queue
//! pair ends, everything ends once.

use proptest::collection::vec;
use proptest::prelude::*;
use weft_proto::nvme_rdma::{
    Exposure, HostData, QueuePairEngine, QueuePairLimits, RdmaHostConfig, RdmaHostEvent,
    RdmaTargetConfig,
};
use weft_proto::stream::Tag;

use crate::nvme_rdma::layer::{CommandStage, FAIL, READ, WRITE, command, described};
use crate::nvme_rdma::wire::{HOST, TARGET, Wire};

/// A choice of what happens next, from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

prop_compose! {
    fn limits()(
        send_queue in 0..12u16, reads in 0..4u16, message_bytes in prop_oneof![Just(1u32 << 30), 1000..9000u32],
        sges in 0..4u16, sge_bytes in prop_oneof![Just(u32::MAX), Just(512u32), 100..5000u32],
    ) -> QueuePairLimits {
        QueuePairLimits { send_queue, reads, message_bytes, sges, sge_bytes }
    }
}

prop_compose! {
    fn configs()(
        host_limits in limits(), target_limits in limits(), entries in 2..12u16, in_capsule in prop_oneof![Just(0u32), 1..4096u32],
        exposure in prop_oneof![Just(Exposure::Window), Just(Exposure::Registration), Just(Exposure::Standing)],
    ) -> (RdmaHostConfig, RdmaTargetConfig) {
        let host = RdmaHostConfig {
            queue_entries: entries, in_capsule_bytes: in_capsule, exposure, limits: host_limits, ..RdmaHostConfig::default()
        };
        (host, RdmaTargetConfig { in_capsule_bytes: in_capsule, limits: target_limits, ..RdmaTargetConfig::default() })
    }
}

/// Opcode and length of commands.
fn session() -> impl Strategy<Value = Vec<(u8, u32)>> {
    let len = prop_oneof![1 => Just(0u32), 3 => 1..600u32, 3 => 600..20_000u32, 1 => Just(4096u32)];
    vec((prop_oneof![3 => Just(WRITE), 3 => Just(READ), 1 => Just(FAIL)], len), 1..40)
}

/// Place that command `i` reads or writes: each has its own, and reads are apart from writes.
fn place(opcode: u8, i: usize) -> u32 {
    (i as u32) * 20_000 + if opcode == READ { 2 << 20 } else { 0 }
}

fn payload(i: usize, len: u32) -> Vec<u8> {
    (0..len).map(|n| (n as u8).wrapping_mul(7).wrapping_add(i as u8)).collect()
}

/// A session under way.
struct Session {
    wire: Wire,
    dice: Dice,
    commands: Vec<(u8, u32)>,
    /// Commands that were submitted, by tag.
    under_way: Vec<(Tag, usize)>,
    submitted: usize,
    answered: usize,
    /// The layer gives commands up.
    drops: bool,
    dropped: usize,
}

impl Session {
    fn new(
        host: RdmaHostConfig,
        target: RdmaTargetConfig,
        commands: Vec<(u8, u32)>,
        seed: u64,
    ) -> Self {
        let mut wire = Wire::open(host, target);
        wire.layer.holds = true;
        let dice = Dice(seed | 1);
        Self {
            wire,
            dice,
            commands,
            under_way: Vec::new(),
            submitted: 0,
            answered: 0,
            drops: false,
            dropped: 0,
        }
    }

    fn submit(&mut self) {
        let Some(&(opcode, len)) = self.commands.get(self.submitted) else { return };
        let i = self.submitted;
        let data = if opcode == READ { HostData::In(len) } else { HostData::Out(len) };
        let Ok(tag) = self.wire.host.submit(command(opcode, place(opcode, i)), data) else {
            return;
        };
        self.wire.memory[tag.index()] =
            if opcode == READ { vec![0xdd; len as usize] } else { payload(i, len) };
        self.under_way.push((tag, i));
        self.submitted += 1;
    }

    /// The layer above the target does something.
    fn layer(&mut self) {
        let Wire { layer, target, .. } = &mut self.wire;
        let held = layer.tags(CommandStage::Held);
        if self.drops && self.dice.below(40) == 0 {
            self.dropped += layer.tags(CommandStage::Fetching).len();
            return layer.drop_pending(target);
        }
        if held.is_empty() {
            return;
        }
        let tag = held[self.dice.below(held.len() as u64) as usize];
        if self.drops && self.dice.below(10) == 0 {
            self.dropped += 1;
            return layer.abandon(target, tag);
        }
        let command = &layer.commands[&tag];
        let writes = command.sqe.opcode() == WRITE;
        if writes && command.memory.len() < described(&command.sqe) as usize {
            layer.fetch(target, tag);
        } else if writes {
            layer.store_data(target, tag);
        } else {
            layer.start(target, tag);
        }
    }

    fn step(&mut self) {
        match self.dice.below(10) {
            0 => self.submit(),
            1 | 2 => drop(self.wire.step(HOST)),
            3 | 4 => drop(self.wire.step(TARGET)),
            5 => drop(self.wire.tell(HOST)),
            6 => drop(self.wire.tell(TARGET)),
            7 => drop(self.wire.tell_received(HOST)),
            8 => drop(self.wire.tell_received(TARGET)),
            _ => self.layer(),
        }
        // An end may be busy with other things before it looks at what there is to do.
        if self.dice.below(3) > 0 {
            self.wire.work();
        }
        self.check_responses();
    }

    fn check_responses(&mut self) {
        for RdmaHostEvent::Response { tag, cqe, received_bytes } in
            std::mem::take(&mut self.wire.responses)
        {
            let at = self
                .under_way
                .iter()
                .position(|(it, _)| *it == tag)
                .expect("an answer is of a command");
            let (_, i) = self.under_way.swap_remove(at);
            let (opcode, len) = self.commands[i];
            assert_eq!(cqe.status.is_success(), opcode != FAIL, "command {i}: {}", cqe.status);
            let from = place(opcode, i) as usize;
            let stored = &self.wire.layer.store[from..from + len as usize];
            match opcode {
                READ => assert!(
                    received_bytes == len && self.wire.memory[tag.index()] == stored,
                    "command {i}"
                ),
                WRITE => assert!(received_bytes == 0 && payload(i, len) == stored, "command {i}"),
                _ => {}
            }
            self.wire.release(tag);
            self.answered += 1;
        }
    }
}

proptest! {
    #![proptest_config(weft_testing::properties!(256))]

    #[test]
    fn any_session_arrives_whole((host, target) in configs(), commands in session(), seed in any::<u64>()) {
        let mut session = Session::new(host, target, commands, seed);
        let mut steps = 0;
        while session.answered < session.commands.len() {
            session.step();
            steps += 1;
            prop_assert!(steps < 200_000, "it stalls: {} of {} answered", session.answered, session.commands.len());
        }
        session.wire.run();
        let wire = &session.wire;
        prop_assert_eq!((wire.host.violation(), wire.target.violation(), wire.not_ready), (None, None, 0));
        prop_assert!(wire.host.is_quiet() && !wire.target.has_unsent() && wire.layer.commands.is_empty());
        prop_assert_eq!(wire.keys(), 0);
        prop_assert!(wire.queues.iter().all(|queues| queues.used == 0 && queues.receives.len() == usize::from(host.queue_entries)));
    }

    #[test]
    fn everything_ends_once_when_the_queue_pair_does(
        (host, target) in configs(), commands in session(), seed in any::<u64>(), steps in 0..400u32, how in 0..8u32,
    ) {
        let mut session = Session::new(host, target, commands, seed);
        session.drops = true;
        for _ in 0..steps {
            session.step();
        }
        match how {
            0 => session.wire.host.disconnected(),
            1 => session.wire.target.disconnected(),
            2 => session.wire.host.close(),
            3 => session.wire.target.close(),
            4 => session.wire.destroy(HOST),
            5 => session.wire.destroy(TARGET),
            _ => session.wire.fail(),
        }
        let mut steps = 0;
        while !(session.wire.host.has_ended() && session.wire.target.has_ended()) {
            session.step();
            steps += 1;
            // What is dropped is never answered, so that an orderly end may wait for that until its
            // time is over.
            if steps == 20_000 && how == 2 {
                let limit = host.close_limit;
                session.wire.host.tick(limit);
                session.wire.host.tick(limit * 2);
            }
            // An end that has nothing posted hears of it from the connection manager.
            if steps == 30_000 && session.wire.failed {
                session.wire.host.disconnected();
                session.wire.target.disconnected();
            }
            prop_assert!(steps < 200_000, "it does not end");
        }
        for _ in 0..2 {
            session.wire.run();
            session.check_responses();
        }
        let Session { wire, under_way, .. } = &mut session;
        prop_assert_eq!(wire.layer.tags(CommandStage::Fetching).len() + wire.layer.tags(CommandStage::Dropping).len(), 0);
        prop_assert_eq!(wire.layer.tags(CommandStage::Answered).len(), 0);
        for tag in wire.layer.tags(CommandStage::Held) {
            wire.layer.fetch(&mut wire.target, tag);
        }
        wire.layer.take_events(&mut wire.target);
        prop_assert!(wire.layer.commands.is_empty());
        prop_assert_eq!(wire.host.outstanding(), under_way.len());
        prop_assert!(wire.host.next_work().is_none() && wire.target.next_work().is_none());
        prop_assert_eq!((wire.host.deadline(), wire.not_ready), (None, 0));
    }
}
