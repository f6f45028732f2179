//! Commands that a target gives up, and what a queue pair that fails does with those that it has.

use weft_proto::nvme::status::Status;
use weft_proto::nvme_rdma::violation::Violation;
use weft_proto::nvme_rdma::{
    Exposure, QueuePairEngine, QueuePairLimits, RdmaHostConfig, RdmaTargetConfig, RdmaTargetEvent,
    ReceiveBuffer, Work, WorkId, WorkKind, WorkOutcome,
};
use weft_proto::stream::Tag;

use crate::nvme_rdma::layer::{CommandStage, WRITE};
use crate::nvme_rdma::life::{host, target};
use crate::nvme_rdma::wire::{Completion, HOST, TARGET, Wire};

/// A target that holds `commands` writes of `bytes`.
fn holding(commands: usize, bytes: usize, target: RdmaTargetConfig) -> Wire {
    let mut wire = Wire::open(host(Exposure::Window), target);
    wire.layer.holds = true;
    for _ in 0..commands {
        wire.write(WRITE, 0, &vec![0x44; bytes]);
    }
    wire.run();
    assert_eq!(wire.layer.tags(CommandStage::Held).len(), commands);
    wire
}

fn told(wire: &Wire, event: RdmaTargetEvent) -> usize {
    wire.layer.log.iter().filter(|it| **it == event).count()
}

#[test]
fn a_command_that_is_held_is_dropped_at_once() {
    for bytes in [100, 4000] {
        let mut wire = holding(1, bytes, target());
        wire.layer.abandon(&mut wire.target, Tag(0));
        wire.run();
        assert_eq!(told(&wire, RdmaTargetEvent::Dropped { tag: Tag(0) }), 0);
        assert_eq!(wire.queues[TARGET].receives.len(), 4, "its receive is posted again");
    }
}

#[test]
fn a_command_is_dropped_when_its_memory_is_not_written_to_any_more() {
    let limits = QueuePairLimits { message_bytes: 1000, reads: 2, ..QueuePairLimits::default() };
    let mut wire = holding(1, 4000, RdmaTargetConfig { limits, ..target() });
    wire.layer.fetch(&mut wire.target, Tag(0));
    wire.work();
    assert_eq!(wire.queues[TARGET].send.len(), 2, "two of four reads are posted");
    wire.layer.abandon(&mut wire.target, Tag(0));
    wire.work();
    assert_eq!(told(&wire, RdmaTargetEvent::Dropped { tag: Tag(0) }), 0);
    wire.step(TARGET);
    wire.tell(TARGET);
    wire.work();
    assert_eq!(told(&wire, RdmaTargetEvent::Dropped { tag: Tag(0) }), 0);
    wire.run();
    assert_eq!(told(&wire, RdmaTargetEvent::Dropped { tag: Tag(0) }), 1);
    assert_eq!(wire.log[TARGET].iter().filter(|work| matches!(work, Work::Read { .. })).count(), 2);
}

#[test]
fn a_reset_drops_what_is_being_fetched() {
    let limits = QueuePairLimits { reads: 1, ..QueuePairLimits::default() };
    let mut wire = holding(4, 4000, RdmaTargetConfig { limits, ..target() });
    for tag in [Tag(0), Tag(1), Tag(2)] {
        wire.layer.fetch(&mut wire.target, tag);
    }
    wire.work();
    // The first one's data is here, but nobody has been told; the second one's is being read; the
    // third one's is not asked for.
    wire.step(TARGET);
    let Some(Completion::Work(id, ended)) = wire.queues[TARGET].sent.pop_front() else { panic!() };
    assert_eq!((id.tag, id.kind), (Tag(0), WorkKind::Read));
    wire.target.completed(id, ended);
    let read = wire.target.next_work();
    assert!(matches!(read, Some(Work::Read { tag: Tag(1), .. })), "{read:?}");
    wire.layer.drop_pending(&mut wire.target);
    wire.layer.take_events(&mut wire.target);
    assert_eq!(wire.layer.tags(CommandStage::Dropping), [Tag(1)], "the others' memory is free");
    wire.target.completed(WorkId { tag: Tag(1), kind: WorkKind::Read }, ended);
    wire.layer.take_events(&mut wire.target);
    assert!(wire.layer.tags(CommandStage::Dropping).is_empty());
    for tag in [Tag(0), Tag(1), Tag(2)] {
        assert_eq!(told(&wire, RdmaTargetEvent::Dropped { tag }), 1);
        assert_eq!(told(&wire, RdmaTargetEvent::DataArrived { tag }), 0);
    }
    // The one that was only held stays.
    wire.layer.complete(&mut wire.target, Tag(3), Status::SUCCESS, 0);
    assert!(matches!(wire.target.next_work(), Some(Work::Send { tag: Tag(3), .. })));
}

#[test]
fn data_in_a_capsule_that_is_not_wanted() {
    let mut wire = holding(2, 100, target());
    assert_eq!(wire.queues[TARGET].receives.len(), 2, "two hold data");
    wire.target.ignore_data(Tag(0));
    wire.work();
    assert_eq!(wire.queues[TARGET].receives.len(), 3);
    assert_eq!(wire.target.fetch(Tag(0), 100), Err(Status::SGL_OFFSET_INVALID), "it is gone");
    wire.layer.fetch(&mut wire.target, Tag(1));
    wire.layer.abandon(&mut wire.target, Tag(1));
    wire.work();
    assert_eq!(
        (told(&wire, RdmaTargetEvent::Dropped { tag: Tag(1) }), wire.queues[TARGET].receives.len()),
        (1, 4)
    );
}

