//! Files that use each other, directly or over others, as a ratchet.
//!
//! Nobody understands one file of such a cycle without the others. A cycle within a directory is a
//! room to be entered as a whole, such as a type whose functions stand in several files. One that
//! spans directories leaves no room that can be entered alone. `cycles.txt` says for each crate how
//! many files are in cycles (sets of files of which each reaches each other), and how many
//! directories these span beyond one each. Neither may grow; lower the numbers when you break a
//! cycle. No cycle has more than four files. To break one, declare the parts of a type's state in
//! the file of the type: private there, they are visible to the files below it.
//! `cargo test -p structure --test structure cycles::shown -- --ignored --nocapture` shows them.

use std::collections::{BTreeMap, BTreeSet};

use crate::{demand, files, imports};

/// For each crate: the files in cycles, and the directories that these span beyond one each.
const CYCLES: &str = include_str!("cycles.txt");

/// Files of a cycle, at most.
const FILES_MAX: usize = 4;

/// Files, and what they use.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// All files that a file reaches.
fn reached(uses: &Uses, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        for used in uses.get(file).into_iter().flatten() {
            if reached.insert(used.clone()) {
                next.push(used);
            }
        }
    }
    reached
}

/// Sets of more than one file, in which each file reaches each other.
fn cycles(uses: &Uses) -> BTreeSet<Vec<String>> {
    let reached: Uses = uses.keys().map(|file| (file.clone(), reached(uses, file))).collect();
    let together = |file: &String| -> Vec<String> {
        let back = |other: &&String| reached.get(*other).is_some_and(|all| all.contains(file));
        reached[file].iter().filter(back).cloned().collect()
    };
    uses.keys().map(together).filter(|cycle| cycle.len() > 1).collect()
}

/// The crates by their directories, and their cycles.
fn of_all() -> BTreeMap<String, BTreeSet<Vec<String>>> {
    let manifests = ["crates", "lab/crates"].map(|all| files::below(all, "toml")).concat();
    let crates = manifests
        .into_iter()
        .filter_map(|(path, _)| path.strip_suffix("/Cargo.toml").map(str::to_owned))
        .chain(["xtask".to_owned()]);
    crates
        .map(|directory| {
            let cycles = cycles(&imports::of_crate(&format!("{directory}/src")));
            (directory, cycles)
        })
        .collect()
}

/// How many files are in cycles, and how many directories these span beyond one each.
fn counts(cycles: &BTreeSet<Vec<String>>) -> (usize, usize) {
    let directory = |file: &str| file.rsplit_once('/').map(|(directory, _)| directory.to_owned());
    let spanned = |cycle: &Vec<String>| {
        let (roots, others): (Vec<&String>, Vec<&String>) =
            cycle.iter().partition(|file| file.ends_with("/mod.rs"));
        let mut all: BTreeSet<_> = others.into_iter().map(|file| directory(file)).collect();
        // The root of a directory also belongs to the room in which its module is declared.
        for own in roots.into_iter().map(|file| directory(file)) {
            let outer = own.as_deref().and_then(directory);
            if !all.contains(&outer) {
                all.insert(own);
            }
        }
        all.len()
    };
    (cycles.iter().map(Vec::len).sum(), cycles.iter().map(|cycle| spanned(cycle) - 1).sum())
}

/// What `cycles.txt` tolerates.
fn tolerated() -> BTreeMap<&'static str, (usize, usize)> {
    let entries = CYCLES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    entries
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().expect("an entry begins with a crate");
            let mut number = || words.next()?.parse().ok();
            let numbers = number().zip(number());
            (name, numbers.unwrap_or_else(|| panic!("{line}: not a crate and two numbers")))
        })
        .collect()
}

#[test]
fn files_that_use_each_other_do_not_grow_in_number() {
    let tolerated = tolerated();
    let mut faults = Vec::new();
    for (name, cycles) in of_all() {
        let (many, spanned) = counts(&cycles);
        let short = name.strip_prefix("crates/").unwrap_or(&name);
        let (most, most_spanned) = tolerated.get(short).copied().unwrap_or_default();
        if many > most || spanned > most_spanned {
            faults.push(format!(
                "{name}: {many} files in cycles, over {spanned} directories more; allowed: {most}, {most_spanned}"
            ));
            faults.extend(cycles.iter().map(|cycle| format!("  {}", cycle.join(" "))));
        }
        let long = cycles.iter().filter(|cycle| cycle.len() > FILES_MAX);
        faults.extend(long.map(|cycle| {
            format!("{name}: a cycle of {}, at most {FILES_MAX}: {}", cycle.len(), cycle.join(" "))
        }));
    }
    demand("files that use each other: move what both need into a file below both", faults);
}

#[test]
#[ignore = "shows, and judges nothing"]
fn shown() {
    for (name, cycles) in of_all() {
        let (many, spanned) = counts(&cycles);
        println!("{name} {many} {spanned}");
        let uses = imports::named_of_crate(&format!("{name}/src"));
        for cycle in &cycles {
            println!("  cycle of {}", cycle.len());
            for file in cycle {
                println!("    {file}");
                for (used, names) in uses[file].iter().filter(|(used, _)| cycle.contains(used)) {
                    println!("      {used} {names:?}");
                }
            }
        }
    }
}

#[test]
fn a_cycle_is_found_and_a_chain_is_none() {
    let uses = |pairs: &[(&str, &[&str])]| -> Uses {
        let set = |used: &[&str]| used.iter().map(ToString::to_string).collect();
        pairs.iter().map(|(file, used)| ((*file).to_owned(), set(used))).collect()
    };
    assert!(cycles(&uses(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])).is_empty());
    let found = cycles(&uses(&[("a", &["b"]), ("b", &["c"]), ("c", &["a", "d"]), ("d", &[])]));
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [["a", "b", "c"]]);
}
