//! I/O queues that controllers are granted: what is granted can be connected, whoever else comes,
//! and what is not connected is not kept for long.

use crate::devices::Testing;
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{Scene, Setup};
use crate::wire::{self, Peer};
use std::time::Duration;
use weft_io::{Handle, LoopConfig};
use weft_proto::limits::HANDSHAKE_S;
use weft_proto::nvme::feature::{FeatureId, QueueCounts};
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Nsid};

/// A target with at most so many connections.
fn scene(connections: usize) -> Scene {
    let mut setup = Setup::new(1, Testing::new("ram:16MiB"));
    setup.limits.connections = connections;
    Scene::new(setup)
}

/// A host at this address.
fn host(scene: &mut Scene, address: &str) -> Handle {
    let host = scene.world.host(address);
    let on = scene.world.add_loop(host, &LoopConfig::default());
    scene.world.handle(on)
}

/// A controller that was granted queues.
struct Controller {
    on: Handle,
    admin: Puppet,
    cntlid: Cntlid,
    granted: u16,
}

impl Controller {
    /// Connects one that asks for `wanted` queues.
    fn new(scene: &mut Scene, on: &Handle, wanted: u32) -> Self {
        let admin = Puppet::on(on.clone());
        let cntlid = wire::admin(&mut admin.within(scene), &who());
        let mut controller = Self { on: on.clone(), admin, cntlid, granted: 0 };
        controller.granted = controller.ask(scene, wanted).expect("there are queues left");
        controller
    }

    /// Asks for queues (Number of Queues); gives how many are granted.
    fn ask(&self, scene: &mut Scene, wanted: u32) -> Result<u16, Status> {
        let mut sqe = Sqe::new(AdminOpcode::SET_FEATURES.0, Nsid(0));
        sqe.set_dword(10, u32::from(FeatureId::NUMBER_OF_QUEUES.0));
        sqe.set_dword(11, QueueCounts { submission: wanted, completion: wanted }.encode());
        let mut admin = self.admin.within(scene);
        admin.put(&wire::capsule(&sqe, 5, &[]));
        let cqe = wire::response(&mut admin);
        let counts = QueueCounts::decode(cqe.result as u32);
        assert_eq!(counts.submission, counts.completion);
        if cqe.status.is_success() { Ok(counts.submission as u16) } else { Err(cqe.status) }
    }

    /// Connects its first queues.
    fn connect(&self, scene: &mut Scene, count: u16) -> Vec<Puppet> {
        let queue = |qid| {
            let io = Puppet::on(self.on.clone());
            wire::io_queue(&mut io.within(scene), &who(), self.cntlid, qid, 32);
            io
        };
        (1..=count).map(queue).collect()
    }

    /// Connects all queues that it was granted.
    fn connect_all(&self, scene: &mut Scene) -> Vec<Puppet> {
        self.connect(scene, self.granted)
    }
}

#[test]
fn silent_controllers_leave_queues_to_others_and_soon_to_their_own_address() {
    let mut scene = scene(4096);
    let (silent, other) = (host(&mut scene, "10.0.9.9"), host(&mut scene, "10.0.9.10"));
    let crowd: Vec<_> = (0..64).map(|_| Controller::new(&mut scene, &silent, 64)).collect();
    let total: usize = crowd.iter().map(|of| usize::from(of.granted)).sum();
    assert!(total > 2048 && total + 64 <= 3072, "{total} queues are granted");
    assert_eq!(scene.target.connections(), 64);

    // A further one of the same address gets little, but what it gets is there.
    let neighbour = Controller::new(&mut scene, &silent, 64);
    assert!((1..64).contains(&neighbour.granted), "{}", neighbour.granted);
    let few = neighbour.connect_all(&mut scene);
    assert_eq!(few.len(), usize::from(neighbour.granted));
    let honest = Controller::new(&mut scene, &other, 64);
    assert_eq!(honest.granted, 64);
    let queues = honest.connect_all(&mut scene);
    assert_eq!(queues.len(), 64);

    scene.world.run_for(Duration::from_secs(HANDSHAKE_S + 2));
    let neighbour = Controller::new(&mut scene, &silent, 64);
    assert_eq!(neighbour.granted, 64, "what the silent ones were granted has lapsed");
    let many = neighbour.connect_all(&mut scene);
    assert_eq!(many.len(), 64);
    // One of the silent ones wakes up: it may still connect what is free.
    let late = wake(&mut scene, &crowd[0], 1);
    assert_eq!(late, Status::SUCCESS);
}

