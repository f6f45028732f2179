//! Building the test programs.

use anyhow::Result;

use super::{part::Part, program::Program};
use crate::{
    sh,
    steps::{Results, run_lines},
    tools,
};

/// Has cargo build all test programs of a workspace at once, so that what they depend on is built
/// once, with the features that they need together; calls `found` for each when it is ready.
pub(super) fn build(
    step: &str,
    part: Part,
    results: &Results,
    found: impl Fn(Program) + Sync,
) -> Result<()> {
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
    let name = format!("{step} (build)");
    let log = results.log(&name)?;
    let ended = run_lines(&name, cargo, &log, |line| _ = Program::of(line).map(&found))?;
    results.report_build(&name, &ended, &log)
}
