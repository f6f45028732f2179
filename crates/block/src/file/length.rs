//! The length of an open file: whether it was cut, and what that means.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::durability::Durability;
use crate::outcome::status::{Status, StatusKind};

/// See the module. That of a disk stays as it was: it has a size that may change.
pub(super) struct Length {
    url: String,
    /// Bytes when it was opened, or when it was last asked for its size.
    had: AtomicU64,
    /// Bytes from the start that the file has had ever since. A file that was cut may be long
    /// again; it has lost what was behind this.
    end: AtomicU64,
    pub(super) durability: Arc<Durability>,
}

impl Length {
    pub(super) fn new(url: &str, had: u64, durability: &Arc<Durability>) -> Self {
        let durability = Arc::clone(durability);
        Self { url: url.into(), had: had.into(), end: had.into(), durability }
    }

    /// The file has this length now.
    #[inline]
    pub(super) fn found(&self, bytes: u64) {
        if bytes < self.end() {
            self.cut(bytes);
        }
    }

    /// Records that the file was truncated to `bytes` bytes; the rest is lost even if the file is
    /// extended again. Unflushed writes to that part are lost as well, so every flush fails.
    #[cold]
    pub(super) fn cut(&self, bytes: u64) {
        let had = self.had();
        // Before anybody can see it, so that no flush succeeds in between.
        self.durability.fail(Status::new(StatusKind::Media));
        let before = self.end.fetch_min(bytes, Ordering::AcqRel);
        if before == had && bytes < had {
            tracing::error!(
                "{}: the file was cut to {bytes} bytes, it had {had}; what was behind that is lost: operations on it, every flush and \
                 every write with FUA fail until the source is opened again",
                self.url
            );
        }
    }

    /// See the field.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    fn had(&self) -> u64 {
        self.had.load(Ordering::Acquire)
    }

    /// Returns whether the file was truncated since it was opened.
    pub(super) fn is_cut(&self) -> bool {
        self.end() < self.had()
    }

    /// Takes over the size of a file that became longer; `false`: it was cut, also in the meantime.
    pub(super) fn grow(&self, bytes: u64) -> bool {
        let had = self.had();
        // The end first: the new blocks must not count as lost.
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let is_whole = self.end.compare_exchange(had, bytes, order.0, order.1).is_ok();
        if is_whole {
            self.had.store(bytes, Ordering::Release);
        }
        is_whole && !self.is_cut()
    }

    /// Why a part of the file cannot be used, for users.
    pub(super) fn trouble(&self) -> Option<String> {
        self.is_cut().then(|| {
            format!(
                "the file was cut to {} bytes, it had {}; operations on what is lost, and every flush, fail until the source is \
                 opened again",
                self.end(),
                self.had()
            )
        })
    }
}
