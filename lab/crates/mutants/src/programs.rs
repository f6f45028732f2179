//! The test programs of the copy, and their tests.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::build::{cargo, messages};

/// Crates whose tests need what not every machine has, or that are not shipped.
const LEFT_OUT: [&str; 3] = ["weft-ceph", "structure", "xtask"];

/// A test program.
#[derive(Clone, Debug)]
pub struct Program {
    /// The package and the test: `weft-io sim`.
    pub name: String,
    executable: PathBuf,
    directory: PathBuf,
}

impl Program {
    /// Starts it as cargo does, with a mutant or, by number 0, with none.
    pub fn command(&self, mutant: usize) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        command.env("WEFT_MUTANT", mutant.to_string()).env("RUST_BACKTRACE", "0");
        command
    }

    /// The names of its tests, without those that are ignored.
    pub fn tests(&self) -> Result<Vec<String>> {
        let all = self.list(&[])?;
        let ignored = self.list(&["--ignored"])?;
        Ok(all.into_iter().filter(|name| !ignored.contains(name)).collect())
    }

    fn list(&self, which: &[&str]) -> Result<Vec<String>> {
        let mut command = self.command(0);
        command.args(["--list", "--format", "terse"]).args(which).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("cannot start {}", self.name))?;
        ensure!(output.status.success(), "{} cannot list its tests", self.name);
        Ok(listed(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// The tests in a list of a program.
fn listed(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
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
    let name = format!("{package} {}", message["target"]["name"].as_str()?);
    Some(Program { name, executable, directory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_in_a_list() {
        assert_eq!(listed("a::b: test\nc: benchmark\n\nd: test\n"), ["a::b", "d"]);
    }
}