#[test]
fn a_queue_pair_that_fails_ends_everything_once() {
    let limits = QueuePairLimits { message_bytes: 1000, reads: 2, ..QueuePairLimits::default() };
    for destroy in [false, true] {
        let mut wire = Wire::open(
            RdmaHostConfig { queue_entries: 8, ..host(Exposure::Window) },
            RdmaTargetConfig { limits, ..target() },
        );
        wire.layer.holds = true;
        for bytes in [100, 2500, 2500, 2500] {
            wire.write(WRITE, 0, &vec![0x44; bytes]);
        }
        let read = wire.read(0, 2500);
        wire.run();
        // One of each kind: waits for its place in memory, is read in part, waits for that, is
        // held, is written in part.
        wire.layer.fetch(&mut wire.target, Tag(0));
        wire.layer.fetch(&mut wire.target, Tag(1));
        wire.layer.fetch(&mut wire.target, Tag(2));
        wire.layer.start(&mut wire.target, read);
        let place = wire.target.next_work();
        assert!(matches!(place, Some(Work::Place { .. })), "{place:?}");
        wire.target.placed(Tag(0));
        wire.work();
        if destroy {
            wire.destroy(TARGET);
        } else {
            wire.fail();
        }
        wire.run();
        assert!(wire.target.has_ended() && wire.host.has_ended());
        assert_eq!(told(&wire, RdmaTargetEvent::DataFailed { tag: Tag(1) }), 1);
        assert_eq!(told(&wire, RdmaTargetEvent::DataFailed { tag: Tag(2) }), 1);
        assert_eq!(told(&wire, RdmaTargetEvent::Released { tag: read }), 1);
        assert_eq!(wire.layer.tags(CommandStage::Held), [Tag(0), Tag(3)]);
        // What is answered or fetched now ends at once.
        wire.layer.complete(&mut wire.target, Tag(0), Status::SUCCESS, 0);
        wire.layer.fetch(&mut wire.target, Tag(3));
        wire.layer.take_events(&mut wire.target);
        assert!(wire.layer.commands.is_empty());
        assert!(wire.responses.is_empty() && wire.host.outstanding() == 5);
    }
}

#[test]
fn an_answer_survives_the_failure_of_the_queue_pair() {
    let mut wire = Wire::open(host(Exposure::Window), target());
    wire.keeps_keys = true;
    wire.read(0, 512);
    wire.work();
    // The response comes before the completion of the SEND, and without an invalidation.
    while !wire.tell_received(HOST) {
        wire.step(HOST);
        wire.tell(TARGET);
        wire.work();
        wire.step(TARGET);
    }
    assert_eq!(wire.host.poll_event(), None);
    wire.fail();
    wire.host.disconnected();
    assert_eq!(wire.host.poll_event(), None, "the controller still has access");
    assert_eq!((wire.host.next_work(), wire.host.next_work()), (Some(Work::Disconnect), None));
    assert_eq!(wire.host.poll_event(), None, "the capsule is still being sent");
    wire.run();
    assert_eq!(wire.answer().1, Status::SUCCESS);
    assert!(wire.host.has_ended());
}

#[test]
fn a_bind_without_its_command_and_data_without_its_response() {
    let mut wire = Wire::open(host(Exposure::Window), target());
    let tag = wire.read(0, 512);
    assert_eq!(wire.host.next_work(), Some(Work::Expose { tag, bytes: 512, writable: true }));
    wire.host.exposed(tag, 0x1000, 1);
    wire.host.disconnected();
    assert_eq!((wire.host.next_work(), wire.host.next_work()), (Some(Work::Disconnect), None));
    (0..4).for_each(|n| wire.host.receive_ended(ReceiveBuffer(n), None));
    assert!(!wire.host.has_ended() && wire.host.never_sent(tag));
    wire.host.completed(WorkId { tag, kind: WorkKind::Bind }, WorkOutcome::Flushed);
    assert!(wire.host.has_ended());

    let mut wire = Wire::open(host(Exposure::Window), target());
    let tag = wire.read(0, 512);
    wire.work();
    while wire.step(HOST) {}
    assert!(wire.tell(TARGET));
    wire.layer.take_events(&mut wire.target);
    assert_eq!(wire.target.next_work(), Some(Work::PostReceive(ReceiveBuffer(0))));
    assert!(matches!(wire.target.next_work(), Some(Work::Write { signaled: false, .. })));
    wire.target.disconnected();
    wire.layer.take_events(&mut wire.target);
    assert_eq!(told(&wire, RdmaTargetEvent::Released { tag }), 0, "the data is being sent");
    assert_eq!((wire.target.next_work(), wire.target.next_work()), (Some(Work::Disconnect), None));
    (0..4).for_each(|n| wire.target.receive_ended(ReceiveBuffer(n), None));
    assert!(!wire.target.has_ended());
    wire.target.completed(WorkId { tag, kind: WorkKind::Write }, WorkOutcome::Flushed);
    wire.layer.take_events(&mut wire.target);
    assert!(told(&wire, RdmaTargetEvent::Released { tag }) == 1 && wire.target.has_ended());
}

#[test]
fn what_completed_with_a_capsule_does_not_complete_again() {
    let mut wire = Wire::open(host(Exposure::Window), target());
    let tag = wire.read(0, 512);
    wire.run();
    wire.host.completed(WorkId { tag, kind: WorkKind::Bind }, WorkOutcome::Flushed);
    wire.target.completed(WorkId { tag, kind: WorkKind::Write }, WorkOutcome::Flushed);
    assert_eq!(wire.host.violation(), Some(Violation::UnknownCompletion));
    assert_eq!(wire.target.violation(), Some(Violation::UnknownCompletion));
}
