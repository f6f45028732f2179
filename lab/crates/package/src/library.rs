//! The packages of the library for programs in C, for Debian and Ubuntu: `libweft1` with the shared
//! library, `libweft-dev` with what programs are built with.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use xtask::{VERSION, sh};

use super::{
    deb::{self, Effort},
    linux::hide_paths,
    notices, pages, staged,
};

/// The profile of the library.
const PROFILE: &str = "library";

/// The name by which programs are linked with it.
const SONAME: &str = "libweft.so.1";

/// Most bytes of the shared library.
const BYTES_MAX: u64 = 8 << 20;

/// Options of `cargo xtask package library`.
#[derive(Args)]
pub struct LibraryArgs {
    /// A static library that is built already, instead of one of this tree; its size has no limit
    #[arg(long, value_name = "FILE")]
    archive: Option<PathBuf>,
    /// Hardly compress: quicker, and larger
    #[arg(long)]
    fast: bool,
    /// Directory of the packages [default: target/package]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// Builds the library and packs it.
pub fn run(args: &LibraryArgs) -> Result<()> {
    lab_host::require(&["dpkg", "binutils"])?;
    let archive = match &args.archive {
        Some(archive) => archive.clone(),
        None => build()?,
    };
    ensure!(archive.is_file(), "there is no {}", archive.display());
    let out = args.out.clone().unwrap_or_else(|| sh::target_dir().join("package"));
    fs::create_dir_all(&out)?;
    let shared = out.join(SONAME);
    sh::run(Command::new("sh").arg(source("link.sh")).arg(&archive).arg(&shared))?;
    sh::run(Command::new("strip").arg("--strip-unneeded").arg(&shared))?;
    let bytes = fs::metadata(&shared)?.len();
    ensure!(
        args.archive.is_some() || bytes <= BYTES_MAX,
        "{SONAME} has {bytes} bytes, more than {BYTES_MAX}"
    );
    println!("{SONAME}: {bytes} bytes");
    let effort = if args.fast { Effort::Little } else { Effort::Full };
    let directory = format!("usr/lib/{}", multiarch()?);
    for made in [
        runtime(&shared, &directory, &out, effort)?,
        development(&archive, &directory, &out, effort)?,
    ] {
        println!("{}", made.display());
    }
    fs::remove_file(shared)?;
    Ok(())
}

/// A file of the crate.
fn source(name: &str) -> PathBuf {
    sh::root().join("crates/capi").join(name)
}

/// The static library of this tree. Of its kind alone: with others there would be no LTO.
fn build() -> Result<PathBuf> {
    let mut cargo = sh::cargo("rustc");
    cargo.args(["--locked", "--package=weft-capi", "--crate-type=staticlib"]);
    cargo.args(["--profile", PROFILE]);
    hide_paths(&mut cargo);
    sh::run(&mut cargo)?;
    Ok(sh::target_dir().join(PROFILE).join("libweft_capi.a"))
}

/// The name of the directory with this architecture's libraries.
fn multiarch() -> Result<String> {
    let said = sh::output(Command::new("cc").arg("-print-multiarch"))?;
    let word = said.trim();
    ensure!(!word.is_empty(), "the C compiler names no directory for libraries");
    Ok(word.to_owned())
}

/// Puts bytes below `root`.
fn put(root: &Path, place: &str, bytes: &[u8]) -> Result<()> {
    let path = root.join(place);
    fs::create_dir_all(path.parent().context("a file has a directory")?)?;
    fs::write(path, bytes)?;
    Ok(())
}

/// An empty tree for a package, with its licences.
fn tree(out: &Path, package: &str) -> Result<PathBuf> {
    let root = out.join(package);
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    let metadata = notices::metadata_of("crates/capi", &staged::host()?, &[])?;
    let text = notices::of_program(&metadata, &staged::standard_library()?)?;
    let doc = format!("usr/share/doc/{package}");
    put(&root, &format!("{doc}/LICENCES.txt"), text.as_bytes())?;
    put(&root, &format!("{doc}/copyright"), staged::COPYRIGHT.as_bytes())?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        put(&root, &format!("{doc}/{name}"), &fs::read(sh::root().join(name))?)?;
    }
    Ok(root)
}

fn runtime(shared: &Path, directory: &str, out: &Path, effort: Effort) -> Result<PathBuf> {
    let (package, architecture) = ("libweft1", deb::architecture()?);
    let root = tree(out, package)?;
    put(&root, &format!("{directory}/{SONAME}"), &fs::read(shared)?)?;
    staged::set_modes(&root)?;
    let glibc = deb::glibc_of(shared)?;
    let meta = deb::describe(&root, |kilobytes| {
        let depends = format!("libc6 (>= {glibc}), libgcc-s1");
        Ok(control(package, &architecture, kilobytes, "libs", &depends))
    })?;
    fs::write(meta.join("shlibs"), format!("libweft 1 libweft1 (>= {VERSION})\n"))?;
    fs::write(meta.join("triggers"), "activate-noawait ldconfig\n")?;
    deb::build(&root, &out.join(format!("{package}_{VERSION}_{architecture}.deb")), effort)
}

fn development(archive: &Path, directory: &str, out: &Path, effort: Effort) -> Result<PathBuf> {
    let (package, architecture) = ("libweft-dev", deb::architecture()?);
    let root = tree(out, package)?;
    put(&root, "usr/include/weft.h", &fs::read(source("include/weft.h"))?)?;
    put(&root, &format!("{directory}/libweft.a"), &fs::read(archive)?)?;
    symlink(SONAME, root.join(directory).join("libweft.so"))?;
    let text = fs::read_to_string(source("weft.pc.in"))?;
    let text = text
        .replace("@prefix@", "/usr")
        .replace("@libdir@", &format!("/{directory}"))
        .replace("@version@", VERSION);
    put(&root, &format!("{directory}/pkgconfig/weft.pc"), text.as_bytes())?;
    let doc = root.join("usr/share/doc").join(package);
    pages::stage(&doc, staged::files(&sh::root().join("docs"))?, &staged::FILES)?;
    let suppressions = fs::read(source("libweft.supp"))?;
    put(&root, &format!("usr/share/doc/{package}/libweft.supp"), &suppressions)?;
    staged::set_modes(&root)?;
    deb::describe(&root, |kilobytes| {
        let depends = format!("libweft1 (= {VERSION}), libc6-dev");
        Ok(control(package, &architecture, kilobytes, "libdevel", &depends))
    })?;
    deb::build(&root, &out.join(format!("{package}_{VERSION}_{architecture}.deb")), effort)
}

fn control(
    package: &str,
    architecture: &str,
    kilobytes: u64,
    section: &str,
    depends: &str,
) -> String {
    let what = if section == "libs" { "the shared library" } else { "header and static library" };
    format!(
        "\
Package: {package}
Version: {VERSION}
Architecture: {architecture}
Multi-Arch: same
Maintainer: weft <weft@localhost>
Installed-Size: {kilobytes}
Depends: {depends}
Section: {section}
Priority: optional
Description: block devices over the network from programs in C: {what}
 libweft opens block devices over NVMe/TCP, NVMe over RDMA, iSCSI and NBD,
 files and memory, without a kernel module, and serves them within a process
 for tests.
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_description_are_as_debian_wants_them() {
        for (package, section) in [("libweft1", "libs"), ("libweft-dev", "libdevel")] {
            let text = control(package, "amd64", 7, section, "libc6");
            assert!(text.lines().all(|line| line.len() <= 90), "{text}");
        }
    }
}
