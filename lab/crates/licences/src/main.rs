//! `cargo xtask licences`: where every dependency comes from, and that its licence lets us ship it.
//!
//! A dependency comes from crates.io or from this repository. Its SPDX expression must be satisfied
//! by the licences that `licences.json` allows, with a reason for each.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, fs, path::Path, process::ExitCode};

use anyhow::{Context, Result, bail};
use clap::Parser;
use lab_licences::spdx;
use serde_json::Value;
use xtask::sh;

/// The only registry that dependencies may come from, as named in cargo's metadata.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The manifests of the workspaces in this repository.
const MANIFESTS: [&str; 4] =
    ["Cargo.toml", "bindings/python/Cargo.toml", "fuzz/Cargo.toml", "lab/Cargo.toml"];

/// The content of `licences.json`.
struct Policy {
    allowed: Vec<String>,
    /// By package: a licence allowed for this package only, and whether any package needed it.
    exceptions: BTreeMap<String, (String, bool)>,
}

/// Check the sources and licences of all dependencies
#[derive(Parser)]
#[command(bin_name = "cargo xtask licences")]
struct LicencesArgs {}

fn main() -> ExitCode {
    let LicencesArgs {} = LicencesArgs::parse();
    sh::exit(run().map(|()| ExitCode::SUCCESS))
}

/// Checks the dependencies of all workspaces, for every platform and with every feature.
fn run() -> Result<()> {
    let mut policy = Policy::read(&sh::root().join("lab/crates/licences/licences.json"))?;
    let mut faults = Vec::new();
    let mut checked = 0;
    for manifest in MANIFESTS {
        for package in packages(manifest)? {
            checked += 1;
            faults.extend(policy.fault(&package));
        }
    }
    faults.extend(policy.unused());
    if !faults.is_empty() {
        bail!("{} dependencies need a decision:\n  {}", faults.len(), faults.join("\n  "));
    }
    println!("{checked} packages: sources and licences are in order");
    Ok(())
}

/// Cargo's metadata of each package that a workspace may build.
fn packages(manifest: &str) -> Result<Vec<Value>> {
    let mut cargo = sh::cargo("metadata");
    cargo.args([
        "--format-version",
        "1",
        "--locked",
        "--all-features",
        "--manifest-path",
        manifest,
    ]);
    let mut metadata: Value = serde_json::from_str(&sh::output(&mut cargo)?)?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => bail!("cargo metadata lists no packages for {manifest}"),
    }
}

impl Policy {
    fn read(path: &Path) -> Result<Self> {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file: Value = serde_json::from_slice(&text)?;
        let allowed = file["allowed"].as_object().context("licences.json allows nothing")?;
        let mut exceptions = BTreeMap::new();
        for exception in file["exceptions"].as_array().into_iter().flatten() {
            let field = |name: &str| {
                exception[name]
                    .as_str()
                    .map(str::to_owned)
                    .with_context(|| format!("an exception without {name}"))
            };
            field("reason")?;
            exceptions.insert(field("package")?, (field("licence")?, false));
        }
        Ok(Self { allowed: allowed.keys().cloned().collect(), exceptions })
    }

    /// The problem of a package, if any.
    fn fault(&mut self, package: &Value) -> Option<String> {
        let name = package["name"].as_str().unwrap_or_default();
        let about = format!("{name} {}", package["version"].as_str().unwrap_or_default());
        match package["source"].as_str() {
            None | Some(CRATES_IO) => {}
            Some(other) => return Some(format!("{about} comes from {other}")),
        }
        let Some(expression) = package["license"].as_str() else {
            return Some(format!("{about} names no licence"));
        };
        let mut exceptional = false;
        let exception = self.exceptions.get(name).map(|(licence, _)| licence.as_str());
        let satisfied = spdx::satisfied(expression, &mut |licence| {
            let excepted = exception == Some(licence);
            exceptional |= excepted;
            excepted || self.allowed.iter().any(|allowed| allowed == licence)
        });
        if let Some((_, used)) = self.exceptions.get_mut(name) {
            *used |= exceptional;
        }
        match satisfied {
            Ok(true) => None,
            Ok(false) => Some(format!("{about} is under {expression}")),
            Err(error) => Some(format!("{about}: {error}")),
        }
    }

    /// Exceptions that are no longer needed.
    fn unused(&self) -> impl Iterator<Item = String> {
        self.exceptions
            .iter()
            .filter(|(_, (_, used))| !used)
            .map(|(package, _)| format!("the exception for {package} is no longer needed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_the_documents_are_understood() {
        let parse = |words: &[String]| {
            LicencesArgs::try_parse_from(words).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(xtask::commands::faults("licences", parse), Vec::<String>::new());
    }
}
