//! Telling observers of the memory that a pool takes from the system.

use super::observer::PoolObserver;
use super::{Pool, PoolMemory, system};
use core::ptr::NonNull;
use std::io;
use std::rc::Rc;

/// Notifies an observer until it is dropped; see [`Pool::observe`].
#[must_use = "the observer is notified while this lives"]
pub struct Observation {
    pool: Rc<PoolMemory>,
    observer: Rc<dyn PoolObserver>,
}

impl Pool {
    /// Notifies `observer` of all present and future memory of the pool, until the returned value
    /// is dropped.
    ///
    /// # Errors
    /// The first error of [`PoolObserver::made`]; the observer is then notified of the end of the
    /// memory that it knows.
    pub fn observe(&self, observer: Rc<dyn PoolObserver>) -> io::Result<Observation> {
        let slabs = self.0.slabs.borrow();
        for (n, memory) in slabs.iter().map(slab).enumerate() {
            if let Err(e) = observer.made(memory) {
                slabs.iter().map(slab).take(n).for_each(|known| observer.freed(known));
                return Err(e);
            }
        }
        self.0.observers.borrow_mut().push(Rc::clone(&observer));
        Ok(Observation { pool: Rc::clone(&self.0), observer })
    }
}

fn slab((start, bytes): (&NonNull<u8>, &usize)) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(*start, *bytes)
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.pool.observers.borrow_mut().retain(|one| !Rc::ptr_eq(one, &self.observer));
        self.pool.slabs.borrow().iter().map(slab).for_each(|memory| self.observer.freed(memory));
    }
}

impl PoolMemory {
    /// Memory from the system that all observers know.
    pub(super) fn make_slab(&self, bytes: usize) -> Option<NonNull<u8>> {
        let ptr = system::take(bytes)?;
        let memory = NonNull::slice_from_raw_parts(ptr, bytes);
        let observers = self.observers.borrow();
        for (n, observer) in observers.iter().enumerate() {
            // Why is for the observer to say.
            if observer.made(memory).is_err() {
                observers[..n].iter().for_each(|told| told.freed(memory));
                // SAFETY: taken above with this size, and nobody uses it.
                unsafe { system::give(ptr, bytes) };
                return None;
            }
        }
        self.slabs.borrow_mut().insert(ptr, bytes);
        self.allocated_bytes.set(self.allocated_bytes.get() + bytes);
        self.allocations.add(1);
        Some(ptr)
    }

    /// Gives memory back to the system.
    ///
    /// # Safety
    /// It came from [`PoolMemory::make_slab`] with this size, and nothing in it is in use.
    pub(super) unsafe fn free_slab(&self, start: NonNull<u8>, bytes: usize) {
        self.slabs.borrow_mut().remove(&start);
        let memory = NonNull::slice_from_raw_parts(start, bytes);
        self.observers.borrow().iter().for_each(|observer| observer.freed(memory));
        self.allocated_bytes.set(self.allocated_bytes.get() - bytes);
        // SAFETY: `make_slab` took it with this size, and the caller promises that nobody holds
        // it.
        unsafe { system::give(start, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Buf, SLAB_BYTES};
    use super::*;
    use core::cell::{Cell, RefCell};
    use std::collections::BTreeMap;

    /// Records its notifications.
    #[derive(Default)]
    struct Recording {
        known: RefCell<BTreeMap<usize, usize>>,
        made: Cell<usize>,
        /// Pieces that may still be registered.
        room: Cell<usize>,
    }

    impl PoolObserver for Recording {
        fn made(&self, memory: NonNull<[u8]>) -> io::Result<()> {
            if self.room.get() == 0 {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.room.set(self.room.get() - 1);
            self.made.set(self.made.get() + 1);
            assert!(
                self.known.borrow_mut().insert(memory.addr().get(), memory.len()).is_none(),
                "told twice"
            );
            Ok(())
        }

        fn freed(&self, memory: NonNull<[u8]>) {
            assert_eq!(self.known.borrow_mut().remove(&memory.addr().get()), Some(memory.len()));
        }
    }

    impl Recording {
        fn new(room: usize) -> Rc<Self> {
            Rc::new(Self { room: Cell::new(room), ..Self::default() })
        }

        fn knows(&self, buf: &Buf) -> bool {
            let at = buf.as_ptr().addr();
            self.known
                .borrow()
                .range(..=at)
                .next_back()
                .is_some_and(|(start, len)| at + buf.len() <= start + len)
        }

        fn bytes(&self) -> usize {
            self.known.borrow().values().sum()
        }
    }

    #[test]
    fn an_observer_knows_all_memory_once() {
        let pool = Pool::new(4 << 20);
        let before = pool.take(4096).unwrap();
        let recording = Recording::new(usize::MAX);
        let observation = pool.observe(Rc::clone(&recording) as Rc<dyn PoolObserver>).unwrap();
        assert!(recording.knows(&before));
        let sizes = [1, 4096, 5000, 65_536, 100_000, 1 << 20];
        let bufs: Vec<Buf> = sizes.iter().map(|&size| pool.take(size).unwrap()).collect();
        assert!(bufs.iter().all(|buf| recording.knows(buf)));
        assert_eq!(recording.bytes(), pool.allocated_bytes());
        drop(bufs);
        let made = recording.made.get();
        drop(sizes.map(|size| pool.take(size).unwrap()));
        assert_eq!(recording.made.get(), made, "memory that is used again is not told again");
        pool.trim();
        assert_eq!(recording.bytes(), pool.allocated_bytes());
        assert!(recording.knows(&before) && pool.allocated_bytes() == SLAB_BYTES);
        drop(observation);
        assert_eq!(recording.bytes(), 0);
        let after = pool.take(1 << 20).unwrap();
        assert!(!recording.knows(&after));
    }

    #[test]
    fn what_cannot_be_registered_is_not_used() {
        let pool = Pool::new(4 << 20);
        let (many, few) = (Recording::new(usize::MAX), Recording::new(1));
        let observations = [&many, &few]
            .map(|observer| pool.observe(Rc::clone(observer) as Rc<dyn PoolObserver>).unwrap());
        let buf = pool.take(65_536).unwrap();
        assert!(pool.take(65_536).is_none() && pool.take_reserve(65_536).is_none());
        assert!(
            many.bytes() == 65_536 && few.bytes() == 65_536 && pool.allocated_bytes() == 65_536
        );
        assert!(pool.observe(Recording::new(0)).is_err());
        drop(buf);
        assert!(pool.take(65_536).is_some(), "what is registered is used again");
        drop(pool);
        drop(observations);
        assert_eq!((many.bytes(), few.bytes()), (0, 0));
    }
}
