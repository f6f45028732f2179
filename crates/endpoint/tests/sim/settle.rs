//! What becomes of writes whose connection is lost: they end when it is known whether the controller has stopped.

use crate::devices::{Knobs, Testing};
use crate::scene::{Scene, Setup, options};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{BlockDevice, BlockQueue, Completion, Error, Op, OpKind, Outcome};
use weft_endpoint::source::nvme_tcp::NvmeTcpDevice;
use weft_io::sim::Cut;
use weft_io::{Activity, Driver, Handle};

/// Virtual time within which an association has ended, whatever its controller does.
const LIMIT: Duration = Duration::from_secs(60);

/// Has submitted operations, and keeps their completions.
struct Holder {
    queue: Box<dyn BlockQueue>,
    ops: VecDeque<Op>,
    done: Rc<RefCell<Vec<Completion>>>,
}

impl Driver for Holder {
    fn work(&mut self, _: &Handle) -> Activity {
        self.queue.submit(&mut self.ops);
        let before = self.done.borrow().len();
        self.queue.reap(&mut self.done.borrow_mut());
        Activity::busy_if(self.done.borrow().len() > before)
    }
}

struct Loss {
    scene: Scene,
    knobs: Arc<Knobs>,
    done: Rc<RefCell<Vec<Completion>>>,
    _device: Arc<NvmeTcpDevice>,
}

impl Loss {
    /// A write and a read are in a device that does nothing, and cannot be told to let go.
    fn new() -> Self {
        let device = Testing::new("ram:1MiB");
        let knobs = Arc::clone(&device.knobs);
        let mut scene = Scene::new(Setup::new(1, device));
        let device = scene.open(&options()).unwrap();
        knobs.freeze(true);
        knobs.honour_cancel(false);
        let on = scene.io_loop(0);
        let op = |kind, lba| Op::new(kind, lba, 1, lba, [on.pool().take(512).unwrap().into()].into());
        let ops = VecDeque::from([op(OpKind::Write { fua: false }, 1), op(OpKind::Read, 2)]);
        let done = Rc::<RefCell<Vec<Completion>>>::default();
        let give = Rc::clone(&done);
        on.try_spawn(|id| Ok::<_, Error>(Holder { queue: device.open_queue(&on, id)?, ops, done: give })).unwrap();
        assert!(scene.world.run_until(|_| knobs.held() == 2, LIMIT));
        Self { scene, knobs, done, _device: device }
    }

    /// Cuts the admin connection (0) or that of the I/O queue (1).
    fn cut(&mut self, nth: usize, how: Cut) {
        let number = self.scene.world.connections()[nth].id;
        self.scene.world.cut(number, how);
    }

    /// The outcomes that there are, reads before writes.
    fn outcomes(&self) -> Vec<Outcome> {
        let mut done: Vec<_> = self.done.borrow().iter().map(|it| (it.op.kind.is_write(), it.outcome)).collect();
        done.sort_by_key(|(is_write, _)| *is_write);
        done.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn both_end(&mut self) -> bool {
        let done = &self.done;
        self.scene.world.run_until(|_| done.borrow().len() == 2, LIMIT)
    }
}

#[test]
fn a_lost_write_ends_when_the_reset_is_answered() {
    let mut loss = Loss::new();
    loss.cut(1, Cut::Reset);
    loss.scene.world.run_for(Duration::from_secs(2));
    assert!(
        matches!(loss.outcomes()[..], [Outcome::MayHaveExecuted { .. }]),
        "a read has nothing to wait for: {:?}",
        loss.outcomes()
    );
    assert_eq!(loss.knobs.writes(), 0);
    loss.knobs.freeze(false);
    assert!(loss.both_end());
    assert!(matches!(loss.outcomes()[1], Outcome::MayHaveExecuted { settled: true, .. }), "{:?}", loss.outcomes());
    assert_eq!(loss.knobs.held(), 0);
}

#[test]
fn a_write_whose_controller_is_lost_too_may_still_be_executed() {
    let mut loss = Loss::new();
    loss.cut(0, Cut::Reset);
    assert!(loss.both_end());
    assert!(matches!(loss.outcomes()[1], Outcome::MayHaveExecuted { settled: false, .. }), "{:?}", loss.outcomes());
    assert_eq!(loss.knobs.held(), 2, "the device has it still");
    loss.knobs.freeze(false);
}

#[test]
fn a_write_whose_controller_does_not_answer_ends_all_the_same() {
    let mut loss = Loss::new();
    // The reset is refused nowhere and answered nowhere: the device never lets go.
    loss.cut(1, Cut::Close);
    assert!(loss.both_end());
    assert!(matches!(loss.outcomes()[1], Outcome::MayHaveExecuted { settled: false, .. }), "{:?}", loss.outcomes());
    assert_eq!((loss.knobs.held(), loss.knobs.writes()), (2, 0));
    loss.knobs.freeze(false);
}
