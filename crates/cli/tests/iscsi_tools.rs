//! Programs that are not ours as initiators of `weft serve`: libiscsi's and QEMU's.
#![cfg(unix)]

use crate::support::{Ran, Scratch, Server, run};
use std::path::Path;
use weft_testing::programs::{self, have};

fn foreign(dir: &Path, program: &str, args: &[&str]) -> Ran {
    let mut command = programs::command(program);
    command.args(args).current_dir(dir);
    run(command)
}

fn succeeds(dir: &Path, program: &str, args: &[&str]) -> String {
    let ran = foreign(dir, program, args);
    assert_eq!(ran.code(), Some(0), "{program} {args:?}: {ran:?}");
    ran.out
}

fn serve(dir: &Path, sources: &[&str]) -> Server {
    Server::start(
        dir,
        &[sources, &["--listen", "iscsi://127.0.0.1:0", "--iqn", "iqn.2026-01.example.weft:tools"]]
            .concat(),
    )
}

/// QEMU's driver is a package of its own.
fn qemu_speaks_iscsi(dir: &Path) -> bool {
    let ran = foreign(
        dir,
        "qemu-img",
        &["info", "iscsi://127.0.0.1:1/iqn.2026-01.example.weft:nobody/0"],
    );
    let speaks = !ran.err.contains("Unknown protocol");
    assert!(speaks || std::env::var_os("CI").is_none(), "{}", ran.err);
    speaks
}

/// libiscsi's `iscsi-ls -s` waits for the unit attention 29h/00h, and takes any other one for an
/// error.
#[test]
fn iscsi_ls_lists_the_logical_units() {
    if !have(&["iscsi-ls"]) {
        return;
    }
    let dir = Scratch::new("iscsi-ls");
    let server = serve(dir.path(), &["ram:16MiB", "ram:32MiB"]);
    let portal = server.url().split("/iqn").next().unwrap();
    let listed = succeeds(dir.path(), "iscsi-ls", &["-s", portal]);
    for text in ["Target:iqn.2026-01.example.weft:tools", "Lun:0", "Size:15M", "Lun:1", "Size:31M"]
    {
        assert!(listed.contains(text), "{text} is missing in {listed}");
    }
    assert!(server.terminate().success());
}

#[test]
fn the_tools_of_libiscsi_and_qemu_get_answers() {
    if !have(&["iscsi-inq", "iscsi-readcapacity16", "iscsi-perf", "qemu-img", "qemu-io"]) {
        return;
    }
    let dir = Scratch::new("iscsi-tools");
    let server = serve(dir.path(), &["ram:64MiB"]);
    let url = server.url();
    let limits = succeeds(dir.path(), "iscsi-inq", &["-e", "1", "-c", "176", url]);
    assert!(
        limits.contains("maximum transfer length:65536")
            && limits.contains("compare and write length:255"),
        "{limits}"
    );
    assert!(succeeds(dir.path(), "iscsi-readcapacity16", &[url]).contains("Total size:67108864"));
    // 32 MiB in one command.
    succeeds(dir.path(), "iscsi-perf", &["-b", "65536", "-m", "2", "-t", "1", url]);
    if !qemu_speaks_iscsi(dir.path()) {
        return;
    }
    let write = [
        "-f",
        "raw",
        "-c",
        "write -P 0x5a 1M 32M",
        "-c",
        "read -P 0x5a 1M 32M",
        "-c",
        "read -P 0 0 1M",
        url,
    ];
    let wrote = succeeds(dir.path(), "qemu-io", &write);
    assert!(!wrote.contains("failed"), "{wrote}");
    // GET LBA STATUS: everything is data.
    let map = succeeds(dir.path(), "qemu-img", &["map", "--output=json", "-f", "raw", url]);
    assert!(map.contains("\"length\": 67108864") && map.contains("\"data\": true"), "{map}");
    assert!(server.terminate().success());
}
