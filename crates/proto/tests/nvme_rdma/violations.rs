//! Every rule that a peer can break, and how the queue pair ends.

use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cid;
use weft_proto::nvme_rdma::cm::{AcceptError, CmAccept};
use weft_proto::nvme_rdma::keyed::Keyed;
use weft_proto::nvme_rdma::violation::Violation;
use weft_proto::nvme_rdma::{
    Exposure, HostQueuePair, QueuePairEngine, RdmaTargetConfig, RdmaTargetEvent, ReceiveBuffer,
    Received, TargetQueuePair, Work, WorkError, WorkId, WorkKind, WorkOutcome,
};
use weft_proto::stream::Tag;

use crate::nvme_rdma::layer::{READ, WRITE, command};
use crate::nvme_rdma::life::{host, target};
use crate::nvme_rdma::wire::{HOST, TARGET, Wire};

pub fn message(buffer: u16, bytes: &[u8]) -> Received<'_> {
    Received { buffer: ReceiveBuffer(buffer), bytes, immediate: None, invalidated: None }
}

fn response(cid: u16) -> [u8; 16] {
    Cqe::new(Cid(cid), Status::SUCCESS).encode()
}

/// The first command of a host: a read whose memory has key 1.
const CID: u16 = 1 << 10;

/// A host with one read of 512 bytes at the controller.
fn reading(exposure: Exposure) -> Wire {
    let mut wire = Wire::open(host(exposure), target());
    wire.read(0, 512);
    wire.work();
    assert!(matches!(wire.log[HOST].last(), Some(Work::Send { .. })));
    wire
}

/// Act of a controller, the host's exposure of memory, and the reason why the queue pair ends.
type ControllerCase = (&'static str, Exposure, Box<dyn Fn(&mut HostQueuePair)>, Violation);

fn wrong_responses() -> Vec<ControllerCase> {
    use Violation as V;
    let good = response(CID);
    let wrong = [response(0), response(CID | 1), response(2 << 10), response(0xffff)];
    let with = |bytes, immediate, invalidated| Received {
        buffer: ReceiveBuffer(0),
        bytes,
        immediate,
        invalidated,
    };
    let window = Exposure::Window;
    let receive = |received: Received<'static>| -> Box<dyn Fn(&mut HostQueuePair)> {
        Box::new(move |host| host.received(&received))
    };
    let leak = |bytes: &[u8]| -> &'static [u8] { bytes.to_vec().leak() };
    vec![
        ("nothing", window, receive(message(0, b"")), V::ResponseLength(0)),
        ("too short", window, receive(message(0, leak(&good[..15]))), V::ResponseLength(15)),
        (
            "too long",
            window,
            receive(message(0, leak(&[good, good].concat()))),
            V::ResponseLength(32),
        ),
        ("immediate data", window, receive(with(leak(&good), Some(0), None)), V::Immediate),
        ("no such command", window, receive(message(0, leak(&wrong[0]))), V::ResponseCommandId),
        (
            "a tag without a command",
            window,
            receive(message(0, leak(&wrong[1]))),
            V::ResponseCommandId,
        ),
        ("a later command", window, receive(message(0, leak(&wrong[2]))), V::ResponseCommandId),
        ("no identifier", window, receive(message(0, leak(&wrong[3]))), V::ResponseCommandId),
        ("another key", window, receive(with(leak(&good), None, Some(2))), V::Invalidation(2)),
        (
            "a key of no window",
            Exposure::Registration,
            receive(with(leak(&good), None, Some(1))),
            V::Invalidation(1),
        ),
        (
            "a standing key",
            Exposure::Standing,
            receive(with(leak(&good), None, Some(1))),
            V::Invalidation(1),
        ),
        (
            "a receive that is not posted",
            window,
            receive(message(9, leak(&good))),
            V::UnknownCompletion,
        ),
    ]
}

fn wrong_completions_of_a_host() -> Vec<ControllerCase> {
    use Violation as V;
    let window = Exposure::Window;
    let id = |tag, kind| WorkId { tag: Tag(tag), kind };
    let ended = |id, ended| -> Box<dyn Fn(&mut HostQueuePair)> {
        Box::new(move |host| host.completed(id, ended))
    };
    let failed = WorkOutcome::Failed(WorkError::RetriesExceeded);
    vec![
        (
            "work of no command",
            window,
            ended(id(3, WorkKind::Send), WorkOutcome::Done),
            V::UnknownCompletion,
        ),
        (
            "work of a host",
            window,
            ended(id(0, WorkKind::Read), WorkOutcome::Done),
            V::UnknownCompletion,
        ),
        (
            "work that was not posted",
            window,
            ended(id(0, WorkKind::Invalidate), WorkOutcome::Done),
            V::UnknownCompletion,
        ),
        (
            "a bind that was not signaled",
            window,
            ended(id(0, WorkKind::Bind), WorkOutcome::Done),
            V::UnknownCompletion,
        ),
        (
            "no answer",
            window,
            ended(id(0, WorkKind::Send), failed),
            V::Send(WorkError::RetriesExceeded),
        ),
        (
            "no bind",
            window,
            ended(id(0, WorkKind::Bind), failed),
            V::Bind(WorkError::RetriesExceeded),
        ),
        (
            "a message that does not fit",
            window,
            Box::new(|host| host.receive_ended(ReceiveBuffer(0), Some(WorkError::LocalLength))),
            V::Receive(WorkError::LocalLength),
        ),
    ]
}

