use super::*;
use crate::Pool;
use std::rc::Rc;
use std::sync::Arc;

fn segments(pool: &Pool, parts: &[&[u8]]) -> Vec<Segment> {
    parts
        .iter()
        .map(|part| {
            let mut buf = pool.take(part.len()).unwrap();
            buf.copy_from_slice(part);
            Segment::from(buf)
        })
        .collect()
}

#[test]
fn bytes_come_back_however_they_are_cut() {
    let pool = Pool::new(1 << 20);
    let region = Region::new(64 << 10).unwrap();
    let text: Vec<u8> = (0..20_000u32).map(|n| n as u8 ^ (n >> 8) as u8).collect();
    region.write(300, &segments(&pool, &[&text[..5000], &text[5000..5001], &text[5001..]]));
    let mut back = segments(&pool, &[&[0; 20_000]]);
    region.read(300, &mut back);
    assert!(back[0][..] == text[..]);
    let mut cut = segments(&pool, &[&[0; 7000], &[0; 13_000]]);
    region.read(300, &mut cut);
    assert!(cut[0][..] == text[..7000] && cut[1][..] == text[7000..]);
    assert!(region.compare(300, &cut));
    cut[1][12_999] ^= 1;
    assert!(!region.compare(300, &cut));
}

#[test]
fn compare_and_write_stores_only_on_equality() {
    let pool = Pool::new(1 << 20);
    let region = Region::new(16 << 10).unwrap();
    region.write_slice(4096, &[1; 8192]);
    let (old, new) = ([1; 8192], [2; 8192]);
    let data = segments(&pool, &[&old[..100], &[&old[100..], &new[..50]].concat(), &new[50..]]);
    assert!(region.compare_and_write(4096, &data));
    assert!(!region.compare_and_write(4096, &data));
    let mut back = [0; 8192];
    region.read_slice(4096, &mut back);
    assert!(back == new);
}

#[test]
fn zeroed_and_released_ranges_read_as_zeroes_and_neighbours_stay() {
    let region = Region::new(8 << 20).unwrap();
    region.write_slice(0, &vec![5; 8 << 20]);
    region.zero(4096, 512);
    region.release((1 << 20) + 512, 6 << 20);
    let mut all = vec![9; 8 << 20];
    region.read_slice(0, &mut all);
    let zero =
        |at: usize| (4096..4608).contains(&at) || ((1 << 20) + 512..(7 << 20) + 512).contains(&at);
    assert!(all.iter().enumerate().all(|(at, &byte)| byte == if zero(at) { 0 } else { 5 }));
}

fn lent(lender: &Rc<Lender>, offset: usize, len: usize) -> Segments {
    let mut views = Segments::new();
    assert!(lender.lend(offset, len, &mut views));
    views
}

/// A region, and what lends of it.
fn lending(chunks: usize) -> (Arc<Region>, Rc<Lender>) {
    let region = Arc::new(Region::new(chunks * CHUNK_BYTES).unwrap());
    (Arc::clone(&region), Lender::new(region))
}

