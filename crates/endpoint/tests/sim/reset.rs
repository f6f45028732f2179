//! Reset, shutdown, abort, and the end of a target, on a device whose completions come late; and a
//! device that changes.

use crate::devices::Testing;
use crate::sim::controller::{Controller, LIMIT};
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{Scene, Setup, port};
use crate::wire::{self, ON, Peer, Who};
use std::sync::Arc;
use std::time::Duration;
use weft_block::{BlockDevice, DeviceChange};
use weft_io::sim::{Cut, CutAt, Side};
use weft_proto::nvme::host::command;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::property::{Configuration, ShutdownStatus};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Lba, Nsid};
use weft_proto::nvme_tcp::pdu::PduType;

#[test]
fn a_disabled_controller_is_stopped_only_when_the_device_holds_nothing() {
    let mut controller = Controller::new();
    controller.knobs.freeze(true);
    controller.write(5);
    controller.set_cc(Configuration::NVM_ENTRY_SIZES);
    for _ in 0..5 {
        controller.run(1);
        assert!(controller.status().ready(), "the device holds {} writes", controller.knobs.held());
        assert_eq!(controller.knobs.held(), 5);
    }
    controller.knobs.freeze(false);
    controller.until_status(|csts| !csts.ready());
    assert_eq!((controller.knobs.held(), controller.knobs.writes()), (0, 5));
    assert!(controller.io.has_ended());
    // Nothing of before happens after.
    controller.run(5);
    assert_eq!(controller.knobs.writes(), 5);
    // And it can begin anew, with the same queue.
    controller.set_cc(ON);
    assert!(controller.status().ready());
    let again = Puppet::new(&controller.scene);
    wire::io_queue(&mut again.within(&mut controller.scene), &who(), controller.cntlid, 1, 32);
    again.hang_up();
    controller.settle();
}

#[test]
fn a_device_that_cancels_lets_a_reset_through_at_once() {
    let mut controller = Controller::new();
    controller.knobs.honour_cancel(true);
    controller.knobs.freeze(true);
    controller.write(5);
    controller.set_cc(Configuration::NVM_ENTRY_SIZES);
    // The device stays frozen, so that only what was cancelled ends.
    controller.knobs.set_delay(Duration::from_secs(1000));
    controller.run(1);
    controller.knobs.freeze(false);
    controller.until_status(|csts| !csts.ready());
    assert_eq!((controller.knobs.writes(), controller.knobs.cancelled()), (0, 5));
    controller.settle();
}

#[test]
fn a_shutdown_is_complete_only_when_everything_is_flushed() {
    let mut controller = Controller::new();
    controller.write(3);
    controller.run(1);
    assert_eq!((controller.knobs.writes(), controller.knobs.flushes()), (3, 0));
    controller.knobs.freeze(true);
    controller.set_cc(ON | Configuration::SHUTDOWN_NORMAL);
    controller.run(3);
    assert_eq!(controller.status().shutdown(), ShutdownStatus::IN_PROGRESS);
    controller.knobs.freeze(false);
    controller.until_status(|csts| csts.shutdown() == ShutdownStatus::COMPLETE);
    assert_eq!(controller.knobs.flushes(), 1);
    controller.settle();
}

#[test]
fn a_reset_in_the_middle_of_a_shutdown_ends_too() {
    let mut controller = Controller::new();
    controller.knobs.freeze(true);
    controller.write(2);
    controller.set_cc(ON | Configuration::SHUTDOWN_NORMAL);
    controller.run(1);
    controller.set_cc(Configuration::NVM_ENTRY_SIZES);
    controller.run(1);
    assert!(controller.status().ready());
    controller.knobs.freeze(false);
    controller.until_status(|csts| !csts.ready() && csts.shutdown() == ShutdownStatus::NONE);
    assert_eq!(controller.knobs.flushes(), 1);
    controller.settle();
}

fn abort(cid: u16) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::ABORT.0, Nsid(0));
    sqe.set_dword(10, 1 | u32::from(cid) << 16);
    sqe
}

