//! A test program, and the tests of it that are run.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use serde_json::Value;

use super::part::Part;
use crate::{sh, times};

/// A program that cargo has built to test a crate.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// The package and the target: `weft-block/allocations`, and `weft-block/lib` for unit tests.
    pub(super) name: String,
    path: PathBuf,
    /// The package's directory, where cargo starts its tests.
    directory: PathBuf,
    package: String,
    /// It stands in the package's `tests`.
    is_integration: bool,
}

impl Program {
    /// The program that a message of cargo reports, if it does.
    pub(super) fn of(message: &Value) -> Option<Self> {
        let is_test =
            message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
        let path = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
        let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let package = package_of(message["package_id"].as_str()?)?.to_owned();
        let target = &message["target"];
        let kind = target["kind"][0].as_str()?;
        let is_integration = kind == "test";
        let target = if is_integration { target["name"].as_str()? } else { kind };
        Some(Self { name: format!("{package}/{target}"), path, directory, package, is_integration })
    }

    /// Returns whether it is not a crate's own unit tests.
    pub(super) fn is_integration(&self) -> bool {
        self.is_integration
    }

    /// The package's directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The names of its tests, ignored ones included.
    pub(super) fn tests(&self) -> Result<BTreeSet<String>> {
        let listed = sh::output(self.command().args(["--list", "--format", "terse"]))?;
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// The program as cargo starts it.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.directory);
        command.env("CARGO_MANIFEST_DIR", &self.directory).env("CARGO_PKG_NAME", &self.package);
        // Names that weft keeps stay out of the user's home.
        command.env("WEFT_STATE_DIR", sh::target_dir().join("xtask/state"));
        command.env("CARGO", env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command
    }
}

/// The name in a package's identity: `path+file:///a/crates/block#weft-block@0.1.0`, or
/// `path+file:///a/weft#0.1.0` where the directory has the package's name.
fn package_of(id: &str) -> Option<&str> {
    let (place, fragment) = id.split_once('#')?;
    match fragment.split_once('@') {
        Some((name, _)) => Some(name),
        None => place.rsplit('/').next(),
    }
}

/// Tests of a program that run in one process.
#[derive(Debug)]
pub(super) struct Job {
    /// The name of its row.
    pub(super) name: String,
    pub(super) program: Program,
    /// Exactly these tests; all if there is none.
    pub(super) tests: Option<BTreeSet<String>>,
    /// Their part.
    pub(super) part: Part,
}

impl Job {
    /// Tests of a program, or all of them.
    pub(super) fn new(program: &Program, part: Part, tests: Option<BTreeSet<String>>) -> Self {
        let name = match tests {
            Some(_) if part != Part::Together => format!("{}+{}", program.name, part.name()),
            _ => program.name.clone(),
        };
        Self { name, program: program.clone(), tests, part }
    }

    /// The program with its arguments, which reports the time of each test.
    pub(super) fn command(&self) -> Command {
        let mut command = self.program.command();
        command.arg("--show-output");
        if self.part == Part::Lab {
            command.arg("--ignored");
        }
        if let Some(tests) = &self.tests {
            command.arg("--exact").args(tests);
        }
        times::timed(&self.program.path, &mut command);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_those_that_cargo_built_to_test() {
        let message = |test: bool, kind: &str, name: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///w/crates/cli#weft@0.1.0","manifest_path":"/w/crates/cli/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{test}}},"executable":"/w/target/debug/deps/x-1"}}"#
            )
        };
        let name = |message: String| {
            Program::of(&serde_json::from_str(&message).unwrap_or_default())
                .map(|program| program.name)
        };
        assert_eq!(name(message(true, "test", "cli")).as_deref(), Some("weft/cli"));
        assert_eq!(name(message(true, "lib", "weft_cli")).as_deref(), Some("weft/lib"));
        assert_eq!(name(message(false, "bin", "weft")), None);
        assert_eq!(name("Compiling".into()), None);
        assert_eq!(package_of("path+file:///w/xtask#0.1.0"), Some("xtask"));
    }
}
