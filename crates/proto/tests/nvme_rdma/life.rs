//! Commands from end to end, and what each costs of the queue pair.

use core::time::Duration;

use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Cntlid, Qid};
use weft_proto::nvme_rdma::violation::Violation;
use weft_proto::nvme_rdma::{
    Exposure, HostData, QueuePairEngine, QueuePairLimits, RdmaHostConfig, RdmaHostEvent,
    RdmaTargetConfig, RdmaTargetEvent, ReceiveBuffer, Received, RemoteMemory, TargetQueuePair,
    Work, WorkId, WorkKind, WorkOutcome,
};
use weft_proto::stream::Tag;

use crate::nvme_rdma::layer::{FAIL, READ, WRITE, command};
use crate::nvme_rdma::wire::{HOST, TARGET, Wire, address};

pub fn host(exposure: Exposure) -> RdmaHostConfig {
    let limits = QueuePairLimits { sges: 2, ..QueuePairLimits::default() };
    RdmaHostConfig {
        qid: Qid(1),
        cntlid: Cntlid(1),
        queue_entries: 4,
        in_capsule_bytes: 512,
        exposure,
        limits,
        ..RdmaHostConfig::default()
    }
}

pub fn target() -> RdmaTargetConfig {
    RdmaTargetConfig { in_capsule_bytes: 512, queue_entries: 4, ..RdmaTargetConfig::default() }
}

impl Wire {
    /// A pair after Connect.
    pub fn open(host: RdmaHostConfig, target: RdmaTargetConfig) -> Self {
        let mut wire = Self::new(host, target);
        wire.target.set_queue_entries(host.queue_entries);
        wire.log = Default::default();
        wire
    }

    pub fn read(&mut self, offset: u32, bytes: u32) -> Tag {
        let tag = self.host.submit(command(READ, offset), HostData::In(bytes)).unwrap();
        self.memory[tag.index()] = vec![0; bytes as usize];
        tag
    }

    pub fn write(&mut self, opcode: u8, offset: u32, data: &[u8]) -> Tag {
        let tag =
            self.host.submit(command(opcode, offset), HostData::Out(data.len() as u32)).unwrap();
        self.memory[tag.index()] = data.to_vec();
        tag
    }

    /// The only answer that there is.
    pub fn answer(&mut self) -> (Tag, Status, u32) {
        let [RdmaHostEvent::Response { tag, cqe, received_bytes }] = self.responses[..] else {
            panic!("{:?}", self.responses)
        };
        self.responses.clear();
        self.release(tag);
        (tag, cqe.status, received_bytes)
    }
}

/// Returns the work of an end, except posting receives.
fn deeds(wire: &Wire, end: usize) -> Vec<Work> {
    wire.log[end].iter().copied().filter(|work| !matches!(work, Work::PostReceive(_))).collect()
}

#[test]
fn a_read_by_a_window() {
    let mut wire = Wire::open(host(Exposure::Window), target());
    let tag = wire.read(5, 4096);
    assert!(wire.host.never_sent(tag) && wire.host.has_unsent());
    wire.run();
    assert_eq!(wire.memory[tag.index()], wire.layer.store[5..4101]);
    let to = RemoteMemory { address: address(tag), key: 1 };
    assert_eq!(
        deeds(&wire, HOST),
        [
            Work::Expose { tag, bytes: 4096, writable: true },
            Work::Send { tag, data_bytes: 0, invalidate: None }
        ]
    );
    assert_eq!(
        deeds(&wire, TARGET),
        [
            Work::Write { tag, offset: 0, bytes: 4096, to, signaled: false },
            Work::Send { tag, data_bytes: 0, invalidate: Some(1) }
        ]
    );
    assert_eq!(wire.host.capsule(tag).0[39], 0x4f);
    assert_eq!((wire.answer(), wire.keys()), ((tag, Status::SUCCESS, 4096), 0));
    assert!(wire.host.is_quiet() && !wire.host.has_unsent() && !wire.target.has_unsent());
    assert_eq!(
        wire.layer.log,
        [RdmaTargetEvent::Command { tag, in_capsule_bytes: 0 }, RdmaTargetEvent::Released { tag }]
    );
}

