//! Life cycles of a controller: enable, reset, shutdown, keep alive, events, aborts.

use crate::nvme_controller_support::*;
use weft_proto::nvme::controller::{ControlEvent, Namespace, Next};
use weft_proto::nvme::deviation::Deviation;
use weft_proto::nvme::feature::{AsyncEvent, AsyncNotice, FeatureId};
use weft_proto::nvme::identify::{Cns, NamespaceList};
use weft_proto::nvme::log_page::LogPageId;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::property::{Configuration, PropertyOffset};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Nsid, Qid};
use weft_proto::stream::Tag;

#[test]
fn before_it_is_enabled_a_controller_takes_fabrics_commands_only() {
    let mut rig = Rig::connected(subsystem(), 0);
    for opcode in (0..=255u8).filter(|&opcode| opcode != AdminOpcode::FABRICS.0) {
        assert_eq!(
            rig.status(Sqe::new(opcode, Nsid(0))),
            Status::COMMAND_SEQUENCE_ERROR,
            "{opcode:#x}"
        );
    }
    assert_eq!(rig.property(PropertyOffset::CSTS), 0);
    assert!(!rig.control.operational());
    assert_eq!(rig.set_cc(ON), Status::SUCCESS);
    assert!(rig.control.operational());
    assert_eq!(rig.data(identify(Cns::CONTROLLER, 0)).len(), 4096);
}

#[test]
fn a_reset_is_done_when_the_devices_are_quiet() {
    let mut rig = Rig::io();
    rig.connect_io(1).unwrap();
    assert_eq!(rig.status(set_feature(FeatureId::ARBITRATION, 7)), Status::SUCCESS);
    assert_eq!(rig.status(set_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, 0)), Status::SUCCESS);

    assert_eq!(rig.set_cc(Configuration::NVM_ENTRY_SIZES), Status::SUCCESS);
    assert_eq!(rig.poll(), Some(ControlEvent::Quiesce { flush: false }));
    assert_eq!(rig.poll(), None);
    assert_eq!(rig.property(PropertyOffset::CSTS), 1, "writes may still be under way");
    assert_eq!(rig.status(identify(Cns::CONTROLLER, 0)), Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(rig.set_cc(ON), Status::COMMAND_SEQUENCE_ERROR);

    rig.subsystem.release_io(rig.control.cntlid(), Qid(1));
    rig.control.quiesced(rig.now);
    assert_eq!(rig.property(PropertyOffset::CSTS), 0);
    assert_eq!(rig.property(PropertyOffset::CC), 0);
    assert_eq!(rig.set_cc(ON), Status::SUCCESS);
    assert_eq!(
        rig.run(get_feature(FeatureId::ARBITRATION, 0)).0.result,
        0,
        "features are as in the beginning"
    );
    assert_eq!(rig.run(get_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, 0)).0.result, 0x10_0900);
    assert!(rig.connect_io(1).is_ok());
}

#[test]
fn a_shutdown_flushes_and_is_done_when_the_devices_are_quiet() {
    let mut rig = Rig::io();
    assert_eq!(rig.set_cc(ON | Configuration::SHUTDOWN_NORMAL), Status::SUCCESS);
    assert_eq!(rig.poll(), Some(ControlEvent::Quiesce { flush: true }));
    assert_eq!(rig.property(PropertyOffset::CSTS), 0b0101);
    assert_eq!(rig.status(keep_alive()), Status::COMMAND_SEQUENCE_ERROR);
    assert!(rig.connect_io(1).is_err());
    rig.control.quiesced(rig.now);
    assert_eq!(rig.property(PropertyOffset::CSTS), 0b1001);
}

#[test]
fn a_reset_ends_the_commands_that_wait() {
    let mut rig = Rig::io();
    assert_eq!(rig.start(1, aer()), Next::Hold);
    let request = rig.last_cid();
    assert_eq!(rig.start(2, abort(1, Cid(9))), Next::Hold);
    let Some(ControlEvent::Abort { ticket, .. }) = rig.poll() else { panic!() };
    rig.set_cc(0);
    let (tag, cqe) = rig.poll_reply();
    assert_eq!((tag, cqe.cid, cqe.status), (Tag(1), request, Status::SQ_DELETION_ABORT));
    assert_eq!(rig.poll_reply().0, Tag(2));
    assert_eq!(rig.poll(), Some(ControlEvent::Quiesce { flush: false }));
    // The answer to an abort of before is of no interest, even though the tag may be in use again.
    rig.control.quiesced(rig.now);
    rig.set_cc(ON);
    assert_eq!(rig.start(2, abort(1, Cid(9))), Next::Hold);
    assert!(matches!(rig.poll(), Some(ControlEvent::Abort { .. })));
    rig.control.abort_result(ticket, true);
    assert_eq!(rig.poll(), None);
}

