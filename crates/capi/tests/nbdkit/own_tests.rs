//! The tests that nbdkit's authors wrote for its plugins `memory` and `file`, with weft's plugin in
//! their place.

use super::plugin;
use crate::built::{scratch, succeeds};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weft_testing::programs;

/// Tests that cannot pass, and why.
const OTHERS: &[(&str, &[&str])] = &[
    (
        "the size is not a number of whole blocks",
        &["cache-unaligned", "cow-unaligned", "scan-info", "truncate4"],
    ),
    (
        "it is about memory or file alone",
        &[
            "file-dir",
            "memory-allocator-malloc",
            "memory-allocator-malloc-mlock",
            "memory-largest",
            "memory-largest-for-qemu",
        ],
    ),
    ("it looks for the name of the plugin", &["nbdkit-backend-debug", "version-filter"]),
];

/// Seconds for one test: most end within two, and those that wait in vain after sixty.
const LIMIT: &str = "120";

/// Stands for nbdkit: puts weft's plugin in the place of the two.
const INSTEAD: &str = r#"#!/bin/bash
args=() plugin=
for word; do
    case "$plugin:$word" in
    :memory | :file) plugin=$word; args+=("$WEFT_PLUGIN"); echo "$plugin" >>"$WEFT_USED" ;;
    memory:[0-9]* | memory:size=*)
        size=${word#size=}
        case $size in *[kKMGTPE]) size=${size^^}iB ;; esac
        args+=("url=ram:$size") ;;
    file:file=* | file:/* | file:*.* | file:*/*) args+=("url=file:$(realpath "${word#file=}"),lock=off") ;;
    *) args+=("$word") ;;
    esac
done
exec "$WEFT_NBDKIT" "${args[@]}"
"#;

/// nbdkit's `tests`, in a directory of their own, with what its `configure` would say of this system.
fn tests_of(sources: &Path) -> PathBuf {
    let place = scratch().join("nbdkit-own");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    succeeds(Command::new("cp").arg("-r").arg(sources.join("tests")).arg(&place));
    let tests = place.join("tests");
    let functions = fs::read_to_string(tests.join("functions.sh.in")).unwrap();
    let said = [
        ("@abs_top_srcdir@", sources.to_str().unwrap()),
        ("@CUT@", "cut"),
        ("@SED@", "sed"),
        ("@STAT@", "stat"),
        ("@TRUNCATE@", "truncate"),
        ("@SOEXT@", "so"),
        ("@EXEEXT@", ""),
        ("@PYTHON@", "python3"),
    ];
    let functions = said.iter().fold(functions, |text, (from, to)| text.replace(from, to));
    fs::write(tests.join("functions.sh"), functions).unwrap();
    tests
}

/// Runs a test by the programs in `path`; its exit status.
fn run(tests: &Path, script: &str, path: &str, plugin: &Path) -> Option<i32> {
    let log = fs::File::create(tests.join(format!("{script}.log"))).unwrap();
    let mut command = Command::new("timeout");
    command.args([LIMIT, "bash", &format!("./{script}")]).current_dir(tests).env("PATH", path);
    command.envs([("SRCDIR", "."), ("srcdir", "."), ("LC_ALL", "C")]);
    command.env("WEFT_PLUGIN", plugin).env("WEFT_USED", tests.join("used"));
    command.env("WEFT_NBDKIT", programs::command("nbdkit").get_program());
    command.stdin(Stdio::null()).stderr(log.try_clone().unwrap()).stdout(log);
    command.status().unwrap().code()
}

#[test]
#[ignore = "takes minutes, and needs nbdkit's sources: cargo xtask long"]
fn weft_is_a_plugin_like_memory_and_file() {
    let sources = std::env::var("NBDKIT_DIR").expect("NBDKIT_DIR names the sources of nbdkit 1.32");
    let plugin = plugin().expect("nbdkit, and what the plugin is built with");
    let tests = tests_of(Path::new(&sources));
    let bin = tests.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("nbdkit"), INSTEAD).unwrap();
    fs::set_permissions(bin.join("nbdkit"), fs::Permissions::from_mode(0o755)).unwrap();
    // nbdsh runs by the system's Python.
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    let with_weft = format!("{}:{path}", bin.display());
    let mut scripts: Vec<String> = fs::read_dir(&tests)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("test-") && name.ends_with(".sh"))
        .filter(|name| !name.contains("shebang") && name != "test-read-password.sh")
        .filter(|name| {
            let text = fs::read_to_string(tests.join(name)).unwrap();
            text.contains("memory") || text.contains("file")
        })
        .collect();
    scripts.sort();
    let (mut passed, mut failed) = (0, Vec::new());
    for script in &scripts {
        let used = tests.join("used");
        let _ = fs::remove_file(&used);
        let weft = run(&tests, script, &with_weft, &plugin);
        // What uses neither plugin says nothing, nor what does not pass with nbdkit's own here.
        if !used.exists() || run(&tests, script, path, &plugin) != Some(0) {
            continue;
        }
        let name = script.trim_start_matches("test-").trim_end_matches(".sh");
        let other = OTHERS.iter().find(|(_, names)| names.contains(&name)).map(|(why, _)| *why);
        println!("{name}: {weft:?}{}", other.map_or_else(String::new, |why| format!(", as {why}")));
        match (weft, other) {
            (Some(0), _) => passed += 1,
            (_, Some(_)) => {}
            (weft, None) => failed.push(format!("{name}: {weft:?}")),
        }
    }
    println!("{passed} passed");
    assert!(passed >= 25 && failed.is_empty(), "{failed:?}; logs are in {}", tests.display());
}
