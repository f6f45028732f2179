//! Debian packages: installing those that a chore needs, and unpacking some without installing
//! them.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use xtask::sh::{self, Missing};

/// Installs packages, as root or with `sudo` that asks for no password.
///
/// # Errors
/// [`Missing`] if this is not a Debian system, or without root; the message names the packages.
pub fn install(packages: &[&str]) -> Result<()> {
    if !sh::have("apt-get") {
        return Err(Missing(format!(
            "there is no apt-get: install what corresponds to Debian's {}",
            packages.join(" ")
        ))
        .into());
    }
    if packages.is_empty() {
        return Ok(());
    }
    let _turn = turn()?;
    eprintln!("installing {}", packages.join(" "));
    update_if_unknown(packages, packages)?;
    let known = known_of(packages)?;
    let mut command = as_root("apt-get", packages)?;
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-qq", "-y", "--no-install-recommends", "install"])
        .args(&known)
        .stdout(Stdio::null());
    sh::run(&mut command)
}

/// Those of the packages that apt knows. Other distributions lack some, and apt installs nothing of
/// a list with an unknown name.
fn known_of<'a>(packages: &[&'a str]) -> Result<Vec<&'a str>> {
    let listed = sh::output(Command::new("apt-cache").arg("pkgnames"))?;
    let names: HashSet<&str> = listed.lines().collect();
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        packages.iter().partition(|name| names.contains(*name));
    if !unknown.is_empty() {
        eprintln!("apt knows no package {}: tests that need it are skipped", unknown.join(", "));
    }
    Ok(known)
}

/// The packages, and those that they depend on and this system lacks.
pub fn needed_for(packages: &[&str]) -> Result<Vec<String>> {
    if !sh::have("apt-get") || !sh::have("dpkg") {
        return Err(Missing("unpacking Debian packages needs apt-get and dpkg".into()).into());
    }
    let known = known_of(packages)?;
    let plan = sh::output(
        Command::new("apt-get").args(["-s", "--no-install-recommends", "install"]).args(&known),
    )
    .context("run `apt-get update` as root")?;
    let planned = plan.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next());
    Ok(planned.map(str::to_owned).collect())
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

/// Returns whether dpkg has the package installed.
pub fn installed(package: &str) -> bool {
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
