//! Time for which a mirror stalls when all its legs lose their connections at once, against a plain
//! source: a leg whose target is back settles what the lost connection carried before the time
//! limit, where the protocol knows how.

use crate::devices::{Knobs, Testing};
use crate::sim::protocols::{AnyScene, Protocol};
use crate::sim::scene::{NQN, Setup, options, run_ops};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use weft_block::mirror::admin::{self, Holding};
use weft_block::{
    BlockDevice, BlockQueue, Completion, Device, Error, Op, OpKind, OpenOptions, StatusKind,
};
use weft_endpoint::export::Export;
use weft_endpoint::export::nvme::TargetLimits;
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::{ConnectOptions, PathOptions};
use weft_io::sim::Cut;
use weft_io::{Activity, Driver, Handle, LoopConfig};
use weft_proto::nvme::types::Nqn;

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const LEG_BYTES: u64 = 2 << 20;

/// How long the targets' devices hold what they had when the connections were lost.
const HELD: Duration = Duration::from_millis(20);

/// Submits what it is given, and keeps what comes of it.
struct User {
    queue: Box<dyn BlockQueue>,
    ops: VecDeque<Op>,
    done: Rc<RefCell<Vec<Completion>>>,
}

impl Driver for User {
    fn work(&mut self, _: &Handle) -> Activity {
        self.queue.submit(&mut self.ops);
        let before = self.done.borrow().len();
        self.queue.reap(&mut self.done.borrow_mut());
        Activity::busy_if(self.done.borrow().len() > before)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
    }
}

/// Two targets with a leg of a mirror each.
struct Legs {
    scene: AnyScene,
    knobs: Vec<Arc<Knobs>>,
    urls: [String; 2],
    _second: Box<dyn Export>,
}

impl Legs {
    fn new(protocol: Protocol) -> Self {
        let stores =
            [(); 2].map(|()| weft_block::open("ram:2MiB", &OpenOptions::default()).unwrap());
        let devices = stores.clone().map(Testing::over);
        let knobs = devices.iter().map(|device| Arc::clone(&device.knobs)).collect();
        let [first, second] = devices.map(|device| device as Arc<dyn BlockDevice>);
        let mut scene = protocol.scene(Setup::new(1, first));
        let host = scene.world.host("10.0.0.2");
        let on =
            scene.world.add_loop(host, &LoopConfig { spin: MS / 500, ..LoopConfig::default() });
        let on = scene.world.handle(on);
        // Another subsystem; the targets of other protocols look for the one that they know.
        let nqn = if protocol == Protocol::NvmeTcp { format!("{NQN}-2") } else { NQN.to_owned() };
        let inventory =
            LiveInventory::of_devices(SubsystemConfig::new(Nqn::new(&nqn).unwrap()), vec![second])
                .unwrap();
        let limits = TargetLimits { quiesce: Duration::ZERO, ..TargetLimits::default() };
        let second = protocol.start(
            &on,
            inventory,
            limits,
            vec![on.remote()],
            "10.0.0.2:4420".parse().unwrap(),
        );
        let areas =
            admin::create(Uuid::from_u128(9), &[LEG_BYTES; 2], None, 512, 7, Holding::TheSame)
                .unwrap();
        for (store, area) in stores.iter().zip(areas) {
            label(&mut scene, store, &area);
        }
        let urls = [protocol.url(), protocol.url_at("10.0.0.2", 4420).replace(NQN, &nqn)];
        Self { scene, knobs, urls, _second: second }
    }

    /// How long a write takes that is under way when all connections are lost.
    fn stall(mut self, url: &str, paths: PathOptions) -> Duration {
        let device = self.scene.open_url(url, &ConnectOptions { paths, ..options() }).unwrap();
        let (on, done) = (self.scene.io_loop(0), Rc::<RefCell<Vec<Completion>>>::default());
        let write = Op::new(
            OpKind::Write { fua: false },
            1,
            1,
            1,
            [on.pool().take(512).unwrap().into()].into(),
        );
        // The first one has everything set up that a write needs.
        let warm = Op::new(
            OpKind::Write { fua: false },
            2,
            1,
            2,
            [on.pool().take(512).unwrap().into()].into(),
        );
        run_ops(&mut self.scene.world, &on, device.as_ref(), vec![warm]);
        self.scene.world.run_for(30 * S);
        self.knobs.iter().for_each(|knobs| knobs.freeze(true));
        self.knobs.iter().for_each(|knobs| knobs.honour_cancel(false));
        let give = Rc::clone(&done);
        on.try_spawn(|id| {
            Ok::<_, Error>(User {
                queue: device.open_queue(&on, id)?,
                ops: [write].into(),
                done: give,
            })
        })
        .unwrap();
        let (knobs, is_mirror) = (self.knobs.clone(), url.starts_with("mirror:"));
        let held = if is_mirror { 2 } else { 1 };
        assert!(
            self.scene.world.run_until(
                |_| knobs.iter().map(|knobs| knobs.held()).sum::<usize>() == held,
                60 * S
            )
        );
        let lost_at = self.scene.world.now();
        for connection in self.scene.world.connections() {
            self.scene.world.cut(connection.id, Cut::Reset);
        }
        self.scene.world.run_for(HELD);
        self.knobs.iter().for_each(|knobs| knobs.freeze(false));
        assert!(
            self.scene.world.run_until(|_| !done.borrow().is_empty(), 120 * S),
            "the write never ends"
        );
        assert!(done.borrow()[0].outcome.is_success(), "{:?}", done.borrow()[0].outcome);
        self.scene.world.now() - lost_at
    }

