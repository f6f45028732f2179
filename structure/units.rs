//! Units that cargo compiles, by its unit graphs, which it prints without building anything.
//!
//! `cargo build --release` is the first thing that a newcomer waits for: its units may become fewer
//! but not more. Lower the number in `units.txt` when they do. And what runs the tests must not
//! compile anything that they need with other features, or it is built twice.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    process::Command,
};

use serde_json::{Value, json};

use crate::{demand, files};

/// Units of `cargo build --release` on Linux and x86-64.
const UNITS: &str = include_str!("units.txt");

/// The units of a build, as cargo plans them.
fn planned(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--offline", "--locked", "-Zunstable-options", "--unit-graph", "--target-dir"])
        // Not that of the build that runs this.
        .arg(env!("CARGO_TARGET_TMPDIR"))
        // The option is for unstable compilers otherwise.
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(files::root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut graph: Value = serde_json::from_slice(&output.stdout).expect("a graph is JSON");
    graph["units"].as_array_mut().map(std::mem::take).expect("a graph has units")
}

/// Units that are compiled: scripts that are run are none.
fn compiled(units: &[Value]) -> impl Iterator<Item = (usize, &Value)> {
    units.iter().enumerate().filter(|(_, unit)| unit["mode"] != "run-custom-build")
}

#[test]
fn a_release_build_has_no_more_units() {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        println!("skipped: the number of units is that of Linux on x86-64");
        return;
    }
    let units = planned(&["build", "--release"]);
    let (found, known) = (compiled(&units).count(), UNITS.trim().parse().unwrap());
    let mut faults = Vec::new();
    if found > known {
        faults.push(format!("{found} units, and {known} in structure/units.txt"));
        let names = compiled(&units).filter_map(|(_, unit)| package(unit));
        let names: BTreeSet<&str> = names.collect();
        faults.push(format!("of {}", Vec::from_iter(names).join(", ")));
    }
    if found < known {
        faults.push(format!("{found} units: write that into structure/units.txt"));
    }
    demand("cargo build --release compiles no more than it did", faults);
}

/// Name and version of the package of a unit.
fn package(unit: &Value) -> Option<&str> {
    unit["pkg_id"].as_str()?.rsplit(['#', '/']).next()
}

/// Packages that a build does not optimize at all, without those that only help to build.
fn not_optimized(options: &[&str]) -> Vec<String> {
    let units = planned(&[options, &["--target", "x86_64-unknown-linux-gnu"]].concat());
    let of_program = units.iter().filter(|unit| unit["platform"].is_string());
    let left = of_program.filter(|unit| unit["profile"]["opt_level"] == "0").filter_map(package);
    BTreeSet::from_iter(left).into_iter().map(str::to_owned).collect()
}

/// These profiles begin with that of the release build, which leaves most crates as they are.
#[test]
fn packages_and_the_simulator_are_optimized_as_a_whole() {
    let packaged = |profile| {
        let options = ["build", "--profile", profile, "--package", "weft", "--features", "full"];
        not_optimized(&options)
    };
    assert!(packaged("release").len() > 9, "a release build leaves some as they are");
    demand("name it in [profile.dist.package] with opt-level = 3", packaged("dist"));
    let library = not_optimized(&["build", "--profile", "library", "--package", "weft-capi"]);
    demand("name it in [profile.library.package]", library);
    let simulator = not_optimized(&["build", "--profile", "sim", "--package", "weft-sim"]);
    demand("name it in [profile.sim.package] with opt-level = 2", simulator);
}

/// What a unit is, whatever it is built with.
fn identity(unit: &Value) -> Value {
    json!([
        unit["pkg_id"],
        unit["target"]["name"],
        unit["target"]["kind"],
        unit["platform"],
        unit["mode"]
    ])
}

/// What a unit is built with, apart from other units.
fn settings(unit: &Value) -> Value {
    let mut profile = unit["profile"].clone();
    // Two profiles with the same settings build the same.
    profile.as_object_mut().map(|profile| profile.remove("name"));
    json!([identity(unit), profile, unit["features"]])
}

/// A hash for each unit of a graph, of its settings and of all units that it needs.
fn hashes(units: &[Value]) -> Vec<u64> {
    fn hash(units: &[Value], at: usize, known: &mut HashMap<usize, u64>) -> u64 {
        if let Some(hash) = known.get(&at) {
            return *hash;
        }
        let needed = units[at]["dependencies"].as_array().into_iter().flatten();
        let needed = needed.filter_map(|it| usize::try_from(it["index"].as_u64()?).ok());
        let needed: BTreeSet<u64> = needed.map(|it| hash(units, it, known)).collect();
        let mut hasher = DefaultHasher::new();
        (settings(&units[at]).to_string(), needed).hash(&mut hasher);
        *known.entry(at).or_insert(hasher.finish())
    }
    let mut known = HashMap::new();
    (0..units.len()).map(|at| hash(units, at, &mut known)).collect()
}

/// Units of a graph that another one has with other settings, or of other units: built after each
/// other, both are compiled.
fn built_twice(first: &[Value], second: &[Value]) -> Vec<String> {
    let known: BTreeSet<u64> = hashes(second).into_iter().collect();
    let hashes = hashes(first);
    let mut others = BTreeMap::<String, Vec<Value>>::new();
    for (_, unit) in compiled(second) {
        others.entry(identity(unit).to_string()).or_default().push(settings(unit));
    }
    let mut faults = Vec::new();
    for (at, unit) in compiled(first).filter(|(at, _)| !known.contains(&hashes[*at])) {
        let Some(others) = others.get(&identity(unit).to_string()) else { continue };
        let (name, own) = (package(unit).unwrap_or_default(), settings(unit));
        // The cause of others is listed itself.
        if !others.contains(&own) {
            let others: Vec<_> = others.iter().map(|it| format!("{} {}", it[2], it[1])).collect();
            faults.push(format!(
                "{at} {name}: {} {}\n    and {}",
                own[2],
                own[1],
                others.join("\n    and ")
            ));
        }
    }
    faults
}

#[test]
fn the_build_of_xtask_is_part_of_that_of_all_tests() {
    let (xtask, all) =
        (planned(&["build", "--package", "xtask"]), planned(&["test", "--workspace"]));
    demand(
        "give dependencies of xtask the features that the workspace's tests need together",
        built_twice(&xtask, &all),
    );
}

#[test]
fn other_features_and_profiles_are_found() {
    let unit = |name: &str, features: &[&str], opt: &str, needs: &[usize]| {
        let needs: Vec<Value> = needs.iter().map(|at| json!({ "index": at })).collect();
        json!({
            "pkg_id": format!("registry+x#{name}@1.0.0"), "mode": "build", "platform": null, "features": features,
            "target": {"name": name, "kind": ["lib"]}, "profile": {"name": "dev", "opt_level": opt}, "dependencies": needs,
        })
    };
    let all = [unit("a", &["x"], "0", &[]), unit("b", &[], "0", &[0])];
    assert!(built_twice(&all, &all).is_empty());
    let same = [unit("b", &[], "0", &[1]), unit("a", &["x"], "0", &[])];
    assert!(built_twice(&same, &all).is_empty());
    for other in [unit("a", &[], "0", &[]), unit("a", &["x"], "1", &[])] {
        let faults = built_twice(&[other, unit("b", &[], "0", &[0])], &all);
        assert!(matches!(&faults[..], [one] if one.contains("a@1.0.0")), "{faults:?}");
    }
    assert!(built_twice(&[unit("c", &[], "0", &[])], &all).is_empty());
}
