//! Debian packages: installing those that a chore needs, and unpacking some without installing
//! them.

use std::{fs, path::Path, process::Command, process::Stdio};

use anyhow::{Context, Result, bail};

use crate::sh::{self, Missing};

/// Installs missing packages.
///
/// Needs root or `sudo` only when there is something to install; without either the error is
/// [`Missing`] and names the packages.
pub fn install(packages: &[&str]) -> Result<()> {
    if !sh::have("dpkg-query") {
        return Err(Missing(format!(
            "this is no Debian system: install what corresponds to {}",
            packages.join(" ")
        ))
        .into());
    }
    let missing: Vec<&str> = packages.iter().copied().filter(|name| !installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let _turn = turn()?;
    eprintln!("installing {}", missing.join(" "));
    update_if_unknown(&missing, &missing)?;
    let mut command = as_root("apt-get", &missing)?;
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-qq", "-y", "--no-install-recommends", "install"])
        .args(&missing)
        .stdout(Stdio::null());
    sh::run(&mut command)
}

/// Downloads the named packages and unpacks them below `to`, without installing them.
pub fn unpack(to: &Path, packages: &[&str]) -> Result<()> {
    let debs = download(packages)?;
    packages.iter().try_for_each(|package| debs.unpack(package, to))
}

/// Downloaded packages, removed when dropped.
pub struct Debs {
    dir: tempfile::TempDir,
}

/// Downloads the named packages.
pub fn download(packages: &[&str]) -> Result<Debs> {
    if !sh::have("apt-get") || !sh::have("dpkg") {
        return Err(Missing("unpacking Debian packages needs apt-get and dpkg".into()).into());
    }
    let _turn = turn()?;
    let dir = tempfile::tempdir().context("cannot make a temporary directory")?;
    update_if_unknown(packages, &["apt's package lists"])?;
    sh::run(
        Command::new("apt-get")
            .args(["-qq", "-o", "APT::Sandbox::User=root", "download"])
            .args(packages)
            .current_dir(dir.path())
            .stdout(Stdio::null()),
    )?;
    Ok(Debs { dir })
}

impl Debs {
    /// Unpacks one of the packages below `to`.
    pub fn unpack(&self, package: &str, to: &Path) -> Result<()> {
        // Files are called PACKAGE_VERSION_ARCHITECTURE.deb.
        let prefix = format!("{package}_");
        for file in fs::read_dir(self.dir.path())? {
            let file = file?;
            if file.file_name().to_string_lossy().starts_with(&prefix) {
                return sh::run(Command::new("dpkg").arg("-x").arg(file.path()).arg(to));
            }
        }
        bail!("apt-get downloaded no package {package}")
    }
}

/// The first dependency of `package` whose name starts with `prefix`.
pub fn dependency(package: &str, prefix: &str) -> Result<String> {
    let record =
        sh::output(Command::new("apt-cache").args(["show", "--no-all-versions", package]))?;
    record
        .lines()
        .filter_map(|line| line.strip_prefix("Depends: "))
        .flat_map(|depends| depends.split([',', '|']))
        .filter_map(|clause| clause.split_whitespace().next())
        .find(|name| name.starts_with(prefix))
        .map(str::to_owned)
        .with_context(|| format!("Debian's {package} depends on no {prefix}…"))
}

/// Waits until no other chore uses apt, which refuses to run twice at a time; until it is dropped,
/// others wait.
fn turn() -> Result<fs::File> {
    let path = sh::target_dir().join("xtask/apt.lock");
    fs::create_dir_all(sh::target_dir().join("xtask"))?;
    let file =
        fs::File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// Whether dpkg has the package installed.
fn installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Abbrev}", package])
        .stderr(Stdio::null())
        .output()
        .is_ok_and(|output| output.stdout.starts_with(b"ii"))
}

/// Updates apt's lists if they do not contain all of the packages (a fresh container has none).
fn update_if_unknown(packages: &[&str], wanted: &[&str]) -> Result<()> {
    let known = Command::new("apt-cache")
        .args(["--quiet=2", "show"])
        .args(packages)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if known {
        return Ok(());
    }
    sh::run(as_root("apt-get", wanted)?.args(["-qq", "update"]))
}

/// A command run as root, directly or with `sudo` without a password.
fn as_root(program: &str, wanted: &[&str]) -> Result<Command> {
    if is_root() {
        return Ok(Command::new(program));
    }
    let sudo_works = sh::have("sudo")
        && Command::new("sudo")
            .args(["-n", "true"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
    if !sudo_works {
        return Err(Missing(format!(
            "missing {}: run `apt-get install {}` as root",
            wanted.join(" "),
            wanted.join(" ")
        ))
        .into());
    }
    let mut command = Command::new("sudo");
    command.args(["-n", "DEBIAN_FRONTEND=noninteractive", program]);
    Ok(command)
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}
