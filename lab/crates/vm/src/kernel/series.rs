//! Choice of the kernel: that of Debian 12, or the newest of Debian's backports.

use std::{fs, path::Path, process::Command, str::FromStr};

use anyhow::{Context, Result, ensure};
use xtask::sh::{self, Missing};

use crate::packages::with_fresh_lists;

/// The stable series' package name around the number that counts its updates. The unsigned package
/// is taken because the signed one of the same name depends on it being built, and comes later.
const STABLE: (&str, &str) = ("linux-image-6.12.", "+deb12-amd64-unsigned");
/// The suite with the newer kernels, and what their packages' names are around the version.
const BACKPORTS_SUITE: &str = "trixie-backports";
const BACKPORTS: (&str, &str) = ("linux-binary-", "+deb13-amd64");
/// With the first one's `vmlinuz`, what makes a kernel there.
const BACKPORTS_PARTS: [&str; 3] = ["linux-binary-", "linux-modules-", "linux-base-"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A series of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Series {
    /// Linux 6.12, from Debian 12's updates.
    #[default]
    Stable,
    /// The newest kernel of Debian's backports: its target has what 6.12's lacks, reservations
    /// among them.
    Backports,
}

impl FromStr for Series {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "stable" => Ok(Self::Stable),
            "backports" => Ok(Self::Backports),
            _ => Err(format!("`{text}` is not a kernel: use stable or backports")),
        }
    }
}

impl Series {
    /// The name of its entry in the cache.
    pub(super) fn entry(self) -> &'static str {
        match self {
            Self::Stable => "kernel",
            Self::Backports => "kernel-backports",
        }
    }

    /// Downloads the newest kernel of the series to an empty directory: `vmlinuz`, `config`,
    /// `release` and the modules.
    pub(super) fn download(self, at: &Path) -> Result<()> {
        let release = match self {
            Self::Stable => with_fresh_lists(|| stable(at))?,
            Self::Backports => backports(at)?,
        };
        // The packages leave this to their installation.
        sh::run(Command::new("/sbin/depmod").arg("-b").arg(at).arg(&release))?;
        for unused in ["boot", "usr"] {
            fs::remove_dir_all(at.join(unused)).ok();
        }
        fs::create_dir(at.join("plain"))?;
        Ok(fs::write(at.join("release"), release)?)
    }
}

fn stable(at: &Path) -> Result<String> {
    let found =
        sh::output(Command::new("apt-cache").args(["search", "-n", "^linux-image-6[.]12[.]"]))?;
    let package = newest(&found, STABLE).with_context(|| {
        format!(
            "no package {}*{}: are Debian 12's security updates among apt's sources?",
            STABLE.0, STABLE.1
        )
    })?;
    eprintln!("lab: fetching {package}");
    lab_host::debian::unpack(at, &[package])?;
    let release =
        package.trim_start_matches("linux-image-").trim_end_matches("-unsigned").to_owned();
    fs::rename(at.join(format!("boot/vmlinuz-{release}")), at.join("vmlinuz"))?;
    fs::rename(at.join(format!("boot/config-{release}")), at.join("config"))?;
    Ok(release)
}

/// Debian 12 has no such suite among its sources, and need not get it: apt works here with lists of
/// its own, from the same mirror.
fn backports(at: &Path) -> Result<String> {
    let apt = PrivateApt::new()?;
    let found = sh::output(apt.command("apt-cache").args([
        "search",
        "-n",
        &format!("^{}[0-9]", BACKPORTS.0),
    ]))?;
    let package = newest(&found, BACKPORTS)
        .with_context(|| format!("{BACKPORTS_SUITE} has no package {}*", BACKPORTS.0))?;
    let release = package.trim_start_matches(BACKPORTS.0).to_owned();
    eprintln!("lab: fetching Linux {release} from {BACKPORTS_SUITE}");
    let parts: Vec<String> =
        BACKPORTS_PARTS.iter().map(|part| format!("{part}{release}")).collect();
    sh::run(
        apt.command("apt-get").args(["-qq", "download"]).args(&parts).current_dir(apt.dir.path()),
    )?;
    for file in fs::read_dir(apt.dir.path())? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            sh::run(Command::new("dpkg").arg("-x").arg(path).arg(at))?;
        }
    }
    fs::create_dir_all(at.join("lib"))?;
    fs::rename(at.join("usr/lib/modules"), at.join("lib/modules"))?;
    let modules = at.join("lib/modules").join(&release);
    fs::rename(modules.join("vmlinuz"), at.join("vmlinuz"))?;
    fs::rename(modules.join("config"), at.join("config"))?;
    Ok(release)
}

