//! Planted bugs: real ones, which the simulator has to find. The sources do not have them. They are
//! edits next to the simulator (`crates/sim/planted`), which are made in a copy of the workspace,
//! each behind a question whether the thread has chosen it. `cargo xtask sim --planted` runs this
//! program, which prints where the copy is.
#![forbid(unsafe_code)]

mod bug;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result, ensure};
use lab_edited::{Splice, Target, Texts, splice};
use xtask::sh;

use self::bug::{Bug, GUARD};

/// The file in which the simulator is told of the bugs.
const TOLD: &str = "crates/sim/src/bugs.rs";

/// What stands there when there are none.
const NO_BUGS: &str = "pub const ALL: &[Bug] = &[];";
const NO_CRATES: &str = "const CRATES: &[fn(Option<usize>)] = &[];";

/// The module of each crate that has bugs.
const CHOICE: &str = "\
//! The planted bug in this thread's code.

use core::cell::Cell;

std::thread_local! {
    static PRESENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Has this thread's code have this bug from now on, and no other.
pub fn plant(bug: Option<usize>) {
    PRESENT.set(bug);
}

pub(crate) fn is(bug: usize) -> bool {
    PRESENT.get() == Some(bug)
}
";

fn main() -> ExitCode {
    sh::exit(copy().map(|copy| {
        println!("{}", copy.display());
        ExitCode::SUCCESS
    }))
}

/// Makes the copy, or brings it up to date.
fn copy() -> Result<PathBuf> {
    let changed = edit(&lab_edited::sources()?, &bug::all()?)?;
    lab_edited::copy("planted", &changed, Target::Shared)
}

/// The files that differ when all bugs are planted.
fn edit(sources: &Texts, bugs: &[Bug]) -> Result<Texts> {
    let mut splices = BTreeMap::<String, Vec<Splice>>::new();
    let mut faults = Vec::new();
    for (number, bug) in bugs.iter().enumerate() {
        for edit in &bug.edits {
            match edit.place(sources) {
                Ok((path, Splice { bytes, text })) => {
                    let text = text.replace(GUARD, &format!("crate::planted::is({number})"));
                    splices.entry(path).or_default().push(Splice { bytes, text });
                }
                Err(fault) => {
                    let bug = format!("{}/{}.edit", bug::DIRECTORY, bug.name);
                    faults.push(format!("{bug} does not apply: {fault}"));
                }
            }
        }
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    let crates: BTreeSet<String> = splices.keys().filter_map(|path| crate_of(path)).collect();
    let mut changed = Texts::new();
    for (path, splices) in splices {
        let text = splice(&sources[&path], splices).with_context(|| path.clone())?;
        changed.insert(path, text);
    }
    for name in &crates {
        let root = format!("crates/{name}/src/lib.rs");
        let text = changed.get(&root).or(sources.get(&root)).with_context(|| root.clone())?;
        let text = format!("{text}\n#[doc(hidden)]\npub mod planted;\n");
        changed.insert(root, text);
        changed.insert(format!("crates/{name}/src/planted.rs"), CHOICE.into());
    }
    let told = sources.get(TOLD).context(TOLD)?;
    changed.insert(TOLD.into(), tell(told, bugs, &crates)?);
    Ok(changed)
}

/// The directory of the crate that a source belongs to.
fn crate_of(path: &str) -> Option<String> {
    Some(path.strip_prefix("crates/")?.split('/').next()?.to_owned())
}

/// What the simulator is told.
fn tell(text: &str, bugs: &[Bug], crates: &BTreeSet<String>) -> Result<String> {
    let bug = |bug: &Bug| format!("Bug {{ name: {:?}, scene: {:?} }}", bug.name, bug.scene);
    let bugs: Vec<String> = bugs.iter().map(bug).collect();
    let crates: Vec<String> =
        crates.iter().map(|name| format!("weft_{name}::planted::plant")).collect();
    let places = [(NO_BUGS, bugs.join(",\n    ")), (NO_CRATES, crates.join(",\n    "))];
    places.into_iter().try_fold(text.to_owned(), |text, (nothing, list)| {
        let head = nothing.strip_suffix("[];").context("a list")?;
        let (before, after) =
            text.split_once(nothing).with_context(|| format!("{TOLD} has no line `{nothing}`"))?;
        Ok(format!("{before}{head}[\n    {list},\n];{after}"))
    })
}
