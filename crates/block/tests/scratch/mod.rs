//! Files that go away with the test.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A path that nothing is at; what is made there is removed in the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("weft-block-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }

    pub fn url(&self, options: &str) -> String {
        format!("file:{},{options}", self.0.display())
    }

    pub fn read_only(&self, options: &str) -> String {
        format!("readonly:{}", self.url(options))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