#[test]
fn what_a_controller_may_not_do() {
    let good = response(CID);
    let cases = wrong_responses().into_iter().chain(wrong_completions_of_a_host());
    for (name, exposure, deed, violation) in cases {
        let mut wire = reading(exposure);
        deed(&mut wire.host);
        assert_eq!(wire.host.violation(), Some(violation), "{name}");
        assert!(wire.host.is_closed() && !violation.to_string().is_empty(), "{name}");
        assert_eq!(wire.host.next_work(), Some(Work::Disconnect), "{name}");
        assert_eq!(wire.host.poll_event(), None, "{name}: the command is not answered");
        wire.host.received(&message(1, &good));
        assert_eq!(
            (wire.host.poll_event(), wire.host.violation()),
            (None, Some(violation)),
            "{name}: the end is final"
        );
        assert!(
            wire.host.cid(Tag(0)).is_some() && !wire.host.never_sent(Tag(0)),
            "{name}: the command may have been executed"
        );
    }
}

#[test]
fn answers_come_once() {
    let mut wire = reading(Exposure::Standing);
    wire.host.received(&message(0, &response(CID)));
    assert_eq!(wire.host.poll_event(), None, "the capsule is still being sent");
    wire.host.completed(WorkId { tag: Tag(0), kind: WorkKind::Send }, WorkOutcome::Done);
    assert!(wire.host.poll_event().is_some());
    wire.host.received(&message(1, &response(CID)));
    assert_eq!(wire.host.violation(), Some(Violation::ResponseCommandId));
}

#[test]
fn accepts_that_cannot_be_used() {
    let good = CmAccept { receives: 4 }.encode();
    for (bytes, error) in [
        (&good[..31], AcceptError::Length(31)),
        (&[], AcceptError::Length(0)),
        (&[1; 32], AcceptError::RecordFormat(0x101)),
        (&[0; 32], AcceptError::NoReceives),
    ] {
        let mut wire = Wire::unconnected(host(Exposure::Window), target());
        wire.host.established(bytes);
        assert_eq!(wire.host.violation(), Some(Violation::Accept(error)));
        assert_eq!(wire.host.next_work(), Some(Work::Disconnect));
        wire.host.established(&good);
        assert!(wire.host.is_closed());
    }
}

/// A command of a host as it comes.
pub fn capsule(opcode: u8, keyed: Keyed) -> Sqe {
    let mut sqe = command(opcode, 0);
    sqe.set_cid(Cid(7));
    keyed.put(&mut sqe);
    sqe
}

pub const KEYED: Keyed = Keyed { address: 0x1000, bytes: 512, key: 9, invalidate: true };

/// A target of two entries that reads the data of one command.
pub fn fetching() -> Wire {
    let mut wire =
        Wire::open(host(Exposure::Window), RdmaTargetConfig { queue_entries: 2, ..target() });
    wire.target =
        TargetQueuePair::new(RdmaTargetConfig { receives: 4, queue_entries: 2, ..target() });
    wire.target.established(&[]);
    wire.layer.holds = true;
    wire.work();
    wire.target.received(&message(0, &capsule(WRITE, KEYED).0));
    wire.layer.take_events(&mut wire.target);
    wire.layer.fetch(&mut wire.target, Tag(0));
    wire.work();
    assert!(matches!(wire.log[TARGET].last(), Some(Work::Read { .. })));
    wire
}

