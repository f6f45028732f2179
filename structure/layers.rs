//! Permitted imports (`docs/contributing/contracts.md`, layers).

use std::process::Command;

use xtask::tools;

use crate::{demand, files, tokens};

/// For each crate, the crates of ours that it may import. A crate that is not listed fails the
/// test.
const LAYERS: [(&str, &[&str]); 25] = [
    (TESTING, &[]),
    ("base", &[]),
    ("proto", &["base"]),
    ("io", &["base"]),
    ("block", &["base", "io"]),
    ("tls", &["base", "io"]),
    ("ceph", &["base", "io", "block"]),
    ("group", &["proto"]),
    ("connection", &["base", "proto", "io", "block", "tls"]),
    ("initiator", &["base", "proto", "io", "block", "tls", "ceph", "connection"]),
    ("target", &["base", "proto", "io", "block", "tls", "group", "connection"]),
    (
        "endpoint",
        &["base", "proto", "io", "block", "tls", "ceph", "connection", "initiator", "target"],
    ),
    ("load", &["block", "io"]),
    ("bench", &["block", "io", "load"]),
    ("copy", &["base", "block", "io"]),
    ("extras", &[]),
    ("formats", &["block", "io", "load", "bench"]),
    ("server", &["base", "proto", "io", "block", "tls", "ceph", "endpoint", "group"]),
    ("capi", &["base", "proto", "io", "block", "endpoint", "server"]),
    ("python", &["block", "capi"]),
    (
        "sim",
        &[
            "base",
            "proto",
            "io",
            "block",
            "tls",
            "ceph",
            "endpoint",
            "group",
            "server",
            "load",
            "bench",
            "connection",
            "initiator",
            "target",
        ],
    ),
    (
        "cli",
        &[
            "base", "proto", "io", "block", "tls", "ceph", "endpoint", "group", "server", "bench",
            "copy", "formats", "extras", "load",
        ],
    ),
    ("xtask", &["xtask-start"]),
    ("structure", &["xtask"]),
    (LAB, &[]),
];

/// The crate whose tests import another one of its layer, and that one: NVMe of both ends over three
/// transports.
const BOTH_ENDS: (&str, &str) = ("target", "initiator");

/// All tools of the lab, which may import each other and xtask.
pub(crate) const LAB: &str = "lab";

/// The crate that tests share. Every crate's tests may import it, and nothing else may.
const TESTING: &str = "testing";

/// What an engine must not know: the machine that it runs on.
const WORLD: [&str; 11] = [
    "std::env",
    "std::fs",
    "std::io",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::net::UdpSocket",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// The crate whose directory a file stands in, and what it may import.
fn layer(path: &str) -> Option<(&'static str, &'static [&'static str])> {
    let within = ["crates/", "bindings/"].iter().find_map(|start| path.strip_prefix(start));
    let directory = within.unwrap_or(path).split('/').next()?;
    LAYERS.iter().copied().find(|(name, _)| *name == directory)
}

/// The directory name of the package `weft-x`; the program's package is called `weft`, and all
/// tools of the lab stand together.
pub(crate) fn directory(package: &str) -> Option<&str> {
    match package {
        "weft" => Some("cli"),
        tool if tool.starts_with("lab-") => Some(LAB),
        _ => package.strip_prefix("weft-"),
    }
}

/// Returns whether a file holds tests and nothing else.
pub(crate) fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// The part of a file before the tests at its end.
fn shipped(source: &str) -> &str {
    let ends = ["\n#[cfg(test)]\nmod tests {", "\n#[cfg(test)]\npub(super) mod tests {"];
    ends.iter().fold(source, |source, end| source.split(end).next().unwrap_or_default())
}

#[test]
fn every_crate_has_a_layer() {
    let unknown = files::below("crates", "toml")
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path.ends_with("/Cargo.toml") && layer(path).is_none());
    demand("list the crate in structure/layers.rs", unknown.collect());
}

#[test]
fn manifests_depend_on_lower_layers_only() {
    let mut faults = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let importer = directory(name).unwrap_or(name);
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == importer) else {
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let imported = dependency["name"].as_str().unwrap();
            // A crate's tests may ask for features of the crate itself.
            let other = dependency["source"].is_null() && imported != name;
            let layer = directory(imported).unwrap_or(imported);
            let of_tests =
                dependency["kind"] == "dev" && (layer == TESTING || (importer, layer) == BOTH_ENDS);
            let of_tools = importer == LAB && [Some(LAB), None].contains(&directory(imported));
            if other && !of_tests && !of_tools && !allowed.contains(&layer) {
                faults.push(format!("{name} must not depend on {imported}"));
            }
        }
    }
    demand("dependencies against the layers", faults);
}

