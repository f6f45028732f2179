//! The plugin of nbdkit, with libnbd's programs as clients.

mod own_tests;

use crate::built::{WARNINGS, here, library, scratch, succeeds, with_names};
use std::path::{Path, PathBuf};
use std::process::Command;
use weft_base::lock::Lock;

use weft_testing::programs;

const PROGRAMS: [&str; 5] = ["cc", "nm", "nbdkit", "nbdcopy", "nbdinfo"];

/// The plugin. `None`: something for it is missing, and the calling test counts as skipped.
fn plugin() -> Option<PathBuf> {
    static MADE: Lock<Option<PathBuf>> = Lock::new(None);
    if !programs::have(&PROGRAMS) {
        return None;
    }
    let mut made = MADE.lock();
    if made.is_some() {
        return made.clone();
    }
    let mut header = programs::command("cc");
    header.args(["-fsyntax-only", "-x", "c", "-include", "nbdkit-plugin.h", "/dev/null"]);
    if !header.output().is_ok_and(|output| output.status.success()) {
        weft_testing::skip("nbdkit-plugin.h is missing; `cargo xtask setup` installs it");
        return None;
    }
    let library = library()?;
    let plugin = scratch().join("nbdkit-weft-plugin.so");
    let mut cc = programs::command("cc");
    cc.args(["-shared", "-fPIC", "-std=c99", "-O1"]).args(WARNINGS);
    cc.arg("-I").arg(here().join("include")).arg(here().join("nbdkit/weft-plugin.c"));
    cc.arg("-o").arg(&plugin).arg("-L").arg(library).arg("-lweft");
    succeeds(cc.arg(format!("-Wl,-rpath,{}", library.display())));
    *made = Some(plugin.clone());
    Some(plugin)
}

/// nbdkit with the plugin, on a Unix socket, while a command of a shell runs; its output.
fn serve(plugin: &Path, arguments: &[&str], command: &str) -> String {
    let mut nbdkit: Command = with_names(programs::command("nbdkit"));
    nbdkit.args(["-U", "-"]).args(["--run", command]);
    for filter in arguments.iter().filter(|argument| argument.starts_with("--")) {
        nbdkit.arg(filter);
    }
    nbdkit.arg(plugin);
    nbdkit.args(arguments.iter().filter(|argument| !argument.starts_with("--")));
    String::from_utf8(succeeds(&mut nbdkit).stdout).unwrap()
}

#[test]
fn a_device_is_copied_through_nbdkit() {
    let Some(plugin) = plugin() else { return };
    let (data, back) = (scratch().join("nbdkit.data"), scratch().join("nbdkit.back"));
    let mut bytes: Vec<u8> = (0..4 << 20).map(|n: u32| (n / 4096 + n) as u8).collect();
    bytes[1 << 20..2 << 20].fill(0);
    std::fs::write(&data, &bytes).unwrap();
    for filter in [None, Some("--filter=cow")] {
        let arguments: Vec<&str> = filter.into_iter().chain(["ram:4MiB", "queues=2"]).collect();
        let copy = format!(
            "nbdcopy --flush {} \"$uri\" && nbdcopy \"$uri\" {}",
            data.display(),
            back.display()
        );
        serve(&plugin, &arguments, &copy);
        assert!(std::fs::read(&back).unwrap() == bytes, "{filter:?}");
    }
}

#[test]
fn clients_learn_what_the_device_can_do() {
    let Some(plugin) = plugin() else { return };
    let said = serve(&plugin, &["ram:4MiB,block=4096"], "nbdinfo --json \"$uri\"");
    for (key, value) in [
        ("export-size", "4194304"),
        ("block_size_minimum", "1"),
        ("can_fua", "true"),
        ("can_flush", "true"),
        ("can_multi_conn", "true"),
        ("can_zero", "true"),
        ("is_read_only", "false"),
    ] {
        assert!(said.contains(&format!("\"{key}\": {value}")), "{key}: {said}");
    }
    let said = serve(&plugin, &["url=readonly:ram:4MiB"], "nbdinfo --json \"$uri\"");
    assert!(said.contains("\"is_read_only\": true"), "{said}");
}

#[test]
fn holes_of_a_file_are_told() {
    let Some(plugin) = plugin() else { return };
    let file = scratch().join("nbdkit.sparse");
    let made = std::fs::File::create(&file).unwrap();
    made.set_len(4 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&made, &[7; 65536], 1 << 20).unwrap();
    made.sync_all().unwrap();
    let url = format!("url=file:{}", file.display());
    let map = serve(&plugin, &[&url], "nbdinfo --map=base:allocation --totals \"$uri\"");
    let is_hole = |line: &str| line.contains("hole,zero") && !line.contains("0.0%");
    // A file system may not tell of holes.
    assert!(map.lines().any(is_hole) || map.contains("100.0%"), "{map}");
}

/// nbdkit's filters, and clients that know no block size, ask for any bytes.
#[test]
fn parts_of_blocks_are_read_and_written() {
    let Some(plugin) = plugin() else { return };
    if !programs::have(&["qemu-io"]) {
        return;
    }
    let commands = [
        "write -P 0x11 0 16k",
        "write -P 0x22 100 5000",
        "write -z 700 3000",
        "discard 1000 6000",
        "read -P 0x11 0 100",
        "read -P 0x22 100 600",
        "read -P 0 700 3000",
        "read -P 0x22 3700 396",
        "read -P 0x11 8k 8k",
    ];
    let words: Vec<String> = commands.iter().map(|of| format!("-c '{of}'")).collect();
    let command = format!("qemu-io -f raw {} \"$uri\"", words.join(" "));
    let said = serve(&plugin, &["ram:1MiB,block=4096"], &command);
    assert!(!said.contains("failed"), "{said}");
}

#[test]
fn mistakes_are_told() {
    let Some(plugin) = plugin() else { return };
    for (arguments, says) in [
        (&["queues=2"][..], "url=URL is missing"),
        (&["ram:1MiB", "colour=red"], "there is no option"),
        (&["file:/nonexistent/weft"], "/nonexistent/weft"),
    ] {
        let mut nbdkit = with_names(programs::command("nbdkit"));
        nbdkit.args(["-U", "-", "--run", "true"]).arg(&plugin).args(arguments);
        let output = nbdkit.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}
