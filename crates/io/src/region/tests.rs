use super::*;
use crate::Pool;
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
    let zero = |at: usize| (4096..4608).contains(&at) || ((1 << 20) + 512..(7 << 20) + 512).contains(&at);
    assert!(all.iter().enumerate().all(|(at, &byte)| byte == if zero(at) { 0 } else { 5 }));
}

#[test]
fn ranges_wrap_around_the_locks() {
    assert_eq!(stripes_of(3, 5), [3..6, EMPTY]);
    assert_eq!(stripes_of(REGION_STRIPES - 1, REGION_STRIPES + 1), [0..2, REGION_STRIPES - 1..REGION_STRIPES]);
    assert_eq!(stripes_of(7, 7 + REGION_STRIPES), [0..REGION_STRIPES, EMPTY]);
    let region = Region::new((REGION_STRIPES + 8) * UNIT_BYTES).unwrap();
    drop(region.lock(UNIT_BYTES, region.len() - UNIT_BYTES));
    drop(region.lock((REGION_STRIPES - 2) * UNIT_BYTES, 4 * UNIT_BYTES));
    assert!(region.stripes.iter().all(|lock| !lock.load(Ordering::Relaxed)));
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
