//! The payload memory of a job's operations, by the operation's name.

use weft_io::Segments;
use weft_io::segment::Divided;

/// The memory of a job.
pub(super) enum Memory {
    /// All operations have one size.
    Whole(Vec<Segments>),
    /// An operation gets the first part of the memory for the largest one.
    Parts(Vec<(Segments, Divided)>),
}

impl Memory {
    /// Memory for `depth` operations, each with what `make` gives. If operations differ in their
    /// size, each gets a part of it.
    pub fn new<E>(
        depth: usize,
        differ: bool,
        mut make: impl FnMut() -> Result<Segments, E>,
    ) -> Result<Self, E> {
        let all = (0..depth).map(|_| make());
        match differ {
            false => all.collect::<Result<_, E>>().map(Self::Whole),
            true => all
                .map(|memory| memory.map(|memory| (memory, Divided::new())))
                .collect::<Result<_, E>>()
                .map(Self::Parts),
        }
    }

    /// Memory for the next operation of this name, which has `bytes` bytes.
    #[inline]
    pub fn take(&mut self, user: u64, bytes: usize) -> Segments {
        match self {
            Self::Whole(all) => core::mem::take(&mut all[user as usize]),
            Self::Parts(all) => {
                let (whole, divided) = &mut all[user as usize];
                divided.fill(core::mem::take(whole));
                let mut part = Segments::new();
                divided.cut(0, bytes, &mut part);
                part
            }
        }
    }

    /// Returns whether an operation of this name can begin. Not if a previous one completed without
    /// its memory, which the device still has.
    pub fn has(&self, user: u64) -> bool {
        match self {
            Self::Whole(all) => !all[user as usize].is_empty(),
            Self::Parts(all) => !all[user as usize].0.is_empty(),
        }
    }

    /// Takes back what an operation of this name had.
    #[inline]
    pub fn give_back(&mut self, user: u64, data: Segments) {
        // A flush or a discard has none.
        if data.is_empty() {
            return;
        }
        match self {
            Self::Whole(all) => all[user as usize] = data,
            Self::Parts(all) => {
                drop(data);
                let (whole, divided) = &mut all[user as usize];
                *whole = divided.take_back().unwrap_or_default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_io::segment::total_len;
    use weft_io::{Pool, Segment};

    #[test]
    fn parts_come_back_as_the_whole() {
        let pool = Pool::new(1 << 20);
        let make = || {
            let buf = pool.take(8192).ok_or("no memory")?;
            Ok::<_, &str>(Segments::from_iter([Segment::from(buf)]))
        };
        let mut memory = Memory::new(2, true, make).unwrap();
        for bytes in [512, 8192, 4096] {
            assert!(memory.has(1));
            let part = memory.take(1, bytes);
            assert_eq!((total_len(&part), memory.has(1)), (bytes, false));
            memory.give_back(1, part);
        }
        let mut whole = Memory::new(1, false, make).unwrap();
        let data = whole.take(0, 8192);
        assert!(!whole.has(0));
        whole.give_back(0, data);
        // A flush in between leaves the memory where it is.
        whole.give_back(0, Segments::new());
        assert_eq!(total_len(&whole.take(0, 8192)), 8192);
    }

    #[test]
    fn memory_that_the_device_keeps_is_not_used() {
        let pool = Pool::new(1 << 20);
        let make = || {
            let buf = pool.take(4096).ok_or("no memory")?;
            Ok::<_, &str>(Segments::from_iter([Segment::from(buf)]))
        };
        for differ in [false, true] {
            let mut memory = Memory::new(1, differ, make).unwrap();
            let kept = memory.take(0, 512);
            memory.give_back(0, Segments::new());
            assert!(!memory.has(0), "{differ}");
            drop(kept);
        }
    }
}
