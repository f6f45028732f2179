//! Reset, shutdown, abort, the loss of connections and the end of a target, on a device whose
//! completions come late.

use crate::devices::{Knobs, Testing};
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{Scene, Setup, port};
use crate::wire::{self, ON, Peer, Who};
use std::sync::Arc;
use std::time::Duration;
use weft_block::{BlockDevice, Change};
use weft_io::sim::{Cut, CutAt, Side};
use weft_proto::nvme::host::command;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::property::{Configuration, ShutdownStatus};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Lba, Nsid};
use weft_proto::nvme_tcp::pdu::PduType;

const LIMIT: Duration = Duration::from_secs(60);

/// A controller with one I/O queue, brought up by hand.
struct Stage {
    scene: Scene,
    knobs: Arc<Knobs>,
    admin: Puppet,
    io: Puppet,
    cntlid: Cntlid,
}

impl Stage {
    fn new() -> Self {
        Self::of(&who())
    }

    fn of(who: &Who) -> Self {
        let device = Testing::new("ram:16MiB");
        let knobs = Arc::clone(&device.knobs);
        let mut setup = Setup::new(1, device);
        setup.target_loops = 2;
        let mut scene = Scene::new(setup);
        let (admin, io) = (Puppet::new(&scene), Puppet::new(&scene));
        let cntlid = wire::admin(&mut admin.within(&mut scene), who);
        wire::io_queue(&mut io.within(&mut scene), who, cntlid, 1, 32);
        Self { scene, knobs, admin, io, cntlid }
    }

    /// Sends writes of one block, with the CIDs 10 and on, and waits until they are with the
    /// device.
    fn write(&mut self, count: u16) {
        let reached = |knobs: &Knobs| knobs.held() + knobs.writes();
        let before = reached(&self.knobs);
        for n in 0..count {
            let sqe = command::write(Nsid(1), Lba(n.into()), 1, false);
            self.io.put(&wire::capsule(&sqe, 10 + n, &[n as u8; 512]));
        }
        let knobs = &self.knobs;
        assert!(
            self.scene.world.run_until(|_| reached(knobs) == before + usize::from(count), LIMIT)
        );
    }

    fn set_cc(&mut self, cc: u32) {
        assert_eq!(
            wire::set_cc(&mut self.admin.within(&mut self.scene), cc).status,
            Status::SUCCESS
        );
    }

    fn status(&mut self) -> weft_proto::nvme::property::ControllerStatus {
        wire::status(&mut self.admin.within(&mut self.scene))
    }

    fn run(&mut self, seconds: u64) {
        self.scene.world.run_for(Duration::from_secs(seconds));
    }

    /// Polls CSTS as hosts do.
    fn until_status(
        &mut self,
        reached: impl Fn(weft_proto::nvme::property::ControllerStatus) -> bool,
    ) {
        for _ in 0..1000 {
            if reached(self.status()) {
                return;
            }
            self.scene.world.run_for(Duration::from_millis(5));
        }
        panic!("CSTS does not get there: {:?}", self.status());
    }

    fn settle(mut self) {
        self.admin.hang_up();
        self.io.hang_up();
        self.scene.settle(LIMIT);
        assert_eq!(self.knobs.held(), 0);
    }
}

#[test]
fn a_disabled_controller_is_stopped_only_when_the_device_holds_nothing() {
    let mut stage = Stage::new();
    stage.knobs.freeze(true);
    stage.write(5);
    stage.set_cc(Configuration::NVM_ENTRY_SIZES);
    for _ in 0..5 {
        stage.run(1);
        assert!(stage.status().ready(), "the device holds {} writes", stage.knobs.held());
        assert_eq!(stage.knobs.held(), 5);
    }
    stage.knobs.freeze(false);
    stage.until_status(|csts| !csts.ready());
    assert_eq!((stage.knobs.held(), stage.knobs.writes()), (0, 5));
    assert!(stage.io.has_ended());
    // Nothing of before happens after.
    stage.run(5);
    assert_eq!(stage.knobs.writes(), 5);
    // And it can begin anew, with the same queue.
    stage.set_cc(ON);
    assert!(stage.status().ready());
    let again = Puppet::new(&stage.scene);
    wire::io_queue(&mut again.within(&mut stage.scene), &who(), stage.cntlid, 1, 32);
    again.hang_up();
    stage.settle();
}

