//! NBD with programs that are not ours: libnbd's tools and QEMU's as clients, nbdkit and qemu-nbd
//! as servers.
#![cfg(unix)]

mod tls;

use crate::support::{Ran, Scratch, Server, run, weft};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use weft_testing::programs::{self, have};
use weft_testing::wait::until;

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

/// A file with content that differs everywhere.
fn image(dir: &Path, name: &str, bytes: usize) -> PathBuf {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_le_bytes()
    };
    let content: Vec<u8> = (0..bytes / 8).flat_map(|_| next()).collect();
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn same(one: &Path, other: &Path) -> bool {
    std::fs::read(one).unwrap() == std::fs::read(other).unwrap()
}

/// A server that is not ours, on a Unix socket; ended by its process id.
pub struct Foreign {
    child: Child,
    socket: PathBuf,
}

impl Foreign {
    /// Starts `program` with these arguments, in which `{}` is the path of the socket.
    pub fn start(dir: &Path, program: &str, args: &[&str]) -> Self {
        let socket = dir.join("foreign.sock");
        let _ = std::fs::remove_file(&socket);
        let args = args.iter().map(|arg| arg.replace("{}", &socket.to_string_lossy()));
        let child = programs::command(program)
            .args(args)
            .current_dir(dir)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let started = Self { child, socket };
        until(&format!("{program} listens"), || UnixStream::connect(&started.socket).is_ok());
        started
    }

    pub fn url(&self, scheme: &str, export: &str) -> String {
        format!("{scheme}+unix:///{export}?socket={}", self.socket.display())
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes and verifies through our client.
fn verifies(dir: &Path, url: &str, options: &[&str]) {
    let common = [
        "bench",
        url,
        "--rw=randwrite",
        "--iodepth=16",
        "--size=4m",
        "--verify=crc32c",
        "--output-format=json",
    ];
    let mut command = weft(dir, &common);
    command.args(options);
    let ran = run(command);
    assert_eq!(ran.code(), Some(0), "{url}: {ran:?}");
}

/// Both kinds of places, with two exports of 16 MiB.
fn serve(dir: &Path) -> Server {
    let unix = format!("nbd+unix:///?socket={}", dir.join("weft.sock").display());
    let sources = ["ram:16MiB", "file:./disk.img,size=16MiB", "--name", "memory", "--name", "disk"];
    Server::start(
        dir,
        &[&sources[..], &["--listen", "nbd://127.0.0.1:0", "--listen", &unix]].concat(),
    )
}

/// nbd-client does not pass on the block size that the server asks for, and the kernel would use
/// 512 bytes.
#[test]
fn the_hint_for_linux_has_the_block_size() {
    let dir = Scratch::new("nbd-hint");
    for (source, command) in [
        ("ram:1MiB", "nbd-client 127.0.0.1 "),
        ("ram:1MiB,block=4096", "nbd-client -b 4096 127.0.0.1 "),
    ] {
        let mut serve =
            weft(dir.path(), &["serve", source, "--listen", "nbd://127.0.0.1:0", "--until-eof"]);
        serve.stdin(Stdio::null());
        let ran = run(serve);
        assert_eq!(ran.code(), Some(0), "{ran:?}");
        let hint = ran
            .out
            .lines()
            .find_map(|line| line.strip_prefix("from Linux:"))
            .unwrap_or_else(|| panic!("{ran:?}"));
        assert!(hint.trim().starts_with(command), "{hint}");
    }
}

#[test]
fn libnbd_sees_the_exports() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let dir = Scratch::new("nbdinfo");
    let server = serve(dir.path());
    assert_eq!(server.urls.len(), 4);
    assert!(
        server.urls[0].starts_with("nbd://127.0.0.1:") && server.urls[0].ends_with("/memory"),
        "{:?}",
        server.urls
    );
    assert!(server.urls[3].starts_with("nbd+unix:///disk?socket="), "{:?}", server.urls);
    for url in &server.urls {
        let told: serde_json::Value =
            serde_json::from_str(&succeeds(dir.path(), "nbdinfo", &["--json", url])).unwrap();
        let export = &told["exports"][0];
        assert_eq!(
            (&told["protocol"], &told["structured"]),
            (&"newstyle-fixed".into(), &true.into())
        );
        assert_eq!(
            (&export["export-size"], &export["can_multi_conn"]),
            (&(16 << 20).into(), &true.into())
        );
        assert_eq!(
            (&export["block_size_minimum"], &export["can_fast_zero"]),
            (&1.into(), &true.into())
        );
    }
    let default = server.urls[0].replace("memory", "");
    let list = succeeds(dir.path(), "nbdinfo", &["--list", &default]);
    assert!(list.contains("\"memory\"") && list.contains("\"disk\""), "{list}");
    assert!(succeeds(dir.path(), "nbdinfo", &["--map", &default]).contains("data"));
    assert_eq!(
        foreign(dir.path(), "nbdinfo", &[&server.urls[0].replace("memory", "absent")]).code(),
        Some(1)
    );
}

#[test]
fn nbdcopy_copies_over_several_connections() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let dir = Scratch::new("nbdcopy");
    let server = serve(dir.path());
    let from = image(dir.path(), "from.img", 16 << 20);
    for (n, url) in server.urls.iter().enumerate() {
        let back = dir.path().join(format!("back-{n}.img"));
        succeeds(
            dir.path(),
            "nbdcopy",
            &["--connections=4", "--requests=64", "--flush", "from.img", url],
        );
        // The longest requests that a client may send take several operations of the device.
        let size = if n % 2 == 0 { "--request-size=16777216" } else { "--request-size=262144" };
        succeeds(dir.path(), "nbdcopy", &["--connections=4", size, url, &back.to_string_lossy()]);
        assert!(same(&from, &back), "{url}");
    }
    // From one of our exports to the other, without a file between.
    succeeds(dir.path(), "nbdcopy", &[&server.urls[0], &server.urls[3]]);
    assert!(same(&from, &dir.path().join("disk.img")));
}

