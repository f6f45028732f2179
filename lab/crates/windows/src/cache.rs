//! The directory that holds the private toolchain and the Wine prefix, shared by all checkouts.

use std::{
    env,
    fs::{self, File},
    path::PathBuf,
};

use anyhow::{Context, Result};

/// Raised when a step of the setup changes, so that older caches are prepared afresh.
const RECIPE: &str = "1";

/// The cache, `${XDG_CACHE_HOME:-~/.cache}/weft-windows`.
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Finds the directory and makes it.
    pub fn open() -> Result<Self> {
        let base = match env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
            Some(dir) => PathBuf::from(dir),
            None => env::home_dir().context("there is no home directory")?.join(".cache"),
        };
        let root = base.join("weft-windows");
        fs::create_dir_all(root.join("done"))
            .with_context(|| format!("cannot make {}", root.display()))?;
        Ok(Self { root })
    }

    /// A path below the cache.
    pub fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// Runs `work` unless this recipe's step `name` is already done; one process at a time.
    pub fn once(&self, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.is_done(name) {
            return Ok(());
        }
        let lock = File::create(self.path("lock"))?;
        lock.lock().context("cannot lock the cache")?;
        if !self.is_done(name) {
            work().with_context(|| format!("setup step {name}"))?;
            fs::write(self.marker(name), format!("{RECIPE}\n"))?;
        }
        Ok(())
    }

    /// Forgets that the steps whose name starts with `prefix` were done.
    pub fn forget(&self, prefix: &str) -> Result<()> {
        for entry in fs::read_dir(self.path("done"))? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn is_done(&self, name: &str) -> bool {
        fs::read_to_string(self.marker(name)).is_ok_and(|recipe| recipe.trim() == RECIPE)
    }

    fn marker(&self, name: &str) -> PathBuf {
        self.root.join("done").join(name)
    }
}
