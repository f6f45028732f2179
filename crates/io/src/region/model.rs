//! The protocol of chunks, views and spares, in every order that threads may take and with all that
//! the memory model allows (`loom`).

use super::{CHUNK_BYTES, Lender, Region};
use crate::segment::{Segment, Segments};
use loom::thread;
use std::sync::Arc;

/// Bytes of a short transfer.
const SHORT: usize = 8;

/// Runs `model` in every order with at most two preemptions. Of two threads: two that wait for a
/// third one's lock would let each other go first for ever.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// A region of one chunk, which holds ones.
fn region(spares: u32) -> Arc<Region> {
    let region = Region::with_spares(CHUNK_BYTES, spares).unwrap();
    region.write_slice(0, &[1; SHORT]);
    Arc::new(region)
}

fn read(region: &Region) -> u8 {
    let mut bytes = [0xee; SHORT];
    region.read_slice(0, &mut bytes);
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{bytes:?}");
    bytes[0]
}

/// Lends what the chunk holds and looks at it more than once; a view never changes.
fn look(region: &Arc<Region>) {
    let lender = Lender::new(Arc::clone(region));
    let mut views = Segments::new();
    if lender.lend(0, SHORT, &mut views) {
        let before = views[0][0];
        thread::yield_now();
        assert!(views[0].iter().all(|byte| *byte == before));
    }
}

/// Has the chunk take a whole frame of that byte, or a copy when there is no spare.
fn replace(region: &Arc<Region>, byte: u8) {
    let lender = Lender::new(Arc::clone(region));
    let mut data = Segments::new();
    if lender.spare(0, CHUNK_BYTES, &mut data) {
        let Segment::Frame(frame) = &mut data[0] else { panic!("a frame") };
        frame[..SHORT].fill(byte);
        region.adopt(0, &mut data);
    } else {
        region.write_slice(0, &[byte; SHORT]);
    }
}

/// That nothing was lost: the chunk has one frame at most, and all the spares are there.
fn is_whole(region: &Arc<Region>, spares: usize) {
    let lender = Lender::new(Arc::clone(region));
    let mut all = Segments::new();
    let given = (0..spares + 1).take_while(|_| lender.spare(0, SHORT, &mut all)).count();
    assert_eq!(given, spares);
}

#[test]
fn a_writer_and_a_reader_take_turns() {
    check(|| {
        let region = region(2);
        let other = Arc::clone(&region);
        let other = thread::spawn(move || other.write_slice(0, &[2; SHORT]));
        assert!((1..=2).contains(&read(&region)));
        region.write_slice(0, &[3; SHORT]);
        other.join().unwrap();
        assert!((2..=3).contains(&read(&region)));
    });
}

#[test]
fn a_view_stays_as_it_is_while_others_write() {
    check(|| {
        let region = region(2);
        let writer = Arc::clone(&region);
        let writer = thread::spawn(move || writer.write_slice(0, &[2; SHORT]));
        look(&region);
        writer.join().unwrap();
        assert_eq!(read(&region), 2);
        is_whole(&region, 2);
    });
}

#[test]
fn frames_are_exchanged_under_views() {
    check(|| {
        let region = region(2);
        let reader = Arc::clone(&region);
        let reader = thread::spawn(move || look(&reader));
        replace(&region, 2);
        region.release(0, CHUNK_BYTES);
        reader.join().unwrap();
        assert_eq!(read(&region), 0);
        is_whole(&region, 2);
    });
}

#[test]
fn a_writer_finds_a_frame_when_the_spares_are_few() {
    check(|| {
        let region = region(1);
        let reader = Arc::clone(&region);
        let reader = thread::spawn(move || look(&reader));
        replace(&region, 2);
        region.write_slice(0, &[3; SHORT]);
        reader.join().unwrap();
        assert_eq!(read(&region), 3);
        is_whole(&region, 1);
    });
}

#[test]
fn compare_and_write_is_one_step() {
    check(|| {
        let region = region(2);
        let swap = |region: &Region, to: u8| region.compare_and_write(0, &pair(1, to));
        let other = Arc::clone(&region);
        let other = thread::spawn(move || swap(&other, 2));
        let mine = swap(&region, 3);
        let theirs = other.join().unwrap();
        assert!(mine != theirs, "one of them wins");
        assert_eq!(read(&region), if mine { 3 } else { 2 });
    });
}

/// Expected bytes, then new ones.
fn pair(expected: u8, new: u8) -> [Segment; 2] {
    let pool = crate::buf::Pool::new(1 << 20);
    [expected, new].map(|byte| {
        let mut buf = pool.take(SHORT).expect("there is memory");
        buf.fill(byte);
        Segment::from(buf)
    })
}