/// The packages of the workspace, of that of the tools, and of bindings, as cargo describes them.
pub(crate) fn packages() -> Vec<serde_json::Value> {
    ["Cargo.toml", tools::MANIFEST, "bindings/python/Cargo.toml"].map(packages_of).concat()
}

fn packages_of(manifest: &str) -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .args(["--manifest-path", manifest])
        .current_dir(files::root())
        .output()
        .expect("cargo metadata runs");
    let mut metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    metadata["packages"].as_array_mut().map(std::mem::take).expect("metadata lists packages")
}

#[test]
fn sources_import_lower_layers_only() {
    let mut faults = Vec::new();
    for (file, source) in files::rust() {
        let Some((own, allowed)) = layer(&file) else { continue };
        for path in tokens::paths(&source) {
            let Some(imported) = path[0].strip_prefix("weft_") else { continue };
            let ours = LAYERS.iter().any(|(name, _)| *name == imported);
            // Looked at below.
            let of_tests = imported == TESTING || is_test(&file) && (own, imported) == BOTH_ENDS;
            if ours && imported != own && !of_tests && !allowed.contains(&imported) {
                faults.push(format!("{file} imports {}", path.join("::")));
            }
        }
    }
    demand("imports against the layers", faults);
}

#[test]
fn only_tests_import_what_tests_share() {
    let mut faults = Vec::new();
    for (file, source) in files::rust() {
        if is_test(&file) || file.starts_with("crates/testing/") {
            continue;
        }
        let found = tokens::paths(shipped(&source)).into_iter();
        let found = found.filter(|path| path[0] == format!("weft_{TESTING}"));
        faults.extend(found.map(|path| format!("{file} imports {}", path.join("::"))));
    }
    demand("what is shipped must not import weft-testing", faults);
}

#[test]
fn engines_and_formats_do_not_know_the_machine() {
    let mut faults = Vec::new();
    for (file, source) in
        [files::below("crates/proto/src", "rs"), files::below("crates/formats/src", "rs")].concat()
    {
        if is_test(&file) {
            continue;
        }
        for path in tokens::paths(&source).iter().map(|path| path.join("::")) {
            // An error of the system has a text.
            let texts = file.starts_with("crates/formats/") && path.starts_with("std::io");
            if !texts
                && WORLD
                    .iter()
                    .any(|world| path == *world || path.starts_with(&format!("{world}::")))
            {
                faults.push(format!("{file}: {path}"));
            }
        }
    }
    demand(
        "bytes, times and completions are given to an engine, and texts to a reader of formats",
        faults,
    );
}

#[test]
fn engines_are_the_same_on_every_system() {
    const SYSTEMS: [&str; 6] =
        ["windows)", "unix)", "target_os", "target_family", "target_env", "target_vendor"];
    let mut faults = Vec::new();
    for (file, source) in files::below("crates/proto", "rs") {
        let asks = |line: &&str| {
            line.contains("cfg") && SYSTEMS.iter().any(|system| line.contains(system))
        };
        faults.extend(source.lines().filter(asks).map(|line| format!("{file}: {}", line.trim())));
    }
    demand("their tests run on one system, and are to hold for all", faults);
}

/// What only the program does: whoever runs a server says what becomes of its lines and errors.
fn is_of_the_program(path: &[String]) -> bool {
    const PRINTS: [&str; 4] = ["print", "println", "eprint", "eprintln"];
    const STREAMS: [&str; 3] = ["stdin", "stdout", "stderr"];
    let ends = |of: &str, what: &[&str]| {
        path.windows(2).any(|pair| pair[0] == of && what.contains(&pair[1].as_str()))
    };
    path[0] == "clap"
        || matches!(path, [only] if PRINTS.contains(&only.as_str()))
        || ends("io", &STREAMS)
        || ends("process", &["abort", "exit"])
}

#[test]
fn servers_leave_the_command_line_and_the_process_to_the_program() {
    let mut faults = Vec::new();
    for (file, source) in files::below("crates/server/src", "rs") {
        // What comes before the tests is shipped.
        let shipped = source.split("#[cfg(test)]").next().unwrap_or_default();
        if is_test(&file) {
            continue;
        }
        let found = tokens::paths(shipped).into_iter().filter(|path| is_of_the_program(path));
        faults.extend(found.map(|path| format!("{file}: {}", path.join("::"))));
    }
    demand("a server returns what is to be printed, and an error instead of an exit", faults);
}

#[test]
fn what_only_the_program_does_is_found() {
    let found = |source: &str| tokens::paths(source).iter().any(|path| is_of_the_program(path));
    for wrong in [
        "fn f() { println!(\"a\") }",
        "use clap::Args;",
        "use std::{io::stdout, fs};",
        "fn f() { std::process::exit(1) }",
    ] {
        assert!(found(wrong), "{wrong}");
    }
    assert!(!found("fn f(of: Output) { of.stdout; std::process::id() }"));
}