/// The package with the highest version, of a search's lines.
fn newest<'a>(found: &'a str, around: (&str, &str)) -> Option<&'a str> {
    let names = found.lines().filter_map(|line| line.split_whitespace().next());
    names.filter_map(|name| Some((version(name, around)?, name))).max().map(|(_, name)| name)
}

/// The numbers between the two parts of a name, and nothing else.
fn version(package: &str, around: (&str, &str)) -> Option<Vec<u32>> {
    package
        .strip_prefix(around.0)?
        .strip_suffix(around.1)?
        .split('.')
        .map(|number| number.parse().ok())
        .collect()
}

/// apt with state of its own.
struct PrivateApt {
    dir: tempfile::TempDir,
}

impl PrivateApt {
    /// With the lists of the suite. Signatures are checked as always.
    fn new() -> Result<Self> {
        let sites = sh::output(Command::new("apt-get").args([
            "indextargets",
            "--format",
            "$(SITE)",
            "Origin: Debian",
            "Created-By: Packages",
        ]))?;
        let site = sites.lines().find(|site| site.ends_with("/debian")).map(str::to_owned);
        let site = site.ok_or_else(|| {
            Missing("apt knows no mirror of Debian: run `apt-get update` as root".into())
        })?;
        ensure!(
            Path::new(KEYRING).exists(),
            "there is no {KEYRING}: install debian-archive-keyring"
        );
        let dir = tempfile::tempdir()?;
        for sub in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(dir.path().join(sub))?;
        }
        fs::write(
            dir.path().join("sources.list"),
            format!("deb [signed-by={KEYRING}] {site} {BACKPORTS_SUITE} main\n"),
        )?;
        let apt = Self { dir };
        sh::run(apt.command("apt-get").args(["-qq", "update"]))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let dir = self.dir.path().display();
        let mut command = Command::new(program);
        command.args([
            "-o",
            &format!("Dir::Etc::SourceList={dir}/sources.list"),
            "-o",
            "Dir::Etc::SourceParts=-",
        ]);
        command.args([
            "-o",
            &format!("Dir::State::Lists={dir}/lists"),
            "-o",
            &format!("Dir::Cache={dir}/cache"),
        ]);
        command.args(["-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=1"]);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_newest_of_a_series() {
        let found = "linux-image-6.12.9+deb12-amd64-unsigned - x\nlinux-image-6.12.107+deb12-amd64-unsigned - x\n\
            linux-image-6.12.200+deb12-rt-amd64-unsigned - x\nlinux-image-6.12.300+deb12-amd64-dbg - x\n\
            linux-image-6.1.400+deb12-amd64-unsigned - x\n";
        assert_eq!(newest(found, STABLE), Some("linux-image-6.12.107+deb12-amd64-unsigned"));
        let found = "linux-binary-7.2.9+deb13-amd64 - x\nlinux-binary-7.2.12+deb13-amd64 - x\nlinux-binary-7.3.1+deb13-cloud-amd64 - x\n";
        assert_eq!(newest(found, BACKPORTS), Some("linux-binary-7.2.12+deb13-amd64"));
        assert_eq!(newest("", BACKPORTS), None);
    }
}