#[test]
fn a_device_that_cancels_lets_a_reset_through_at_once() {
    let mut stage = Stage::new();
    stage.knobs.honour_cancel(true);
    stage.knobs.freeze(true);
    stage.write(5);
    stage.set_cc(Configuration::NVM_ENTRY_SIZES);
    // The device stays frozen, so that only what was cancelled ends.
    stage.knobs.set_delay(Duration::from_secs(1000));
    stage.run(1);
    stage.knobs.freeze(false);
    stage.until_status(|csts| !csts.ready());
    assert_eq!((stage.knobs.writes(), stage.knobs.cancelled()), (0, 5));
    stage.settle();
}

#[test]
fn a_shutdown_is_complete_only_when_everything_is_flushed() {
    let mut stage = Stage::new();
    stage.write(3);
    stage.run(1);
    assert_eq!((stage.knobs.writes(), stage.knobs.flushes()), (3, 0));
    stage.knobs.freeze(true);
    stage.set_cc(ON | Configuration::SHUTDOWN_NORMAL);
    stage.run(3);
    assert_eq!(stage.status().shutdown(), ShutdownStatus::IN_PROGRESS);
    stage.knobs.freeze(false);
    stage.until_status(|csts| csts.shutdown() == ShutdownStatus::COMPLETE);
    assert_eq!(stage.knobs.flushes(), 1);
    stage.settle();
}

#[test]
fn a_reset_in_the_middle_of_a_shutdown_ends_too() {
    let mut stage = Stage::new();
    stage.knobs.freeze(true);
    stage.write(2);
    stage.set_cc(ON | Configuration::SHUTDOWN_NORMAL);
    stage.run(1);
    stage.set_cc(Configuration::NVM_ENTRY_SIZES);
    stage.run(1);
    assert!(stage.status().ready());
    stage.knobs.freeze(false);
    stage.until_status(|csts| !csts.ready() && csts.shutdown() == ShutdownStatus::NONE);
    assert_eq!(stage.knobs.flushes(), 1);
    stage.settle();
}

#[test]
fn without_its_admin_connection_a_controller_ends_when_its_device_lets_go() {
    let mut stage = Stage::new();
    stage.knobs.freeze(true);
    stage.write(4);
    stage.admin.hang_up();
    let (io, target) = (&stage.io, &stage.scene.target);
    assert!(stage.scene.world.run_until(|_| io.has_ended(), LIMIT));
    let on = stage.scene.world.handle(stage.scene.target_loops[0]);
    let before = on.counters().snapshot();
    stage.scene.world.run_for(Duration::from_secs(20));
    assert_eq!((target.connections(), stage.knobs.held()), (2, 4), "the device holds its writes");
    let turns = on.counters().snapshot().since(&before).turns;
    assert!(turns < 200, "{turns} turns while nothing happens");
    stage.knobs.freeze(false);
    stage.settle();
}

#[test]
fn without_an_io_connection_the_controller_goes_on() {
    let mut stage = Stage::new();
    stage.knobs.freeze(true);
    stage.write(4);
    stage.io.hang_up();
    stage.run(1);
    let refused = Puppet::new(&stage.scene);
    wire::greet(&mut refused.within(&mut stage.scene));
    let cqe = wire::connect(&mut refused.within(&mut stage.scene), &who(), 1, stage.cntlid, 32);
    assert_eq!(
        cqe.status,
        Status::INVALID_QUEUE_IDENTIFIER,
        "the device still holds writes of this queue"
    );
    stage.knobs.freeze(false);
    stage.run(1);
    // The same connection may try again.
    let cqe = wire::connect(&mut refused.within(&mut stage.scene), &who(), 1, stage.cntlid, 32);
    assert_eq!(cqe.status, Status::SUCCESS);
    assert!(stage.status().ready());
    refused.hang_up();
    stage.settle();
}

