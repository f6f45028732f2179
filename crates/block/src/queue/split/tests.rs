//! Over a device that takes 4 KiB at once, and panics where it is given more.

use super::super::split::*;
use crate::testing::{Rig, TestPlan, conformance};
use crate::{Features, OpenOptions, open};
use weft_base::lock::Lock;

const MOST: u32 = 4096;

/// First blocks and lengths of what a device was given.
type Given = Arc<Lock<Vec<(u64, u32)>>>;

/// A RAM disk with a small limit, which notes what it is given.
struct Small {
    inner: Device,
    given: Given,
}

struct SmallQueue {
    inner: Box<dyn BlockQueue>,
    given: Given,
}

impl Small {
    fn open(url: &str) -> (Device, Given) {
        let (inner, given) = (open(url, &OpenOptions::default()).unwrap(), Arc::default());
        let small = Arc::new(Self { inner, given: Arc::clone(&given) });
        (up_to(small, 1 << 20), given)
    }
}

impl BlockDevice for Small {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn geometry(&self) -> Geometry {
        Geometry { max_transfer_bytes: MOST, ..self.inner.geometry() }
    }

    fn renew_size(&self) -> Result<crate::SizeAnswer, crate::Error> {
        self.inner.renew_size()
    }

    fn features(&self) -> Features {
        self.inner.features()
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(Box::new(SmallQueue {
            inner: self.inner.open_queue(on, owner)?,
            given: Arc::clone(&self.given),
        }))
    }
}

impl BlockQueue for SmallQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        for op in ops.iter().filter(|op| op.kind.data_factor() == 1) {
            assert!(op.blocks * 512 <= MOST, "{op:?} is too long");
            self.given.lock().push((op.lba, op.blocks));
        }
        self.inner.submit(ops);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.inner.reap(done);
    }

    fn cancel(&mut self, user: u64) {
        self.inner.cancel(user);
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
}

#[test]
fn a_device_with_a_greater_limit_keeps_the_contract() {
    // Comparing and writing in one goes to the limit of the device itself.
    conformance(
        &Small::open("ram:4MiB").0,
        TestPlan { loops: 2, rounds: 20, compare_blocks: 3, ..TestPlan::default() },
    );
}

#[test]
fn long_operations_go_in_parts_and_in_order() {
    let (device, given) = Small::open("ram:1MiB");
    assert_eq!(device.geometry().max_transfer_bytes, 1 << 20);
    let rig = Rig::new(&device, TestPlan::default());
    let data: Vec<u8> = (0..(9 << 9) + 4096u32).map(|n| (n / 7) as u8).collect();
    rig.write(0, 5, &data);
    assert_eq!(*given.lock(), [(5, 8), (13, 8), (21, 1)]);
    assert_eq!(rig.read(0, 5, 17), data);
    assert_eq!(given.lock()[3..], [(5, 8), (13, 8), (21, 1)]);
    given.lock().clear();
    rig.fails(0, rig.request(OpKind::Read, 2040, vec![0; 16 * 512]), StatusKind::OutOfRange);
    assert!(given.lock().is_empty(), "what is out of range in one part is not begun");
    rig.end();
}

#[test]
fn a_part_that_fails_fails_the_whole() {
    let (device, _) = Small::open("error:rate=1,ram:1MiB");
    let rig = Rig::new(&device, TestPlan::default());
    let answers = rig.run(0, vec![rig.request(OpKind::Read, 0, vec![0; 64 << 10])]);
    assert!(answers.iter().all(|answer| !answer.outcome.is_success()));
    rig.end();
}

#[test]
fn what_takes_enough_is_left_alone() {
    let device = open("ram:1MiB", &OpenOptions::default()).unwrap();
    assert!(Arc::ptr_eq(&up_to(Arc::clone(&device), 4096), &device));
    assert_eq!(up_to(device, (1 << 20) + 1).geometry().max_transfer_bytes, (1 << 20) + 512);
}

#[test]
fn the_whole_tells_what_is_known_of_all_parts() {
    let status = |kind| Status::new(kind);
    let (aborted, failed) = (status(StatusKind::Aborted), status(StatusKind::Invalid));
    let (sent, done) = (Outcome::NotSent(aborted), Outcome::SUCCESS);
    let (settled, unsettled) = (Outcome::settled(aborted), Outcome::unsettled(aborted));
    for (first, second, whole) in [
        (done, done, done),
        (done, Outcome::Done(failed), Outcome::Done(failed)),
        (sent, sent, sent),
        (done, sent, settled),
        (Outcome::Done(failed), sent, settled),
        (done, settled, settled),
        (settled, unsettled, unsettled),
        (sent, unsettled, unsettled),
    ] {
        assert_eq!([merge(first, second), merge(second, first)], [whole; 2]);
    }
}