#[test]
fn a_response_that_invalidates_nothing_is_followed_by_an_invalidation() {
    let mut wire = Wire::open(host(Exposure::Window), target());
    wire.keeps_keys = true;
    let tag = wire.read(0, 512);
    wire.run();
    assert_eq!(deeds(&wire, HOST).last(), Some(&Work::Invalidate { tag, key: 1 }));
    assert_eq!((wire.answer(), wire.keys()), ((tag, Status::SUCCESS, 512), 0));
}

#[test]
fn other_ways_to_memory() {
    for (exposure, keys) in [(Exposure::Registration, 0), (Exposure::Standing, 0)] {
        let mut wire = Wire::open(host(exposure), target());
        let tag = wire.read(0, 512);
        wire.run();
        assert_eq!(wire.host.capsule(tag).0[39], 0x40, "no invalidation is asked for");
        let conceals = deeds(&wire, HOST).contains(&Work::Conceal { tag });
        assert_eq!(conceals, exposure == Exposure::Registration);
        assert_eq!((wire.answer(), wire.keys()), ((tag, Status::SUCCESS, 512), keys));
    }
}

#[test]
fn writes_in_the_capsule_and_by_reads() {
    let mut wire = Wire::open(host(Exposure::Window), target());
    let small = [0x11; 512];
    let tag = wire.write(WRITE, 100, &small);
    wire.run();
    assert_eq!(deeds(&wire, HOST), [Work::Send { tag, data_bytes: 512, invalidate: None }]);
    assert!(matches!(
        deeds(&wire, TARGET)[..],
        [Work::Place { bytes: 512, .. }, Work::Send { invalidate: None, .. }]
    ));
    assert_eq!((wire.answer().1, &wire.layer.store[100..612]), (Status::SUCCESS, &small[..]));
    wire.log = Default::default();
    let large = [0x22; 513];
    let tag = wire.write(WRITE, 1000, &large);
    wire.run();
    assert_eq!(deeds(&wire, HOST)[0], Work::Expose { tag, bytes: 513, writable: false });
    let from = RemoteMemory { address: address(tag), key: 1 };
    assert_eq!(
        deeds(&wire, TARGET),
        [
            Work::Read { tag, offset: 0, bytes: 513, from },
            Work::Send { tag, data_bytes: 0, invalidate: Some(1) }
        ]
    );
    assert_eq!((wire.answer().1, &wire.layer.store[1000..1513]), (Status::SUCCESS, &large[..]));
}

#[test]
fn commands_without_data_and_with_refused_data() {
    let mut wire = Wire::open(host(Exposure::Window), target());
    wire.host.submit(command(FAIL, 0), HostData::None).unwrap();
    wire.run();
    assert_eq!(wire.answer().1, Status::INVALID_OPCODE);
    for bytes in [100, 4000] {
        wire.write(FAIL, 0, &vec![1; bytes]);
        wire.run();
        assert_eq!((wire.answer().1, wire.keys()), (Status::INVALID_OPCODE, 0));
    }
    assert!(
        wire.queues.iter().all(|queues| queues.receives.len() == 4),
        "every receive is posted again"
    );
}

#[test]
fn transfers_are_split() {
    let limits =
        QueuePairLimits { message_bytes: 5000, sges: 3, sge_bytes: 512, reads: 2, send_queue: 4 };
    let mut wire = Wire::open(host(Exposure::Window), RdmaTargetConfig { limits, ..target() });
    wire.read(0, 4000);
    wire.run();
    let pieces: Vec<_> = deeds(&wire, TARGET)
        .iter()
        .filter_map(|work| match *work {
            Work::Write { offset, bytes, signaled, .. } => Some((offset, bytes, signaled)),
            _ => None,
        })
        .collect();
    assert_eq!(pieces, [(0, 1536, true), (1536, 1536, true), (3072, 928, false)]);
    assert_eq!(wire.answer().1, Status::SUCCESS);
    let data: Vec<u8> = (0..4000u32).map(|n| n as u8).collect();
    wire.write(WRITE, 0, &data);
    wire.run();
    assert_eq!((wire.answer().1, &wire.layer.store[..4000]), (Status::SUCCESS, &data[..]));
}

#[test]
fn memory_that_cannot_be_made_accessible_fails_its_command() {
    let mut wire = Wire::open(host(Exposure::Window), target());
    wire.refuse_exposure = true;
    let tag = wire.read(0, 512);
    wire.run();
    assert_eq!(wire.answer(), (tag, Status::HOST_PATHING_ERROR, 0));
    assert_eq!(wire.log[TARGET].len(), 0, "the controller has heard nothing");
    wire.read(0, 512);
    wire.run();
    assert_eq!(wire.answer().1, Status::SUCCESS);
}