/// Act of a host, and the reason why the queue pair ends.
type HostCase = (&'static str, Box<dyn Fn(&mut TargetQueuePair)>, Violation);

fn wrong_capsules() -> Vec<HostCase> {
    use Violation as V;
    let sqe = capsule(READ, KEYED).0;
    let length = |bytes| V::CapsuleLength { bytes, max: 576 };
    vec![
        ("nothing", Box::new(move |target| target.received(&message(1, b""))), length(0)),
        ("too short", Box::new(move |target| target.received(&message(1, &sqe[..63]))), length(63)),
        (
            "too long",
            Box::new(move |target| target.received(&message(1, &[&sqe[..], &[0; 513]].concat()))),
            length(577),
        ),
        (
            "immediate data",
            Box::new(move |target| {
                target.received(&Received { immediate: Some(1), ..message(1, &sqe) })
            }),
            V::Immediate,
        ),
        (
            "an invalidation",
            Box::new(move |target| {
                target.received(&Received { invalidated: Some(9), ..message(1, &sqe) })
            }),
            V::Invalidation(9),
        ),
        (
            "too many commands",
            Box::new(move |target| {
                target.received(&message(1, &sqe));
                target.received(&message(2, &sqe));
            }),
            V::QueueOverrun,
        ),
        (
            "a receive that is not posted",
            Box::new(move |target| target.received(&message(9, &sqe))),
            V::UnknownCompletion,
        ),
    ]
}

fn wrong_completions_of_a_target() -> Vec<HostCase> {
    use Violation as V;
    let id = |tag, kind| WorkId { tag: Tag(tag), kind };
    let failed = WorkOutcome::Failed(WorkError::RemoteAccess);
    vec![
        (
            "memory without access",
            Box::new(move |target| target.completed(id(0, WorkKind::Read), failed)),
            V::Read(WorkError::RemoteAccess),
        ),
        (
            "work that was not posted",
            Box::new(move |target| target.completed(id(0, WorkKind::Send), failed)),
            V::UnknownCompletion,
        ),
        (
            "a write that was not posted",
            Box::new(move |target| target.completed(id(0, WorkKind::Write), failed)),
            V::UnknownCompletion,
        ),
        (
            "work of a host",
            Box::new(move |target| target.completed(id(0, WorkKind::Bind), failed)),
            V::UnknownCompletion,
        ),
        (
            "work of no command",
            Box::new(move |target| target.completed(id(77, WorkKind::Read), WorkOutcome::Done)),
            V::UnknownCompletion,
        ),
        (
            "a message that does not fit",
            Box::new(move |target| {
                target.receive_ended(ReceiveBuffer(1), Some(WorkError::LocalLength))
            }),
            V::Receive(WorkError::LocalLength),
        ),
    ]
}

#[test]
fn what_a_host_may_not_do() {
    let id = |tag, kind| WorkId { tag: Tag(tag), kind };
    for (name, deed, violation) in
        wrong_capsules().into_iter().chain(wrong_completions_of_a_target())
    {
        let mut wire = fetching();
        deed(&mut wire.target);
        // Sometimes a command came before.
        let told: Vec<_> = std::iter::from_fn(|| wire.target.poll_event()).collect();
        assert_eq!(wire.target.violation(), Some(violation), "{name}");
        assert_eq!(wire.target.next_work(), Some(Work::Disconnect), "{name}");
        let read_ended = matches!(violation, Violation::Read(_));
        assert_eq!(
            told.contains(&RdmaTargetEvent::DataFailed { tag: Tag(0) }),
            read_ended,
            "{name}: {told:?}"
        );
        wire.target.completed(id(0, WorkKind::Read), WorkOutcome::Flushed);
        let told: Vec<_> = std::iter::from_fn(|| wire.target.poll_event()).collect();
        assert_eq!(
            told.contains(&RdmaTargetEvent::DataFailed { tag: Tag(0) }),
            !read_ended,
            "{name}: {told:?}"
        );
        assert_eq!(wire.target.violation(), Some(violation), "{name}: the end is final");
        assert!(!violation.to_string().is_empty());
    }
}

#[test]
fn a_response_or_data_that_is_not_taken() {
    for (bytes, kind, violation) in [
        (512, WorkKind::Write, Violation::Write(WorkError::RemoteAccess)),
        (512, WorkKind::Send, Violation::Send(WorkError::RemoteAccess)),
        (0, WorkKind::Send, Violation::Send(WorkError::RemoteAccess)),
    ] {
        let mut wire = fetching();
        wire.target.received(&message(1, &capsule(READ, KEYED).0));
        wire.layer.take_events(&mut wire.target);
        wire.layer.commands.get_mut(&Tag(1)).unwrap().memory = vec![0; 512];
        wire.layer.complete(&mut wire.target, Tag(1), Status::SUCCESS, bytes);
        wire.work();
        wire.target
            .completed(WorkId { tag: Tag(1), kind }, WorkOutcome::Failed(WorkError::RemoteAccess));
        assert_eq!(wire.target.violation(), Some(violation));
        if kind == WorkKind::Write {
            assert_eq!(wire.target.poll_event(), None, "the response is still to be flushed");
            wire.target
                .completed(WorkId { tag: Tag(1), kind: WorkKind::Send }, WorkOutcome::Flushed);
        }
        assert_eq!(wire.target.poll_event(), Some(RdmaTargetEvent::Released { tag: Tag(1) }));
    }
}
