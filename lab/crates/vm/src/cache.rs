//! The lab's cache: `$XDG_CACHE_HOME/weft-lab` or `~/.cache/weft-lab`.

use std::{
    env, fs,
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

const LOCK: &str = "lock";

/// Where the cache is.
pub(super) fn root() -> Result<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => env::home_dir().context("neither XDG_CACHE_HOME nor HOME is set")?.join(".cache"),
    };
    Ok(base.join("weft-lab"))
}

/// The cache, held by one process at a time.
#[derive(Debug)]
pub(super) struct Cache {
    root: PathBuf,
    /// Held for its lock.
    _lock: File,
}

impl Cache {
    /// Opens the cache, after whoever fills it just now.
    pub(super) fn open() -> Result<Self> {
        Self::open_at(root()?)
    }

    fn open_at(root: PathBuf) -> Result<Self> {
        fs::create_dir_all(&root).with_context(|| format!("cannot make {}", root.display()))?;
        let lock = File::create(root.join(LOCK))?;
        lock.lock().with_context(|| format!("cannot lock {}", root.display()))?;
        Ok(Self { root, _lock: lock })
    }

    /// Where it is.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns whether there is a directory `name`, which is whole then.
    pub(super) fn has(&self, name: &str) -> bool {
        self.root.join(name).is_dir()
    }

    /// The directory `name`; when there is none, `fill` fills an empty one that then takes its
    /// place whole, so an interrupted run leaves nothing half done behind.
    pub(super) fn entry(
        &self,
        name: &str,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let entry = self.root.join(name);
        if !entry.is_dir() {
            let fresh = tempfile::tempdir_in(&self.root)?;
            fill(fresh.path())?;
            fs::create_dir_all(entry.parent().unwrap_or(&self.root))?;
            fs::rename(fresh.keep(), &entry)?;
        }
        Ok(entry)
    }

    /// Removes everything but the lock.
    pub(super) fn clear(&self) -> Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(&path)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_an_entry_once_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(dir.path().join("cache")).unwrap();
        let failed = cache.entry("a/b", |at| {
            fs::write(at.join("half"), "")?;
            anyhow::bail!("interrupted")
        });
        assert!(failed.is_err());
        assert!(!cache.root().join("a/b").exists());

        let entry = cache.entry("a/b", |at| Ok(fs::write(at.join("whole"), "1")?)).unwrap();
        let again = cache.entry("a/b", |_| panic!("it is there")).unwrap();
        assert_eq!(entry, again);
        assert_eq!(fs::read_to_string(entry.join("whole")).unwrap(), "1");

        cache.clear().unwrap();
        assert!(!entry.exists());
    }
}
