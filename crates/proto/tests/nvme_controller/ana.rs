//! Asymmetric namespace access: a controller's reports of it, events of changes, and refusals in
//! each state.

use crate::nvme_controller_support::*;
use std::net::SocketAddr;
use std::sync::Arc;
use weft_proto::nvme::controller::{
    AnaStates, ControlEvent, DeviceOutcome, IoNext, IoQueue, Namespace, Next,
};
use weft_proto::nvme::feature::{AsyncEvent, AsyncEventBits, AsyncNotice, FeatureId};
use weft_proto::nvme::identify::{
    Cns, IdentifyController, IdentifyIndependentNamespace, IdentifyNamespace,
};
use weft_proto::nvme::log_page::{AnaState, LogPageId};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Cntlid, Nsid};
use weft_proto::stream::Tag;

/// Namespaces 1 and 2 in group 1, 4 in group 7.
fn rig() -> Rig {
    let mut subsystem = subsystem();
    let far = subsystem.namespaces().find(Nsid(4)).unwrap().1.clone();
    subsystem.set_namespace(Namespace { ana_group: 7, ..far }).unwrap();
    Rig::enabled(subsystem)
}

/// Sets a state, and tells the controller and its queues, as their owner does.
fn set(rig: &mut Rig, queues: &mut [&mut IoQueue], group: u32, state: AnaState) {
    let mut states = AnaStates::default();
    states.set(None, group, state);
    rig.subsystem.set_ana_states(states);
    let table = rig.subsystem.namespaces_of(rig.control.cntlid()).unwrap();
    rig.control.namespaces_changed(Arc::clone(&table));
    queues.iter_mut().for_each(|queue| queue.set_namespaces(Arc::clone(&table)));
}

fn groups_only(bytes: u32) -> Sqe {
    let mut sqe = get_log(LogPageId::ANA, 0, bytes);
    sqe.set_dword(10, sqe.dword(10) | 1 << 8);
    sqe
}

const BEFORE: [u8; 92] = {
    let mut page = [0; 92];
    (page[0], page[8]) = (1, 2);
    (page[16], page[20], page[24], page[32]) = (1, 2, 1, 1);
    (page[48], page[52]) = (1, 2);
    (page[56], page[60], page[64], page[72]) = (7, 1, 1, 1);
    page[88] = 4;
    page
};

#[test]
fn identify_tells_of_groups() {
    let mut rig = rig();
    let id = IdentifyController::decode(&rig.data(identify(Cns::CONTROLLER, 0))).unwrap();
    assert_eq!(
        (id.cmic, id.anacap, id.anatt, id.anagrpmax, id.nanagrpid),
        (0b1011, 0x1f, 10, 128, 128)
    );
    assert_eq!(id.oaes, 0x10_0900);
    for (nsid, group) in [(1, 1), (2, 1), (4, 7)] {
        let id = IdentifyNamespace::decode(&rig.data(identify(Cns::NAMESPACE, nsid))).unwrap();
        assert_eq!((id.anagrpid, id.nmic, id.nuse), (group, 1, 1000));
        let id = IdentifyIndependentNamespace::decode(
            &rig.data(identify(Cns::INDEPENDENT_NAMESPACE, nsid)),
        )
        .unwrap();
        assert_eq!((id.anagrpid, id.nmic), (group, 1));
    }
}

#[test]
fn the_log_page_lists_the_groups_and_their_namespaces() {
    let mut rig = rig();
    assert_eq!(rig.data(get_log(LogPageId::ANA, 0, 92)), BEFORE);
    // As Linux reads it: with room for everything that there might be.
    let long = rig.data(get_log(LogPageId::ANA, 0, 4096));
    assert!(long[..92] == BEFORE && long[92..].iter().all(|&byte| byte == 0));
    assert_eq!(rig.data(get_log(LogPageId::ANA, 56, 36)), BEFORE[56..]);
    // As nvme-cli reads it: for all groups and namespaces that there may be, in parts.
    assert!(rig.data(get_log(LogPageId::ANA, 8192, 16)).iter().all(|&byte| byte == 0));
    assert_eq!(rig.status(get_log(LogPageId::ANA, 8212, 4)), Status::INVALID_FIELD);

    let mut short = [&BEFORE[..48], &BEFORE[56..88]].concat();
    (short[20], short[52]) = (0, 0);
    assert_eq!(rig.data(groups_only(80)), short);
    assert_eq!(
        rig.status(with(groups_only(4), |sqe| sqe.set_qword(12, 8212))),
        Status::INVALID_FIELD
    );
    assert_eq!(Rig::discovery().status(get_log(LogPageId::ANA, 0, 16)), Status::INVALID_LOG_PAGE);
}