#[test]
fn a_host_that_is_not_heard_of_is_forgotten_whatever_waits_for_it() {
    let mut stage = Stage::of(&Who { keep_alive_ms: 3000, ..who() });
    // Answers that nobody takes.
    stage.io.set_deaf(true);
    for cid in 0..31 {
        stage.io.put(&wire::capsule_moving(
            &command::read(Nsid(1), Lba(0), 2048),
            100 + cid,
            1 << 20,
        ));
    }
    stage.run(1);
    assert!(stage.scene.world.handle(stage.scene.target_loops[0]).pool().taken_bytes() > 0);
    stage.scene.world.partition(stage.scene.target_host, stage.scene.client_host);
    let target = &stage.scene.target;
    let gone = stage.scene.world.run_until(|_| target.connections() == 0, Duration::from_secs(12));
    assert!(gone, "{} connections stay", target.connections());
    stage.scene.world.heal(stage.scene.target_host, stage.scene.client_host);
    stage.settle();
}

#[test]
fn keep_alive_keeps_alive() {
    let mut stage = Stage::of(&Who { keep_alive_ms: 3000, ..who() });
    for cid in 0..10 {
        stage.run(2);
        stage.admin.put(&wire::capsule(
            &Sqe::new(AdminOpcode::KEEP_ALIVE.0, Nsid(0)),
            50 + cid,
            &[],
        ));
        assert_eq!(
            wire::response(&mut stage.admin.within(&mut stage.scene)).status,
            Status::SUCCESS
        );
    }
    assert_eq!(stage.scene.target.connections(), 2);
    stage.run(10);
    assert_eq!(stage.scene.target.connections(), 0);
    stage.settle();
}

#[test]
fn a_loop_that_stood_still_hears_the_host_before_it_takes_it_for_gone() {
    let mut stage = Stage::of(&Who { keep_alive_ms: 3000, ..who() });
    for cid in 0..3 {
        stage.run(2);
        stage
            .scene
            .target_loops
            .iter()
            .for_each(|at| stage.scene.world.pause(*at, Duration::from_secs(10)));
        stage.admin.put(&wire::capsule(
            &Sqe::new(AdminOpcode::KEEP_ALIVE.0, Nsid(0)),
            50 + cid,
            &[],
        ));
        assert_eq!(
            wire::response(&mut stage.admin.within(&mut stage.scene)).status,
            Status::SUCCESS
        );
        assert_eq!(stage.scene.target.connections(), 2);
    }
    stage.run(10);
    assert_eq!(stage.scene.target.connections(), 0, "a host that is gone");
    stage.settle();
}

fn abort(cid: u16) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::ABORT.0, Nsid(0));
    sqe.set_dword(10, 1 | u32::from(cid) << 16);
    sqe
}

#[test]
fn a_command_in_the_device_is_aborted_if_the_device_can() {
    for cancels in [true, false] {
        let mut stage = Stage::new();
        stage.knobs.honour_cancel(cancels);
        stage.knobs.set_delay(Duration::from_secs(5));
        stage.write(2);
        stage.admin.put(&wire::capsule(&abort(11), 3, &[]));
        assert_eq!(
            wire::response(&mut stage.admin.within(&mut stage.scene)).status,
            Status::SUCCESS
        );
        let mut answers: Vec<_> =
            (0..2).map(|_| wire::response(&mut stage.io.within(&mut stage.scene))).collect();
        answers.sort_by_key(|cqe| cqe.cid);
        let second = if cancels { Status::ABORT_REQUESTED } else { Status::SUCCESS };
        assert_eq!((answers[0].status, answers[1].status), (Status::SUCCESS, second));
        assert_eq!(stage.knobs.writes(), if cancels { 1 } else { 2 });
        stage.settle();
    }
}

