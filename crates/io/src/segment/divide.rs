//! The memory of one operation, given to several: in parts, or the same bytes to all.

use super::{Memory, Piece, Segment, SegmentPart, Segments};
use core::ptr::NonNull;
use std::rc::Rc;

/// Keeps the memory of an operation while others hold parts of it, and returns it when all parts
/// have been dropped.
///
/// The memory is either *cut*, so that each byte is in at most one writable part, or *shared*, so
/// that nobody writes to it until all parts are back. If this is dropped early, the memory is freed
/// with the last part. It can be refilled for the next operation, so operations do not allocate.
#[derive(Default)]
pub struct Divided {
    memory: Rc<Memory>,
    given: Given,
}

/// Part for others.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Given {
    #[default]
    Nothing,
    /// The number of bytes, from the start, of which parts were given.
    Cut(usize),
    Shared,
}

impl Divided {
    /// An empty one, to be filled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the memory of the next operation.
    ///
    /// # Panics
    /// If it is not empty.
    pub fn fill(&mut self, segments: Segments) {
        let memory = Rc::get_mut(&mut self.memory).filter(|memory| memory.segments.is_empty());
        let memory = memory.expect("what was divided before is whole again and taken back");
        memory.segments = segments;
        memory.pieces.clear();
        memory.pieces.extend(memory.segments.iter_mut().map(|segment| {
            let writable = segment.is_writable();
            let bytes =
                if writable { NonNull::from(&mut **segment) } else { NonNull::from(&**segment) };
            Piece { start: bytes.cast(), len: bytes.len(), writable }
        }));
        self.given = Given::Nothing;
    }

    /// Appends the bytes `from..from + len` to `into`, writable if the memory is.
    ///
    /// # Panics
    /// If some of them, or later ones, were already given; if the memory is shared; or if the range
    /// exceeds it.
    pub fn cut(&mut self, from: usize, len: usize, into: &mut Segments) {
        match self.given {
            Given::Nothing => {}
            Given::Cut(end) => {
                assert!(from >= end, "parts are cut in ascending order, and none twice")
            }
            Given::Shared => panic!("memory that is shared is not cut"),
        }
        self.given = Given::Cut(from + len);
        self.append(from, len, true, into);
    }

    /// Appends the bytes `from..from + len` to `into`, read-only. They may be given any number of
    /// times.
    ///
    /// # Panics
    /// If the memory was cut, or the range exceeds it.
    pub fn share(&mut self, from: usize, len: usize, into: &mut Segments) {
        assert!(!matches!(self.given, Given::Cut(_)), "memory that was cut is not shared");
        self.given = Given::Shared;
        self.append(from, len, false, into);
    }

    /// Appends all of it to `into`, as [`Divided::share`] does.
    ///
    /// # Panics
    /// If the memory was cut.
    #[inline]
    pub fn share_all(&mut self, into: &mut Segments) {
        assert!(!matches!(self.given, Given::Cut(_)), "memory that was cut is not shared");
        self.given = Given::Shared;
        for &Piece { start, len, .. } in &self.memory.pieces {
            let of = Rc::clone(&self.memory);
            into.push(Segment::Part(SegmentPart { start, len, writable: false, of }));
        }
    }

    fn append(&self, from: usize, len: usize, exclusive: bool, into: &mut Segments) {
        let (mut skip, mut left) = (from, len);
        for piece in &self.memory.pieces {
            let skipped = skip.min(piece.len);
            skip -= skipped;
            let len = left.min(piece.len - skipped);
            if len > 0 {
                // SAFETY: `skipped` is less than the piece's length.
                let start = unsafe { piece.start.add(skipped) };
                into.push(Segment::Part(SegmentPart {
                    start,
                    len,
                    writable: exclusive && piece.writable,
                    of: Rc::clone(&self.memory),
                }));
            }
            left -= len;
        }
        assert!(left == 0, "a part lies within the memory");
    }

    /// Returns whether parts of it are in use.
    pub fn is_divided(&self) -> bool {
        Rc::strong_count(&self.memory) > 1
    }