#[test]
fn a_change_is_counted_and_told_once_until_the_log_page_is_read() {
    let mut rig = rig();
    assert_eq!((rig.start(1, aer()), rig.start(2, aer())), (Next::Hold, Next::Hold));
    set(&mut rig, &mut [], 7, AnaState::NON_OPTIMIZED);
    let (tag, cqe) = rig.poll_reply();
    let event = AsyncEvent::decode(cqe.result as u32);
    assert_eq!(
        (tag, event.notice(), event.log_page),
        (Tag(1), Some(AsyncNotice::ANA_CHANGE), LogPageId::ANA)
    );
    set(&mut rig, &mut [], 7, AnaState::INACCESSIBLE);
    assert_eq!(rig.poll(), None, "it is masked");

    let page = rig.data(with(get_log(LogPageId::ANA, 0, 92), |sqe| {
        sqe.set_dword(10, sqe.dword(10) | 1 << 15)
    }));
    assert_eq!((page[0], page[24], page[64], page[72]), (3, 1, 3, 3), "only group 7 has changed");
    set(&mut rig, &mut [], 7, AnaState::CHANGE);
    assert_eq!(rig.poll(), None, "the event was retained");
    assert_eq!(rig.data(get_log(LogPageId::ANA, 0, 92))[72], 0xf);
    set(&mut rig, &mut [], 7, AnaState::OPTIMIZED);
    assert!(matches!(rig.poll(), Some(ControlEvent::Reply { tag: Tag(2), .. })));
    set(&mut rig, &mut [], 7, AnaState::OPTIMIZED);
    assert_eq!(rig.data(get_log(LogPageId::ANA, 0, 92))[0], 5, "what is as before is no change");
}

#[test]
fn a_host_that_does_not_want_to_hear_of_it_does_not() {
    let mut rig = rig();
    assert_eq!(rig.start(1, aer()), Next::Hold);
    let events =
        set_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, AsyncEventBits::NAMESPACE_ATTRIBUTE);
    assert_eq!(rig.status(events), Status::SUCCESS);
    set(&mut rig, &mut [], 1, AnaState::INACCESSIBLE);
    assert_eq!(rig.poll(), None);
    // Namespaces that come have an event of their own, and this one only.
    rig.subsystem.set_namespace(namespace(9)).unwrap();
    let table = rig.subsystem.namespaces_of(rig.control.cntlid()).unwrap();
    rig.control.namespaces_changed(table);
    let (_, cqe) = rig.poll_reply();
    assert_eq!(
        AsyncEvent::decode(cqe.result as u32).notice(),
        Some(AsyncNotice::NAMESPACE_ATTRIBUTE_CHANGED)
    );
}

#[test]
fn a_namespace_that_moves_to_another_group_is_told_as_a_change_of_access() {
    let mut rig = rig();
    assert_eq!((rig.start(1, aer()), rig.start(2, aer())), (Next::Hold, Next::Hold));
    rig.subsystem.set_namespace(Namespace { ana_group: 7, ..namespace(1) }).unwrap();
    let table = rig.subsystem.namespaces_of(rig.control.cntlid()).unwrap();
    rig.control.namespaces_changed(table);
    let (_, cqe) = rig.poll_reply();
    assert_eq!(AsyncEvent::decode(cqe.result as u32).notice(), Some(AsyncNotice::ANA_CHANGE));
    assert_eq!(rig.poll(), None);
    assert_eq!(rig.data(get_log(LogPageId::ANA, 0, 92))[88..92], [4, 0, 0, 0]);
}

