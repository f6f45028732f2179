//! This crate's host and this crate's controller back to back, without a transport, on virtual
//! time.

mod pair;

use std::net::SocketAddr;
use std::time::Duration;

use weft_proto::nvme::controller::{
    ControllerKind, ControllerModel, DeviceOutcome, DiscoveryRecord, IoNext, IoQueue, IoRequest,
    IoRequestKind, Namespace, Subsystem, SubsystemConfig,
};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::{
    FaultSide, HostAction, HostConfig, HostError, Parameter, RequestId, command,
};
use weft_proto::nvme::log_page::SubsystemType;
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Cntlid, Id128, Lba, Nqn, Nsid, Qid};
use weft_proto::nvme_tcp::transport_address;
use weft_proto::stream::Tag;

use self::pair::{Pair, SECOND, config, disk, namespace, nqn};

#[test]
fn a_host_sees_what_the_subsystem_has() {
    let pair = Pair::ready();
    assert_eq!(pair.host.queues(), [Qid(1), Qid(2), Qid(3)]);
    assert_eq!(pair.queues.len(), 3);
    assert_eq!(pair.queues[&Qid(1)].entries(), 128);
    assert_eq!(pair.host.controller().in_capsule_bytes(), 8192);
    let [first, third] = pair.host.namespaces() else { panic!() };
    assert_eq!((first.nsid, first.blocks, first.block_bytes), (Nsid(1), 1000, 4096));
    assert_eq!((first.uuid, first.nguid), (Some(Id128([1; 16])), Some(Id128([0x80; 16]))));
    assert!(
        first.volatile_cache
            && first.compare
            && first.deallocated_reads_zero
            && !first.write_protected
    );
    assert!(first.write_zeroes.is_some() && first.deallocate.is_some());
    assert_eq!(first.compare_and_write_blocks_max, 8);
    assert_eq!(first.transfer_blocks_max, 256);
    assert!(third.write_protected);
}

#[test]
fn fewer_queues_than_wanted() {
    let config = HostConfig { io_queues: 200, queue_entries: 1024, ..config() };
    let mut pair = Pair::new(config, disk());
    pair.run();
    pair.is_ready();
    assert_eq!((pair.host.queues().len(), pair.queues[&Qid(128)].entries()), (128, 1024));
}

#[test]
fn namespaces_come_and_go() {
    let mut pair = Pair::ready();
    for (nsid, count) in [(2, 3), (7, 4)] {
        let table = pair.subsystem.set_namespace(namespace(nsid)).unwrap();
        pair.control.as_mut().unwrap().namespaces_changed(table);
        pair.run();
        assert!(matches!(pair.said.pop_front(), Some(HostAction::Event(_))));
        assert_eq!(pair.said.pop_front(), Some(HostAction::NamespacesChanged));
        assert_eq!(pair.host.namespaces().len(), count);
    }
    let table = pair.subsystem.remove_namespace(Nsid(1));
    pair.control.as_mut().unwrap().namespaces_changed(table);
    pair.run();
    assert_eq!(pair.host.namespaces()[0].nsid, Nsid(2));
    let table = pair.subsystem.set_namespace(Namespace { blocks: 5000, ..namespace(2) }).unwrap();
    pair.control.as_mut().unwrap().namespaces_changed(table);
    pair.run();
    assert_eq!(pair.host.namespaces()[0].blocks, 5000);
}

#[test]
fn keep_alive_holds_an_idle_association() {
    for keep_alive_ms in [500, 1000, 5000, 60_000] {
        let mut pair = Pair::new(HostConfig { keep_alive_ms, ..config() }, disk());
        pair.pass(SECOND * 600);
        assert!(!pair.expired, "{keep_alive_ms}");
        pair.is_ready();
        assert!(pair.said.is_empty(), "{keep_alive_ms}");
    }
}

#[test]
fn an_abort_reaches_the_controller() {
    let mut pair = Pair::ready();
    pair.host.io_timed_out(pair.now, Qid(2), Cid(17));
    pair.run();
    pair.host.io_completed(Qid(2), Cid(17));
    pair.pass(SECOND * 60);
    assert!(pair.said.is_empty());
}

#[test]
fn a_reset_is_confirmed_only_when_the_devices_are_done() {
    for patient in [true, false] {
        let mut pair = Pair::ready();
        pair.quiet = false;
        pair.host.io_timed_out(pair.now, Qid(1), Cid(17));
        pair.pass(SECOND * 11);
        assert_eq!(pair.said.pop_front(), Some(HostAction::StopIo));
        assert!(pair.awaits_quiet && pair.said.is_empty());
        pair.quiet = patient;
        pair.pass(SECOND * 20);
        let expected = HostAction::Failed {
            error: HostError::CommandStuck { qid: Qid(1), cid: Cid(17) },
            confirmed: patient,
        };
        assert_eq!(pair.said.pop_front(), Some(expected));
    }
}

