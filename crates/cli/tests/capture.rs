//! `--pcap` and `weft capture`: tshark reads the files of all protocols without finding fault, and
//! no secret is in them.
#![cfg(unix)]

use crate::support::{Scratch, Server, run, weft};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weft_testing::programs;
use weft_testing::wait::until;

const HOST: &str = "nqn.2026-01.example.host:captured";

fn done(dir: &Path, args: &[&str]) -> String {
    let ran = run(weft(dir, args));
    assert_eq!(ran.code(), Some(0), "{args:?}: {ran:?}");
    ran.out
}

/// What tshark prints of a file, with its protocol at the port of an address.
fn read(file: &Path, (address, protocol): (&str, &str), more: &[&str]) -> Vec<String> {
    let port = address.rsplit_once(':').unwrap().1.split('/').next().unwrap();
    let mut tshark = programs::command("tshark");
    tshark.arg("-r").arg(file).args(["-n", "-d", &format!("tcp.port=={port},{protocol}")]);
    let ran = run_of(tshark.args(more));
    ran.lines().map(str::to_owned).collect()
}

fn run_of(command: &mut Command) -> String {
    let ran = command.stdin(Stdio::null()).output().unwrap();
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// Looks for tshark. Each test asks once, as it counts as skipped without it.
fn has_tshark() -> bool {
    programs::have(&["tshark"])
}

/// tshark finds no fault, and something of the protocol.
fn check(file: &Path, of: (&str, &str), filter: &str) {
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let faults = "_ws.malformed || _ws.expert.severity == error || tcp.analysis.lost_segment \
                  || tcp.analysis.ack_lost_segment || tcp.checksum.status == 0 \
                  || nvme-tcp.hdgst.status == 0 || nvme-tcp.ddgst.status == 0";
    let sums = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"];
    let found = read(file, of, &[&sums[..], &["-Y", faults]].concat());
    assert!(found.is_empty(), "{}: {found:#?}", file.display());
    assert!(!read(file, of, &["-Y", filter]).is_empty(), "{}: no {filter}", file.display());
}

fn types(file: &Path, address: &str) -> Vec<String> {
    let of = (address, "nvme-tcp");
    let lines = read(file, of, &["-T", "fields", "-e", "nvme-tcp.type", "-Y", "nvme-tcp"]);
    let mut types: Vec<String> =
        lines.iter().flat_map(|line| line.split(',')).map(str::to_owned).collect();
    types.sort();
    types.dedup();
    types
}

#[test]
fn every_pdu_of_nvme_tcp_can_be_read_with_every_digest_and_tls() {
    if !has_tshark() {
        return;
    }
    let dir = Scratch::new("capture-nvme");
    dir.private("key", "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:");
    let dir = dir.path();
    for (n, more) in [&[][..], &["-g"], &["-G"], &["-g", "-G"], &["--tls", "--tls-key-file", "key"]]
        .into_iter()
        .enumerate()
    {
        let names = [format!("serve-{n}.pcapng"), format!("bench-{n}.pcapng")];
        let is_tls = more.contains(&"--tls");
        let tls = if is_tls { more } else { &[] };
        let server = Server::start(dir, &[&["ram:8MiB", "--pcap", &names[0]][..], tls].concat());
        let bench = ["bench", server.url(), "--rw=rw", "--bssplit=4k/50:64k/50", "--size=1m"];
        let capture = ["--iodepth=4", "--destroy-data", "--pcap", &names[1]];
        done(dir, &[&bench[..], &capture, more].concat());
        let address = server.address().to_owned();
        assert!(server.terminate().success());
        for name in names {
            let file = dir.join(name);
            check(&file, (&address, "nvme-tcp"), "nvme.cmd.opc == 2");
            let all = ["0", "1", "4", "5", "6", "7", "9"];
            assert_eq!(types(&file, &address), all, "{more:?}: {}", file.display());
        }
    }
}

#[test]
fn responses_of_authentication_are_blanked() {
    let dir = Scratch::new("capture-secrets");
    let dir = dir.path();
    done(dir, &["gen-dhchap-key", "--keyfile", "one"]);
    done(dir, &["gen-dhchap-key", "--keyfile", "ctrl"]);
    let secrets = ["--dhchap-secret-file", "one", "--dhchap-ctrl-secret-file", "ctrl"];
    let server =
        Server::start(dir, &[&["ram:1MiB", "--pcap", "serve.pcapng"][..], &secrets].concat());
    let look = ["id-ctrl", server.url(), "--pcap", "look.pcapng"];
    done(dir, &[&look[..], &["-g", "-G"], &secrets].concat());
    let address = server.address().to_owned();
    assert!(server.terminate().success());
    let is_read = has_tshark();
    for name in ["serve.pcapng", "look.pcapng"] {
        let bytes = std::fs::read(dir.join(name)).unwrap();
        // DH-HMAC-CHAP_Reply and DH-HMAC-CHAP_Success1.
        for id in [2, 3] {
            let found: Vec<_> = bytes
                .windows(48)
                .filter(|window| window[..4] == [1, id, 0, 0] && matches!(window[6], 32 | 48 | 64))
                .collect();
            assert!(!found.is_empty(), "{name}: message {id}");
            assert!(found.iter().all(|window| window[16..] == [0; 32]), "{name}: {found:?}");
        }
        if is_read {
            check(&dir.join(name), (&address, "nvme-tcp"), "nvme.cmd.opc == 6");
        }
    }
}

#[test]
fn iscsi_can_be_read_without_its_secrets() {
    let dir = Scratch::new("capture-iscsi");
    dir.private("secret", "alice-has-a-secret");
    let dir = dir.path();
    let chap = ["--login-user", "alice", "--login-secret-file", "secret"];
    let serve = ["ram:8MiB", "--listen", "iscsi://127.0.0.1:0", "--pcap", "serve.pcapng"];
    let server = Server::start(dir, &[&serve[..], &chap].concat());
    for (n, digests) in [&[][..], &["-g", "-G"]].into_iter().enumerate() {
        let name = format!("bench-{n}.pcapng");
        let url = server.url().replace("iscsi://", "iscsi://alice@");
        let bench = ["bench", &url, "--chap-secret-file", "secret", "--rw=rw", "--bs=64k"];
        let more = ["--size=1m", "--verify=crc32c", "--pcap", &name];
        done(dir, &[&bench[..], &more, digests].concat());
    }
    let address = server.url().trim_start_matches("iscsi://").to_owned();
    let address = address.split('/').next().unwrap();
    assert!(server.terminate().success());
    let is_read = has_tshark();
    for name in ["serve.pcapng", "bench-0.pcapng", "bench-1.pcapng"] {
        let file = dir.join(name);
        let bytes = std::fs::read(&file).unwrap();
        let key = b"CHAP_R=";
        let responses: Vec<_> =
            bytes.windows(key.len() + 16).filter(|window| window.starts_with(key)).collect();
        assert!(!responses.is_empty(), "{name}");
        for response in responses {
            assert_eq!(&response[key.len()..], b"0x00000000000000", "{name}");
        }
        if is_read {
            check(&file, (address, "iscsi"), "iscsi.opcode == 0x25");
        }
    }
}

fn qemu_knows_extended_headers() -> bool {
    let said = programs::command("qemu-io").arg("--version").output().unwrap().stdout;
    let said = String::from_utf8_lossy(&said);
    let numbers = said.split_whitespace().nth(2).unwrap_or_default();
    let mut numbers = numbers.split('.').map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(8), Some(2))
}

