//! Preparing what builds and runs programs for Windows.

use std::path::Path;

use anyhow::Result;
use xtask::sh::{self, Missing};

use super::{
    cache::Cache,
    toolchain::{self, TARGET},
    wine,
};

/// Prepares what is missing of the toolchain and of Wine.
pub fn prepare(cache: &Cache) -> Result<()> {
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        return Err(
            Missing("the Windows build is prepared on Debian 12 for amd64 only".into()).into()
        );
    }
    if !Path::new(wine::WINE).exists() || !sh::have("x86_64-w64-mingw32-gcc") {
        lab_host::require(&["gcc-mingw-w64-x86-64", "wine64"])?;
    }
    toolchain::prepare(cache, TARGET)?;
    cache.once("prefix", || wine::create_prefix(cache))
}
