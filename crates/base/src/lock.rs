//! Mutexes and conditions without poisoning.
//!
//! A [`Lock`] is for a value that is consistent between any two statements: a thread that panics while
//! it holds the lock leaves a valid value, so the next one may use it.

use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    TryLockError,
};
use std::time::Duration;

/// A mutex that can be locked after a panic of whoever had it.
#[derive(Debug, Default)]
pub struct Lock<T: ?Sized>(Mutex<T>);

impl<T> Lock<T> {
    /// A lock of a value.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> From<T> for Lock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized> Lock<T> {
    /// Waits until nobody has it, and takes it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes it, unless somebody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value, which nobody else can have.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock that many can have to read, and one to write.
#[derive(Debug, Default)]
pub struct SharedLock<T: ?Sized>(RwLock<T>);

impl<T> SharedLock<T> {
    /// A lock of a value.
    pub const fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }
}

impl<T: ?Sized> SharedLock<T> {
    /// Waits until nobody writes, and takes it to read.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody has it, and takes it to write.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A condition of what a [`Lock`] holds.
#[derive(Debug, Default)]
pub struct Condition(Condvar);

impl Condition {
    /// One that nobody waits for.
    pub const fn new() -> Self {
        Self(Condvar::new())
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Wakes one that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Releases the lock, waits to be woken, and takes it again. It may also wake for nothing.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for `limit` at most. Returns whether that has passed.
    pub fn wait_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let (guard, waited) =
            self.0.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner);
        (guard, waited.timed_out())
    }

    /// Waits as long as `is_waiting` says so.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        is_waiting: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        self.0.wait_while(guard, is_waiting).unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for `limit` at most. Returns whether that has passed.
    pub fn wait_while_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
        is_waiting: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, bool) {
        let waited = self.0.wait_timeout_while(guard, limit, is_waiting);
        let (guard, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (guard, waited.timed_out())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_panic_of_a_holder_spoils_nothing() {
        let lock = Arc::new(Lock::new(1));
        let held = Arc::clone(&lock);
        let thread = std::thread::spawn(move || {
            let mut value = held.lock();
            *value = 2;
            panic!("while it is held");
        });
        assert!(thread.join().is_err());
        assert_eq!(*lock.lock(), 2);
        let mut lock = Arc::into_inner(lock).unwrap();
        *lock.get_mut() += 1;
        assert_eq!(lock.into_inner(), 3);
    }

    #[test]
    fn a_condition_wakes_whoever_waits() {
        let both = Arc::new((Lock::new(false), Condition::new()));
        let told = Arc::clone(&both);
        let thread = std::thread::spawn(move || {
            *told.0.lock() = true;
            told.1.notify_all();
        });
        let mut is_set = both.0.lock();
        while !*is_set {
            is_set = both.1.wait(is_set);
        }
        drop(is_set);
        thread.join().unwrap();
        let (is_set, _) = both.1.wait_for(both.0.lock(), Duration::from_millis(1));
        assert!(*is_set);
    }
}