    /// The stall of a mirror, and of a plain source.
    fn stalls(protocol: Protocol) -> (Duration, Duration) {
        let paths = PathOptions::default();
        let legs = Self::new(protocol);
        let url = format!("mirror:{}", legs.urls.join(","));
        let plain = Self::new(protocol);
        let plain_url = plain.urls[0].clone();
        (legs.stall(&url, paths.clone()), plain.stall(&plain_url, paths))
    }
}

/// Gives a leg its label.
fn label(scene: &mut AnyScene, store: &Device, area: &[u8]) {
    let on = scene.io_loop(0);
    let (offset, bytes) = admin::area(LEG_BYTES).unwrap();
    let mut data = on.pool().take(bytes).unwrap();
    data.copy_from_slice(area);
    let op = Op::new(
        OpKind::Write { fua: true },
        offset / 512,
        bytes as u32 / 512,
        0,
        [data.into()].into(),
    );
    let done = run_ops(&mut scene.world, &on, store.as_ref(), vec![op]);
    assert!(done[0].outcome.is_success());
}

#[test]
fn with_cross_controller_reset_a_mirror_stalls_hardly_longer_than_a_plain_source() {
    let (mirror, plain) = Legs::stalls(Protocol::NvmeTcp);
    let bound = plain + PathOptions::default().reconnect_delay;
    assert!(mirror <= bound, "the mirror stalls for {mirror:?}, a plain source for {plain:?}");
}

#[test]
fn with_a_login_in_the_place_of_the_lost_session_too() {
    let (mirror, plain) = Legs::stalls(Protocol::Iscsi);
    let bound = plain + PathOptions::default().reconnect_delay;
    assert!(mirror <= bound, "the mirror stalls for {mirror:?}, a plain source for {plain:?}");
}

#[test]
fn where_nothing_settles_it_sooner_the_quiesce_time_bounds_the_stall() {
    let (mirror, _) = Legs::stalls(Protocol::Nbd);
    let quiesce = options().quiesce_time;
    let bound = quiesce + PathOptions::default().reconnect_delay;
    assert!(
        (quiesce..=bound).contains(&mirror),
        "the mirror stalls for {mirror:?}, and the quiesce time is {quiesce:?}"
    );
}

/// Two owners over the same legs, the second one by force: how writes of the first one end after
/// that, and its reads.
fn superseded(protocol: Protocol) -> Vec<StatusKind> {
    let mut legs = Legs::new(protocol);
    let (url, on) = (legs.urls.join(","), legs.scene.io_loop(0));
    // A start by force waits until the targets have ended what the last owner sent.
    let options = ConnectOptions { connect_timeout: 120 * S, ..options() };
    let first = legs.scene.open_url(&format!("mirror:{url}"), &options).unwrap();
    let op = |kind, lba| Op::new(kind, lba, 1, lba, [on.pool().take(512).unwrap().into()].into());
    let write = OpKind::Write { fua: false };
    assert!(
        run_ops(&mut legs.scene.world, &on, first.as_ref(), vec![op(write, 1)])[0]
            .outcome
            .is_success()
    );
    let second = legs.scene.open_url(&format!("mirror:force=on,{url}"), &options).unwrap();
    assert!(
        run_ops(&mut legs.scene.world, &on, second.as_ref(), vec![op(write, 1)])[0]
            .outcome
            .is_success()
    );
    let ended = [write, write, OpKind::Read].map(|kind| {
        let done = run_ops(&mut legs.scene.world, &on, first.as_ref(), vec![op(kind, 1)]);
        if done[0].outcome.is_success() {
            StatusKind::Success
        } else {
            done[0].outcome.status().kind
        }
    });
    drop(first);
    legs.scene.world.run_for(30 * S);
    assert!(
        run_ops(&mut legs.scene.world, &on, second.as_ref(), vec![op(write, 1)])[0]
            .outcome
            .is_success()
    );
    drop(second);
    legs.scene.world.run_for(30 * S);
    // Nothing is reserved any more: whoever writes to a leg by itself can.
    let leg = legs.scene.open_url(&legs.urls[0].clone(), &options).unwrap();
    assert!(
        run_ops(&mut legs.scene.world, &on, leg.as_ref(), vec![op(write, 1)])[0]
            .outcome
            .is_success()
    );
    ended.to_vec()
}

#[test]
fn whoever_takes_a_mirror_by_force_shuts_out_who_had_it() {
    assert_eq!(superseded(Protocol::NvmeTcp), [StatusKind::ReservationConflict; 3]);
}

#[test]
fn whoever_takes_a_mirror_of_logical_units_by_force_shuts_out_who_had_it() {
    assert_eq!(superseded(Protocol::Iscsi), [StatusKind::ReservationConflict; 3]);
}