#[test]
fn a_command_in_the_device_is_aborted_if_the_device_can() {
    for cancels in [true, false] {
        let mut controller = Controller::new();
        controller.knobs.honour_cancel(cancels);
        controller.knobs.set_delay(Duration::from_secs(5));
        controller.write(2);
        controller.admin.put(&wire::capsule(&abort(11), 3, &[]));
        assert_eq!(
            wire::response(&mut controller.admin.within(&mut controller.scene)).status,
            Status::SUCCESS
        );
        let mut answers: Vec<_> = (0..2)
            .map(|_| wire::response(&mut controller.io.within(&mut controller.scene)))
            .collect();
        answers.sort_by_key(|cqe| cqe.cid);
        let second = if cancels { Status::ABORT_REQUESTED } else { Status::SUCCESS };
        assert_eq!((answers[0].status, answers[1].status), (Status::SUCCESS, second));
        assert_eq!(controller.knobs.writes(), if cancels { 1 } else { 2 });
        controller.settle();
    }
}

#[test]
fn a_drained_target_answers_what_it_has_and_takes_no_more() {
    let mut controller = Controller::new();
    controller.knobs.freeze(true);
    controller.write(3);
    let newcomer = Puppet::new(&controller.scene);
    wire::greet(&mut newcomer.within(&mut controller.scene));
    controller.scene.target.drain();
    controller.run(1);
    assert!(newcomer.has_ended(), "nobody comes in any more");
    let late = command::write(Nsid(1), Lba(100), 1, false);
    controller.io.put(&wire::capsule(&late, 99, &[9; 512]));
    controller.run(1);
    assert_eq!((controller.knobs.held(), controller.io.has_ended()), (3, false));
    controller.knobs.freeze(false);
    let mut answered: Vec<_> = (0..3)
        .map(|_| wire::response(&mut controller.io.within(&mut controller.scene)).cid.0)
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, [10, 11, 12]);
    controller.run(1);
    assert!(controller.io.has_ended() && !controller.admin.has_ended());
    assert_eq!((controller.knobs.writes(), controller.scene.target.io_queues()), (3, 0));
    controller.scene.target.close();
    controller.run(1);
    assert_eq!(controller.scene.target.connections(), 0);
    newcomer.hang_up();
    controller.admin.hang_up();
    controller.io.hang_up();
}

#[test]
fn a_busy_host_does_not_hold_up_a_drain() {
    let mut controller = Controller::new();
    controller.knobs.set_delay(Duration::from_millis(10));
    let write = |controller: &Controller, cid: u16| {
        controller.io.put(&wire::capsule(
            &command::write(Nsid(1), Lba(0), 1, false),
            cid,
            &[1; 512],
        ));
    };
    (0..8).for_each(|cid| write(&controller, 200 + cid));
    controller.scene.world.run_for(Duration::from_millis(25));
    controller.scene.target.drain();
    let start = controller.scene.world.now();
    // As soon as one is answered, the next is sent.
    while let Some(pdu) = controller.io.within(&mut controller.scene).pdu() {
        write(&controller, pdu.cqe().cid.0);
    }
    assert!(
        controller.io.has_ended() && controller.scene.world.now() - start < Duration::from_secs(1)
    );
    controller.scene.target.close();
    controller.admin.hang_up();
    controller.io.hang_up();
}

#[test]
fn a_broken_reset_leaves_no_controller_behind() {
    // The connections are cut at every controller of bringing a controller up.
    for after_bytes in (0..2200).step_by(37) {
        for how in [Cut::Reset, Cut::Close] {
            let mut setup = Setup::new(after_bytes, Testing::new("ram:1MiB"));
            setup.target_loops = 2;
            let mut scene = Scene::new(setup);
            scene.world.plan(port(), Some(CutAt { from: Side::Client, after_bytes, how }));
            let error = scene.open(&crate::sim::scene::options()).err();
            scene.settle(Duration::from_secs(200));
            assert!(error.is_none_or(|e| !e.to_string().contains('\n')));
        }
    }
}

#[test]
fn a_host_that_comes_back_waits_for_writes_of_its_lost_association() {
    let mut controller = Controller::new();
    controller.knobs.freeze(true);
    controller.knobs.honour_cancel(false);
    controller.write(2);
    controller.admin.hang_up();
    controller.io.hang_up();
    controller.run(1);
    let again = Puppet::new(&controller.scene);
    wire::greet(&mut again.within(&mut controller.scene));
    again.put(&wire::connect_capsule(&who(), 0, Cntlid::DYNAMIC, 32));
    controller.run(1);
    assert!(
        again.take().is_none(),
        "the device holds {} writes of its last association",
        controller.knobs.held()
    );
    // Another host has nothing to do with them.
    let other = Who { host: crate::sim::scene::host("other"), ..who() };
    let neighbour = Puppet::new(&controller.scene);
    wire::admin(&mut neighbour.within(&mut controller.scene), &other);
    controller.knobs.freeze(false);
    assert_eq!(wire::response(&mut again.within(&mut controller.scene)).status, Status::SUCCESS);
    assert_eq!((controller.knobs.held(), controller.knobs.writes()), (0, 2));
    again.hang_up();
    neighbour.hang_up();
    controller.settle();
}

