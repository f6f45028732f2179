//! Cross-Controller Reset, the instances that it names, ranges of controller identifiers, and the
//! number of the target's start.

use crate::nvme_controller_support::*;
use weft_proto::nvme::controller::{
    ControlEvent, ControllerCore, ControllerKind, CrossReset, Next, Subsystem, SubsystemConfig,
};
use weft_proto::nvme::cross_reset::CrossControllerReset;
use weft_proto::nvme::feature::{AsyncEvent, AsyncNotice};
use weft_proto::nvme::identify::{Cns, IdentifyController};
use weft_proto::nvme::log_page::LogPageId;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Id128, Nsid};
use weft_proto::stream::Tag;

/// Another controller of the subsystem, of a host with this identifier.
fn another(rig: &mut Rig, host: Id128) -> ControllerCore {
    let (ask, mut data) = connect(0, Cntlid::DYNAMIC, &rig.subsystem.config().nqn.clone());
    data.host_id = host;
    let connected =
        rig.subsystem.connect(seconds(0), &connect_sqe(&ask), &data_bytes(&data), PORT).unwrap();
    connected.queue
}

fn identify_of(control: &mut ControllerCore) -> IdentifyController {
    let mut page = vec![0; 4096];
    let on = weft_proto::nvme::fabrics::Property::set(
        weft_proto::nvme::property::PropertyOffset::CC,
        ON.into(),
    );
    control.start(seconds(0), Tag(0), &on);
    assert_eq!(
        control.start(seconds(0), Tag(0), &identify(Cns::CONTROLLER, 0)),
        Next::Produce { bytes: 4096 }
    );
    control.produce(seconds(0), Tag(0), &mut page);
    IdentifyController::decode(&page).unwrap()
}

/// Sends the command; gives the subsystem's answer to the controller, and returns it.
fn reset(rig: &mut Rig, tag: u16, named: CrossControllerReset) -> CrossReset {
    assert_eq!(rig.start(tag, named.encode()), Next::Hold);
    assert_eq!(rig.poll(), Some(ControlEvent::CrossReset(named)));
    let found = rig.subsystem.cross_reset(rig.control.cntlid(), named);
    rig.control.cross_reset(named, found);
    found
}

#[test]
fn identify_names_the_instance_and_the_limits() {
    let mut rig = Rig::io();
    rig.subsystem.set_start_number(0x1122);
    let id = |rig: &mut Rig| {
        IdentifyController::decode(&rig.data(identify(Cns::CONTROLLER, 0))).unwrap()
    };
    let first = id(&mut rig);
    assert_eq!((first.ccrl, first.cqt, first.start_number()), (4, 30_000, Some(0x1122)));
    assert!(first.instance().is_some());
    assert_eq!(id(&mut rig).instance(), first.instance());
    rig.set_cc(0);
    assert!(matches!(rig.poll(), Some(ControlEvent::Quiesce { .. })));
    rig.control.quiesced(rig.now);
    rig.set_cc(ON);
    let second = id(&mut rig);
    assert!(
        second.ciu != first.ciu && second.cirn != first.cirn,
        "a controller that is enabled anew is another instance"
    );
}