#[test]
fn nbd_can_be_read() {
    if !has_tshark() {
        return;
    }
    let dir = Scratch::new("capture-nbd");
    let dir = dir.path();
    let serve = ["ram:8MiB", "--listen", "nbd://127.0.0.1:0", "--pcap", "serve.pcapng"];
    let server = Server::start(dir, &serve);
    let bench = ["bench", server.url(), "--rw=rw", "--bs=16k", "--size=1m", "--verify=crc32c"];
    done(dir, &[&bench[..], &["--pcap", "bench.pcapng"]].concat());
    // tshark 4.4 does not know extended headers, which both ends speak here; nor did QEMU before 8.2.
    let io = ["-f", "raw", "-c", "write 0 4k", "-c", "read 0 4k", server.url()];
    let has_qemu = programs::have(&["qemu-io"]);
    if has_qemu {
        let ran = programs::command("qemu-io").args(io).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }
    assert!(server.terminate().success());
    let of = ("127.0.0.1:10809", "data");
    check(&dir.join("bench.pcapng"), of, "tcp.len > 0");
    let is_decoded = has_qemu && !qemu_knows_extended_headers();
    check(&dir.join("serve.pcapng"), of, if is_decoded { "nbd" } else { "tcp.len > 0" });
}

/// A host that reads and writes until it is ended.
struct Busy(Child);