#[test]
fn a_host_that_comes_back_too_early_is_cut_off_in_time() {
    let mut controller = Controller::new();
    controller.knobs.freeze(true);
    controller.knobs.honour_cancel(false);
    controller.write(1);
    controller.admin.hang_up();
    controller.io.hang_up();
    controller.run(1);
    let again = Puppet::new(&controller.scene);
    wire::greet(&mut again.within(&mut controller.scene));
    again.put(&wire::connect_capsule(&who(), 0, Cntlid::DYNAMIC, 32));
    assert!(
        controller.scene.world.run_until(|_| again.has_ended(), LIMIT),
        "it holds its connection for ever"
    );
    assert!(again.take().is_none());
    controller.knobs.freeze(false);
    again.hang_up();
    controller.settle();
}

#[test]
fn answers_to_admin_commands_take_up_a_bounded_amount_of_memory() {
    let mut controller = Controller::new();
    let mut log = Sqe::new(AdminOpcode::GET_LOG_PAGE.0, Nsid(0));
    // Error Information, as much as there is.
    log.set_dword(10, 0x01 | 1023 << 16);
    controller.admin.set_deaf(true);
    controller
        .scene
        .world
        .set_net(|net| (net.send_buffer_bytes, net.recv_buffer_bytes) = (4096, 4096));
    for cid in 0..30 {
        controller.admin.put(&wire::capsule_moving(&log, 300 + cid, 4096));
    }
    controller.run(2);
    let taken: usize = controller
        .scene
        .target_loops
        .iter()
        .map(|&l| controller.scene.world.handle(l).pool().taken_bytes())
        .sum();
    assert!(taken <= 64 << 10, "{taken} bytes");
    controller.admin.set_deaf(false);
    let mut answered = 0;
    while answered < 30 {
        let pdu = controller.admin.within(&mut controller.scene).pdu().expect("answers go on");
        answered += usize::from(pdu.kind() == PduType::CAPSULE_RESP);
    }
    controller.settle();
}

#[test]
fn hosts_hear_of_a_device_that_changes() {
    let mut controller = Controller::new();
    let device = controller.scene.open(&crate::sim::scene::options()).unwrap();
    let before = device.geometry().blocks;
    let told = crate::sim::scene::Watcher::spawn(&controller.scene.io_loop(0), device.as_ref());
    controller.knobs.change(DeviceChange::Resized { blocks: before / 2 });
    assert!(controller.scene.world.run_until(|_| !told.borrow().is_empty(), LIMIT));
    assert_eq!(*told.borrow(), [DeviceChange::Resized { blocks: before / 2 }]);
    assert_eq!(device.geometry().blocks, before / 2);
    // Whoever comes later learns of it too, and beyond the end is refused.
    let later = controller.scene.open(&crate::sim::scene::options()).unwrap();
    assert_eq!(later.geometry().blocks, before / 2);
    controller.io.put(&wire::capsule_moving(&command::read(Nsid(1), Lba(before / 2), 1), 77, 512));
    assert_eq!(
        wire::response(&mut controller.io.within(&mut controller.scene)).status,
        Status::LBA_OUT_OF_RANGE
    );
    drop(later);
    // The namespace of one that is gone stays, for hosts that have another path to it.
    controller.knobs.change(DeviceChange::Gone);
    controller.run(1);
    controller.io.put(&wire::capsule_moving(&command::read(Nsid(1), Lba(0), 1), 78, 512));
    assert_eq!(
        wire::response(&mut controller.io.within(&mut controller.scene)).status,
        Status(0x360)
    );
    assert_eq!(told.borrow().len(), 1);
}

#[test]
fn a_device_that_changed_while_nobody_was_there_is_seen_as_it_is() {
    let device = Testing::new("ram:16MiB");
    let knobs = Arc::clone(&device.knobs);
    let mut scene = Scene::new(Setup::new(1, device));
    knobs.change(DeviceChange::Resized { blocks: 1000 });
    let device = scene.open(&crate::sim::scene::options()).unwrap();
    assert_eq!(device.geometry().blocks, 1000);
}