/// Reads, writes, flushes and what else there is are refused, without Do Not Retry: Linux tries
/// another path only then.
#[test]
fn each_state_refuses_with_its_status() {
    let states = [
        (AnaState::OPTIMIZED, None),
        (AnaState::NON_OPTIMIZED, None),
        (AnaState::INACCESSIBLE, Some(Status(0x302))),
        (AnaState::PERSISTENT_LOSS, Some(Status(0x301))),
        (AnaState::CHANGE, Some(Status(0x303))),
    ];
    for (state, refusal) in states {
        let mut rig = rig();
        let mut queue = rig.connect_io(1).unwrap();
        set(&mut rig, &mut [&mut queue], 1, state);
        let opcodes = [
            NvmOpcode::READ,
            NvmOpcode::WRITE,
            NvmOpcode::COMPARE,
            NvmOpcode::WRITE_ZEROES,
            NvmOpcode::FLUSH,
        ];
        for (tag, opcode) in (0..).zip(opcodes) {
            let next = queue.start(Tag(tag), &blocks(opcode, 1, 0, 1), 0);
            match (next, refusal) {
                (IoNext::Reply { cqe, .. }, Some(status)) => {
                    assert_eq!((cqe.status, cqe.do_not_retry), (status, false))
                }
                (IoNext::Submit(_) | IoNext::Fetch { .. }, None) => {}
                other => panic!("{state}, {opcode}: {other:?}"),
            }
        }
        let trim = with(blocks(NvmOpcode::DATASET_MANAGEMENT, 1, 0, 1), |sqe| {
            sqe.set_dword(10, 0);
            sqe.set_dword(11, 4);
            sqe.set_sgl(Sgl::transport(16));
        });
        let all = with(Sqe::new(NvmOpcode::FLUSH.0, Nsid::ALL), |sqe| sqe.set_cid(Cid(9)));
        for (tag, sqe) in [(5, trim), (6, all)] {
            let refused = match queue.start(Tag(tag), &sqe, 0) {
                IoNext::Reply { cqe, .. } => Some(cqe.status),
                _ => None,
            };
            assert_eq!(refused, refusal, "{state}: {sqe:?}");
        }
        // The other group is not concerned.
        assert!(matches!(
            queue.start(Tag(7), &blocks(NvmOpcode::FLUSH, 4, 0, 1), 0),
            IoNext::Submit(_)
        ));
        let recovery = with(get_feature(FeatureId::ERROR_RECOVERY, 0), |sqe| sqe.set_dword(1, 1));
        assert_eq!(rig.status(recovery), refusal.unwrap_or(Status::SUCCESS), "{state}");
    }
}

#[test]
fn identify_is_answered_in_every_state() {
    for (state, used) in
        [(AnaState::INACCESSIBLE, 0), (AnaState::PERSISTENT_LOSS, 0), (AnaState::CHANGE, 1000)]
    {
        let mut rig = rig();
        set(&mut rig, &mut [], 1, state);
        let id = IdentifyNamespace::decode(&rig.data(identify(Cns::NAMESPACE, 1))).unwrap();
        assert_eq!((id.nsze, id.ncap, id.nuse), (1000, 1000, used), "{state}");
        for cns in [Cns::NAMESPACE_DESCRIPTORS, Cns::INDEPENDENT_NAMESPACE, Cns::ACTIVE_NAMESPACES]
        {
            assert_eq!(rig.status(identify(cns, 1)), Status::SUCCESS);
        }
    }
}

#[test]
fn what_a_device_has_ends_as_it_ends_and_what_it_has_not_is_refused() {
    let mut rig = rig();
    let mut queue = rig.connect_io(1).unwrap();
    let read = submitted(queue.start(Tag(0), &blocks(NvmOpcode::READ, 1, 0, 1), 0));
    assert!(matches!(
        queue.start(Tag(1), &blocks(NvmOpcode::WRITE, 1, 0, 1), 0),
        IoNext::Fetch { .. }
    ));
    set(&mut rig, &mut [&mut queue], 1, AnaState::INACCESSIBLE);
    assert_eq!(queue.revoked(Tag(1)), Some(Status::ANA_INACCESSIBLE));
    let IoNext::Reply { cqe, .. } = queue.data(Tag(1), &[]) else { panic!("the write goes on") };
    assert_eq!((cqe.status, cqe.do_not_retry), (Status::ANA_INACCESSIBLE, false));
    let IoNext::Reply { cqe, data_bytes } = queue.finished(read.tag, DeviceOutcome::DONE, &[])
    else {
        panic!("it ends")
    };
    assert_eq!((cqe.status, data_bytes), (Status::SUCCESS, 512));
}

#[test]
fn each_listener_may_have_states_of_its_own() {
    let [here, there]: [SocketAddr; 2] =
        ["192.0.2.1:4420", "192.0.2.2:4420"].map(|at| at.parse().unwrap());
    let mut subsystem = subsystem();
    let mut states = AnaStates::default();
    states.set(None, 1, AnaState::NON_OPTIMIZED);
    states.set(Some(there), 1, AnaState::INACCESSIBLE);
    subsystem.set_ana_states(states);
    for (listener, state) in [(None, 2), (Some(here), 2), (Some(there), 3)] {
        let (ask, data) = connect(0, Cntlid::DYNAMIC, &subsystem.config().nqn.clone());
        let port = weft_proto::nvme::controller::Port { listener, ..PORT };
        let connected =
            subsystem.connect(seconds(0), &connect_sqe(&ask), &data_bytes(&data), port).unwrap();
        let mut rig = Rig::of(subsystem, connected.queue);
        assert_eq!(rig.set_cc(ON), Status::SUCCESS);
        assert_eq!(rig.data(get_log(LogPageId::ANA, 0, 48))[32], state, "{listener:?}");
        let queue = rig.connect_io(1).unwrap();
        assert_eq!(queue.namespaces().find(Nsid(1)).unwrap().1.ana_state.0, state);
        subsystem = rig.subsystem;
    }
}
