//! Which writes are kept, and which pieces of them are written again.

use super::pieces::Covered;
use super::*;
use weft_io::Pool;

fn write(log: &Unflushed, pool: &Pool, lba: u64, bytes: usize, value: u8) {
    let mut data = pool.take(bytes).unwrap();
    data.fill(value);
    let op =
        Op::new(OpKind::Write { fua: false }, lba, (bytes / 512) as u32, 0, [data.into()].into());
    log.add(&op);
    op.give_up();
}

fn lbas(log: &Unflushed) -> Vec<u64> {
    log.0.lock().entries.iter().map(|entry| entry.lba).collect()
}

#[test]
fn writes_are_kept_in_order_until_a_flush_that_was_submitted_later() {
    let (log, pool) = (Unflushed::new(4096), Pool::new(1 << 20));
    write(&log, &pool, 1, 512, 1);
    let mark = log.mark();
    write(&log, &pool, 2, 1024, 2);
    assert_eq!(lbas(&log), [1, 2]);
    log.flushed(mark);
    assert_eq!(lbas(&log), [2]);
    let mut data = [0; 1024];
    assert!(log.copy(&log.pieces()[0], &mut data));
    assert_eq!(data, [2; 1024]);
    assert!(!log.is_incomplete());
}

#[test]
fn the_oldest_make_room_and_that_is_known_until_a_flush() {
    let (log, pool) = (Unflushed::new(4096), Pool::new(1 << 20));
    for n in 0..11 {
        write(&log, &pool, n * 2, 1024, n as u8 * 2);
    }
    assert_eq!((lbas(&log), log.is_incomplete()), (vec![14, 16, 18, 20], true));
    let mut data = [0; 1024];
    let pieces = log.pieces();
    assert_eq!(pieces.len(), 4);
    for piece in pieces.iter().filter(|piece| piece.blocks == 2) {
        assert!(log.copy(piece, &mut data));
        assert_eq!(data, [piece.lba as u8; 1024], "around the end of the memory");
    }
    log.flushed(log.mark());
    assert_eq!((log.len(), log.is_incomplete()), (0, false));
    write(&log, &pool, 1, 8192, 1);
    assert_eq!((log.len(), log.is_incomplete()), (0, true), "larger than the log");
}

#[test]
fn of_each_block_the_last_write_is_written_again() {
    let (log, pool) = (Unflushed::new(8192), Pool::new(1 << 20));
    for (lba, blocks, value) in [(10, 4, 1), (0, 1, 2), (11, 2, 3), (12, 4, 4), (0, 1, 5)] {
        write(&log, &pool, lba, blocks * 512, value);
    }
    let pieces = log.pieces();
    let found: Vec<_> = pieces.iter().map(|piece| (piece.lba, piece.blocks)).collect();
    assert_eq!(found, [(10, 1), (11, 1), (12, 4), (0, 1)]);
    let values = pieces.iter().map(|piece| {
        let mut data = vec![0; piece.len];
        assert!(log.copy(piece, &mut data));
        assert!(data.iter().all(|byte| *byte == data[0]));
        data[0]
    });
    assert_eq!(values.collect::<Vec<_>>(), [1, 3, 4, 5]);
}

#[test]
fn ranges_are_covered_once() {
    let mut covered = Covered::default();
    assert_eq!(covered.cover(10, 20), [(10, 20)]);
    assert_eq!(covered.cover(30, 40), [(30, 40)]);
    assert_eq!(covered.cover(12, 15), []);
    assert_eq!(covered.cover(5, 35), [(5, 10), (20, 30)]);
    assert_eq!(covered.cover(0, 50), [(0, 5), (40, 50)]);
    assert_eq!((covered.cover(50, 51), covered.0.len()), (vec![(50, 51)], 1));
}

#[test]
fn durable_writes_count_only_behind_others() {
    let (log, pool) = (Unflushed::new(4096), Pool::new(1 << 20));
    let fua = |lba| Op::bare(OpKind::WriteZeroes { deallocate: false, fua: true }, lba, 1, 0);
    let first = fua(1);
    log.add(&first);
    assert_eq!(log.len(), 0);
    write(&log, &pool, 2, 512, 1);
    let second = fua(2);
    log.add(&second);
    assert_eq!(lbas(&log), [2, 2]);
    [first, second].into_iter().for_each(Op::give_up);
}
