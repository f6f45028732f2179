//! A running server is asked and changed over its control pipe, by commands of the same build.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::server::Server;

/// Starts a server, and asks and changes it.
pub(super) fn run(weft: &dyn Fn() -> Command, scratch: &Path) -> Result<()> {
    // Apart from servers of other trials.
    let own = || {
        let mut command = weft();
        command.env("WEFT_RUNTIME_DIR", scratch.join("managed")).current_dir(scratch);
        command
    };
    let server = Server::serve(own(), "ram:16MiB", &["nvme+tcp://127.0.0.1:0"])?;
    let said = |args: &[&str]| -> Result<String> {
        let output = own()
            .args(args)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start weft")?;
        ensure!(output.status.success(), "weft {} ended with {}", args.join(" "), output.status);
        Ok(String::from_utf8(output.stdout)?)
    };
    let namespaces = || -> Result<usize> {
        let shown: Value =
            serde_json::from_str(&said(&["control", "inventory.show"])?).context("no JSON")?;
        Ok(shown["subsystems"][0]["namespaces"].as_array().map_or(0, Vec::len))
    };
    ensure!(namespaces()? == 1, "one namespace at first");
    said(&["namespace", "add", "ram:8MiB"])?;
    ensure!(namespaces()? == 2, "two namespaces after one was added");
    ensure!(said(&["status"])?.contains("ram:8MiB"), "the status shows what was added");
    said(&["namespace", "remove", "2"])?;
    ensure!(namespaces()? == 1, "one namespace after one was removed");
    server.stop()
}