#[test]
fn a_controller_that_is_there_is_reset_and_the_log_page_tells_when() {
    let mut rig = Rig::io();
    let mut lost = another(&mut rig, HOST_ID);
    let named = identify_of(&mut lost).instance().unwrap();
    assert_eq!(rig.start(1, aer()), Next::Hold);
    assert_eq!(reset(&mut rig, 2, named), CrossReset::UnderWay);
    let (tag, cqe) = rig.poll_reply();
    assert_eq!((tag, cqe.status, cqe.result), (Tag(2), Status::SUCCESS, 0));
    let icid = named.icid.0 as u8;
    let entry = |status| [icid, 0, named.ciu, 0, 1, 0, status, 3];
    let log = |rig: &mut Rig| rig.data(get_log(LogPageId::CROSS_CONTROLLER_RESET, 0, 4096));
    assert_eq!(log(&mut rig)[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(log(&mut rig)[8..16], entry(0));
    assert_eq!(rig.status(named.encode()), Status::CROSS_CONTROLLER_RESET_IN_PROGRESS);

    rig.subsystem.release(named.icid);
    rig.control.cross_reset_over(named);
    let (tag, cqe) = rig.poll_reply();
    let event = AsyncEvent::decode(cqe.result as u32);
    assert_eq!(
        (tag, event.notice()),
        (Tag(1), Some(AsyncNotice::CROSS_CONTROLLER_RESET_COMPLETED))
    );
    assert_eq!(event.log_page, LogPageId::CROSS_CONTROLLER_RESET);
    let remove = with(get_log(LogPageId::CROSS_CONTROLLER_RESET, 0, 16), |sqe| {
        sqe.set_dword(10, sqe.dword(10) | 1 << 8)
    });
    assert_eq!(rig.data(remove)[8..16], entry(1));
    assert_eq!(log(&mut rig)[0], 0, "it was removed");

    // Now it is gone.
    assert_eq!(reset(&mut rig, 3, named), CrossReset::Over);
    let (_, cqe) = rig.poll_reply();
    assert_eq!((cqe.status, cqe.result), (Status::SUCCESS, 1));
}

#[test]
fn what_is_not_the_hosts_or_not_known_is_refused() {
    let mut rig = Rig::io();
    let own = IdentifyController::decode(&rig.data(identify(Cns::CONTROLLER, 0)))
        .unwrap()
        .instance()
        .unwrap();
    let (cqe, _) = rig.run(own.encode());
    assert_eq!((cqe.status, cqe.do_not_retry), (Status::INVALID_FIELD, true), "itself");
    let named = identify_of(&mut another(&mut rig, Id128([9; 16]))).instance().unwrap();
    assert_eq!(
        reset(&mut rig, 1, named),
        CrossReset::Refused(Status::INVALID_FIELD),
        "another host's"
    );
    assert_eq!(rig.poll_reply().1.status, Status::INVALID_FIELD);
    // Of the controller with this identifier, but not of this process: only who is alone knows that
    // it has ended.
    let before = CrossControllerReset { cirn: named.cirn ^ 1 << 50, ..named };
    assert_eq!(reset(&mut rig, 1, before), CrossReset::Refused(Status::INVALID_CONTROLLER_ID));
    assert_eq!(rig.poll_reply().1.status, Status::INVALID_CONTROLLER_ID);
    let mut alone =
        Subsystem::new(seconds(0), SubsystemConfig::new(ControllerKind::Io, nqn("alone")));
    alone.set_alone(true);
    let mut rig = Rig::enabled(alone);
    assert_eq!(reset(&mut rig, 1, before), CrossReset::Over);
    rig.poll_reply();
    let own = IdentifyController::decode(&rig.data(identify(Cns::CONTROLLER, 0)))
        .unwrap()
        .instance()
        .unwrap();
    let first_of_before = CrossControllerReset { cirn: before.cirn, ..own };
    assert_eq!(
        reset(&mut rig, 2, first_of_before),
        CrossReset::Over,
        "the process was started again"
    );
    let discovery =
        Rig::discovery().status(Sqe::new(AdminOpcode::CROSS_CONTROLLER_RESET.0, Nsid(0)));
    assert_eq!(discovery, Status::INVALID_OPCODE);
}

#[test]
fn so_many_at_a_time_and_no_more() {
    let mut rig = Rig::io();
    let named: Vec<_> =
        (0..5).map(|_| identify_of(&mut another(&mut rig, HOST_ID)).instance().unwrap()).collect();
    for (tag, named) in (1..).zip(&named[..4]) {
        assert_eq!(reset(&mut rig, tag, *named), CrossReset::UnderWay);
        rig.poll_reply();
    }
    let (cqe, _) = rig.run(named[4].encode());
    assert_eq!(
        (cqe.status, cqe.do_not_retry),
        (Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED, false)
    );
    rig.control.cross_reset_over(named[2]);
    assert_eq!(reset(&mut rig, 1, named[4]), CrossReset::UnderWay);
}

#[test]
fn identifiers_come_from_the_range_and_no_other() {
    let config = SubsystemConfig {
        cntlids: (1000, 1002),
        ..SubsystemConfig::new(ControllerKind::Io, nqn("ranged"))
    };
    let mut rig = Rig::connected(Subsystem::new(seconds(0), config), 0);
    let mut given = vec![rig.control.cntlid().0];
    given.extend((0..2).map(|_| another(&mut rig, HOST_ID).cntlid().0));
    assert_eq!(given, [1000, 1001, 1002]);
    let (ask, data) = connect(0, Cntlid::DYNAMIC, &nqn("ranged"));
    let refusal = rig
        .subsystem
        .connect(seconds(0), &connect_sqe(&ask), &data_bytes(&data), PORT)
        .unwrap_err();
    assert_eq!(refusal.cqe.status, Status::CONNECT_CONTROLLER_BUSY);
    rig.subsystem.release(Cntlid(1001));
    assert_eq!(another(&mut rig, HOST_ID).cntlid(), Cntlid(1001));
}
