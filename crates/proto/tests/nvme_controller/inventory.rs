//! Namespaces that come, go and change while hosts use them; what each host sees, and who is let
//! in.

use crate::nvme_controller_support::*;
use std::sync::Arc;
use weft_proto::nvme::controller::{DeviceOutcome, IoNext, IoQueue, Namespace, Next};
use weft_proto::nvme::identify::{Cns, IdentifyController, IdentifyNamespace, NamespaceList};
use weft_proto::nvme::log_page::LogPageId;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::{Fuse, Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Nsid};
use weft_proto::stream::Tag;

/// An identifier far beyond the number of namespaces that there can be.
const FAR: u32 = 0x8000_0001;

/// Tells the controller and its queues of what has changed, as their owner does.
fn follow(rig: &mut Rig, queues: &mut [&mut IoQueue]) {
    let table = rig.subsystem.namespaces_of(rig.control.cntlid()).unwrap();
    rig.control.namespaces_changed(Arc::clone(&table));
    queues.iter_mut().for_each(|queue| queue.set_namespaces(Arc::clone(&table)));
}

fn replaced(nsid: u32) -> Namespace {
    Namespace { incarnation: 7, ..namespace(nsid) }
}

#[test]
fn a_namespace_of_a_high_identifier_is_like_any_other() {
    let mut rig = Rig::io();
    let mut queue = rig.connect_io(1).unwrap();
    let nn = |rig: &mut Rig| {
        IdentifyController::decode(&rig.data(identify(Cns::CONTROLLER, 0))).unwrap()
    };
    assert_eq!((nn(&mut rig).nn, nn(&mut rig).mnan), (1024, 1024));
    assert_eq!(rig.status(identify(Cns::NAMESPACE, FAR)), Status::INVALID_NAMESPACE);
    assert_eq!(rig.start(1, aer()), Next::Hold);

    rig.subsystem.set_namespace(namespace(FAR)).unwrap();
    follow(&mut rig, &mut [&mut queue]);
    assert_eq!(rig.poll_reply().0, Tag(1));
    assert_eq!((nn(&mut rig).nn, nn(&mut rig).mnan), (FAR, 1024));
    let list = NamespaceList::decode(&rig.data(identify(Cns::ACTIVE_NAMESPACES, 0))).unwrap();
    assert_eq!(list.0, [1, 2, 4, FAR].map(Nsid));
    let above = NamespaceList::decode(&rig.data(identify(Cns::ACTIVE_NAMESPACES, 4))).unwrap();
    assert_eq!(above.0, [Nsid(FAR)]);
    let id = IdentifyNamespace::decode(&rig.data(identify(Cns::NAMESPACE, FAR))).unwrap();
    assert_eq!((id.nsze, id.nguid), (1000, namespace(FAR).nguid));
    // One that is not in use is inactive, not invalid.
    assert!(rig.data(identify(Cns::NAMESPACE, 70_000)).iter().all(|&byte| byte == 0));
    let changed =
        NamespaceList::decode(&rig.data(get_log(LogPageId::CHANGED_NAMESPACES, 0, 4096))).unwrap();
    assert_eq!(changed.0, [Nsid(FAR)]);

    let request = submitted(queue.start(Tag(0), &blocks(NvmOpcode::READ, FAR, 5, 3), 0));
    assert_eq!(queue.namespaces().at(request.namespace).unwrap().nsid, Nsid(FAR));
    assert!(request.namespace < 1024);
}

#[test]
fn a_read_that_a_device_has_is_finished_whatever_becomes_of_its_namespace() {
    let mut rig = Rig::io();
    let mut queue = rig.connect_io(1).unwrap();
    submitted(queue.start(Tag(0), &blocks(NvmOpcode::READ, 1, 0, 8), 0));
    rig.subsystem.remove_namespace(Nsid(1));
    follow(&mut rig, &mut [&mut queue]);
    assert_eq!(
        queue.revoked(Tag(0)),
        Some(Status::INVALID_NAMESPACE),
        "unless no device has taken it yet"
    );
    assert!(matches!(
        queue.finished(Tag(0), DeviceOutcome::DONE, &[]),
        IoNext::Reply { cqe, data_bytes: 4096 } if cqe.status == Status::SUCCESS
    ));
    assert_eq!(queue.revoked(Tag(0)), None);
    let cqe = replied(queue.start(Tag(0), &blocks(NvmOpcode::READ, 1, 0, 8), 0));
    assert_eq!((cqe.status, cqe.do_not_retry), (Status::INVALID_NAMESPACE, true));
}

