//! Memory of a region that is lent: it is written from where it is, and what it held before goes
//! nowhere.

use crate::verbs::ends::{Bench, End, SLOT, done, memory, pattern};
use std::rc::Rc;
use std::sync::Arc;
use weft_io::Segments;
use weft_io::rdma::{Exposure, NotLent, QueuePairEvent, WorkOutcome};
use weft_io::region::{CHUNK_BYTES, Lender, Region};

const LEN: usize = 100_000;

/// Writes what the region holds from `offset` on to the host's memory, and gives what is there
/// then.
fn written(
    bench: &mut Bench,
    (host, target): (&End, &End),
    lender: &Rc<Lender>,
    offset: usize,
) -> Vec<u8> {
    let mut views = Segments::new();
    assert!(lender.lend(offset, LEN, &mut views));
    let pieces = views.len();
    host.fill(&[0xee; LEN]);
    let at = host.qp().expose(1, SLOT, LEN as u32, true).unwrap();
    host.qp().send(2, b"exposed", None, None);
    assert_eq!(
        (crate::verbs::message(bench, target).0, bench.next(host)),
        (b"exposed".to_vec(), done(2))
    );
    target.qp().lend(SLOT, views).unwrap();
    assert!(target.qp().prepare(SLOT, 4096).is_err(), "the slot is in use");
    target.qp().write(5, memory(0, LEN as u32), at, true);
    target.qp().read(6, memory(0, 1), at);
    let mut events = [bench.next(target), bench.next(target)];
    events.sort_by_key(|event| matches!(event, QueuePairEvent::WorkEnded { id: 6, .. }));
    assert_eq!(events[0], done(5));
    assert!(
        matches!(events[1], QueuePairEvent::WorkEnded { id: 6, ended: WorkOutcome::Failed(_) }),
        "it is only read"
    );
    assert_eq!(target.qp().take_back(SLOT).unwrap().len(), pieces);
    let content = host.content(LEN);
    host.qp().conceal(SLOT);
    content
}

#[test]
#[ignore = "needs an RDMA device"]
fn memory_of_a_region_is_written_from_where_it_is() {
    let mut bench = Bench::new();
    let (host, target) = bench.pair(Some(Exposure::Registration));
    let ends = (&host, &target);
    for bytes in [8 << 20, 4 << 20] {
        let region = Arc::new(Region::new(bytes).unwrap());
        let lender = Lender::new(Arc::clone(&region));
        assert_eq!(written(&mut bench, ends, &lender, 0), vec![0; LEN], "nothing was written yet");
        for round in 0..3 {
            region.write_slice(0, &pattern(bytes, round));
            // In two and in three pieces, on both sides of the end of a part.
            for offset in [0, CHUNK_BYTES - 4096, (2 << 20) - 4096] {
                let expected = &pattern(bytes, round)[offset..][..LEN];
                assert!(
                    written(&mut bench, ends, &lender, offset) == expected,
                    "round {round} at {offset}"
                );
            }
            // Its memory goes back to the system, and other pages take its place.
            region.release(0, bytes);
            assert_eq!(
                written(&mut bench, ends, &lender, 0),
                vec![0; LEN],
                "round {round}, released"
            );
        }
    }
    drop((host, target));
}

#[test]
#[ignore = "needs an RDMA device"]
fn memory_of_others_comes_back_at_once() {
    let mut bench = Bench::new();
    let (host, target) = bench.pair(None);
    let buf = bench.on().pool().take(4096).unwrap();
    let NotLent { memory, why } =
        target.qp().lend(SLOT, Segments::from_iter([buf.into()])).unwrap_err();
    assert!(memory.len() == 1 && why.is_none());
    let region = Arc::new(Region::new(1 << 20).unwrap());
    let lender = Lender::new(Arc::clone(&region));
    let views = |len: usize| {
        let mut views = Segments::new();
        assert!(lender.lend(0, len, &mut views));
        views
    };
    assert!(target.qp().lend(SLOT, views(5 * CHUNK_BYTES)).is_err(), "too many pieces");
    target.qp().lend(SLOT, views(4 * CHUNK_BYTES)).unwrap();
    assert!(target.qp().lend(SLOT, views(1)).is_err(), "one at a time");
    // What is left in a queue pair is freed with it.
    region.write_slice(0, &[1; CHUNK_BYTES]);
    target.qp().lend(SLOT + 1, views(4096)).unwrap();
    target.qp().destroy();
    assert!(target.qp().take_back(SLOT).is_some());
    drop((host, target, lender));
    assert!(Arc::try_unwrap(region).is_ok());
}
