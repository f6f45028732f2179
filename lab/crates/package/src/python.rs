//! The wheel of the package `weft` for Python: one for all versions from 3.9 on, and for every Linux
//! with glibc 2.28 or newer.
//!
//! maturin builds it, with the C compiler and linker of zig, which link with an old glibc. All
//! programs come from the registry of Python, by the versions in `bindings/python/requirements`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use xtask::sh::{self, Missing};

use super::{linux::hide_paths, notices, staged};

/// The oldest system that the wheel is for.
const OLDEST: &str = "manylinux_2_28";

/// Most bytes of the wheel.
const BYTES_MAX: u64 = 8 << 20;

/// The licences of all that is in the wheel, a file beside `pyproject.toml`, which puts it there.
const LICENCES: &str = "LICENCES.txt";

/// Interpreters with which the wheel is imported, where they are installed: the oldest that it is
/// for, and newer ones.
const INTERPRETERS: [&str; 4] = ["python3.9", "python3.10", "python3.12", "python3.13"];

/// A program that is run with each of them.
const TRIED: &str = "\
import weft, weft.aio
with weft.open('ram:1MiB') as disk:
    memory = weft.memory(4096)
    memory[:] = b'x' * 4096
    disk.pwrite(memory, 0)
    found = bytearray(4096)
    disk.pread_into(found, 0)
    assert found == memory and disk.pread(512, 4096) == bytes(512)
try:
    weft.open('file:/nonexistent/weft')
except FileNotFoundError as error:
    assert error.kind == 'not_found'
";

/// Options of `cargo xtask package python`.
#[derive(Args)]
pub struct PythonArgs {
    /// Run the tests of the package with the wheel, too
    #[arg(long)]
    test: bool,
    /// Do not optimize: quicker to build, larger and slower
    #[arg(long)]
    fast: bool,
    /// Directory of the wheel [default: target/package]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// Builds the wheel, checks it, and tests it if asked.
pub fn run(args: &PythonArgs) -> Result<()> {
    let tools = environment("tools", "build.txt")?;
    let wheel = build(&tools, args.fast)?;
    check(&tools, &wheel, args.fast)?;
    if args.test {
        test(&wheel)?;
    }
    let out = args.out.clone().unwrap_or_else(|| sh::target_dir().join("package"));
    fs::create_dir_all(&out)?;
    let place = out.join(wheel.file_name().context("a wheel has a name")?);
    fs::copy(&wheel, &place)?;
    println!("{}", place.display());
    Ok(())
}

/// A file or directory of the package.
fn source(name: &str) -> PathBuf {
    sh::root().join("bindings/python").join(name)
}

/// A directory for what is made here.
fn scratch(name: &str) -> PathBuf {
    sh::target_dir().join("python").join(name)
}

/// A program of a virtual environment.
fn program(environment: &Path, name: &str) -> Command {
    let mut command = Command::new(environment.join("bin").join(name));
    let mut places = vec![environment.join("bin")];
    places.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    if let Ok(places) = env::join_paths(places) {
        command.env("PATH", places);
    }
    command.env("VIRTUAL_ENV", environment).env_remove("PYTHONHOME").env_remove("PYTHONPATH");
    command
}

/// An empty virtual environment.
fn empty(interpreter: &str, name: &str) -> Result<PathBuf> {
    let place = scratch(name);
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    let made = Command::new(interpreter).args(["-m", "venv"]).arg(&place).output();
    if !made.is_ok_and(|made| made.status.success()) {
        let text = format!("{interpreter} with venv is missing, 3.11 or newer: python3-venv");
        return Err(Missing(text).into());
    }
    Ok(place)
}

/// Installs into a virtual environment.
fn install(environment: &Path, arguments: &[&str]) -> Result<()> {
    let mut pip = program(environment, "python");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    sh::run(pip.args(arguments))
}

/// A virtual environment with what a file of requirements names. It is made again when the file
/// changes.
fn environment(name: &str, requirements: &str) -> Result<PathBuf> {
    let file = source("requirements").join(requirements);
    let wanted = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let stamp = scratch(name).join(requirements);
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(scratch(name));
    }
    let place = empty("python3", name)?;
    install(&place, &["--requirement", &file.display().to_string()])?;
    fs::write(stamp, wanted)?;
    Ok(place)
}

