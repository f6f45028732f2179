//! Disks and files that are ending on threads of their own, and their errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weft_base::lock::Lock;
use weft_block::Error;

/// See the module.
#[derive(Default)]
pub(crate) struct Ends {
    pending: AtomicUsize,
    faults: Lock<Vec<Error>>,
}

/// Called with the outcome of an end.
pub(crate) type Tell = Box<dyn FnOnce(Result<(), Error>) + Send>;

impl Ends {
    /// Begins the end of each of `all` by `begin`; when the last has ended, `then` is called.
    pub(crate) fn end<T>(
        self: &Arc<Self>,
        all: Vec<T>,
        begin: impl Fn(T, Tell),
        then: impl Fn() + Clone + Send + 'static,
    ) {
        self.pending.fetch_add(all.len(), Ordering::AcqRel);
        if all.is_empty() {
            then();
        }
        for one in all {
            let (ends, then) = (Arc::clone(self), then.clone());
            let told = move |ended: Result<(), Error>| {
                ends.faults.lock().extend(ended.err());
                if ends.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
                    then();
                }
            };
            begin(one, Box::new(told));
        }
    }

    /// Those that have not ended.
    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire)
    }

    /// An error that was not told yet.
    pub(crate) fn fault(&self) -> Option<Error> {
        self.faults.lock().pop()
    }
}