#[test]
fn as_many_commands_as_the_controller_has_receives() {
    let mut wire = Wire::unconnected(host(Exposure::Window), target());
    wire.layer.holds = true;
    wire.host.established(&weft_proto::nvme_rdma::cm::CmAccept { receives: 3 }.encode());
    for _ in 0..4 {
        wire.read(0, 512);
    }
    wire.work();
    let sends = wire.log[HOST].iter().filter(|work| matches!(work, Work::Send { .. })).count();
    assert_eq!((sends, wire.host.outstanding()), (3, 4));
}

#[test]
fn a_command_may_come_before_the_completion_of_the_response_that_allowed_it() {
    let mut wire = Wire::open(
        RdmaHostConfig { queue_entries: 2, ..host(Exposure::Window) },
        RdmaTargetConfig { queue_entries: 2, ..target() },
    );
    let commands = |wire: &Wire| {
        wire.layer.log.iter().filter(|it| matches!(it, RdmaTargetEvent::Command { .. })).count()
    };
    for round in 0..2 {
        for _ in 0..2 {
            wire.host.submit(command(FAIL, 0), HostData::None).unwrap();
        }
        wire.work();
        assert!(
            wire.step(HOST)
                && wire.step(HOST)
                && wire.tell_received(TARGET)
                && wire.tell_received(TARGET)
        );
        wire.work();
        if round == 0 {
            // Both responses arrive, and nothing is known of the completion of their SENDs.
            assert!(wire.step(TARGET) && wire.step(TARGET));
            while wire.tell(HOST) {}
            wire.work();
            for RdmaHostEvent::Response { tag, .. } in std::mem::take(&mut wire.responses) {
                wire.release(tag);
            }
        }
    }
    assert_eq!(commands(&wire), 2, "two commands wait for the places of the others");
    wire.tell(TARGET);
    wire.work();
    assert_eq!(commands(&wire), 3);
    wire.run();
    assert_eq!((commands(&wire), wire.responses.len(), wire.target.violation()), (4, 2, None));
}

#[test]
fn nothing_is_sent_before_the_connection_stands() {
    let mut wire = Wire::unconnected(host(Exposure::Window), target());
    wire.read(0, 512);
    wire.work();
    assert!(wire.log.iter().flatten().all(|work| matches!(work, Work::PostReceive(_))));
    assert_eq!(wire.log[TARGET].len(), 4);
    let accept = wire.target.accept().encode();
    wire.host.established(&accept);
    wire.run();
    assert_eq!(
        (wire.layer.log.len(), wire.responses.len()),
        (1, 0),
        "the target takes it, but does not answer yet"
    );
    wire.target.established(&[]);
    wire.run();
    assert_eq!(wire.answer().1, Status::SUCCESS);
}

#[test]
fn an_orderly_end_sends_what_there_is() {
    let mut wire = Wire::open(host(Exposure::Window), target());
    wire.read(0, 512);
    wire.host.close();
    assert!(wire.host.submit(command(READ, 0), HostData::None).is_err());
    wire.work();
    assert!(matches!(deeds(&wire, HOST)[..], [Work::Expose { .. }, Work::Send { .. }]));
    assert!(!wire.host.has_ended());
    wire.run();
    assert!(wire.host.has_ended() && wire.target.has_ended() && wire.failed);
    assert_eq!((wire.host.violation(), wire.target.violation()), (None, None));

    let mut wire = Wire::open(host(Exposure::Window), target());
    wire.read(0, 512);
    while wire.layer.log.is_empty() {
        wire.step(HOST);
        wire.tell(TARGET);
        wire.work();
    }
    wire.target.close();
    wire.run();
    assert_eq!(wire.answer().1, Status::SUCCESS, "the answer was under way");
    assert!(wire.host.has_ended() && wire.target.has_ended());
}