impl Busy {
    fn start(dir: &Path, url: &str, host: &str) -> Self {
        let load = ["--rw=randrw", "--bs=32k", "--iodepth=8", "--runtime=1h", "--rate_iops=200"];
        let bench = [&["bench", url, "--hostnqn", host][..], &load].concat();
        Self(weft(dir, &bench).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_server_captures_one_host() {
    let dir = Scratch::new("capture-running");
    let dir = dir.path();
    let server = Server::start(dir, &["ram:8MiB", "--control", "captured"]);
    let other = "nqn.2026-01.example.host:other";
    let _hosts = [HOST, other].map(|host| Busy::start(dir, server.url(), host));
    let listed = || done(dir, &["control", "host.list", "--control", "captured"]);
    until("both hosts are connected", || {
        let hosts = listed();
        hosts.contains(HOST) && hosts.contains(other)
    });
    // It ends when it is told to, with what the host has done until then.
    let of_one = ["capture", HOST, "--for", "1h", "--pcap", "one.pcapng", "--control", "captured"];
    let of_one = weft(dir, &of_one);
    let of_one = std::thread::spawn(move || run(of_one));
    until("packets are captured", || {
        dir.join("one.pcapng").metadata().is_ok_and(|it| it.len() > 64 << 10)
    });
    done(dir, &["control", "capture.end", "--control", "captured"]);
    let ran = of_one.join().unwrap();
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    assert!(ran.out.contains("packets") && !ran.out.contains(": 0 packets"), "{ran:?}");
    // So it does when its time is over.
    let nobody = ["capture", "192.0.2.1", "--for", "10ms", "--control", "captured"];
    assert!(done(dir, &nobody).contains(": 0 packets"));
    let into = ["capture", HOST, "--pcap", "none/file", "--control", "captured"];
    let ran = run(weft(dir, &into));
    assert!(ran.code() != Some(0) && ran.message().contains("none/file"), "{ran:?}");
    // A full file ends the capture.
    let small =
        ["capture", HOST, "--for", "5min", "--pcap", "small.pcapng", "--pcap-bytes", "100k"];
    done(dir, &[&small[..], &["--control", "captured"]].concat());
    assert!(std::fs::metadata(dir.join("small.pcapng")).unwrap().len() <= 100 << 10);
    // A host that connects later is recognised by its Connect; nothing of others is shown.
    let late = "nqn.2026-01.example.host:late";
    let capture =
        ["capture", late, "--for", "1h", "--pcap", "late.pcapng", "--control", "captured"];
    let mut waiting = weft(dir, &capture).stdout(Stdio::null()).spawn().unwrap();
    until("the capture goes on", || dir.join("late.pcapng").exists());
    done(dir, &["id-ctrl", server.url(), "--hostnqn", late]);
    done(dir, &["control", "capture.end", "--control", "captured"]);
    assert!(waiting.wait().unwrap().success());
    if has_tshark() {
        let of = (server.address(), "nvme-tcp");
        check(&dir.join("late.pcapng"), of, "nvme.cmd.opc == 6");
        let field = "nvme.fabrics.cmd.connect.data.hostnqn";
        let hosts = read(&dir.join("late.pcapng"), of, &["-T", "fields", "-e", field, "-Y", field]);
        assert!(!hosts.is_empty() && hosts.iter().all(|host| host.trim() == late), "{hosts:?}");
        for name in ["one.pcapng", "small.pcapng"] {
            check(&dir.join(name), of, "nvme.cmd.opc == 1 || nvme.cmd.opc == 2");
        }
    }
    assert!(server.terminate().success());
}