#[test]
fn shutdown_waits_for_the_devices() {
    let mut pair = Pair::ready();
    pair.quiet = false;
    pair.host.shutdown(pair.now);
    pair.pass(SECOND);
    assert_eq!(pair.said.pop_front(), Some(HostAction::StopIo));
    assert_eq!(pair.said.pop_front(), None);
    pair.quiet = true;
    pair.pass(SECOND);
    assert_eq!(pair.said.pop_front(), Some(HostAction::Closed { confirmed: true }));
}

#[test]
fn refusals_of_connect() {
    let closed = || {
        let mut subsystem = disk();
        subsystem.set_hosts(Some(vec![nqn("other")]));
        subsystem
    };
    let full = || {
        let config = SubsystemConfig {
            controllers_max: 0,
            ..SubsystemConfig::new(ControllerKind::Io, nqn("disk"))
        };
        Subsystem::new(Duration::ZERO, config)
    };
    let parameter = |config: HostConfig, subsystem| match Pair::new(config, subsystem).error() {
        HostError::Parameter { parameter, .. } => parameter,
        other => panic!("{other:?}"),
    };
    let elsewhere = HostConfig { subsystem: nqn("tape"), ..config() };
    assert_eq!(parameter(elsewhere, disk()), Parameter::Subsystem(nqn("tape")));
    let not_allowed = Parameter::HostNotAllowed { subsystem: nqn("disk"), host: nqn("host") };
    assert_eq!(parameter(config(), closed()), not_allowed);
    let numbered = HostConfig { cntlid: Cntlid(5), ..config() };
    assert_eq!(parameter(numbered, disk()), Parameter::Controller(Cntlid(5)));
    assert_eq!(Pair::new(config(), full()).error().fault(), FaultSide::Refused);
}

#[test]
fn the_static_controller_model() {
    let subsystem = || {
        let config = SubsystemConfig {
            controllers: ControllerModel::Static(4),
            ..SubsystemConfig::new(ControllerKind::Io, nqn("disk"))
        };
        Subsystem::new(Duration::ZERO, config)
    };
    for (asked, given) in [(Cntlid::STATIC, Cntlid(1)), (Cntlid(3), Cntlid(3))] {
        let mut pair = Pair::new(HostConfig { cntlid: asked, ..config() }, subsystem());
        pair.run();
        pair.is_ready();
        assert_eq!(pair.host.controller().cntlid, given);
    }
    let mut pair = Pair::new(HostConfig { cntlid: Cntlid(5), ..config() }, subsystem());
    assert_eq!(pair.error().fault(), FaultSide::Parameter);
}

fn record(number: u16) -> DiscoveryRecord {
    let address = SocketAddr::from(([192, 0, 2, 1], 4420 + number));
    DiscoveryRecord::new(
        &nqn("disk"),
        SubsystemType::NVME,
        &transport_address(address),
        number,
        32,
        Cntlid::DYNAMIC,
    )
}

#[test]
fn discovery_once_and_for_long() {
    for keep_alive_ms in [0, 30_000] {
        let config = SubsystemConfig::new(ControllerKind::Discovery, Nqn::discovery());
        let mut subsystem = Subsystem::new(Duration::ZERO, config);
        subsystem.set_discovery((0..9).map(record).collect());
        let host =
            HostConfig { keep_alive_ms, ..HostConfig::discovery(nqn("host"), Id128([5; 16])) };
        let mut pair = Pair::new(host, subsystem);
        pair.run();
        let Some(HostAction::Discovered(result)) = pair.said.pop_front() else { panic!() };
        assert_eq!((result.generation, result.entries.len()), (1, 9));
        assert_eq!(result.entries[8].trsvcid.text(), "4428");
        if keep_alive_ms != 0 {
            pair.pass(SECOND * 600);
            let log = pair.subsystem.set_discovery((0..10).map(record).collect());
            pair.control.as_mut().unwrap().discovery_changed(log);
            pair.run();
            assert!(matches!(pair.said.pop_front(), Some(HostAction::Event(_))));
            let Some(HostAction::Discovered(result)) = pair.said.pop_front() else { panic!() };
            assert_eq!((result.generation, result.entries.len()), (2, 10));
        }
        pair.host.shutdown(pair.now);
        pair.pass(SECOND);
        assert_eq!(pair.said, [HostAction::StopIo, HostAction::Closed { confirmed: true }]);
    }
}