#[test]
fn an_end_does_not_wait_for_ever() {
    let second = Duration::from_secs;
    let limit = RdmaHostConfig::default().close_limit;
    let mut wire = Wire::open(host(Exposure::Window), target());
    assert_eq!((wire.host.deadline(), wire.target.deadline()), (None, None));
    wire.read(0, 512);
    wire.host.close();
    wire.work();
    assert_eq!(wire.host.deadline(), Some(Duration::ZERO), "the limit starts");
    wire.host.tick(second(100));
    assert_eq!(wire.host.deadline(), Some(second(100) + limit));
    wire.host.tick(second(100) + limit);
    assert_eq!(wire.host.violation(), Some(Violation::CloseLate(limit)));
    assert_eq!(wire.host.next_work(), Some(Work::Disconnect));
    // What is posted is not flushed.
    wire.host.tick(second(200));
    assert_eq!((wire.host.next_work(), wire.host.has_ended()), (None, false));
    wire.host.tick(second(200) + limit);
    assert_eq!(wire.host.next_work(), Some(Work::Destroy));
    wire.host.destroyed();
    assert!(wire.host.has_ended() && wire.host.deadline().is_none());
}

#[test]
fn connect_is_due() {
    let limit = RdmaTargetConfig::default().connect_limit;
    let mut wire = Wire::new(host(Exposure::Window), target());
    assert_eq!(wire.target.deadline(), Some(Duration::ZERO));
    wire.target.tick(Duration::from_secs(5));
    assert_eq!(wire.target.deadline(), Some(Duration::from_secs(5) + limit));
    wire.target.tick(Duration::from_secs(5) + limit);
    assert_eq!(wire.target.violation(), Some(Violation::ConnectLate(limit)));
    wire.run();
    assert!(wire.target.has_ended() && wire.host.has_ended());
    assert_eq!(wire.host.violation(), None);

    let mut wire = Wire::open(host(Exposure::Window), target());
    wire.target.tick(Duration::from_secs(5));
    wire.target.tick(Duration::from_secs(500));
    assert_eq!((wire.target.violation(), wire.target.deadline()), (None, None));
}

#[test]
fn as_many_responses_at_a_time_as_the_host_has_receives() {
    let mut engine = TargetQueuePair::new(RdmaTargetConfig { host_receives: 1, ..target() });
    engine.established(&[]);
    while engine.next_work().is_some() {}
    for n in 0..3 {
        let mut sqe = command(FAIL, 0);
        sqe.set_cid(Cid(n));
        engine.received(&Received {
            buffer: ReceiveBuffer(n),
            bytes: &sqe.0,
            immediate: None,
            invalidated: None,
        });
        assert_eq!(
            engine.poll_event(),
            Some(RdmaTargetEvent::Command { tag: Tag(n), in_capsule_bytes: 0 })
        );
        engine.complete(Tag(n), Cqe::new(Cid(n), Status::SUCCESS), 0);
    }
    for n in 0..3 {
        let work: Vec<_> = std::iter::from_fn(|| engine.next_work())
            .filter(|it| !matches!(it, Work::PostReceive(_)))
            .collect();
        assert_eq!(work, [Work::Send { tag: Tag(n), data_bytes: 0, invalidate: None }]);
        engine.completed(WorkId { tag: Tag(n), kind: WorkKind::Send }, WorkOutcome::Done);
        assert_eq!(engine.poll_event(), Some(RdmaTargetEvent::Released { tag: Tag(n) }));
        engine.sent(Tag(n));
    }
    assert!(!engine.has_unsent());
}

#[test]
fn reads_do_not_take_the_room_that_an_answer_waits_for() {
    let limits = QueuePairLimits {
        send_queue: 2,
        reads: 8,
        message_bytes: 512,
        ..QueuePairLimits::default()
    };
    let mut wire = Wire::open(host(Exposure::Window), RdmaTargetConfig { limits, ..target() });
    wire.write(WRITE, 0, &[0x11; 8 * 512 + 100]);
    wire.work();
    while wire.step(HOST) {}
    assert!(wire.tell_received(TARGET));
    wire.work();
    assert_eq!(wire.queues[TARGET].used, 2, "reads fill the send queue");
    let read = wire.read(0, 512);
    wire.work();
    while wire.step(HOST) {}
    while wire.tell_received(TARGET) {}
    for _ in 0..2 {
        wire.work();
        assert!(wire.step(TARGET) && wire.tell(TARGET));
    }
    wire.work();
    assert!(
        matches!(wire.log[TARGET].last(), Some(Work::Send { tag, .. }) if *tag == read),
        "{:?}",
        wire.log[TARGET]
    );
    wire.run();
    assert_eq!(wire.responses.len(), 2);
}
