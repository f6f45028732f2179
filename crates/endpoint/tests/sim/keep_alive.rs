//! Keep alive, and controllers one of whose connections, or whose host, is gone.

use crate::sim::controller::{Controller, LIMIT};
use crate::sim::puppet::{Puppet, who};
use crate::wire::{self, Who};
use std::sync::Arc;
use std::time::Duration;
use weft_proto::nvme::host::command;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Lba, Nsid};

#[test]
fn without_its_admin_connection_a_controller_ends_when_its_device_lets_go() {
    let mut controller = Controller::new();
    controller.knobs.freeze(true);
    controller.write(4);
    controller.admin.hang_up();
    let (io, target) = (&controller.io, &controller.scene.target);
    assert!(controller.scene.world.run_until(|_| io.has_ended(), LIMIT));
    let on = controller.scene.world.handle(controller.scene.target_loops[0]);
    let before = on.counters().snapshot();
    controller.scene.world.run_for(Duration::from_secs(20));
    assert_eq!(
        (target.connections(), controller.knobs.held()),
        (2, 4),
        "the device holds its writes"
    );
    let turns = on.counters().snapshot().since(&before).turns;
    assert!(turns < 200, "{turns} turns while nothing happens");
    controller.knobs.freeze(false);
    controller.settle();
}

#[test]
fn without_an_io_connection_the_controller_goes_on() {
    let mut controller = Controller::new();
    controller.knobs.freeze(true);
    controller.write(4);
    controller.io.hang_up();
    controller.run(1);
    let refused = Puppet::new(&controller.scene);
    wire::greet(&mut refused.within(&mut controller.scene));
    let cqe =
        wire::connect(&mut refused.within(&mut controller.scene), &who(), 1, controller.cntlid, 32);
    assert_eq!(
        cqe.status,
        Status::INVALID_QUEUE_IDENTIFIER,
        "the device still holds writes of this queue"
    );
    controller.knobs.freeze(false);
    controller.run(1);
    // The same connection may try again.
    let cqe =
        wire::connect(&mut refused.within(&mut controller.scene), &who(), 1, controller.cntlid, 32);
    assert_eq!(cqe.status, Status::SUCCESS);
    assert!(controller.status().ready());
    refused.hang_up();
    controller.settle();
}

#[test]
fn a_host_that_is_not_heard_of_is_forgotten_whatever_waits_for_it() {
    let mut controller = Controller::of(&Who { keep_alive_ms: 3000, ..who() });
    // Answers that nobody takes.
    controller.io.set_deaf(true);
    for cid in 0..31 {
        controller.io.put(&wire::capsule_moving(
            &command::read(Nsid(1), Lba(0), 2048),
            100 + cid,
            1 << 20,
        ));
    }
    controller.run(1);
    assert!(
        controller.scene.world.handle(controller.scene.target_loops[0]).pool().taken_bytes() > 0
    );
    controller.scene.world.partition(controller.scene.target_host, controller.scene.client_host);
    let target = &controller.scene.target;
    let gone =
        controller.scene.world.run_until(|_| target.connections() == 0, Duration::from_secs(12));
    assert!(gone, "{} connections stay", target.connections());
    controller.scene.world.heal(controller.scene.target_host, controller.scene.client_host);
    controller.settle();
}

fn keep_alive(controller: &mut Controller, cid: u16) {
    let sqe = Sqe::new(AdminOpcode::KEEP_ALIVE.0, Nsid(0));
    controller.admin.put(&wire::capsule(&sqe, cid, &[]));
    let cqe = wire::response(&mut controller.admin.within(&mut controller.scene));
    assert_eq!(cqe.status, Status::SUCCESS);
}

#[test]
fn keep_alive_keeps_alive() {
    let mut controller = Controller::of(&Who { keep_alive_ms: 3000, ..who() });
    for cid in 0..10 {
        controller.run(2);
        keep_alive(&mut controller, 50 + cid);
    }
    let statistics = Arc::clone(controller.scene.inventory.statistics());
    assert_eq!(controller.scene.target.connections(), 2);
    assert_eq!(statistics.keep_alives_expired(), 0);
    controller.run(10);
    assert_eq!(controller.scene.target.connections(), 0);
    assert_eq!(statistics.keep_alives_expired(), 1);
    controller.settle();
}

#[test]
fn a_loop_that_stood_still_hears_the_host_before_it_takes_it_for_gone() {
    let mut controller = Controller::of(&Who { keep_alive_ms: 3000, ..who() });
    for cid in 0..3 {
        controller.run(2);
        controller
            .scene
            .target_loops
            .iter()
            .for_each(|at| controller.scene.world.pause(*at, Duration::from_secs(10)));
        keep_alive(&mut controller, 50 + cid);
        assert_eq!(controller.scene.target.connections(), 2);
    }
    controller.run(10);
    assert_eq!(controller.scene.target.connections(), 0, "a host that is gone");
    controller.settle();
}
