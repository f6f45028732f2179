//! Writes whose connection is lost: they end when they can no longer be executed, which each
//! protocol knows in its own way.

use crate::devices::{Knobs, Testing};
use crate::sim::protocols::{AnyScene, Protocol};
use crate::sim::scene::{Setup, options};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{BlockQueue, Completion, Device, Error, Op, OpKind, Outcome};
use weft_endpoint::ConnectOptions;
use weft_io::sim::Cut;
use weft_io::{Activity, Driver, Handle, Time};

/// Virtual time within which everything has ended, whatever the peer does.
const LIMIT: Duration = Duration::from_secs(120);
const S: Duration = Duration::from_secs(1);

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
    scene: AnyScene,
    knobs: Arc<Knobs>,
    done: Rc<RefCell<Vec<Completion>>>,
    cut_at: Time,
    _device: Device,
}

impl Loss {
    fn new() -> Self {
        Self::of(Protocol::NvmeTcp, &options())
    }

    /// A write and a read are in a device that does nothing, and cannot be told to let go.
    fn of(protocol: Protocol, options: &ConnectOptions) -> Self {
        let device = Testing::new("ram:1MiB");
        let knobs = Arc::clone(&device.knobs);
        let mut scene = protocol.scene(Setup::new(1, device));
        let device = scene.open_url(&protocol.url(), options).unwrap();
        knobs.freeze(true);
        knobs.honour_cancel(false);
        let on = scene.io_loop(0);
        let op =
            |kind, lba| Op::new(kind, lba, 1, lba, [on.pool().take(512).unwrap().into()].into());
        let ops = VecDeque::from([op(OpKind::Write { fua: false }, 1), op(OpKind::Read, 2)]);
        let done = Rc::<RefCell<Vec<Completion>>>::default();
        let give = Rc::clone(&done);
        on.try_spawn(|id| {
            Ok::<_, Error>(Holder { queue: device.open_queue(&on, id)?, ops, done: give })
        })
        .unwrap();
        assert!(scene.world.run_until(|_| knobs.held() == 2, LIMIT));
        Self { scene, knobs, done, cut_at: Time::ZERO, _device: device }
    }

    /// Cuts a connection: of NVMe the admin connection is 0, that of the I/O queue 1.
    fn cut(&mut self, nth: usize, how: Cut) {
        let number = self.scene.world.connections()[nth].id;
        self.scene.world.cut(number, how);
        self.cut_at = self.scene.world.now();
    }

