//! Cross-Controller Reset on a device whose writes end late: it is over when the device no longer
//! holds any write of the lost controller, whatever has become of the connections of that
//! controller.

use crate::devices::{Knobs, Testing};
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{Scene, Setup, host};
use crate::wire::{self, Peer, Who};
use std::sync::Arc;
use std::time::Duration;
use weft_proto::nvme::cross_reset::CrossControllerReset;
use weft_proto::nvme::host::command;
use weft_proto::nvme::identify::{Cns, IdentifyController};
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Lba, Nsid};
use weft_proto::nvme_tcp::pdu::{PduType, TRANSFER_BYTES};

const LIMIT: Duration = Duration::from_secs(60);
/// Notice F4h, log page 1Eh.
const RESET_OVER: u64 = 0x1e_f4_02;

/// A controller with an I/O queue whose writes the device holds, and another one of the same host,
/// or of another.
struct Testbed {
    scene: Scene,
    knobs: Arc<Knobs>,
    lost: [Puppet; 2],
    named: CrossControllerReset,
    other: Puppet,
}

impl Testbed {
    fn new(other_host: &Who) -> Self {
        let device = Testing::new("ram:16MiB");
        let knobs = Arc::clone(&device.knobs);
        let mut setup = Setup::new(1, device);
        setup.target_loops = 2;
        let mut scene = Scene::new(setup);
        let (admin, io, other) = (Puppet::new(&scene), Puppet::new(&scene), Puppet::new(&scene));
        let cntlid = wire::admin(&mut admin.within(&mut scene), &who());
        wire::io_queue(&mut io.within(&mut scene), &who(), cntlid, 1, 32);
        wire::admin(&mut other.within(&mut scene), other_host);
        let named = instance(&admin, &mut scene);
        knobs.freeze(true);
        for n in 0..3 {
            io.put(&wire::capsule(
                &command::write(Nsid(1), Lba(n), 1, false),
                10 + n as u16,
                &[7; 512],
            ));
        }
        assert!(scene.world.run_until(|_| knobs.held() == 3, LIMIT));
        Self { scene, knobs, lost: [admin, io], named, other }
    }

    /// Sends the command: status and dword 0 of its completion.
    fn reset(&mut self) -> (Status, u64) {
        self.other.put(&wire::capsule(&self.named.encode(), 7, &[]));
        let cqe = wire::response(&mut self.other.within(&mut self.scene));
        assert_eq!(cqe.cid.0, 7);
        (cqe.status, cqe.result)
    }

    /// It is over when the device lets go, and not before.
    fn until_over(mut self) {
        self.other.put(&wire::capsule(
            &Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, Nsid(0)),
            90,
            &[],
        ));
        assert_eq!(self.reset(), (Status::SUCCESS, 0));
        self.scene.world.run_for(Duration::from_secs(20));
        assert_eq!((self.knobs.held(), self.knobs.writes()), (3, 0));
        assert_eq!(self.reset().0, Status::CROSS_CONTROLLER_RESET_IN_PROGRESS);
        self.knobs.freeze(false);
        let cqe = wire::response(&mut self.other.within(&mut self.scene));
        assert_eq!(
            (cqe.cid.0, cqe.result, self.knobs.held(), self.knobs.writes()),
            (90, RESET_OVER, 0, 3)
        );
        assert_eq!(self.reset(), (Status::SUCCESS, 1), "now there is nothing left to reset");
        self.settle();
    }

    fn settle(mut self) {
        self.knobs.freeze(false);
        self.lost.iter().chain([&self.other]).for_each(Puppet::hang_up);
        self.scene.settle(LIMIT);
    }
}

fn instance(admin: &Puppet, scene: &mut Scene) -> CrossControllerReset {
    let mut sqe = Sqe::new(AdminOpcode::IDENTIFY.0, Nsid(0));
    sqe.set_dword(10, u32::from(Cns::CONTROLLER.0));
    admin.put(&wire::capsule_moving(&sqe, 3, 4096));
    let mut data = Vec::new();
    loop {
        let pdu = admin.within(scene).pdu().expect("data and a response");
        if pdu.kind() != PduType::C2H_DATA {
            assert_eq!(pdu.cqe().status, Status::SUCCESS);
            return IdentifyController::decode(&data).unwrap().instance().unwrap();
        }
        data.extend_from_slice(&pdu.0[TRANSFER_BYTES..]);
    }
}

#[test]
fn a_controller_whose_connections_stand_is_ended() {
    let stage = Testbed::new(&who());
    let lost = stage.lost.clone();
    stage.until_over();
    assert!(lost.iter().all(Puppet::has_ended));
}

#[test]
fn a_controller_whose_connections_are_gone_is_waited_for() {
    let mut stage = Testbed::new(&who());
    stage.lost.iter().for_each(Puppet::hang_up);
    stage.scene.world.run_for(Duration::from_secs(1));
    stage.until_over();
}

#[test]
fn the_controller_of_another_host_is_left_alone() {
    let mut stage = Testbed::new(&Who { host: host("stranger"), ..who() });
    assert_eq!(stage.reset().0, Status::INVALID_FIELD);
    stage.scene.world.run_for(Duration::from_secs(5));
    assert!(!stage.lost.iter().any(Puppet::has_ended));
    stage.settle();
}
