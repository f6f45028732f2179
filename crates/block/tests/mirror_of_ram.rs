//! Mirrors over RAM disks: the contract, legs that fail and come back, starts that are refused, one
//! opener at a time.

use crate::closing::close;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use uuid::Uuid;
use weft_block::mirror::HotLimit;
use weft_block::mirror::{self, LegSource, MirrorOptions, admin};
use weft_block::path::PathState;
use weft_block::testing::{Rig, TestPlan, conformance_of};
use weft_block::{Device, Error, ErrorKind, OpKind, OpenOptions, Opening, open};
use weft_io::event_loop::spawn;
use weft_io::{LoopConfig, RemoteLoop};
use weft_testing::wait::until;

const LEG_BYTES: u64 = 9 << 20;

/// A RAM disk that can be taken away from the mirror. Its content stays.
pub(super) struct Leg {
    disk: Device,
    is_here: Arc<AtomicBool>,
}

/// Legs, and the loops on which mirrors of them live.
struct Bench {
    legs: Vec<Leg>,
    state: Option<Device>,
    home: RemoteLoop,
}

fn ram(bytes: u64, block: u32) -> Device {
    open(&format!("ram:{bytes},block={block}"), &OpenOptions::default())
        .unwrap_or_else(|e| panic!("{e}"))
}

fn write(disk: &Device, offset: u64, bytes: &[u8]) {
    let rig = Rig::new(disk, TestPlan::default());
    rig.write(0, offset / u64::from(disk.geometry().block_bytes), bytes);
    rig.end();
}

fn read(disk: &Device, offset: u64, len: usize) -> Vec<u8> {
    let rig = Rig::new(disk, TestPlan::default());
    let block = disk.geometry().block_bytes;
    let (first, blocks) = (offset / u64::from(block), len as u32 / block);
    let step = (1 << 20) / block;
    let parts = (0..blocks)
        .step_by(step as usize)
        .map(|at| rig.read(0, first + u64::from(at), step.min(blocks - at)));
    let bytes = parts.collect::<Vec<_>>().concat();
    rig.end();
    bytes
}

impl Bench {
    fn new(legs: usize, block: u32, with_state: bool) -> Self {
        let legs: Vec<Leg> = (0..legs)
            .map(|_| Leg { disk: ram(LEG_BYTES, block), is_here: Arc::new(AtomicBool::new(true)) })
            .collect();
        let sizes = vec![LEG_BYTES; legs.len()];
        let areas =
            admin::create(Uuid::from_u128(5), &sizes, None, block, 3, admin::Holding::Anything)
                .unwrap();
        for (leg, area) in legs.iter().zip(areas) {
            write(&leg.disk, admin::area(LEG_BYTES).unwrap().0, &area);
        }
        let (_, home, _) = spawn(LoopConfig::default(), |_| ()).unwrap();
        Self { legs, state: with_state.then(|| ram(64 << 10, block)), home }
    }

    fn begin(&self, opener: u128, force: bool) -> (Result<Device, Error>, mpsc::Receiver<()>) {
        let source = |disk: &Device, is_here: Arc<AtomicBool>| {
            let disk = Arc::clone(disk);
            let open = move |_| match is_here.load(Ordering::SeqCst) {
                // An error filter is what fails when the leg is taken away.
                true => Ok(Opening::ready(Ok(Arc::clone(&disk)))),
                false => Err(Error::new(ErrorKind::NotFound, "the leg is away")),
            };
            LegSource { url: "a leg".into(), is_remote: false, open: Box::new(open) }
        };
        let legs = self.legs.iter().map(|leg| source(&leg.disk, Arc::clone(&leg.is_here)));
        let state = self.state.as_ref().map(|disk| source(disk, Arc::new(AtomicBool::new(true))));
        self.begin_with((legs.collect(), state), opener, force)
    }

    fn begin_with(
        &self,
        (legs, state): (Vec<LegSource>, Option<LegSource>),
        opener: u128,
        force: bool,
    ) -> (Result<Device, Error>, mpsc::Receiver<()>) {
        let (guard, closed) = mpsc::channel();
        let options = MirrorOptions {
            url: "mirror:test".into(),
            legs,
            state,
            force,
            settle: Duration::ZERO,
            patience: None,
            opener: Uuid::from_u128(opener),
            host: "testhost".into(),
            time: 1_700_000_000,
            seed: opener as u64,
            hot: HotLimit::default(),
            guard: Box::new(guard),
        };
        (mirror::begin(&self.home, options).and_then(Opening::wait), closed)
    }

    fn open(&self, opener: u128) -> (Device, mpsc::Receiver<()>) {
        let (device, closed) = self.begin(opener, false);
        (device.unwrap_or_else(|e| panic!("{e}")), closed)
    }

    fn refusal(&self, opener: u128) -> String {
        self.begin(opener, false).0.err().expect("it is refused").to_string()
    }

