//! Waiting time of the successor of a killed process, on virtual time: until no target can still
//! execute that process's commands.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use uuid::Uuid;
use weft_block::filter::Filter;
use weft_block::mirror::HotLimit;
use weft_block::mirror::{self, LegSource, MirrorOptions, admin};
use weft_block::testing::{Rig, TestPlan};
use weft_block::{BlockDevice, BlockQueue, Device, Error, OpenOptions, Opening, open};
use weft_io::sim::{NetConfig, World};
use weft_io::{DriverId, Handle, LoopConfig};

const S: Duration = Duration::from_secs(1);
const LEG_BYTES: u64 = 9 << 20;

/// A device whose target states how long it may go on with what a lost connection carried.
struct Stated(Device, Duration);

impl Filter for Stated {
    fn inner(&self) -> &dyn BlockDevice {
        self.0.as_ref()
    }

    fn late_writes_bound(&self) -> Option<Duration> {
        Some(self.1)
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        self.0.open_queue(on, owner)
    }
}

/// A process's knowledge: its own options, and the statements of each leg's target.
struct Knows {
    settle: Duration,
    stated: [Duration; 2],
}

/// Two legs and a state file.
struct Disks {
    legs: [Device; 2],
    state: Device,
}

fn ram(bytes: u64) -> Device {
    open(&format!("ram:{bytes}"), &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

impl Disks {
    fn new() -> Self {
        let legs = [(); 2].map(|()| ram(LEG_BYTES));
        let areas = admin::create(
            Uuid::from_u128(5),
            &[LEG_BYTES; 2],
            None,
            512,
            3,
            admin::Holding::TheSame,
        )
        .unwrap();
        for (leg, area) in legs.iter().zip(areas) {
            let rig = Rig::new(leg, TestPlan::default());
            rig.write(0, admin::area(LEG_BYTES).unwrap().0 / 512, &area);
            rig.end();
        }
        Self { legs, state: ram(64 << 10) }
    }

    /// Opens the mirror in a process that is killed afterwards. Returns how long that took.
    fn open_and_be_killed(&self, opener: u128, knows: &Knows) -> Duration {
        let mut world = World::with_net(1, NetConfig::default());
        let host = world.host("10.0.0.1");
        let home =
            world.add_loop(host, &LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() });
        let source = |disk: Device| {
            let url = disk.url().to_owned();
            LegSource {
                url,
                is_remote: true,
                open: Box::new(move |_| Ok(Opening::ready(Ok(Arc::clone(&disk))))),
            }
        };
        let legs = self.legs.iter().zip(knows.stated);
        let options = MirrorOptions {
            url: "mirror:test".into(),
            legs: legs
                .map(|(leg, stated)| source(Arc::new(Stated(Arc::clone(leg), stated))))
                .collect(),
            state: Some(source(Arc::clone(&self.state))),
            force: false,
            settle: knows.settle,
            patience: None,
            opener: Uuid::from_u128(opener),
            host: "testhost".into(),
            time: 1_700_000_000,
            seed: opener as u64,
            hot: HotLimit::default(),
            guard: Box::new(()),
        };
        let began = world.now();
        let mut opening = pin!(mirror::begin(&world.handle(home).remote(), options).unwrap());
        for _ in 0..1000 {
            if let Poll::Ready(opened) =
                opening.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                let device = opened.unwrap_or_else(|e| panic!("{e}"));
                let took = world.now() - began;
                // What it writes by itself is written; then it ends without a close.
                world.run_for(S);
                drop(world);
                drop(device);
                return took;
            }
            world.run_for(S / 10);
        }
        panic!("the mirror does not open");
    }
}

#[track_caller]
fn waited(took: Duration, bound: Duration) {
    assert!(
        (bound..=bound + S).contains(&took),
        "it opened after {took:?}, and the bound is {bound:?}"
    );
}

#[test]
fn a_successor_with_shorter_options_waits_as_long_as_the_targets_stated_to_the_process_before() {
    let disks = Disks::new();
    waited(
        disks.open_and_be_killed(1, &Knows { settle: 25 * S, stated: [10 * S, 40 * S] }),
        Duration::ZERO,
    );
    waited(disks.open_and_be_killed(2, &Knows { settle: 6 * S, stated: [5 * S, 5 * S] }), 40 * S);
    // Only what the second one agreed with them counts for the third one.
    waited(disks.open_and_be_killed(3, &Knows { settle: S, stated: [S, S] }), 6 * S);
}

#[test]
fn a_successor_waits_for_its_own_options_and_for_what_targets_state_to_it_where_these_are_longer() {
    let disks = Disks::new();
    waited(disks.open_and_be_killed(1, &Knows { settle: 5 * S, stated: [S, S] }), Duration::ZERO);
    waited(disks.open_and_be_killed(2, &Knows { settle: 5 * S, stated: [S, 30 * S] }), 30 * S);
    waited(disks.open_and_be_killed(3, &Knows { settle: 50 * S, stated: [S, S] }), 50 * S);
}