#[test]
fn qemu_img_converts_compares_and_maps() {
    if !have(&["qemu-img"]) {
        return;
    }
    let dir = Scratch::new("qemu-img");
    let server = serve(dir.path());
    let from = image(dir.path(), "from.img", 16 << 20);
    for url in &server.urls {
        succeeds(
            dir.path(),
            "qemu-img",
            &["convert", "-n", "-f", "raw", "-O", "raw", "from.img", url],
        );
        succeeds(dir.path(), "qemu-img", &["compare", "-f", "raw", "-F", "raw", "from.img", url]);
        succeeds(dir.path(), "qemu-img", &["convert", "-f", "raw", "-O", "raw", url, "back.img"]);
        assert!(same(&from, &dir.path().join("back.img")), "{url}");
        let map = succeeds(dir.path(), "qemu-img", &["map", "-f", "raw", "--output=json", url]);
        let map: serde_json::Value = serde_json::from_str(&map).unwrap();
        assert_eq!(
            (&map[0]["start"], &map[0]["length"], &map[0]["data"]),
            (&0.into(), &(16 << 20).into(), &true.into())
        );
    }
}

#[test]
fn nbdkit_and_qemu_nbd_are_sources() {
    if !have(&["nbdkit", "qemu-nbd"]) {
        return;
    }
    let dir = Scratch::new("nbd-sources");
    let disk = image(dir.path(), "disk.img", 16 << 20);
    let servers: [(&str, &[&str], &str); 6] = [
        ("nbdkit", &["-f", "-U", "{}", "memory", "16M"], ""),
        ("nbdkit", &["-f", "-U", "{}", "--no-sr", "memory", "16M"], ""),
        (
            "nbdkit",
            &["-f", "-U", "{}", "--filter=nozero", "--filter=noparallel", "memory", "16M"],
            "",
        ),
        ("nbdkit", &["-f", "-U", "{}", "--mask-handshake=0", "memory", "16M"], ""),
        ("nbdkit", &["-f", "-U", "{}", "--oldstyle", "memory", "16M"], ""),
        (
            "qemu-nbd",
            &["-t", "-k", "{}", "--shared=8", "-f", "raw", "-x", "disk", "disk.img"],
            "disk",
        ),
    ];
    for (program, args, export) in servers {
        let server = Foreign::start(dir.path(), program, args);
        for options in [["--bs=4k", "--numjobs=1"], ["--bs=64k", "--numjobs=2"]] {
            verifies(dir.path(), &server.url("nbd", export), &options);
        }
    }
    drop(disk);
}