    /// The memory, if all parts are back; then this can be refilled.
    pub fn take_back(&mut self) -> Option<Segments> {
        let memory = Rc::get_mut(&mut self.memory)?;
        memory.pieces.clear();
        self.given = Given::Nothing;
        Some(core::mem::take(&mut memory.segments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use crate::segment::total_len;

    fn memory(pool: &Pool, sizes: &[usize]) -> Segments {
        sizes.iter().map(|&size| Segment::from(pool.take(size).unwrap())).collect()
    }

    #[test]
    fn parts_are_written_to_and_come_back_as_the_whole() {
        let pool = Pool::new(1 << 20);
        let mut divided = Divided::new();
        for round in 0..3 {
            divided.fill(memory(&pool, &[4096, 100, 3996]));
            let mut members = [Segments::new(), Segments::new()];
            // A stripe of 1000 bytes over two, across the ends of the segments.
            (0..8192)
                .step_by(1000)
                .for_each(|at| divided.cut(at, 1000.min(8192 - at), &mut members[at / 1000 % 2]));
            assert_eq!(
                members.iter().map(|member| total_len(member)).collect::<Vec<_>>(),
                [4192, 4000]
            );
            for (n, member) in (0..).zip(&mut members) {
                member.iter_mut().for_each(|part| part.fill(round * 2 + n));
            }
            assert!(divided.is_divided() && divided.take_back().is_none());
            members[1].clear();
            assert!(divided.take_back().is_none());
            members[0].clear();
            let whole = divided.take_back().unwrap();
            assert_eq!(
                whole.iter().map(|segment| segment.len()).collect::<Vec<_>>(),
                [4096, 100, 3996]
            );
            let bytes: Vec<u8> = whole.iter().flat_map(|segment| segment.iter().copied()).collect();
            assert!(
                bytes
                    .iter()
                    .enumerate()
                    .all(|(at, &byte)| byte == round * 2 + (at / 1000 % 2) as u8)
            );
        }
        assert_eq!(pool.taken_bytes(), 0);
    }

    #[test]
    fn shared_memory_is_read_by_all_and_written_by_none() {
        let pool = Pool::new(1 << 20);
        let mut divided = Divided::new();
        let mut memory = memory(&pool, &[512]);
        memory[0].fill(5);
        divided.fill(memory);
        let mut members: [Segments; 3] = Default::default();
        members.iter_mut().for_each(|member| divided.share(0, 512, member));
        assert!(
            members
                .iter()
                .all(|member| member[0].iter().all(|&byte| byte == 5) && !member[0].is_writable())
        );
        // By loan to other threads, too.
        let (receipt, loan) = members[0].pop().unwrap().lend();
        let loan = std::thread::spawn(move || {
            let lent = Segment::Loan(loan);
            assert!(lent.iter().all(|&byte| byte == 5) && !lent.is_writable());
            match lent {
                Segment::Loan(loan) => loan,
                _ => unreachable!("it was a loan"),
            }
        });
        drop(receipt.redeem(loan.join().unwrap()));
        members.iter_mut().for_each(|member| member.clear());
        let mut back = divided.take_back().unwrap();
        back[0].fill(6);
        assert!(
            std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
                divided.fill(back);
                let mut read_only = Segments::new();
                divided.share(0, 512, &mut read_only);
                read_only[0].fill(7);
            }))
            .is_err()
        );
    }

    #[test]
    fn a_part_of_a_part_and_memory_whose_keeper_is_gone() {
        let pool = Pool::new(1 << 20);
        let (mut stripe, mut mirror) = (Divided::new(), Divided::new());
        stripe.fill(memory(&pool, &[8192]));
        let mut half = Segments::new();
        stripe.cut(4096, 4096, &mut half);
        mirror.fill(half);
        let (mut one, mut other) = (Segments::new(), Segments::new());
        mirror.share(0, 4096, &mut one);
        mirror.share(0, 4096, &mut other);
        drop((stripe, mirror));
        drop(one);
        assert_eq!((pool.taken_bytes(), other[0].len()), (8192, 4096));
        drop(other);
        assert_eq!(pool.taken_bytes(), 0);
    }

    #[test]
    fn no_byte_is_cut_twice() {
        let pool = Pool::new(1 << 20);
        let twice = |first: (usize, usize), second: (usize, usize)| {
            let mut divided = Divided::new();
            divided.fill(memory(&pool, &[4096]));
            let mut parts = Segments::new();
            divided.cut(first.0, first.1, &mut parts);
            divided.cut(second.0, second.1, &mut parts);
        };
        for (first, second) in [
            ((0, 100), (99, 1)),
            ((100, 100), (0, 50)),
            ((0, 4096), (4096, 1)),
            ((0, 1), (1, usize::MAX)),
        ] {
            assert!(
                std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| twice(first, second)))
                    .is_err()
            );
        }
        twice((0, 100), (100, 3996));
    }
}