    fn label(&self, leg: usize) -> admin::Label {
        let disk = &self.legs[leg].disk;
        let (offset, len) = admin::area(LEG_BYTES).unwrap();
        admin::label("leg", &read(disk, offset, len), disk.geometry().block_bytes)
            .unwrap()
            .expect("it has one")
    }

    fn data(&self, leg: usize) -> Vec<u8> {
        read(&self.legs[leg].disk, 0, (LEG_BYTES - (1 << 20)) as usize)
    }

    fn are_equal(&self) -> bool {
        (1..self.legs.len()).all(|leg| self.data(leg) == self.data(0))
    }
}

#[test]
fn a_new_mirror_waits_for_the_leg_that_holds_the_data() {
    let bench = Bench::new(3, 512, false);
    bench.legs[0].is_here.store(false, Ordering::SeqCst);
    let text = bench.refusal(1);
    assert!(text.contains("leg 0 holds the data"), "{text}");
    let (device, closed) = bench.begin(2, true);
    close(device.unwrap_or_else(|e| panic!("{e}")), &closed);
}

/// A server that takes over tries again what is in use, as the one before may release it late.
#[test]
fn the_kind_of_an_error_survives() {
    let bench = Bench::new(2, 512, true);
    let works = |disk: &Device| {
        let disk = Arc::clone(disk);
        let open = move |_| Ok(Opening::ready(Ok(Arc::clone(&disk))));
        LegSource { url: "here".into(), is_remote: false, open: Box::new(open) }
    };
    let fails = |kind: ErrorKind| {
        let open = move |_| Err(Error::new(kind, "it is away"));
        LegSource { url: "away".into(), is_remote: false, open: Box::new(open) }
    };
    let leg = |place: usize| works(&bench.legs[place].disk);
    let state = || bench.state.as_ref().map(works);
    let kind = |sources| bench.begin_with(sources, 1, false).0.err().expect("it fails").kind();
    for of in ErrorKind::ALL {
        assert_eq!(kind((vec![leg(0), leg(1)], Some(fails(of)))), of, "the state file");
        assert_eq!(kind((vec![fails(of), fails(of)], state())), of, "both legs");
        assert_eq!(kind((vec![fails(of), leg(1)], state())), of, "the leg that has the data");
        let others = vec![fails(of), fails(ErrorKind::InUse)];
        assert_eq!(kind((others, state())), ErrorKind::InUse, "it may be free soon");
    }
}

#[test]
fn the_contract_holds_over_two_and_three_legs() {
    for (legs, block, with_state, loops) in
        [(2, 512, true, 1), (3, 4096, false, 2), (2, 4096, false, 2)]
    {
        let bench = Bench::new(legs, block, with_state);
        let (device, closed) = bench.open(1);
        conformance_of(Rig::new(&device, TestPlan { loops, ..TestPlan::default() }));
        close(device, &closed);
        assert!(bench.are_equal(), "{legs} legs");
        assert!((0..legs).all(|leg| bench.label(leg).is_clean && bench.label(leg).claim.is_none()));
    }
}

#[test]
fn the_first_leg_is_what_a_new_mirror_holds() {
    let bench = Bench::new(2, 512, false);
    write(&bench.legs[0].disk, 5 << 20, &[7; 4096]);
    write(&bench.legs[1].disk, 2 << 20, &[9; 4096]);
    let (device, closed) = bench.open(1);
    assert_eq!(read(&device, 5 << 20, 8192), [[7; 4096], [0; 4096]].concat());
    until("the legs are equal", || bench.are_equal());
    close(device, &closed);
}

/// Legs are compared first, so one that is sparse stays so.
#[test]
fn only_what_differs_is_written_to_make_legs_equal() {
    let mut bench = Bench::new(2, 512, true);
    write(&bench.legs[0].disk, 5 << 20, &[7; 4096]);
    write(&bench.legs[1].disk, 2 << 20, &[9; 4096]);
    let written = |disk: &Device| disk.counted()[0].1.of(OpKind::Write { fua: false }).bytes;
    let label = read(&bench.legs[1].disk, admin::area(LEG_BYTES).unwrap().0, 40 << 10);
    let counted = format!("stats:every=1h,ram:{LEG_BYTES},block=512");
    let disk = open(&counted, &OpenOptions::default()).unwrap();
    write(&disk, admin::area(LEG_BYTES).unwrap().0, &label);
    write(&disk, 2 << 20, &[9; 4096]);
    bench.legs[1].disk = disk;
    let before = written(&bench.legs[1].disk);
    let (device, closed) = bench.open(1);
    until("the legs are equal", || bench.are_equal());
    close(device, &closed);
    assert!(written(&bench.legs[1].disk) - before < 64 << 10, "two parts, and labels");
}