#[test]
fn a_drained_target_answers_what_it_has_and_takes_no_more() {
    let mut stage = Stage::new();
    stage.knobs.freeze(true);
    stage.write(3);
    let newcomer = Puppet::new(&stage.scene);
    wire::greet(&mut newcomer.within(&mut stage.scene));
    stage.scene.target.drain();
    stage.run(1);
    assert!(newcomer.has_ended(), "nobody comes in any more");
    let late = command::write(Nsid(1), Lba(100), 1, false);
    stage.io.put(&wire::capsule(&late, 99, &[9; 512]));
    stage.run(1);
    assert_eq!((stage.knobs.held(), stage.io.has_ended()), (3, false));
    stage.knobs.freeze(false);
    let mut answered: Vec<_> =
        (0..3).map(|_| wire::response(&mut stage.io.within(&mut stage.scene)).cid.0).collect();
    answered.sort_unstable();
    assert_eq!(answered, [10, 11, 12]);
    stage.run(1);
    assert!(stage.io.has_ended() && !stage.admin.has_ended());
    assert_eq!((stage.knobs.writes(), stage.scene.target.io_queues()), (3, 0));
    stage.scene.target.close();
    stage.run(1);
    assert_eq!(stage.scene.target.connections(), 0);
    newcomer.hang_up();
    stage.admin.hang_up();
    stage.io.hang_up();
}

#[test]
fn a_busy_host_does_not_hold_up_a_drain() {
    let mut stage = Stage::new();
    stage.knobs.set_delay(Duration::from_millis(10));
    let write = |stage: &Stage, cid: u16| {
        stage.io.put(&wire::capsule(&command::write(Nsid(1), Lba(0), 1, false), cid, &[1; 512]));
    };
    (0..8).for_each(|cid| write(&stage, 200 + cid));
    stage.scene.world.run_for(Duration::from_millis(25));
    stage.scene.target.drain();
    let start = stage.scene.world.now();
    // As soon as one is answered, the next is sent.
    while let Some(pdu) = stage.io.within(&mut stage.scene).pdu() {
        write(&stage, pdu.cqe().cid.0);
    }
    assert!(stage.io.has_ended() && stage.scene.world.now() - start < Duration::from_secs(1));
    stage.scene.target.close();
    stage.admin.hang_up();
    stage.io.hang_up();
}

#[test]
fn a_broken_reset_leaves_no_controller_behind() {
    // The connections are cut at every stage of bringing a controller up.
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
    let mut stage = Stage::new();
    stage.knobs.freeze(true);
    stage.knobs.honour_cancel(false);
    stage.write(2);
    stage.admin.hang_up();
    stage.io.hang_up();
    stage.run(1);
    let again = Puppet::new(&stage.scene);
    wire::greet(&mut again.within(&mut stage.scene));
    again.put(&wire::connect_capsule(&who(), 0, Cntlid::DYNAMIC, 32));
    stage.run(1);
    assert!(
        again.take().is_none(),
        "the device holds {} writes of its last association",
        stage.knobs.held()
    );
    // Another host has nothing to do with them.
    let other = Who { host: crate::sim::scene::host("other"), ..who() };
    let neighbour = Puppet::new(&stage.scene);
    wire::admin(&mut neighbour.within(&mut stage.scene), &other);
    stage.knobs.freeze(false);
    assert_eq!(wire::response(&mut again.within(&mut stage.scene)).status, Status::SUCCESS);
    assert_eq!((stage.knobs.held(), stage.knobs.writes()), (0, 2));
    again.hang_up();
    neighbour.hang_up();
    stage.settle();
}