#[test]
fn data_never_goes_to_another_namespace_than_it_was_meant_for() {
    let cases: [(&str, Option<Namespace>, Option<Status>); 5] = [
        ("removed", None, Some(Status::INVALID_NAMESPACE)),
        ("replaced", Some(replaced(1)), Some(Status::INVALID_NAMESPACE)),
        ("shrunk", Some(Namespace { blocks: 100, ..namespace(1) }), Some(Status::LBA_OUT_OF_RANGE)),
        ("shrunk behind it", Some(Namespace { blocks: 108, ..namespace(1) }), None),
        ("grown", Some(Namespace { blocks: 5000, ..namespace(1) }), None),
    ];
    for (what, after, expected) in cases {
        let mut rig = Rig::io();
        let mut queue = rig.connect_io(1).unwrap();
        assert_eq!(
            queue.start(Tag(3), &blocks(NvmOpcode::WRITE, 1, 100, 8), 0),
            IoNext::Fetch { bytes: 4096 }
        );
        assert!(queue.destination(Tag(3)).is_some());
        match after {
            Some(namespace) => _ = rig.subsystem.set_namespace(namespace).unwrap(),
            None => _ = rig.subsystem.remove_namespace(Nsid(1)),
        }
        follow(&mut rig, &mut [&mut queue]);
        assert_eq!(queue.destination(Tag(3)).is_none(), expected.is_some(), "{what}");
        match (queue.data(Tag(3), &[]), expected) {
            (IoNext::Reply { cqe, .. }, Some(status)) => assert_eq!(cqe.status, status, "{what}"),
            (IoNext::Submit(_), None) => {
                _ = replied(queue.finished(Tag(3), DeviceOutcome::DONE, &[]))
            }
            (other, _) => panic!("{what}: {other:?}"),
        }
        assert_eq!(queue.outstanding(), 0, "{what}");
    }
}

#[test]
fn a_deallocate_stops_between_its_ranges() {
    let mut rig = Rig::io();
    let mut queue = rig.connect_io(1).unwrap();
    let ranges: Vec<u8> = (0..3u64)
        .flat_map(|n| {
            [[0; 4], 8u32.to_le_bytes()].concat().into_iter().chain((n * 100).to_le_bytes())
        })
        .collect();
    let mut sqe = Sqe::new(NvmOpcode::DATASET_MANAGEMENT.0, Nsid(1));
    sqe.set_dword(10, 2);
    sqe.set_dword(11, 1 << 2);
    sqe.set_sgl(Sgl::transport(48));
    assert_eq!(queue.start(Tag(0), &sqe, 0), IoNext::Fetch { bytes: 48 });
    submitted(queue.data(Tag(0), &ranges));
    submitted(queue.finished(Tag(0), DeviceOutcome::DONE, &ranges));
    rig.subsystem.set_namespace(replaced(1)).unwrap();
    follow(&mut rig, &mut [&mut queue]);
    assert_eq!(
        replied(queue.finished(Tag(0), DeviceOutcome::DONE, &ranges)).status,
        Status::INVALID_NAMESPACE
    );
}

