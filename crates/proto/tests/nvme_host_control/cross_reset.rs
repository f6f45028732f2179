//! Cross-Controller Reset: the command, its answers, and the log page with its progress.

use std::time::Duration;

use weft_proto::nvme::cross_reset::CrossControllerReset;
use weft_proto::nvme::host::HostAction;
use weft_proto::nvme::log_page::{CrossResetEntry, CrossResetHeader, CrossResetStatus};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Cntlid;

use super::fake::{CNTLID, Reply};
use super::world::World;

const LOST: CrossControllerReset =
    CrossControllerReset { icid: Cntlid(3), ciu: 5, cirn: 0x0102_0304_0506_0708 };
/// Notice, Cross-Controller Reset Completed, log page 1Eh.
const COMPLETED: u32 = 0x001e_f402;

fn world(ccrl: u8) -> World {
    World::ready_with(|fake| fake.identify.ccrl = ccrl)
}

fn done(stopped: bool) -> Option<HostAction> {
    Some(HostAction::CrossReset { lost: LOST, stopped })
}

fn log(status: CrossResetStatus) -> Reply {
    let mut page = CrossResetHeader { ne: 2 }.encode();
    let own =
        CrossResetEntry { icid: LOST.icid, ciu: LOST.ciu, acid: CNTLID, ccrs: status, ccrf: 0 };
    page.extend(
        CrossResetEntry { ciu: 4, ccrs: CrossResetStatus::SUCCESSFUL, ..own.clone() }.encode(),
    );
    page.extend(own.encode());
    page.resize(4096, 0);
    Reply::data(page)
}

#[test]
fn an_immediate_reset_is_told_at_once() {
    let mut world = world(1);
    world.script = Box::new(|_, sqe, _, _| {
        (sqe.opcode() == 0x38).then(|| {
            assert_eq!(sqe.0[..4], [0x38, 0x40, 0, 0]);
            assert_eq!(sqe.0[40..56], [3, 0, 5, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
            Reply::result(1)
        })
    });
    world.host.cross_reset(world.now, LOST);
    world.run();
    assert_eq!(world.said.pop_back(), done(true));
}

#[test]
fn a_controller_that_cannot_is_not_asked() {
    let mut world = world(0);
    assert!(!world.host.can_cross_reset());
    let commands = world.commands();
    world.host.cross_reset(world.now, LOST);
    world.run();
    assert_eq!((world.commands(), world.said.pop_back()), (commands, None));
}

#[test]
fn an_answer_may_take_as_long_as_the_devices_need() {
    let mut world = world(1);
    world.script = Box::new(|_, sqe, _, _| (sqe.opcode() == 0x38).then_some(Reply::Silence));
    world.host.cross_reset(world.now, LOST);
    world.pass(Duration::from_secs(120));
    assert_eq!(world.said.pop_back(), None);
    world.complete(|sqe| sqe.opcode() == 0x38, Status::SUCCESS, 1);
    assert_eq!(world.said.pop_back(), done(true));
}

#[test]
fn the_log_page_tells_of_a_reset_that_goes_on() {
    for (last, stopped) in [(CrossResetStatus::SUCCESSFUL, true), (CrossResetStatus::FAILED, false)]
    {
        let mut world = world(2);
        let mut reads = 0;
        world.script = Box::new(move |_, sqe, _, _| match (sqe.opcode(), sqe.dword(10) & 0xff) {
            (0x38, _) => Some(Reply::result(0)),
            (2, 0x1e) => {
                assert_eq!(sqe.dword(10) >> 8 & 0x7f, 1, "what is over is removed");
                reads += 1;
                Some(log(if reads == 3 { last } else { CrossResetStatus::IN_PROGRESS }))
            }
            _ => None,
        });
        world.host.cross_reset(world.now, LOST);
        world.run();
        assert_eq!(world.said.pop_back(), None);
        world.event(COMPLETED);
        assert!(matches!(world.said.pop_back(), Some(HostAction::Event(_))), "that of another one");
        world.pass(Duration::from_secs(5));
        assert_eq!(world.said.pop_back(), done(stopped));
        assert_eq!(world.outstanding(0x0c), 1);
    }
}

#[test]
fn a_refusal_for_want_of_room_is_tried_again_and_another_is_final() {
    for (second, stopped) in
        [(Reply::result(1), true), (Reply::status(Status::INVALID_CONTROLLER_ID), false)]
    {
        let mut world = world(1);
        let mut answers =
            vec![second, Reply::status(Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED)];
        world.script =
            Box::new(move |_, sqe, _, _| (sqe.opcode() == 0x38).then(|| answers.pop().unwrap()));
        world.host.cross_reset(world.now, LOST);
        world.run();
        assert_eq!(world.said.pop_back(), None);
        world.pass(Duration::from_secs(1));
        assert_eq!(world.said.pop_back(), done(stopped));
    }
}

#[test]
fn no_more_are_asked_for_than_the_controller_takes() {
    let mut world = world(2);
    world.script = Box::new(|_, sqe, _, _| (sqe.opcode() == 0x38).then_some(Reply::Silence));
    for ciu in 1..=3 {
        world.host.cross_reset(world.now, CrossControllerReset { ciu, ..LOST });
        world.host.cross_reset(world.now, CrossControllerReset { ciu, ..LOST });
    }
    world.run();
    assert_eq!(world.outstanding(0x38), 2);
    world.complete(|sqe| sqe.opcode() == 0x38, Status::SUCCESS, 1);
    assert_eq!(world.outstanding(0x38), 2, "the third follows");
}