#[test]
fn keep_alive_is_rounded_up_and_expires() {
    let mut rig = Rig::connected(subsystem(), 1_500);
    assert_eq!(rig.control.deadline(), Some(seconds(120)), "until it is enabled the host has time");
    rig.now = seconds(60);
    rig.set_cc(ON);
    assert_eq!(rig.run(get_feature(FeatureId::KEEP_ALIVE_TIMER, 0)).0.result, 2_000);
    assert_eq!(rig.control.deadline(), Some(seconds(62)));
    rig.now = seconds(61);
    assert_eq!(rig.status(identify(Cns::CONTROLLER, 0)), Status::SUCCESS);
    assert_eq!(rig.control.deadline(), Some(seconds(62)), "only Keep Alive counts");
    assert_eq!(rig.status(keep_alive()), Status::SUCCESS);
    assert_eq!(rig.control.deadline(), Some(seconds(63)));
    assert_eq!(rig.status(set_feature(FeatureId::KEEP_ALIVE_TIMER, 10_001)), Status::SUCCESS);
    assert_eq!(rig.control.deadline(), Some(seconds(72)));

    rig.now = seconds(72) - std::time::Duration::from_millis(1);
    assert_eq!(rig.poll(), None);
    rig.now = seconds(72);
    assert_eq!(rig.poll(), Some(ControlEvent::KeepAliveExpired));
    assert_eq!((rig.poll(), rig.control.deadline()), (None, None), "once");
    assert_eq!(rig.property(PropertyOffset::CSTS) & 2, 2, "fatal");
    assert!(rig.connect_io(1).is_err());
    assert_eq!(rig.status(keep_alive()), Status::COMMAND_SEQUENCE_ERROR);
}

#[test]
fn without_keep_alive_an_enabled_controller_waits_for_ever() {
    let mut rig = Rig::io();
    assert_eq!(rig.control.deadline(), None);
    assert_eq!(rig.status(set_feature(FeatureId::KEEP_ALIVE_TIMER, 5_000)), Status::SUCCESS);
    assert_eq!(rig.control.deadline(), Some(seconds(5)));
    assert_eq!(rig.status(set_feature(FeatureId::KEEP_ALIVE_TIMER, 0)), Status::SUCCESS);
    assert_eq!(rig.control.deadline(), None);
    // Disabled it does not.
    rig.now = seconds(1000);
    rig.set_cc(0);
    rig.poll();
    rig.now = seconds(1010);
    rig.control.quiesced(rig.now);
    assert_eq!(rig.control.deadline(), Some(seconds(1130)));
    rig.now = seconds(1130);
    assert_eq!(rig.poll(), Some(ControlEvent::KeepAliveExpired));
}

#[test]
fn a_change_of_namespaces_is_told_once_until_the_log_is_read() {
    let mut rig = Rig::io();
    assert_eq!(rig.start(1, aer()), Next::Hold);
    let table = rig.subsystem.set_namespace(Namespace { blocks: 2000, ..namespace(2) }).unwrap();
    rig.control.namespaces_changed(table);
    let (tag, cqe) = rig.poll_reply();
    let event = AsyncEvent::decode(cqe.result as u32);
    assert_eq!((tag, event.notice()), (Tag(1), Some(AsyncNotice::NAMESPACE_ATTRIBUTE_CHANGED)));
    assert_eq!(event.log_page, LogPageId::CHANGED_NAMESPACES);

    // A second change before the log is read is not told, but in the log.
    assert_eq!(rig.start(1, aer()), Next::Hold);
    let table = rig.subsystem.remove_namespace(Nsid(1));
    rig.control.namespaces_changed(table);
    assert_eq!(rig.poll(), None);
    let retained = with(get_log(LogPageId::CHANGED_NAMESPACES, 0, 4096), |sqe| {
        let dword = sqe.dword(10);
        sqe.set_dword(10, dword | 1 << 15);
    });
    for _ in 0..2 {
        let log = NamespaceList::decode(&rig.data(retained)).unwrap();
        assert_eq!(log.0, [Nsid(1), Nsid(2)]);
    }
    let log =
        NamespaceList::decode(&rig.data(get_log(LogPageId::CHANGED_NAMESPACES, 0, 4096))).unwrap();
    assert_eq!(log.0, [Nsid(1), Nsid(2)]);
    assert!(
        rig.data(get_log(LogPageId::CHANGED_NAMESPACES, 0, 4096)).iter().all(|&byte| byte == 0)
    );

    let table = rig.subsystem.set_namespace(namespace(1)).unwrap();
    rig.control.namespaces_changed(table.clone());
    assert_eq!(rig.poll_reply().0, Tag(1), "told again");
    rig.control.namespaces_changed(table);
    assert_eq!(rig.poll(), None, "nothing changed");
}

