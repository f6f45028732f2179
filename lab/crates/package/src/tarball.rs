//! The package for any other Linux: a tree that is unpacked at `/`, or anywhere.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use xtask::{VERSION, sh};

use super::{
    archive,
    deb::Effort,
    staged::{self, CONFIGURATION},
};

/// Where the configuration is, as an example.
const EXAMPLE: &str = "usr/share/doc/weft/examples/weft.toml";

/// Packs a program; where the package is.
pub fn pack(program: &Path, out: &Path, effort: Effort) -> Result<PathBuf> {
    let name = format!("weft-{VERSION}-linux-{}", std::env::consts::ARCH);
    staged::stage(program, &out.join(&name))?;
    // It is unpacked over an older one, whose configuration somebody has edited.
    let (from, to) = (out.join(&name).join(CONFIGURATION), out.join(&name).join(EXAMPLE));
    std::fs::rename(from, to)?;
    std::fs::remove_dir_all(out.join(&name).join("etc"))?;
    let made = out.join(format!("{name}.tar.gz"));
    let time = archive::commit_seconds()?;
    let mut tar = Command::new("tar");
    tar.current_dir(out);
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar"]);
    let gzip = if effort == Effort::Full { "gzip -9n" } else { "gzip -1n" };
    tar.arg(format!("--mtime=@{time}")).args(["--use-compress-program", gzip, "-cf"]);
    sh::run(tar.arg(&made).arg(&name))?;
    std::fs::remove_dir_all(out.join(&name))?;
    Ok(made)
}
