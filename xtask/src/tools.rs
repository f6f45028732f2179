//! The tools of the lab: programs of the workspace in `lab/`, which are built when they are used.
//!
//! `cargo xtask TOOL …` builds the tool and becomes it. A tool that starts another chore
//! ([`sh::chore`]) comes back to the program that started it.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::SystemTime,
};

use anyhow::{Context, Result};

use crate::sh::{self, Missing};

/// The workspace of the tools.
pub const MANIFEST: &str = "lab/Cargo.toml";

/// A tool.
pub struct Tool {
    /// Its name behind `cargo xtask`.
    pub name: &'static str,
    /// The directory of its crate in `lab/crates`; the package has `lab-` before it.
    pub directory: &'static str,
    /// Its line in the help.
    pub about: &'static str,
}

/// The tools that people start, in the order of the help.
pub const TOOLS: [Tool; 11] = [
    tool("aarch64", "aarch64", "Build for 64-bit ARM, and run unit tests under qemu-user"),
    tool("fuzz", "fuzz", "Build and run the fuzz targets"),
    tool("lab", "vm", "Run the Linux kernel's NVMe/TCP and iSCSI in a virtual machine"),
    tool("licences", "licences", "Check the sources and licences of all dependencies"),
    tool("long", "long", "Run the proofs that take too long for every run, and write docs/long.md"),
    tool(
        "method",
        "method",
        "Run studies whose truth is known, keep their data, and print what they show",
    ),
    tool("mutants", "mutants", "Change one line at a time, and see whether the tests notice"),
    tool("package", "package", "Make a package that users download"),
    tool("race", "race", "Measure weft, the TCP ceiling of this machine and the installed peers"),
    tool("setup", "host", "List, install or unpack the programs of others that tests need"),
    tool("windows", "windows", "Build for Windows, and run the result under Wine"),
];

/// The tool that makes a copy of the sources with planted bugs, for `cargo xtask sim --planted`.
pub const PLANTED: Tool = tool("planted", "planted", "");

const fn tool(name: &'static str, directory: &'static str, about: &'static str) -> Tool {
    Tool { name, directory, about }
}

/// The tool of this name.
pub fn named(name: &OsStr) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| name == tool.name)
}

/// The list of tools for the help.
pub fn listed() -> String {
    let lines = TOOLS.iter().map(|tool| format!("\n  {:<8}  {}", tool.name, tool.about));
    format!("Tools of the lab, built when they are used:{}", lines.collect::<String>())
}

/// Cargo in the workspace of the tools, with the target directory of all.
pub fn cargo(subcommand: &str) -> Command {
    let mut cargo = sh::cargo(subcommand);
    cargo.args(["--locked", "--manifest-path", MANIFEST]).env("CARGO_TARGET_DIR", sh::target_dir());
    cargo
}

impl Tool {
    /// Replaces this process by the tool.
    pub fn run(&self, words: impl Iterator<Item = OsString>) -> Result<ExitCode> {
        sh::replace(self.command()?.args(words))
    }

    /// A command that starts the tool, which is built first.
    pub fn command(&self) -> Result<Command> {
        if self.name == "lab" && !cfg!(target_os = "linux") {
            return Err(Missing("`cargo xtask lab` needs Linux on x86-64".into()).into());
        }
        let mut command = Command::new(self.build()?);
        command.env(sh::XTASK, env::current_exe().context("cannot find this program")?);
        Ok(command)
    }

    /// Builds the tool, unless it is current, and returns where it is.
    fn build(&self) -> Result<PathBuf> {
        let package = format!("lab-{}", self.directory);
        let program =
            sh::target_dir().join("debug").join(format!("{package}{}", env::consts::EXE_SUFFIX));
        let stamps = sh::target_dir().join("xtask/tools");
        let stamp = stamps.join(&package);
        if self.is_current(&program, &stamp) {
            return Ok(program);
        }
        eprintln!("building {package} (lab/crates/{})", self.directory);
        // Sources that change while cargo reads them are newer than this file.
        fs::create_dir_all(&stamps)?;
        let begun = tempfile::NamedTempFile::new_in(&stamps)?;
        // With all members, so that features are those of their tests and nothing is built twice.
        // The harness of tests has RUSTC_BOOTSTRAP, for another value of which cargo builds again.
        let mut cargo = cargo("build");
        cargo.args(["--quiet", "--workspace", "--bin", &package]).env_remove("RUSTC_BOOTSTRAP");
        sh::run(&mut cargo)?;
        begun.persist(&stamp).with_context(|| format!("cannot make {}", stamp.display()))?;
        Ok(program)
    }

    /// Returns whether the program was built later than all of its sources changed, by the list
    /// that cargo writes beside it. Most calls then need no cargo, which waits while another one
    /// builds.
    fn is_current(&self, program: &Path, stamp: &Path) -> bool {
        let root = sh::root();
        let Ok(list) = fs::read_to_string(program.with_extension("d")) else { return false };
        let Some(built) = changed(stamp).filter(|_| program.exists()) else { return false };
        let sources: Vec<&str> = list.split_whitespace().skip(1).collect();
        // Checkouts may share a target directory.
        let own = root.join("lab/crates").join(self.directory).join("src/main.rs");
        let is_here = sources.iter().any(|source| Path::new(source) == own);
        let manifests = [
            "Cargo.toml",
            "xtask/Cargo.toml",
            MANIFEST,
            "lab/Cargo.lock",
            &format!("lab/crates/{}/Cargo.toml", self.directory),
        ]
        .map(|path| root.join(path));
        let mut paths = sources.iter().map(PathBuf::from).chain(manifests);
        is_here && paths.all(|path| changed(&path).is_some_and(|time| time < built))
    }
}

/// The time at which a file changed.
fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_tool_has_a_crate_and_a_line_in_the_help() {
        for tool in TOOLS.iter().chain([&PLANTED]) {
            let manifest = sh::root().join("lab/crates").join(tool.directory).join("Cargo.toml");
            let text = fs::read_to_string(manifest).unwrap();
            assert!(text.contains(&format!("name = \"lab-{}\"", tool.directory)), "{}", tool.name);
        }
        assert!(TOOLS.iter().all(|tool| listed().contains(tool.about)));
        assert_eq!(named(OsStr::new("lab")).map(|tool| tool.directory), Some("vm"));
        assert!(named(OsStr::new("test")).is_none());
    }

    #[test]
    fn a_tool_is_current_until_a_source_changes() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let own = sh::root().join("lab/crates/vm/src/main.rs");
        let (program, source) = (file("lab-vm", ""), file("lib.rs", ""));
        file("lab-vm.d", &format!("lab-vm: {} {}\n", own.display(), source.display()));
        let stamp = file("stamp", "");
        let set = |path: &Path, ahead: u64| {
            let time = SystemTime::now() + Duration::from_secs(ahead);
            fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
        };
        let [own, other] = ["lab", "race"].map(|name| named(OsStr::new(name)).unwrap());
        set(&stamp, 60);
        assert!(own.is_current(&program, &stamp));
        assert!(!other.is_current(&program, &stamp), "it is of another crate or checkout");
        set(&source, 120);
        assert!(!own.is_current(&program, &stamp));
        set(&stamp, 180);
        assert!(own.is_current(&program, &stamp));
        fs::remove_file(source).unwrap();
        assert!(!own.is_current(&program, &stamp));
    }
}