    /// The outcomes that there are, reads before writes.
    fn outcomes(&self) -> Vec<Outcome> {
        let mut done: Vec<_> =
            self.done.borrow().iter().map(|it| (it.op.kind.is_write(), it.outcome)).collect();
        done.sort_by_key(|(is_write, _)| *is_write);
        done.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn both_end(&mut self) -> bool {
        let done = &self.done;
        self.scene.world.run_until(|_| done.borrow().len() == 2, LIMIT)
    }

    /// The write ends as settled, but not before so much time has passed since the cut; and soon
    /// after that.
    fn write_ends_after(&mut self, bound: Duration) {
        self.scene.world.run_for(S);
        assert!(
            matches!(self.outcomes()[..], [Outcome::MayHaveExecuted { .. }]),
            "a read has nothing to wait for"
        );
        assert!(self.both_end());
        assert!(
            matches!(self.outcomes()[1], Outcome::MayHaveExecuted { settled: true, .. }),
            "{:?}",
            self.outcomes()
        );
        let waited = self.scene.world.now().since_epoch().saturating_sub(self.cut_at.since_epoch());
        assert!((bound..bound + S).contains(&waited), "after {waited:?} instead of {bound:?}");
        assert_eq!(
            self.knobs.writes(),
            0,
            "the device has it still, and would have had to end it by now"
        );
        self.knobs.freeze(false);
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
    assert!(
        matches!(loss.outcomes()[1], Outcome::MayHaveExecuted { settled: true, .. }),
        "{:?}",
        loss.outcomes()
    );
    assert_eq!(loss.knobs.held(), 0);
}

#[test]
fn a_write_whose_controller_is_lost_too_waits_for_keep_alive_and_quiesce_time() {
    let mut loss = Loss::new();
    loss.cut(0, Cut::Reset);
    loss.write_ends_after(2 * 5 * S + 10 * S);
}

#[test]
fn the_quiesce_time_is_an_option() {
    let mut loss = Loss::of(
        Protocol::NvmeTcp,
        &ConnectOptions { quiesce_time: 3 * S, keep_alive_ms: 2000, ..options() },
    );
    loss.cut(0, Cut::Reset);
    loss.write_ends_after(2 * 2 * S + 3 * S);
}

#[test]
fn without_keep_alive_the_quiesce_time_is_all_there_is() {
    let mut loss = Loss::of(Protocol::NvmeTcp, &ConnectOptions { keep_alive_ms: 0, ..options() });
    loss.cut(0, Cut::Reset);
    loss.write_ends_after(10 * S);
}

#[test]
fn a_write_whose_controller_does_not_answer_the_reset_waits_from_then_on() {
    let mut loss = Loss::new();
    // The reset is refused nowhere and answered nowhere: the device never lets go.
    loss.cut(1, Cut::Close);
    loss.write_ends_after(15 * S + 2 * 5 * S + 10 * S);
}

#[test]
fn a_write_of_a_lost_iscsi_session_waits_for_the_times_that_were_agreed() {
    let mut loss = Loss::of(Protocol::Iscsi, &options());
    loss.cut(0, Cut::Reset);
    // Time2Wait is 2, Time2Retain 0.
    loss.write_ends_after(2 * S + 10 * S);
}

#[test]
fn a_write_of_a_lost_nbd_connection_waits_for_the_quiesce_time() {
    let mut loss = Loss::of(Protocol::Nbd, &options());
    loss.cut(0, Cut::Reset);
    loss.write_ends_after(10 * S);
}

/// The target answers the login when it has ended what it had of the session whose place the new
/// one takes (RFC 7143 §6.3.5).
#[test]
fn a_login_in_the_place_of_a_lost_session_settles_its_writes() {
    let mut loss = Loss::of(Protocol::Iscsi, &options());
    loss.cut(0, Cut::Reset);
    loss.scene.world.run_for(S);
    assert_eq!(loss.outcomes().len(), 1, "the write waits");
    loss.knobs.freeze(false);
    let again = loss.scene.open_url(&Protocol::Iscsi.url(), &options()).unwrap();
    assert!(loss.both_end());
    assert!(
        matches!(loss.outcomes()[1], Outcome::MayHaveExecuted { settled: true, .. }),
        "{:?}",
        loss.outcomes()
    );
    let waited = loss.scene.world.now().since_epoch().saturating_sub(loss.cut_at.since_epoch());
    assert!(waited < 5 * S, "after {waited:?}: not by time");
    assert_eq!(loss.knobs.held(), 0);
    assert!(again.cache_epoch().is_some());
}

/// Sessions that live at the same time are not the same, even with the same URL.
#[test]
fn a_second_device_does_not_take_the_place_of_the_first() {
    let mut scene = Protocol::Iscsi.scene(Setup::new(1, Testing::new("ram:1MiB")));
    let first = scene.open_url(&Protocol::Iscsi.url(), &options()).unwrap();
    let second = scene.open_url(&Protocol::Iscsi.url(), &options()).unwrap();
    scene.world.run_for(5 * S);
    assert_eq!([first.presence(), second.presence()], [weft_block::Presence::Here; 2]);
}

/// A new association has the lost one's controller reset; the target answers when no device holds a
/// write of it any more.
#[test]
fn a_cross_controller_reset_settles_the_writes_of_a_lost_association() {
    let mut loss = Loss::new();
    loss.cut(1, Cut::Close);
    loss.cut(0, Cut::Close);
    loss.scene.world.run_for(S);
    assert_eq!(loss.outcomes().len(), 1, "the write waits");
    loss.knobs.freeze(false);
    let _again = loss.scene.open_url(&Protocol::NvmeTcp.url(), &options()).unwrap();
    assert!(loss.both_end());
    assert!(
        matches!(loss.outcomes()[1], Outcome::MayHaveExecuted { settled: true, .. }),
        "{:?}",
        loss.outcomes()
    );
    let waited = loss.scene.world.now().since_epoch().saturating_sub(loss.cut_at.since_epoch());
    assert!(waited < 5 * S, "after {waited:?}: not by time");
    assert_eq!(loss.knobs.held(), 0);
}