#[test]
fn a_disk_is_no_discovery_controller_and_the_other_way_round() {
    let host =
        HostConfig { subsystem: nqn("disk"), ..HostConfig::discovery(nqn("host"), Id128([5; 16])) };
    assert_eq!(
        Pair::new(host, disk()).error().to_string(),
        "the subsystem is not a discovery subsystem"
    );
    let discovery = Subsystem::new(
        Duration::ZERO,
        SubsystemConfig::new(ControllerKind::Discovery, Nqn::discovery()),
    );
    let host = HostConfig { subsystem: Nqn::discovery(), ..config() };
    assert_eq!(Pair::new(host, discovery).error().fault(), FaultSide::Incompatible);
}

/// Returns the controller's request for a command with `bytes` of data, of which it inspects `data`
/// itself.
fn request(queue: &mut IoQueue, mut sqe: Sqe, bytes: u32, data: &[u8]) -> IoRequest {
    sqe.set_cid(Cid(1));
    sqe.set_sgl(Sgl::transport(bytes));
    let mut next = queue.start(Tag(1), &sqe, 0);
    if let IoNext::Fetch { bytes: wanted } = next {
        assert_eq!(wanted, bytes);
        next = queue.data(Tag(1), data);
    }
    let IoNext::Submit(request) = next else { panic!("{next:?}") };
    let IoNext::Reply { cqe, .. } = queue.finished(Tag(1), DeviceOutcome::DONE, &[]) else {
        panic!()
    };
    assert_eq!(cqe.status, Status::SUCCESS);
    request
}

#[test]
fn commands_of_the_host_are_what_the_controller_takes() {
    let mut pair = Pair::ready();
    let queue = pair.queues.get_mut(&Qid(1)).unwrap();
    let seen = |request: IoRequest| (request.kind, request.lba, request.blocks, request.fua);
    let read = request(queue, command::read(Nsid(1), Lba(7), 2), 8192, &[]);
    assert_eq!(seen(read), (IoRequestKind::Read, Lba(7), 2, false));
    let write = request(queue, command::write(Nsid(1), Lba(999), 1, true), 4096, &[0; 4096]);
    assert_eq!(seen(write), (IoRequestKind::Write, Lba(999), 1, true));
    let compare = request(queue, command::compare(Nsid(1), Lba(1), 1), 4096, &[0; 4096]);
    assert_eq!(seen(compare), (IoRequestKind::Compare, Lba(1), 1, false));
    let flush = request(queue, command::flush(Nsid(1)), 0, &[]);
    assert_eq!(flush.kind, IoRequestKind::Flush);
    let zeroes = request(queue, command::write_zeroes(Nsid(1), Lba(9), 256, true, false), 0, &[]);
    assert_eq!(seen(zeroes), (IoRequestKind::WriteZeroes { deallocate: true }, Lba(9), 256, false));
    let mut range = [0; command::RANGE_BYTES];
    command::put_range(&mut range, Lba(100), 50);
    let discard = request(queue, command::deallocate(Nsid(1), 1), 16, &range);
    assert_eq!(seen(discard), (IoRequestKind::Discard, Lba(100), 50, false));
}

#[test]
fn a_fused_pair_is_one_request() {
    let mut pair = Pair::ready();
    let queue = pair.queues.get_mut(&Qid(1)).unwrap();
    let mut last = IoNext::Hold;
    for (n, mut sqe) in
        command::compare_and_write(Nsid(1), Lba(5), 8, false).into_iter().enumerate()
    {
        let tag = Tag(n as u16 + 1);
        sqe.set_cid(Cid(tag.0));
        sqe.set_sgl(Sgl::transport(8 * 4096));
        assert_eq!(queue.start(tag, &sqe, 0), IoNext::Fetch { bytes: 8 * 4096 });
        last = queue.data(tag, &[]);
    }
    let IoNext::Submit(request) = last else { panic!("{last:?}") };
    assert_eq!(
        (request.kind, request.lba, request.blocks),
        (IoRequestKind::CompareAndWrite { first: Tag(1) }, Lba(5), 8)
    );
}

#[test]
fn completions_without_a_command_are_ignored() {
    let mut pair = Pair::ready();
    for id in [RequestId(0), RequestId(u64::MAX)] {
        pair.host.admin_completed(pair.now, id, &Cqe::new(Cid(0), Status::INTERNAL_ERROR), &[]);
    }
    pair.host.queue_opened(pair.now, Qid(1), &Cqe::new(Cid(0), Status::INTERNAL_ERROR));
    pair.host.queue_opened(pair.now, Qid(99), &Cqe::new(Cid(0), Status::SUCCESS));
    pair.host.connection_lost(pair.now, Qid(99));
    pair.pass(SECOND * 10);
    assert!(pair.said.is_empty());
}