/// A controller connects a queue; the status.
fn wake(scene: &mut Scene, controller: &Controller, qid: u16) -> Status {
    let io = Puppet::on(controller.on.clone());
    let mut io = io.within(scene);
    wire::greet(&mut io);
    wire::connect(&mut io, &who(), qid, controller.cntlid, 32).status
}

#[test]
fn granted_queues_can_be_connected_whoever_else_comes() {
    for (connections, controllers, wanted) in [(16, 2, 128), (64, 5, 8), (400, 20, 64)] {
        let mut scene = scene(connections);
        let hosts: Vec<_> =
            (0..3).map(|n| host(&mut scene, &format!("10.0.9.{}", n + 1))).collect();
        let made: Vec<_> = (0..controllers)
            .map(|n| Controller::new(&mut scene, &hosts[n % hosts.len()], wanted))
            .collect();
        // Others take all that is left.
        let crowd: Vec<_> = (0..8)
            .flat_map(|n| {
                let on = host(&mut scene, &format!("10.0.8.{}", n + 1));
                (0..connections).map(move |_| Puppet::on(on.clone()))
            })
            .collect();
        scene.world.run_for(Duration::from_millis(100));
        let granted: usize = made.iter().map(|of| usize::from(of.granted)).sum();
        assert_eq!(scene.target.connections() + granted, connections, "all are taken or granted");
        let queues: Vec<_> = made.iter().flat_map(|of| of.connect_all(&mut scene)).collect();
        assert_eq!((queues.len(), scene.target.connections()), (granted, connections));
        assert!(made.iter().all(|of| of.granted > 0));
        drop(crowd);
    }
}

#[test]
fn a_new_question_replaces_the_grant_and_a_full_target_grants_nothing() {
    let mut scene = scene(16);
    let on = host(&mut scene, "10.0.9.9");
    let one = Controller::new(&mut scene, &on, 4);
    assert_eq!(one.granted, 4);
    for _ in 0..20 {
        assert_eq!(one.ask(&mut scene, 4), Ok(4), "nothing is granted twice");
    }
    assert_eq!(one.ask(&mut scene, 1), Ok(1));
    // Admin queues of its address take the rest.
    let others: Vec<_> = (0..14)
        .map(|_| {
            let admin = Puppet::on(on.clone());
            wire::admin(&mut admin.within(&mut scene), &who());
            admin
        })
        .collect();
    assert_eq!(one.ask(&mut scene, 1), Ok(1), "its own is there");
    let two =
        Controller { on: on.clone(), admin: others[0].clone(), cntlid: one.cntlid, granted: 0 };
    assert_eq!(two.ask(&mut scene, 8), Err(Status::INTERNAL_ERROR));
    // A newcomer may be the queue that was granted; as another controller it has no place.
    let admin = Puppet::on(on.clone());
    wire::greet(&mut admin.within(&mut scene));
    let refused = wire::connect(&mut admin.within(&mut scene), &who(), 0, Cntlid::DYNAMIC, 32);
    assert_eq!(refused.status, Status::CONNECT_CONTROLLER_BUSY);
    admin.hang_up();
    scene.world.run_for(Duration::from_millis(100));
    assert_eq!(one.connect(&mut scene, 1).len(), 1);
}

#[test]
fn a_host_that_asks_again_and_connects_nothing_keeps_no_queues_for_longer() {
    let mut scene = scene(16);
    let on = host(&mut scene, "10.0.9.9");
    let one = Controller::new(&mut scene, &on, 4);
    for _ in 0..4 {
        scene.world.run_for(Duration::from_secs(HANDSHAKE_S / 3));
        assert_eq!(one.ask(&mut scene, 4), Ok(4));
    }
    let crowd: Vec<_> = (0..8)
        .flat_map(|n| {
            let on = host(&mut scene, &format!("10.0.8.{}", n + 1));
            (0..16).map(move |_| Puppet::on(on.clone()))
        })
        .collect();
    scene.world.run_for(Duration::from_millis(100));
    assert_eq!(scene.target.connections(), 16, "nothing is kept");
    drop(crowd);
}