#[test]
fn a_flush_of_all_namespaces_goes_on_with_those_that_are_left() {
    let mut rig = Rig::io();
    let mut queue = rig.connect_io(1).unwrap();
    submitted(queue.start(Tag(0), &Sqe::new(NvmOpcode::FLUSH.0, Nsid::ALL), 0));
    rig.subsystem.remove_namespace(Nsid(1));
    rig.subsystem.set_namespace(namespace(FAR)).unwrap();
    follow(&mut rig, &mut [&mut queue]);
    assert_eq!(queue.revoked(Tag(0)), None);
    let next = submitted(queue.finished(Tag(0), DeviceOutcome::DONE, &[]));
    assert_eq!(queue.namespaces().at(next.namespace).unwrap().nsid, Nsid(4));
    assert_eq!(replied(queue.finished(Tag(0), DeviceOutcome::DONE, &[])).status, Status::SUCCESS);
}

#[test]
fn a_fused_pair_ends_whole_when_its_namespace_is_replaced() {
    let fused = |opcode, fuse, cid| {
        with(blocks(opcode, 1, 0, 1), |sqe| {
            sqe.set_fuse(fuse);
            sqe.set_cid(Cid(cid));
        })
    };
    let compare = fused(NvmOpcode::COMPARE, Fuse::First, 1);
    let write = fused(NvmOpcode::WRITE, Fuse::Second, 2);
    // Replaced when so many halves have their data.
    for held in 0..2 {
        let mut rig = Rig::io();
        let mut queue = rig.connect_io(1).unwrap();
        assert_eq!(queue.start(Tag(0), &compare, 0), IoNext::Fetch { bytes: 512 });
        assert_eq!(queue.start(Tag(1), &write, 0), IoNext::Fetch { bytes: 512 });
        if held == 1 {
            assert_eq!(queue.data(Tag(0), &[]), IoNext::Hold);
        }
        rig.subsystem.set_namespace(replaced(1)).unwrap();
        follow(&mut rig, &mut [&mut queue]);
        let mut answered = 0;
        for tag in (held..2).map(Tag) {
            answered += match queue.data(tag, &[]) {
                IoNext::Reply { cqe, .. } => usize::from(!cqe.status.is_success()),
                IoNext::ReplyPair { first, second } => {
                    [first, second].iter().filter(|(_, cqe)| !cqe.status.is_success()).count()
                }
                other => panic!("{other:?}"),
            };
            answered +=
                usize::from(queue.orphan().is_some_and(|(_, cqe)| !cqe.status.is_success()));
        }
        assert_eq!((answered, queue.outstanding()), (2, 0), "{held} held");
    }
    // The first half came before, the second after.
    let mut rig = Rig::io();
    let mut queue = rig.connect_io(1).unwrap();
    assert_eq!(queue.start(Tag(0), &compare, 0), IoNext::Fetch { bytes: 512 });
    assert_eq!(queue.data(Tag(0), &[]), IoNext::Hold);
    rig.subsystem.set_namespace(replaced(1)).unwrap();
    follow(&mut rig, &mut [&mut queue]);
    assert_eq!(queue.start(Tag(1), &write, 0), IoNext::Fetch { bytes: 512 });
    match queue.data(Tag(1), &[]) {
        IoNext::ReplyPair { first, second } => {
            assert_eq!(
                (first.1.status, second.1.status),
                (Status::INVALID_NAMESPACE, Status::FAILED_FUSED)
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_host_sees_the_namespaces_that_are_meant_for_it() {
    let mut subsystem = subsystem();
    let private = |host: &str| Namespace { hosts: Some([nqn(host)].into()), ..namespace(9) };
    subsystem.set_namespace(private("stranger")).unwrap();
    let mut rig = Rig::enabled(subsystem);
    let mut queue = rig.connect_io(1).unwrap();
    let list = |rig: &mut Rig| {
        NamespaceList::decode(&rig.data(identify(Cns::ACTIVE_NAMESPACES, 0))).unwrap().0
    };
    assert_eq!(list(&mut rig), [1, 2, 4].map(Nsid));
    let read = blocks(NvmOpcode::READ, 9, 0, 1);
    assert_eq!(replied(queue.start(Tag(0), &read, 0)).status, Status::INVALID_NAMESPACE);
    // What happens to it does not concern this host.
    assert_eq!(rig.start(1, aer()), Next::Hold);
    rig.subsystem.set_namespace(Namespace { blocks: 5, ..private("stranger") }).unwrap();
    follow(&mut rig, &mut [&mut queue]);
    assert_eq!(rig.poll(), None);

    rig.subsystem.set_namespace(private("host")).unwrap();
    follow(&mut rig, &mut [&mut queue]);
    assert_eq!(rig.poll_reply().0, Tag(1), "it appears");
    assert_eq!(list(&mut rig), [1, 2, 4, 9].map(Nsid));
    submitted(queue.start(Tag(0), &read, 0));
    rig.data(get_log(LogPageId::CHANGED_NAMESPACES, 0, 4096));
    assert_eq!(rig.start(1, aer()), Next::Hold);
    // Shown to everybody: nothing changes for this one.
    rig.subsystem.set_namespace(namespace(9)).unwrap();
    follow(&mut rig, &mut [&mut queue]);
    assert_eq!((rig.poll(), queue.revoked(Tag(0))), (None, None));
    rig.subsystem.set_namespace(private("stranger")).unwrap();
    follow(&mut rig, &mut [&mut queue]);
    assert_eq!(rig.poll_reply().0, Tag(1), "it disappears");
    assert_eq!(queue.revoked(Tag(0)), Some(Status::INVALID_NAMESPACE));
}

#[test]
fn queues_of_a_controller_share_what_its_host_sees() {
    let mut subsystem = subsystem();
    subsystem
        .set_namespace(Namespace { hosts: Some([nqn("stranger")].into()), ..namespace(9) })
        .unwrap();
    let mut rig = Rig::enabled(subsystem);
    let cntlid = rig.control.cntlid();
    let first = rig.subsystem.namespaces_of(cntlid).unwrap();
    assert!(Arc::ptr_eq(&first, &rig.subsystem.namespaces_of(cntlid).unwrap()));
    assert!(!Arc::ptr_eq(&first, &rig.subsystem.namespaces()));
    rig.subsystem.remove_namespace(Nsid(9));
    let all = rig.subsystem.namespaces_of(cntlid).unwrap();
    assert!(Arc::ptr_eq(&all, &rig.subsystem.namespaces()), "nothing is hidden: one table for all");
}

#[test]
fn hosts_that_are_not_allowed_any_more_are_named() {
    let mut rig = Rig::io();
    assert_eq!(rig.subsystem.denied().count(), 0);
    rig.subsystem.set_hosts(Some(vec![nqn("other")]));
    assert_eq!(rig.subsystem.denied().collect::<Vec<_>>(), [rig.control.cntlid()]);
    rig.subsystem.set_hosts(Some(vec![nqn("other"), nqn("host")]));
    assert_eq!(rig.subsystem.denied().count(), 0);
}

#[test]
fn a_device_may_take_less_than_the_controller_announces() {
    let mut rig = Rig::io();
    let mut queue = rig.connect_io(1).unwrap();
    rig.subsystem.set_namespace(Namespace { transfer_bytes_max: 4096, ..namespace(5) }).unwrap();
    follow(&mut rig, &mut [&mut queue]);
    submitted(queue.start(Tag(0), &blocks(NvmOpcode::READ, 5, 0, 8), 0));
    assert_eq!(
        replied(queue.start(Tag(1), &blocks(NvmOpcode::READ, 5, 0, 9), 0)).status,
        Status::INVALID_FIELD
    );
    submitted(queue.start(Tag(1), &blocks(NvmOpcode::READ, 1, 0, 9), 0));
}

#[test]
fn the_same_discovery_log_is_no_change() {
    let mut rig = Rig::discovery();
    assert_eq!(rig.start(1, aer()), Next::Hold);
    let before = rig.subsystem.discovery();
    let after = rig.subsystem.set_discovery(Vec::new());
    assert!(Arc::ptr_eq(&before, &after));
    assert_eq!(after.generation(), 0);
    rig.control.discovery_changed(after);
    assert_eq!(rig.poll(), None);
}