#[test]
fn a_host_that_comes_back_too_early_is_cut_off_in_time() {
    let mut stage = Stage::new();
    stage.knobs.freeze(true);
    stage.knobs.honour_cancel(false);
    stage.write(1);
    stage.admin.hang_up();
    stage.io.hang_up();
    stage.run(1);
    let again = Puppet::new(&stage.scene);
    wire::greet(&mut again.within(&mut stage.scene));
    again.put(&wire::connect_capsule(&who(), 0, Cntlid::DYNAMIC, 32));
    assert!(
        stage.scene.world.run_until(|_| again.has_ended(), LIMIT),
        "it holds its connection for ever"
    );
    assert!(again.take().is_none());
    stage.knobs.freeze(false);
    again.hang_up();
    stage.settle();
}

#[test]
fn answers_to_admin_commands_take_up_a_bounded_amount_of_memory() {
    let mut stage = Stage::new();
    let mut log = Sqe::new(AdminOpcode::GET_LOG_PAGE.0, Nsid(0));
    // Error Information, as much as there is.
    log.set_dword(10, 0x01 | 1023 << 16);
    stage.admin.set_deaf(true);
    stage.scene.world.set_net(|net| (net.send_buffer_bytes, net.recv_buffer_bytes) = (4096, 4096));
    for cid in 0..30 {
        stage.admin.put(&wire::capsule_moving(&log, 300 + cid, 4096));
    }
    stage.run(2);
    let taken: usize = stage
        .scene
        .target_loops
        .iter()
        .map(|&l| stage.scene.world.handle(l).pool().taken_bytes())
        .sum();
    assert!(taken <= 64 << 10, "{taken} bytes");
    stage.admin.set_deaf(false);
    let mut answered = 0;
    while answered < 30 {
        let pdu = stage.admin.within(&mut stage.scene).pdu().expect("answers go on");
        answered += usize::from(pdu.kind() == PduType::CAPSULE_RESP);
    }
    stage.settle();
}

#[test]
fn hosts_hear_of_a_device_that_changes() {
    let mut stage = Stage::new();
    let device = stage.scene.open(&crate::sim::scene::options()).unwrap();
    let before = device.geometry().blocks;
    let told = crate::sim::scene::Watcher::spawn(&stage.scene.io_loop(0), device.as_ref());
    stage.knobs.change(Change::Resized { blocks: before / 2 });
    assert!(stage.scene.world.run_until(|_| !told.borrow().is_empty(), LIMIT));
    assert_eq!(*told.borrow(), [Change::Resized { blocks: before / 2 }]);
    assert_eq!(device.geometry().blocks, before / 2);
    // Whoever comes later learns of it too, and beyond the end is refused.
    let later = stage.scene.open(&crate::sim::scene::options()).unwrap();
    assert_eq!(later.geometry().blocks, before / 2);
    stage.io.put(&wire::capsule_moving(&command::read(Nsid(1), Lba(before / 2), 1), 77, 512));
    assert_eq!(
        wire::response(&mut stage.io.within(&mut stage.scene)).status,
        Status::LBA_OUT_OF_RANGE
    );
    drop(later);
    // The namespace of one that is gone stays, for hosts that have another path to it.
    stage.knobs.change(Change::Gone);
    stage.run(1);
    stage.io.put(&wire::capsule_moving(&command::read(Nsid(1), Lba(0), 1), 78, 512));
    assert_eq!(wire::response(&mut stage.io.within(&mut stage.scene)).status, Status(0x360));
    assert_eq!(told.borrow().len(), 1);
}

#[test]
fn a_device_that_changed_while_nobody_was_there_is_seen_as_it_is() {
    let device = Testing::new("ram:16MiB");
    let knobs = Arc::clone(&device.knobs);
    let mut scene = Scene::new(Setup::new(1, device));
    knobs.change(Change::Resized { blocks: 1000 });
    let device = scene.open(&crate::sim::scene::options()).unwrap();
    assert_eq!(device.geometry().blocks, 1000);
}
