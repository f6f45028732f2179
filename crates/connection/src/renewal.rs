//! Secrets that may be replaced at their source while a host uses them: they are read again before
//! each association.

use crate::refusals::Refusals;
use std::fmt;
use std::sync::Arc;
use weft_base::lock::Lock;

type Read<T> = Box<dyn Fn() -> Result<T, String> + Send + Sync>;

/// Something that is read again each time that it is needed. All clones are the same one.
pub struct Renewed<T>(Arc<RenewalState<T>>);

struct RenewalState<T> {
    read: Read<T>,
    /// What was read last.
    last: Lock<Option<T>>,
    /// Attempts that failed, for the log: whoever connects causes one.
    unread: Refusals,
}

impl<T> Clone for Renewed<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Renewed<T> {
    /// Without what was read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewed").finish_non_exhaustive()
    }
}

impl<T: Clone> Renewed<T> {
    /// Read by a function that must not wait, or tells why it cannot be read. It is called where
    /// connections are opened.
    pub fn new(read: impl Fn() -> Result<T, String> + Send + Sync + 'static) -> Self {
        let (last, unread) = (Lock::default(), Refusals::new());
        Self(Arc::new(RenewalState { read: Box::new(read), last, unread }))
    }

    /// Reads it again. If it cannot be read, the log says why, and the last value stays, or `first`
    /// if there is none: a file that is just being replaced is no reason to stay away from a target.
    #[doc(hidden)]
    pub fn now(&self, first: &T) -> T {
        let mut last = self.0.last.lock();
        match (self.0.read)() {
            Ok(new) => *last = Some(new),
            Err(why) => {
                let text = || format!("{why}; the secrets that were read before are used");
                self.0.unread.log_now(text);
            }
        }
        last.as_ref().unwrap_or(first).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[test]
    fn what_cannot_be_read_stays_what_it_was() {
        let there = Arc::new(AtomicU32::new(0));
        let of = Arc::clone(&there);
        let renewed = Renewed::new(move || match of.load(SeqCst) {
            0 => Err("it is away".to_owned()),
            some => Ok(some),
        });
        assert_eq!(renewed.now(&1), 1);
        there.store(2, SeqCst);
        assert_eq!(renewed.clone().now(&1), 2);
        there.store(0, SeqCst);
        assert_eq!(renewed.now(&1), 2, "not what was there first");
    }
}
