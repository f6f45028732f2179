//! The test programs of the copy, and which of them say something about a crate: its own, and those
//! of the crates that use it directly.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use xtask::sh;

use super::build::{cargo, messages};

/// Crates whose tests need what not every machine has, or that are not shipped.
const LEFT_OUT: [&str; 3] = ["weft-ceph", "structure", "xtask"];

/// Tests at a time: most of them wait for something most of the time.
const TESTS_PER_CORE: usize = 3;

/// A test program.
#[derive(Clone, Debug)]
pub struct Program {
    pub package: String,
    /// The package and the test: `weft-io sim`.
    pub name: String,
    executable: PathBuf,
    directory: PathBuf,
    /// The tests next to the code, which are quick.
    pub is_unit: bool,
}

impl Program {
    /// Starts it as cargo does, without the tests that are left out.
    pub fn command(&self, mutant: usize, left_out: &[String]) -> Command {
        let mut command = Command::new(&self.executable);
        if !left_out.is_empty() {
            command.arg("--exact").args(left_out.iter().flat_map(|name| ["--skip", name]));
        }
        command.current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        command.env("WEFT_MUTANT", mutant.to_string()).env("RUST_BACKTRACE", "0");
        command.env("RUST_TEST_THREADS", (TESTS_PER_CORE * sh::cores()).to_string());
        command
    }

    /// Returns the time after which it certainly hangs, if it takes `takes` without a mutant: other
    /// work on the machine must not be a reason.
    pub fn limit(&self, takes: Duration) -> Duration {
        Duration::from_secs(60) + takes * 4
    }
}

/// Crates of ours that use each one directly, in their code or in their tests.
pub struct Users(BTreeMap<String, BTreeSet<String>>);

impl Users {
    pub fn read(copy: &Path) -> Result<Self> {
        let mut command = sh::cargo("metadata");
        command.current_dir(copy).args(["--format-version", "1", "--no-deps", "--offline"]);
        let metadata: Value = serde_json::from_str(&sh::output(&mut command)?)?;
        let mut users = BTreeMap::<_, BTreeSet<_>>::new();
        for package in metadata["packages"].as_array().context("metadata lists packages")? {
            for dependency in package["dependencies"].as_array().into_iter().flatten() {
                let [of, user] = [&dependency["name"], &package["name"]]
                    .map(|name| name.as_str().unwrap_or_default().to_owned());
                users.entry(of).or_default().insert(user);
            }
        }
        Ok(Self(users))
    }

    /// The programs for a crate, those first that are most likely to find something soon.
    pub fn programs<'a>(&self, package: &str, all: &'a [Program]) -> Vec<&'a Program> {
        let uses = |user: &str| self.0.get(package).is_some_and(|users| users.contains(user));
        let asked = |program: &&Program| program.package == package || uses(&program.package);
        let mut programs: Vec<&Program> = all.iter().filter(asked).collect();
        programs.sort_by_key(|program| {
            let is_foreign = program.package != package;
            (is_foreign, !program.is_unit, program.package == "weft", program.name.clone())
        });
        programs
    }
}

/// Builds the tests of all crates.
pub fn build(copy: &Path) -> Result<Vec<Program>> {
    let mut command = cargo("test", copy)?;
    command.args(["--no-run", "--workspace"]);
    command.args(LEFT_OUT.iter().flat_map(|name| ["--exclude", name]));
    let messages = messages(&mut command)?;
    let is_end = |of: &&Value| of["reason"] == "build-finished" && of["success"] == true;
    let errors = messages.iter().filter(|of| of["message"]["level"] == "error");
    let errors: Vec<&str> = errors.filter_map(|of| of["message"]["rendered"].as_str()).collect();
    ensure!(
        messages.iter().any(|of| is_end(&of)),
        "the tests of the copy do not compile:\n{}",
        errors.join("\n")
    );
    let programs: Vec<Program> = messages.iter().filter_map(program).collect();
    ensure!(!programs.is_empty(), "cargo has built no test program");
    Ok(programs)
}

fn program(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let folder = directory.file_name()?.to_str()?;
    let package = if folder == "cli" { "weft".into() } else { format!("weft-{folder}") };
    let kind = message["target"]["kind"][0].as_str()?;
    let name = format!("{package} {}", message["target"]["name"].as_str()?);
    let is_unit = kind != "test";
    Some(Program { package, name, executable, directory, is_unit })
}