#[test]
fn an_event_waits_for_a_request_and_can_be_switched_off() {
    let mut rig = Rig::io();
    let table = rig.subsystem.remove_namespace(Nsid(1));
    rig.control.namespaces_changed(table);
    assert_eq!(rig.poll(), None);
    let (cqe, _) = rig.run(aer());
    assert_eq!(cqe.result, 0x0004_0002);

    rig.data(get_log(LogPageId::CHANGED_NAMESPACES, 0, 4096));
    assert_eq!(rig.status(set_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, 0)), Status::SUCCESS);
    assert_eq!(rig.start(1, aer()), Next::Hold);
    let table = rig.subsystem.remove_namespace(Nsid(2));
    rig.control.namespaces_changed(table);
    assert_eq!(rig.poll(), None);
    assert_eq!(
        rig.data(get_log(LogPageId::CHANGED_NAMESPACES, 0, 4))[0],
        2,
        "the log has it all the same"
    );
}

#[test]
fn there_is_a_limit_of_waiting_requests_and_they_can_be_aborted() {
    let mut rig = Rig::io();
    let mut ids = Vec::new();
    for tag in 1..=4 {
        assert_eq!(rig.start(tag, aer()), Next::Hold);
        ids.push(rig.last_cid());
    }
    assert_eq!(rig.status(aer()), Status::ASYNC_EVENT_LIMIT_EXCEEDED);
    // The request completes first, and then the Abort.
    assert_eq!(rig.start(7, abort(0, ids[1])), Next::Hold);
    let of_abort = rig.last_cid();
    let (tag, cqe) = rig.poll_reply();
    assert_eq!((tag, cqe.cid, cqe.status), (Tag(2), ids[1], Status::ABORT_REQUESTED));
    let (tag, cqe) = rig.poll_reply();
    assert_eq!((tag, cqe.cid, cqe.result), (Tag(7), of_abort, 0));
    assert_eq!(cqe.status, Status::SUCCESS);
    assert_eq!(rig.run(abort(0, ids[1])).0.result, 1, "it is gone");
    assert_eq!(rig.start(2, aer()), Next::Hold);
}

#[test]
fn aborts_of_io_commands_go_to_the_queue() {
    let mut rig = Rig::io();
    let mut tickets = Vec::new();
    for n in 1..=4 {
        assert_eq!(rig.start(n, abort(3, Cid(n))), Next::Hold);
        match rig.poll() {
            Some(ControlEvent::Abort { ticket, sqid: Qid(3), cid }) if cid == Cid(n) => {
                tickets.push(ticket)
            }
            other => panic!("{other:?}"),
        }
    }
    let more = rig.run(abort(3, Cid(9))).0;
    assert_eq!(
        (more.status, more.result),
        (Status::SUCCESS, 1),
        "more than ACL allows: not aborted"
    );
    assert_eq!(
        rig.control.take_deviations().iter().collect::<Vec<_>>(),
        [Deviation::TooManyAborts]
    );
    rig.control.abort_result(tickets[2], true);
    rig.control.abort_result(tickets[0], false);
    rig.control.abort_result(tickets[0], false);
    assert_eq!(
        [rig.poll_reply(), rig.poll_reply()].map(|(tag, cqe)| (tag, cqe.result)),
        [(Tag(3), 0), (Tag(1), 1)]
    );
    assert_eq!(rig.poll(), None);
}

#[test]
fn tags_beyond_the_queue_are_refused() {
    let mut rig = Rig::io();
    assert!(
        matches!(rig.start(32, aer()), Next::Reply { cqe, .. } if cqe.status == Status::INTERNAL_ERROR)
    );
    let mut out = [0; 16];
    for tag in [Tag(0), Tag(31), Tag(u16::MAX)] {
        assert_eq!(rig.control.produce(rig.now, tag, &mut out), Next::Hold);
    }
}