/// Builds the wheel.
fn build(tools: &Path, fast: bool) -> Result<PathBuf> {
    let out = scratch("wheel");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    let mut maturin = program(tools, "maturin");
    maturin.args(["build", "--locked", "--zig", "--compatibility", OLDEST]);
    maturin.args(["--profile", if fast { "dev" } else { "release" }]);
    maturin.arg("--manifest-path").arg(source("Cargo.toml")).arg("--out").arg(&out);
    maturin.env("CARGO_TARGET_DIR", scratch("target"));
    fs::write(source(LICENCES), licences(tools)?)?;
    hide_paths(&mut maturin);
    sh::run(&mut maturin)?;
    let made = fs::read_dir(&out)?.next().context("maturin makes a wheel")??;
    Ok(made.path())
}

/// The licences of all that is in the wheel: also of what zig links, as no library of the system is
/// the same everywhere.
fn licences(tools: &Path) -> Result<String> {
    let metadata = notices::metadata_of("bindings/python", &staged::host()?, &[])?;
    let said = sh::output(
        program(tools, "python").args(["-c", "import ziglang; print(ziglang.__path__[0])"]),
    )?;
    let zig = Path::new(said.trim());
    let mut others = staged::standard_library()?;
    others.push(("libunwind of LLVM", zig.join("lib/libunwind/LICENSE.TXT")));
    others.push(("compiler-rt of zig", zig.join("LICENSE")));
    notices::of_program(&metadata, &others)
}

/// Checks for which systems the wheel is, and its size unless it is not optimized.
fn check(tools: &Path, wheel: &Path, fast: bool) -> Result<()> {
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    ensure!(name.contains("-cp39-abi3-manylinux"), "{name} is not for all versions from 3.9 on");
    let bytes = fs::metadata(wheel)?.len();
    ensure!(fast || bytes <= BYTES_MAX, "{name} has {bytes} bytes, more than {BYTES_MAX}");
    let said = sh::output(program(tools, "auditwheel").arg("show").arg(wheel))?;
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let tag = said.split('"').nth(1).unwrap_or_default();
    let Some(glibc) = glibc(tag) else { bail!("auditwheel reports for {name}: {said}") };
    ensure!(glibc <= 28, "{name} needs glibc 2.{glibc}");
    println!("{name}: {bytes} bytes, glibc 2.{glibc} or newer");
    Ok(())
}

/// The minor version of glibc in a tag like `manylinux_2_28_x86_64`.
fn glibc(tag: &str) -> Option<u32> {
    tag.strip_prefix("manylinux_2_")?.split('_').next()?.parse().ok()
}

/// Runs the tests with the wheel, in virtual environments without Rust.
fn test(wheel: &Path) -> Result<()> {
    let wheel = wheel.display().to_string();
    for interpreter in INTERPRETERS.into_iter().filter(|name| sh::have(name)) {
        // One that only says that it is not installed is as good as none.
        let Ok(place) = empty(interpreter, interpreter) else { continue };
        install(&place, &["--no-deps", "--no-index", &wheel])?;
        sh::run(program(&place, "python").args(["-I", "-c", TRIED]))?;
        println!("{interpreter} imports the wheel");
    }
    let place = environment("tests", "test.txt")?;
    install(&place, &["--no-deps", "--no-index", "--force-reinstall", &wheel])?;
    let mut pytest = program(&place, "python");
    pytest.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]).arg(source("tests"));
    sh::run(pytest.current_dir(scratch("")))?;
    let typed = source("tests/typed.py").display().to_string();
    for what in [["--package", "weft"], ["--", &typed]] {
        let mut mypy = program(&place, "python");
        mypy.args(["-m", "mypy", "--config-file"]).arg(source("pyproject.toml"));
        mypy.arg("--cache-dir").arg(scratch("mypy")).args(what);
        sh::run(mypy.current_dir(scratch("")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_a_wheel_has_its_glibc() {
        assert_eq!(glibc("manylinux_2_28_x86_64"), Some(28));
        assert_eq!(glibc("manylinux_2_5_x86_64"), Some(5));
        assert_eq!(glibc("linux_x86_64"), None);
    }
}
