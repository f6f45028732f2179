//! One build that has all mutants: those that do not compile, or are not in the programs of this
//! system, are dropped, and others take their places.

use std::{
    collections::{BTreeSet, VecDeque},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use lab_edited::{Target, Texts};
use serde_json::Value;

use super::{
    draw::{plant, take},
    find::Candidate,
};

/// The copy's name.
const COPY: &str = "mutants";

/// So many more are compiled at first than are wanted, as some have to be dropped.
const SPARE_DIVISOR: usize = 2;

/// Mutants that compile, with their numbers, and the copy that has them.
pub struct Built {
    pub mutants: Vec<(usize, Candidate)>,
    pub copy: PathBuf,
    pub dropped: usize,
}

/// Cargo in the copy, with a target directory of its own: the tests start its programs.
pub fn cargo(subcommand: &str, copy: &Path) -> Result<Command> {
    let mut command = lab_edited::cargo(subcommand, copy, Target::Own)?;
    command.args(["--locked", "--message-format=json"]).stderr(Stdio::inherit());
    Ok(command)
}

/// Draws, compiles and drops until `count` mutants compile.
pub fn build(sources: &Texts, row: Vec<Candidate>, count: usize) -> Result<Built> {
    let (mut row, mut taken, mut dropped) = (VecDeque::from(row), Vec::new(), BTreeSet::new());
    loop {
        let wanted = count + dropped.len();
        let spare = if dropped.is_empty() { count / SPARE_DIVISOR } else { 0 };
        take(&mut row, &mut taken, wanted + spare);
        let numbered = taken.iter().cloned().enumerate().map(|(place, one)| (place + 1, one));
        let present: Vec<_> = numbered.filter(|(number, _)| !dropped.contains(number)).collect();
        let copy = lab_edited::copy(COPY, &plant(sources, &present)?, Target::Own)?;
        let crates: BTreeSet<String> = present.iter().map(|(_, one)| package(&one.path)).collect();
        let mut check = cargo("check", &copy)?;
        check.arg("--keep-going").args(crates.iter().flat_map(|name| ["--package", name]));
        let faults = faults(&messages(&mut check)?, &present)?;
        println!("{} mutants, of which {} do not compile", present.len(), faults.len());
        let is_enough = present.len() >= count;
        if faults.is_empty() && (is_enough || row.is_empty()) {
            let mutants: Vec<_> = present.into_iter().take(count).collect();
            lab_edited::copy(COPY, &plant(sources, &mutants)?, Target::Own)?;
            return Ok(Built { mutants, copy, dropped: dropped.len() });
        }
        dropped.extend(faults);
    }
}

/// The package of a source.
fn package(path: &str) -> String {
    match path.split('/').nth(1) {
        Some("cli") => "weft".into(),
        name => format!("weft-{}", name.unwrap_or_default()),
    }
}

/// Returns cargo's messages, a JSON object a line, however it ends.
pub fn messages(cargo: &mut Command) -> Result<Vec<Value>> {
    let output = cargo.output().context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The numbers of the mutants that the compiler complains about, or has no use for.
fn faults(messages: &[Value], present: &[(usize, Candidate)]) -> Result<BTreeSet<usize>> {
    let mut found = BTreeSet::new();
    for message in messages.iter().filter(|of| of["reason"] == "compiler-message") {
        let message = &message["message"];
        let text = message["message"].as_str().unwrap_or_default();
        if message["level"] == "error" {
            let spans: Vec<&Value> = message["spans"].as_array().into_iter().flatten().collect();
            let at = |one: &Candidate, near: u64| {
                spans.iter().any(|span| {
                    let first = span["line_start"].as_u64().unwrap_or(0).saturating_sub(near);
                    let last = span["line_end"].as_u64().unwrap_or(0) + near;
                    span["file_name"] == one.path.as_str()
                        && (first..=last).contains(&(one.line as u64))
                })
            };
            let near = |near: u64| {
                let at = |(number, one): &(usize, Candidate)| at(one, near).then_some(*number);
                present.iter().filter_map(at).collect::<BTreeSet<_>>()
            };
            // What a mutant breaks may show nearby, or elsewhere in its file.
            let blamed = [0, 10, u64::from(u32::MAX)].map(near);
            let blamed = blamed.into_iter().find(|blamed| !blamed.is_empty());
            let is_summary = spans.is_empty() && text.starts_with("aborting due to");
            ensure!(
                blamed.is_some() || is_summary,
                "the copy does not compile: {}",
                message["rendered"]
            );
            found.extend(blamed.into_iter().flatten());
        } else if let Some(name) = text.strip_prefix("static `M")
            && let Some(number) = name.strip_suffix("` is never used")
        {
            found.extend(number.parse::<usize>());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_does_not_compile_or_is_not_there_is_dropped() {
        let one = |line| Candidate {
            path: "crates/io/src/a.rs".into(),
            line,
            kind: super::super::find::Kind::Sum,
            function: "f".into(),
            bytes: 0..1,
            text: "a".into(),
            changed: "b".into(),
            context: "a".into(),
        };
        let present = [(1, one(7)), (2, one(40)), (3, one(90))];
        let error = |line: u64| {
            json!({ "reason": "compiler-message", "message": { "level": "error",
                "message": "mismatched types", "rendered": "no",
                "spans": [{ "file_name": "crates/io/src/a.rs", "line_start": line,
                    "line_end": line }] } })
        };
        let unused = json!({ "reason": "compiler-message", "message": { "level": "warning",
            "message": "static `M3` is never used", "spans": [] } });
        let other = json!({ "reason": "compiler-artifact" });
        let of = |messages: &[Value]| Vec::from_iter(faults(messages, &present).unwrap());
        assert_eq!(of(&[other.clone(), error(7)]), [1]);
        assert_eq!(of(&[error(45)]), [2], "the error is near it");
        assert_eq!(of(&[error(200)]), [1, 2, 3], "the error is somewhere in the file");
        assert_eq!(of(&[other, unused]), [3]);
    }
}
