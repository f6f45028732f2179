//! Building the test programs.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::Result;
use serde_json::Value;

use super::{part::Part, program::Program};
use crate::{
    sh,
    steps::{Results, run_lines},
    tools,
};

/// Test programs that wait for the programs of their packages: cargo builds both at the same time.
struct Waiting {
    /// The programs of each package's directory that are not built.
    unbuilt: BTreeMap<PathBuf, Vec<String>>,
    held: Vec<Program>,
}

impl Waiting {
    fn new(metadata: &Value) -> Self {
        let mut unbuilt = BTreeMap::<_, Vec<String>>::new();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let Some(directory) = directory(package) else { continue };
            let targets = package["targets"].as_array().into_iter().flatten();
            let names =
                targets.filter(|it| it["kind"][0] == "bin").filter_map(|it| it["name"].as_str());
            unbuilt.entry(directory).or_default().extend(names.map(str::to_owned));
        }
        Self { unbuilt, held: Vec::new() }
    }

    /// The test programs that can run after this message of cargo.
    fn after(&mut self, message: &str) -> Vec<Program> {
        let Ok(message) = serde_json::from_str::<Value>(message) else { return Vec::new() };
        let target = &message["target"];
        let is_program = target["kind"][0] == "bin" && message["profile"]["test"] == false;
        if is_program
            && let Some(names) = directory(&message).and_then(|it| self.unbuilt.get_mut(&it))
        {
            names.retain(|name| target["name"] != name.as_str());
        }
        self.held.extend(Program::of(&message));
        let unbuilt = &self.unbuilt;
        let waits = |program: &mut Program| {
            program.is_integration()
                && unbuilt.get(program.directory()).is_some_and(|names| !names.is_empty())
        };
        self.held.extract_if(.., |program| !waits(program)).collect()
    }
}

/// The directory of a manifest.
fn directory(of: &Value) -> Option<PathBuf> {
    Path::new(of["manifest_path"].as_str()?).parent().map(Path::to_owned)
}

/// Has cargo build all test programs of a workspace at once, so that what they depend on is built
/// once, with the features that they need together; calls `found` for each when it is ready. Says
/// whether all were built.
pub(super) fn build(
    step: &str,
    part: Part,
    results: &Results,
    found: impl Fn(Program) + Sync,
) -> Result<bool> {
    let mut cargo = match part {
        Part::Tools => tools::cargo("test"),
        _ => {
            let mut cargo = sh::cargo("test");
            cargo.arg("--locked");
            cargo
        }
    };
    cargo.args(["--workspace", "--tests", "--no-run", "--message-format"]);
    cargo.arg("json-render-diagnostics");
    let mut metadata = match part {
        Part::Tools => tools::cargo("metadata"),
        _ => sh::cargo("metadata"),
    };
    metadata.args(["--no-deps", "--format-version", "1"]);
    let mut waiting = Waiting::new(&serde_json::from_str(&sh::output(&mut metadata)?)?);
    let name = format!("{step} (build)");
    let log = results.log(&name)?;
    let ended =
        run_lines(&name, cargo, &log, |line| waiting.after(line).into_iter().for_each(&found))?;
    results.report_build(&name, &ended, &log)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn integration_tests_wait_for_the_programs_of_their_package() {
        let manifest = "/w/a/Cargo.toml";
        let metadata = json!({ "packages": [{
            "manifest_path": manifest,
            "targets": [{ "kind": ["bin"], "name": "a" }, { "kind": ["test"], "name": "all" }],
        }] });
        let mut waiting = Waiting::new(&metadata);
        let mut after = |test: bool, kind: &str, name: &str| {
            let message = json!({
                "reason": "compiler-artifact", "manifest_path": manifest,
                "package_id": "path+file:///w/a#0.1.0", "profile": { "test": test },
                "target": { "kind": [kind], "name": name }, "executable": "/w/target/debug/x",
            });
            let free = waiting.after(&message.to_string());
            free.into_iter().map(|program| program.name).collect::<Vec<_>>()
        };
        assert_eq!(after(true, "test", "all"), Vec::<String>::new());
        assert_eq!(after(true, "bin", "a"), ["a/bin"]);
        assert_eq!(after(false, "bin", "a"), ["a/all"]);
        assert_eq!(after(true, "test", "other"), ["a/other"]);
    }
}