#[test]
fn one_opener_at_a_time() {
    let bench = Bench::new(3, 512, false);
    let (device, closed) = bench.open(1);
    let said = bench.refusal(2);
    assert!(
        said.contains("open at testhost since 1700000000") && said.contains("force=on"),
        "{said}"
    );
    // Whoever takes it by force stops the other one at its next label.
    let (taken, taken_closed) = bench.begin(3, true);
    let taken = taken.unwrap();
    write(&taken, 0, &[1; 512]);
    drop(device);
    let _ = closed.recv_timeout(Duration::from_secs(60));
    write(&taken, 512, &[2; 512]);
    close(taken, &taken_closed);
    let (device, closed) = bench.open(4);
    assert_eq!(read(&device, 0, 1024), [[1; 512], [2; 512]].concat());
    close(device, &closed);
}

#[test]
fn an_old_leg_is_not_started_from_and_comes_back_with_what_it_missed() {
    let bench = Bench::new(2, 512, true);
    let (device, closed) = bench.open(1);
    write(&device, 0, &[1; 512]);
    until("the legs are equal", || bench.are_equal());
    close(device, &closed);
    bench.legs[1].is_here.store(false, Ordering::SeqCst);
    let (device, closed) = bench.open(2);
    write(&device, 3 << 20, &[2; 512]);
    assert_eq!(device.paths()[1].state, PathState::Waiting);
    close(device, &closed);
    assert_eq!((bench.label(0).in_sync, bench.label(1).in_sync), (vec![0], vec![0, 1]));

    bench.legs[0].is_here.store(false, Ordering::SeqCst);
    bench.legs[1].is_here.store(true, Ordering::SeqCst);
    let said = bench.refusal(3);
    assert!(
        said.contains("leg 1 (a leg) is old: it has generation 1, and the mirror was last at 2"),
        "{said}"
    );

    bench.legs[0].is_here.store(true, Ordering::SeqCst);
    let (device, closed) = bench.open(4);
    until("the leg is in sync", || device.paths().iter().all(|leg| leg.state == PathState::Live));
    assert_eq!(read(&device, 3 << 20, 512), [2; 512]);
    close(device, &closed);
    assert!(bench.are_equal());
    assert_eq!((bench.label(0).generation, bench.label(1).in_sync), (3, vec![0, 1]));
}

#[test]
fn a_leg_without_a_label_is_refused_and_a_new_one_takes_a_lost_ones_place() {
    let mut bench = Bench::new(3, 512, false);
    let (device, closed) = bench.open(1);
    write(&device, 1 << 20, &[5; 512]);
    close(device, &closed);
    bench.legs[2].disk = ram(LEG_BYTES, 512);
    let said = bench.refusal(2);
    assert!(
        said.contains("has no label of a mirror") && said.contains("weft mirror replace"),
        "{said}"
    );
    let (offset, len) = admin::area(LEG_BYTES).unwrap();
    let known = read(&bench.legs[0].disk, offset, len);
    let fresh = admin::replace("leg", &known, 512, 2, LEG_BYTES).unwrap();
    write(&bench.legs[2].disk, offset, &fresh);
    let (device, closed) = bench.open(3);
    until("the new leg is in sync", || {
        device.paths().iter().all(|leg| leg.state == PathState::Live)
    });
    close(device, &closed);
    assert_eq!(bench.label(2).in_sync, [0, 1, 2]);
    assert!(bench.are_equal());
}

#[test]
fn a_leg_that_was_made_larger_or_smaller_is_refused_until_it_has_its_old_size() {
    for (bytes, force) in [
        (LEG_BYTES + (4 << 20), false),
        (LEG_BYTES - (2 << 20), false),
        (LEG_BYTES + (4 << 20), true),
    ] {
        let mut bench = Bench::new(2, 512, true);
        let (device, closed) = bench.open(1);
        write(&device, 1 << 20, &[5; 512]);
        close(device, &closed);
        let old = Arc::clone(&bench.legs[1].disk);
        let kept = bytes.min(LEG_BYTES);
        bench.legs[1].disk = ram(bytes, 512);
        let held = read(&old, 0, kept as usize);
        held.chunks(1 << 16)
            .zip((0..).step_by(1 << 16))
            .for_each(|(part, at)| write(&bench.legs[1].disk, at, part));
        let said = bench
            .begin(2, force)
            .0
            .err()
            .expect("its label is not where it is looked for")
            .to_string();
        assert!(said.contains("made larger or smaller, give it its old size again"), "{said}");
        bench.legs[1].disk = old;
        let (device, closed) = bench.open(3);
        assert_eq!(read(&device, 1 << 20, 512), [5; 512]);
        until("both legs are in sync", || {
            device.paths().iter().all(|leg| leg.state == PathState::Live)
        });
        close(device, &closed);
        assert!(bench.are_equal());
    }
}