#[test]
fn weft_is_a_gateway_to_nbdkit() {
    if !have(&["nbdkit", "nbdcopy"]) {
        return;
    }
    let dir = Scratch::new("nbd-gateway");
    let (from, disk) = (image(dir.path(), "from.img", 8 << 20), dir.path().join("disk.img"));
    std::fs::write(&disk, vec![0; 8 << 20]).unwrap();
    let behind = Foreign::start(dir.path(), "nbdkit", &["-f", "-U", "{}", "file", "disk.img"]);
    let server =
        Server::start(dir.path(), &[&behind.url("nbd", ""), "--listen", "nbd://127.0.0.1:0"]);
    succeeds(dir.path(), "nbdcopy", &["--flush", "--connections=2", "from.img", server.url()]);
    assert!(same(&from, &disk));
    succeeds(dir.path(), "nbdcopy", &[server.url(), "back.img"]);
    assert!(same(&from, &dir.path().join("back.img")));
}

/// A file whose size is no multiple of a block, there and back; QEMU writes within a block.
#[test]
fn odd_files_are_copied_both_ways() {
    if !have(&["nbdcopy", "nbdinfo", "qemu-io"]) {
        return;
    }
    let dir = Scratch::new("nbd-odd");
    let from = image(dir.path(), "from.img", (1 << 20) + 8 * 37);
    let content = std::fs::read(&from).unwrap();
    let sources = ["ram:2MiB", "ram:2MiB,block=4096", "file:./disk.img,size=2MiB"];
    let server =
        Server::start(dir.path(), &[&sources[..], &["--listen", "nbd://127.0.0.1:0"]].concat());
    for (n, url) in server.urls.iter().enumerate() {
        let told: serde_json::Value =
            serde_json::from_str(&succeeds(dir.path(), "nbdinfo", &["--json", url])).unwrap();
        assert_eq!(told["exports"][0]["block_size_minimum"], 1, "{url}");
        succeeds(dir.path(), "nbdcopy", &["from.img", url]);
        let back = dir.path().join(format!("back-{n}.img"));
        succeeds(dir.path(), "nbdcopy", &[url, back.to_str().unwrap()]);
        let back = std::fs::read(back).unwrap();
        assert!(
            back[..content.len()] == content && back[content.len()..].iter().all(|&byte| byte == 0),
            "{url}"
        );
        let steps = [
            "-c",
            "write -P 7 100 700",
            "-c",
            "read -P 7 100 700",
            "-c",
            "write -z 300 5000",
            "-c",
            "read -P 0 300 5000",
        ];
        let ran = succeeds(
            dir.path(),
            "qemu-io",
            &[&["-f", "raw"], &steps[..], &["-c", "read -P 7 100 200", url]].concat(),
        );
        assert!(!ran.contains("failed"), "{url}: {ran}");
    }
}

/// A source that does not compare and write, and that others may write to: its blocks are the
/// smallest that there are.
#[test]
fn a_source_that_others_write_to_keeps_its_block_size() {
    if !have(&["nbdkit", "nbdinfo"]) {
        return;
    }
    let dir = Scratch::new("nbd-shared");
    let behind = Foreign::start(dir.path(), "nbdkit", &["-f", "-U", "{}", "memory", "16M"]);
    let server =
        Server::start(dir.path(), &[&behind.url("nbd", ""), "--listen", "nbd://127.0.0.1:0"]);
    let told: serde_json::Value =
        serde_json::from_str(&succeeds(dir.path(), "nbdinfo", &["--json", server.url()])).unwrap();
    assert_eq!(told["exports"][0]["block_size_minimum"], 512);
    // One that does compare and write serves any range.
    let target = Server::start(dir.path(), &["ram:16MiB", "--listen", "nvme+tcp://127.0.0.1:0"]);
    let gateway = Server::start(dir.path(), &[target.url(), "--listen", "nbd://127.0.0.1:0"]);
    let told: serde_json::Value =
        serde_json::from_str(&succeeds(dir.path(), "nbdinfo", &["--json", gateway.url()])).unwrap();
    assert_eq!(told["exports"][0]["block_size_minimum"], 1);
    image(dir.path(), "odd.img", 8 * 1001);
    succeeds(dir.path(), "nbdcopy", &["odd.img", gateway.url()]);
}
