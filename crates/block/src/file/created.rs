//! The files that opening sources has created, to be removed if nothing comes of it.

use std::path::{Path, PathBuf};
use weft_base::lock::Lock;

/// See the module. Paths are absolute.
#[derive(Debug, Default)]
pub struct CreatedFiles(Lock<Vec<PathBuf>>);

impl CreatedFiles {
    pub(super) fn add(&self, path: &Path) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.0.lock().push(path);
    }

    /// Returns whether none was created.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Removes the files, as far as possible; call it when their devices are dropped.
    pub fn remove(&self) {
        for path in self.0.lock().drain(..) {
            if let Err(e) = std::fs::remove_file(&path) {
                tracing::warn!(
                    "cannot remove {}, which was created for nothing: {e}",
                    path.display()
                );
            }
        }
    }
}
