//! A controller with one I/O queue, which a test drives by hand.

use crate::devices::{Knobs, Testing};
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{Scene, Setup};
use crate::wire::{self, Who};
use std::sync::Arc;
use std::time::Duration;
use weft_proto::nvme::host::command;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Lba, Nsid};

pub const LIMIT: Duration = Duration::from_secs(60);

/// A controller with one I/O queue, brought up by hand.
pub struct Controller {
    pub scene: Scene,
    pub knobs: Arc<Knobs>,
    pub admin: Puppet,
    pub io: Puppet,
    pub cntlid: Cntlid,
}

impl Controller {
    pub fn new() -> Self {
        Self::of(&who())
    }

    pub fn of(who: &Who) -> Self {
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
    pub fn write(&mut self, count: u16) {
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

    pub fn set_cc(&mut self, cc: u32) {
        assert_eq!(
            wire::set_cc(&mut self.admin.within(&mut self.scene), cc).status,
            Status::SUCCESS
        );
    }

    pub fn status(&mut self) -> weft_proto::nvme::property::ControllerStatus {
        wire::status(&mut self.admin.within(&mut self.scene))
    }

    pub fn run(&mut self, seconds: u64) {
        self.scene.world.run_for(Duration::from_secs(seconds));
    }

    /// Polls CSTS as hosts do.
    pub fn until_status(
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

    pub fn settle(mut self) {
        self.admin.hang_up();
        self.io.hang_up();
        self.scene.settle(LIMIT);
        assert_eq!(self.knobs.held(), 0);
    }
}
