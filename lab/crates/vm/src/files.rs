//! Files of the guest: as they are, built, or compiled.
//!
//! The file name `weft` stands for this tree's program, built first, `weft-earlier` for that of an
//! earlier version, `lab-vm` for this program, and that of a C file for what it is compiled to.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use xtask::{VERSION, built, sh};

/// The file that stands for this tree's program.
pub(super) const WEFT: &str = "weft";
/// The file that stands for the program of an earlier version.
const EARLIER: &str = "weft-earlier";
/// The file that stands for this program, some of whose subcommands are for the guest.
const LAB: &str = "lab-vm";
/// The file that stands for a package of this tree's program.
const PACKAGE: &str = "weft.deb";
/// What scripts call tests of ours among the files, what has cargo build them, and the program:
/// those of queue pairs, and those of TLS over sockets and with the program `openssl`.
const TESTS: [(&str, &[&str], &str); 3] = [
    ("verbs", &["--test", "io"], "io"),
    ("tls-tests", &["--lib"], "weft_tls"),
    ("tls-openssl", &["--test", "openssl"], "openssl"),
];

pub(super) fn in_dir(dir: &Path, file: &str) -> PathBuf {
    let is_ours = [WEFT, EARLIER, LAB, PACKAGE].contains(&file)
        || TESTS.iter().any(|(name, ..)| *name == file);
    if is_ours { PathBuf::from(file) } else { dir.join(file) }
}

/// A path in a list of qemu's options, where a comma separates them unless it is doubled.
pub(super) fn option(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// A file's name in the guest and where it is here.
pub(super) fn resolve(file: &Path, weft: Option<&Path>) -> Result<(String, PathBuf)> {
    if file == Path::new(WEFT) {
        return Ok((WEFT.to_owned(), without_debug_info(&weft_program(weft)?, WEFT)?));
    }
    if file == Path::new(EARLIER) {
        return Ok((
            EARLIER.to_owned(),
            without_debug_info(&lab_host::earlier::program()?, EARLIER)?,
        ));
    }
    if file == Path::new(LAB) {
        return Ok((LAB.to_owned(), without_debug_info(&env::current_exe()?, LAB)?));
    }
    if file == Path::new(PACKAGE) {
        return Ok((PACKAGE.to_owned(), packed(&without_debug_info(&weft_program(weft)?, WEFT)?)?));
    }
    if let Some((name, which, program)) = TESTS.iter().find(|(name, ..)| file == Path::new(name)) {
        return Ok(((*name).to_owned(), without_debug_info(&tests(which, program)?, name)?));
    }
    if file.extension().is_some_and(|extension| extension == "c") {
        return compiled(file);
    }
    let name = file.file_name().with_context(|| format!("{} has no name", file.display()))?;
    if !file.exists() {
        bail!("there is no {}", file.display());
    }
    Ok((name.to_string_lossy().into_owned(), file.to_owned()))
}

/// The program of a C file, whose first line, `// cc: FLAGS`, says how it is compiled.
fn compiled(file: &Path) -> Result<(String, PathBuf)> {
    lab_host::require(&["gcc", "libc6-dev", "linux-libc-dev", "libssl-dev"])?;
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let flags =
        text.lines().next().and_then(|line| line.strip_prefix("// cc:")).unwrap_or_default();
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let dir = sh::target_dir().join("lab");
    fs::create_dir_all(&dir)?;
    let program = dir.join(&name);
    sh::run(Command::new("cc").arg("-o").arg(&program).arg(file).args(flags.split_whitespace()))?;
    Ok((name, program))
}

pub(super) fn weft_program(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    built::release_build()
}

/// A package of a program.
fn packed(program: &Path) -> Result<PathBuf> {
    let out = sh::target_dir().join("lab");
    let mut package = sh::chore(&["package", "linux", "deb", "--fast", "--program"])?;
    let sums = sh::output(package.arg(program).arg("--out").arg(&out))?;
    // Those of other versions are there still.
    let name = sums
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(_, name)| name)
        .find(|name| name.starts_with(&format!("weft_{VERSION}_")) && name.ends_with(".deb"));
    Ok(out.join(name.context("no package was made")?))
}

/// The program `named` among tests, built.
fn tests(which: &[&str], named: &str) -> Result<PathBuf> {
    // Of the whole workspace, as its tests are: with the features of one crate alone, what it
    // depends on would be built again.
    let mut build = sh::cargo("test");
    build.args(["--quiet", "--workspace"]).args(which).arg("--no-run");
    let mut built = built::executables(&mut build)?.into_iter();
    let found = built.find(|(name, _)| name == named);
    found
        .map(|(_, path)| path)
        .with_context(|| format!("cargo does not say where it built {named}"))
}

/// A copy without what only a debugger reads, where binutils are there to make one: the guest
/// holds its files in memory, twice while it boots.
fn without_debug_info(program: &Path, name: &str) -> Result<PathBuf> {
    if !sh::have("strip") {
        return Ok(program.to_owned());
    }
    let dir = sh::target_dir().join("lab");
    fs::create_dir_all(&dir)?;
    let small = dir.join(name);
    let partial = tempfile::NamedTempFile::new_in(&dir)?;
    sh::run(Command::new("strip").arg("-o").arg(partial.path()).arg(program))?;
    partial.persist(&small)?;
    Ok(small)
}