#[test]
fn views_stay_as_they_were_and_their_frames_come_back() {
    let (region, lender) = lending(4);
    region.write_slice(0, &[1; CHUNK_BYTES]);
    let views = lent(&lender, 100, CHUNK_BYTES);
    assert_eq!((views.len(), views[0].len(), views[1].len()), (2, CHUNK_BYTES - 100, 100));
    region.write_slice(200, &[2; 10]);
    region.write_slice(CHUNK_BYTES, &[3; 10]);
    assert!(views[0].iter().all(|&byte| byte == 1) && views[1].iter().all(|&byte| byte == 0));
    let mut now = [0; 12];
    region.read_slice(199, &mut now);
    assert_eq!(now, [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
    assert!(
        !lender.lend(200, 10, &mut Segments::new()),
        "a short piece of a chunk that was just copied"
    );
    let again = lent(&lender, 200, CHUNK_BYTES / 2);
    assert_eq!(&again[0][..10], [2; 10]);
    region.release(0, CHUNK_BYTES);
    assert_eq!(&again[0][..10], [2; 10]);
    drop((views, again));
    // All frames are to be had again.
    let mut spares = Segments::new();
    assert!(lender.spare(0, 4 * CHUNK_BYTES, &mut spares));
    region.write_slice(0, &[7; 4 * CHUNK_BYTES]);
}

#[test]
fn spares_take_the_place_of_whole_chunks() {
    let (region, lender) = lending(4);
    region.write_slice(0, &[9; 4 * CHUNK_BYTES]);
    let view = lent(&lender, CHUNK_BYTES, 8);
    let mut data = Segments::new();
    assert!(lender.spare(CHUNK_BYTES / 2, 2 * CHUNK_BYTES, &mut data));
    data.iter_mut().enumerate().for_each(|(n, segment)| segment.fill(n as u8));
    let whole = data[1].as_ptr();
    region.adopt(CHUNK_BYTES / 2, &mut data);
    assert!(data.is_empty());
    assert_eq!(
        lent(&lender, CHUNK_BYTES, CHUNK_BYTES)[0].as_ptr(),
        whole,
        "the middle was not copied"
    );
    assert_eq!(&view[0][..], [9; 8]);
    let mut all = vec![0; 4 * CHUNK_BYTES];
    region.read_slice(0, &mut all);
    let expected = |at: usize| match at
        .checked_sub(CHUNK_BYTES / 2)
        .map(|at| (at + CHUNK_BYTES / 2) / CHUNK_BYTES)
    {
        Some(n) if n < 2 || at < 5 * CHUNK_BYTES / 2 => n as u8,
        _ => 9,
    };
    assert!(all.iter().enumerate().all(|(at, &byte)| byte == expected(at)));
    // Frames of another region are copied.
    let (_, other) = lending(1);
    let mut foreign = Segments::new();
    assert!(other.spare(0, CHUNK_BYTES, &mut foreign));
    foreign[0].fill(5);
    region.adopt(0, &mut foreign);
    region.read_slice(0, &mut all);
    assert!(all[..CHUNK_BYTES].iter().all(|&byte| byte == 5));
}

#[test]
fn what_is_out_is_bounded_and_writers_always_find_a_frame() {
    let count = REGION_SPARE_FRAMES as usize;
    let (region, lender) = lending(8);
    region.write_slice(0, &[1; 8 * CHUNK_BYTES]);
    let mut out = Segments::new();
    (0..count / 2).for_each(|n| assert!(lender.lend(n % 8 * CHUNK_BYTES, 512, &mut out)));
    (0..count / 2).for_each(|_| assert!(lender.spare(0, CHUNK_BYTES, &mut out)));
    assert!(!lender.lend(0, 8 * CHUNK_BYTES, &mut out) && !lender.spare(0, 512, &mut out));
    assert_eq!(out.len(), count);
    region.write_slice(0, &[2; 8 * CHUNK_BYTES]);
    assert_eq!(out[0][0], 1);
    out.clear();
    assert_eq!(lent(&lender, 7, CHUNK_BYTES / 2)[0][0], 2);
}

#[test]
fn freed_frames_read_as_zeroes_when_they_are_used_again() {
    let region = Region::new(64 * CHUNK_BYTES).unwrap();
    region.write_slice(0, &vec![4; 64 * CHUNK_BYTES]);
    // Not a whole group: its frames keep what they hold.
    region.release(0, 3 * CHUNK_BYTES);
    region.write_slice(CHUNK_BYTES + 5, &[6]);
    let mut back = [9; 8];
    region.read_slice(CHUNK_BYTES, &mut back);
    assert_eq!(back, [0, 0, 0, 0, 0, 6, 0, 0]);
    region.release(0, 64 * CHUNK_BYTES);
    region.write_slice(9, &[8]);
    region.read_slice(4, &mut back);
    assert_eq!(back, [0, 0, 0, 0, 0, 8, 0, 0]);
}

#[test]
fn views_and_writers_of_several_threads_get_along() {
    let (region, lender) = lending(2);
    let writer = {
        let region = Arc::clone(&region);
        std::thread::spawn(move || {
            let lender = Lender::new(Arc::clone(&region));
            for round in 0..2000usize {
                let mut data = Segments::new();
                if round % 2 == 0 && lender.spare(0, CHUNK_BYTES, &mut data) {
                    data[0].fill(round as u8);
                    region.adopt(0, &mut data);
                } else {
                    region.write_slice(0, &vec![round as u8; 4096]);
                }
            }
        })
    };
    let mut held = std::collections::VecDeque::new();
    for _ in 0..4000 {
        let mut views = Segments::new();
        if !lender.lend(0, 4096, &mut views) {
            continue;
        }
        let first = views[0][0];
        held.push_back((views, first));
        if held.len() > 16 {
            let (views, first) = held.pop_front().unwrap();
            assert!(views[0].iter().all(|&byte| byte == first), "a view changed");
        }
    }
    writer.join().unwrap();
}

#[test]
#[should_panic(expected = "ends within it")]
fn a_range_beyond_the_end_is_refused() {
    Region::new(4096).unwrap().read_slice(4000, &mut [0; 97]);
}

#[test]
fn blocks_are_never_torn_between_threads() {
    let region = Arc::new(Region::new(64 << 10).unwrap());
    let writers: Vec<_> = (1..=2u8)
        .map(|value| {
            let region = Arc::clone(&region);
            std::thread::spawn(move || {
                let block = vec![value; 16 << 10];
                (0..2000).for_each(|round| region.write_slice((round % 2) * (16 << 10), &block));
            })
        })
        .collect();
    let mut block = [0; 4096];
    for round in 0..4000 {
        region.read_slice((round % 8) * 4096, &mut block);
        assert!(block.iter().all(|&b| b == block[0]), "a torn block in round {round}");
    }
    writers.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn two_threads_count_by_compare_and_write() {
    const ROUNDS: u64 = 500;
    let region = Arc::new(Region::new(64 << 10).unwrap());
    let count = |region: Arc<Region>| {
        let pool = Pool::new(1 << 20);
        for _ in 0..ROUNDS {
            loop {
                let mut now = [0; 8];
                region.read_slice(4092, &mut now);
                let next = (u64::from_le_bytes(now) + 1).to_le_bytes();
                if region.compare_and_write(4092, &segments(&pool, &[&now, &next])) {
                    break;
                }
            }
        }
    };
    let other = Arc::clone(&region);
    let thread = std::thread::spawn(move || count(other));
    count(Arc::clone(&region));
    thread.join().unwrap();
    let mut total = [0; 8];
    region.read_slice(4092, &mut total);
    assert_eq!(u64::from_le_bytes(total), 2 * ROUNDS);
}
