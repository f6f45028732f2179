//! Command lines as users of nvme-cli and of other programs expect them.
#![cfg(unix)]

use crate::support::{Ran, Scratch, Server, run, weft};
use weft_testing::programs;
use weft_testing::wait::until;

const NQN: &str = "nqn.2026-01.example.weft:habits";

fn done(dir: &Scratch, args: &[&str]) -> String {
    let ran = run(weft(dir.path(), args));
    assert_eq!(ran.code(), Some(0), "{args:?}: {ran:?}");
    ran.out
}

/// The output as bytes.
fn bytes(dir: &Scratch, args: &[&str]) -> Vec<u8> {
    let output = weft(dir.path(), args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    output.stdout
}

#[test]
fn structures_are_shown_as_nvme_cli_does() {
    let dir = Scratch::new("structures");
    let server = Server::start(dir.path(), &["ram:16MiB", "null:1GiB", "--nqn", NQN]);
    let (host, port) = server.address().rsplit_once(':').unwrap();
    let id = |command: &'static str, more: &[&'static str]| {
        let mut args = vec![command, "-t", "tcp", "-a", host, "-s", port, "--nqn", NQN];
        args.extend(more);
        args
    };
    // -n is a namespace where a namespace is asked for.
    let sizes = ["1", "2"].map(|nsid| {
        let json: serde_json::Value =
            serde_json::from_str(&done(&dir, &id("id-ns", &["-n", nsid, "-o", "json"]))).unwrap();
        json["nsze"].as_u64().unwrap()
    });
    assert_eq!(sizes, [(16 << 20) / 512, (1 << 30) / 512]);
    assert_eq!(done(&dir, &id("list-ns", &["-n", "2"])), "[   0]:0x2\n");
    let log = done(&dir, &["discover", "-t", "tcp", "-a", host, "-s", port]);
    assert!(log.contains("treq:    not specified, sq flow control disable supported\n"), "{log}");
    // The structure itself: NSZE is the first field of Identify Namespace, SN stands at byte 4 of
    // Identify Controller.
    for flag in [&["-b"][..], &["--raw-binary"], &["-o", "binary"]] {
        let raw = bytes(&dir, &id("id-ns", &[&["-n", "2"], flag].concat()));
        assert_eq!((raw.len(), &raw[..8]), (4096, &sizes[1].to_le_bytes()[..]), "{flag:?}");
        assert_eq!(bytes(&dir, &id("id-ctrl", flag)).len(), 4096);
        assert_eq!(bytes(&dir, &id("list-ns", flag))[..12], [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    }
    let plain = done(&dir, &id("id-ctrl", &[]));
    let explained = done(&dir, &id("id-ctrl", &["-H"]));
    assert!(
        !plain.contains("[0:0]") && explained.contains("  [0:0] : 0x1\tCompare Supported\n"),
        "{explained}"
    );
    assert!(done(&dir, &id("id-ns", &["-H"])).contains("Current LBA Format Selected"));
    let specific = bytes(&dir, &id("id-ctrl", &["-b"]))[3072..3074].to_vec();
    let shown = format!("vs[]:\n0000: {:02x} {:02x}", specific[0], specific[1]);
    for flag in ["-v", "--vendor-specific"] {
        assert!(done(&dir, &id("id-ctrl", &[flag])).contains(&shown), "{flag}");
    }
    // -n is the subsystem elsewhere; a discovery controller has a name, too.
    let discovery =
        ["discover", "-a", host, "-s", port, "-n", "nqn.2014-08.org.nvmexpress.discovery"];
    assert!(done(&dir, &discovery).contains(NQN));
}

#[test]
fn connections_are_listed_and_ended_by_subsystem() {
    let dir = Scratch::new("subsystems");
    let server = Server::start(dir.path(), &["ram:16MiB", "ram:16MiB", "--nqn", NQN]);
    let (host, port) = server.address().rsplit_once(':').unwrap();
    // Without --as: what this system can attach, or a Unix socket where nothing is attached.
    done(&dir, &["connect", "-a", host, "-s", port, "-n", NQN, "--serve-only", "--name", "first"]);
    done(&dir, &["connect", &format!("{}/2", server.url()), "--serve-only", "--name", "second"]);
    done(&dir, &["connect", "ram:1MiB", "--serve-only", "--name", "other"]);
    let address = format!("traddr={host},trsvcid={port}");
    let listed = format!(
        "nvme-subsys0 - NQN={NQN}\n\\\n +- first tcp {address} live\n +- second tcp {address} live\n"
    );
    assert_eq!(done(&dir, &["list-subsys"]), listed);
    // The columns of `nvme list`, in its form where nobody looks at a terminal.
    let list = done(&dir, &["list"]);
    let row =
        list.lines().find(|line| line.contains(" second ")).unwrap_or_else(|| panic!("{list}"));
    for cell in [" 2 ", " 16.78  MB /  16.78  MB ", "512   B +  0 B "] {
        assert!(row.contains(cell), "{row}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&done(&dir, &["list", "-o", "json"])).unwrap();
    let of = |name: &str| {
        let devices = json["Devices"].as_array().unwrap();
        devices.iter().find(|device| device["Name"] == name).unwrap().clone()
    };
    let (second, other) = (of("second"), of("other"));
    assert_eq!((&second["NameSpace"], &second["MaximumLBA"]), (&2.into(), &32768.into()));
    assert_eq!(
        (&second["UsedBytes"], &second["PhysicalSize"]),
        (&16777216.into(), &16777216.into())
    );
    let id: serde_json::Value =
        serde_json::from_str(&done(&dir, &["id-ctrl", server.url(), "-o", "json"])).unwrap();
    assert_eq!(second["Firmware"].as_str().map(str::trim), id["fr"].as_str().map(str::trim));
    assert_eq!((&other["Firmware"], &other["UsedBytes"]), (&"".into(), &1048576.into()));
    let json: serde_json::Value =
        serde_json::from_str(&done(&dir, &["list-subsys", "-o", "json"])).unwrap();
    assert_eq!(json[0]["Subsystems"][0]["Paths"][1]["Address"], address);
    done(&dir, &["disconnect", "-n", NQN]);
    assert_eq!(done(&dir, &["list-subsys"]), "");
    assert!(done(&dir, &["list"]).contains("other"));
    assert_eq!(run(weft(dir.path(), &["disconnect", "-n", NQN])).code(), Some(3));
    done(&dir, &["disconnect", "--all"]);
}

#[test]
fn commands_are_shown_without_being_sent_and_what_cannot_be_is_refused() {
    let dir = Scratch::new("dry");
    let server = Server::start(dir.path(), &["ram:1MiB", "--nqn", NQN]);
    let url = format!("{}/1", server.url());
    std::fs::write(dir.path().join("data"), vec![7; 512]).unwrap();
    let write = ["write", &url, "-z", "512", "-s", "3", "-d", "data", "-w", "-p", "8"];
    let shown = done(&dir, &write);
    assert!(shown.starts_with("opcode       : 01\nnsid         : 01\n"), "{shown}");
    assert!(
        shown.contains("control      : 2000\n") && shown.contains("slba         : 3\n"),
        "{shown}"
    );
    let block = || bytes(&dir, &["read", &url, "-z", "512", "-s", "3"]);
    assert_eq!(block(), [0; 512]);
    // A namespace without protection information ignores what is asked of it.
    done(
        &dir,
        &["write", &url, "-z", "512", "-s", "3", "-d", "data", "-p", "15", "-r", "3", "-a", "1"],
    );
    assert_eq!(block(), [7; 512]);
    let refused = |words: &[&str], status: i32, reason: &str| {
        let ran = run(weft(dir.path(), &[&[words[0], url.as_str()], &words[1..]].concat()));
        assert_eq!(ran.code(), Some(status), "{words:?}: {ran:?}");
        assert!(ran.message().contains(reason), "{words:?}: {ran:?}");
    };
    refused(&["read", "-z", "512", "-y", "8"], 10, "namespace 1 has no metadata");
    refused(&["read", "-z", "512", "-p", "16"], 2, "give at most 15");
    refused(&["read", "-z", "512", "-g", "1"], 2, "--storage-tag 0x1 does not fit");
    refused(&["io-passthru", "-o", "2", "-l", "512", "-m", "8"], 2, "--metadata-len");
    refused(&["set-feature", "-f", "0x84", "--value=3"], 5, "keeps all hosts from writing");
    // More and Do Not Retry.
    refused(&["get-log", "-i", "0x7e", "-l", "4"], 10, "Invalid Log Page(0x6109)");
}

#[test]
fn zeroes_are_written_and_deallocate_only_if_asked_to() {
    let dir = Scratch::new("zeroes");
    let image = dir.path().join("image");
    std::fs::write(&image, vec![7; 1 << 20]).unwrap();
    let file = std::fs::File::options().write(true).open(&image).unwrap();
    let frees = weft_io::disk::can_discard(&file, 1 << 20);
    let server = Server::start(dir.path(), &["./image", "--nqn", NQN]);
    let url = format!("{}/1", server.url());
    let allocated = || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&image).unwrap());
    let before = allocated();
    done(&dir, &["write-zeroes", &url, "-s", "0", "-c", "511"]);
    assert_eq!(allocated(), before);
    done(&dir, &["write-zeroes", &url, "-s", "512", "-c", "511", "--deac"]);
    assert!(allocated() < before || !frees, "{before}");
    assert_eq!(&std::fs::read(&image).unwrap()[..1024 * 512], [0; 1024 * 512]);
}

#[test]
fn smart_counters_go_on_after_a_restart_and_a_killed_server_is_counted() {
    let dir = Scratch::new("smart");
    let start = || Server::start(dir.path(), &["ram:1MiB", "--nqn", NQN]);
    let counted = |server: &Server| {
        let json: serde_json::Value =
            serde_json::from_str(&done(&dir, &["smart-log", server.url(), "-o", "json"])).unwrap();
        ["host_write_commands", "data_units_written", "power_cycles", "unsafe_shutdowns"]
            .map(|key| json[key].as_str().unwrap_or_default().to_owned())
    };
    let first = start();
    std::fs::write(dir.path().join("data"), vec![7; 512]).unwrap();
    done(&dir, &["write", &format!("{}/1", first.url()), "-z", "512", "-d", "data"]);
    // The connection of the command may end a moment after it.
    until("the write is counted", || counted(&first) == ["1", "1", "1", "0"]);
    assert!(first.terminate().success());
    let second = start();
    assert_eq!(counted(&second), ["1", "1", "2", "0"]);
    drop(second);
    let third = start();
    assert_eq!(counted(&third), ["1", "1", "3", "1"]);
    assert!(third.terminate().success());
    let kept: Vec<_> =
        std::fs::read_dir(dir.path().join("state/health")).unwrap().flatten().collect();
    let json =
        kept.iter().map(|of| of.path()).find(|of| of.extension().unwrap() == "json").unwrap();
    std::fs::write(&json, "{\"version\": 1").unwrap();
    let mut command = weft(dir.path(), &["serve", "ram:1MiB", "--nqn", NQN, "--until-eof"]);
    command.args(["--listen", "nvme+tcp://127.0.0.1:0"]);
    let ran = run(command);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let said = ["the counters of", "cannot be read", "begin at 0, and the file is now", ".damaged"];
    assert!(said.iter().all(|part| ran.err.contains(part)), "{ran:?}");
}

#[test]
fn an_address_alone_is_nvme_tcp_and_no_host_is_sent_to_all_addresses() {
    let dir = Scratch::new("addresses");
    let ran = run(weft(
        dir.path(),
        &["serve", "ram:1MiB", "--nqn", NQN, "--listen", "0.0.0.0:0", "--until-eof"],
    ));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    assert!(ran.out.contains("listening on nvme+tcp://"), "{ran:?}");
    assert!(ran.out.contains("0.0.0.0 means every address of this machine"), "{ran:?}");
    let of_commands: Vec<&str> =
        ran.out.lines().filter(|line| !line.starts_with("0.0.0.0 means")).collect();
    assert!(!of_commands.concat().contains("0.0.0.0"), "{ran:?}");
    for listen in ["nbd://0.0.0.0:0", "iscsi://0.0.0.0:0"] {
        let ran = run(weft(dir.path(), &["serve", "ram:1MiB", "--listen", listen, "--until-eof"]));
        assert_eq!(ran.out.matches("0.0.0.0").count(), 1, "{ran:?}");
    }
}

#[test]
fn what_is_read_only_is_not_written() {
    let dir = Scratch::new("read-only");
    std::fs::write(dir.path().join("disk.img"), vec![7; 1 << 20]).unwrap();
    let file = Server::start(dir.path(), &["file:./disk.img", "--nqn", NQN, "--read-only"]);
    let ram = Server::start(dir.path(), &["readonly:ram:1MiB", "--listen", "nbd://127.0.0.1:0"]);
    for url in [file.url(), ram.url()] {
        let bench = |rw: &str| run(weft(dir.path(), &["bench", url, rw, "--size=64k", "--bs=4k"]));
        assert_eq!(bench("--rw=read").code(), Some(0), "{url}");
        assert!(bench("--rw=write").code() != Some(0), "{url}");
    }
    assert_eq!(std::fs::read(dir.path().join("disk.img")).unwrap(), vec![7; 1 << 20]);
}

#[test]
fn the_log_is_set_by_flags_and_by_the_environment() {
    let dir = Scratch::new("log");
    let log = |level: &str, args: &[&str]| -> Ran {
        let mut command =
            weft(dir.path(), &["serve", "ram:1MiB", "--listen", "127.0.0.1:0", "--until-eof"]);
        command.args(args).env("WEFT_LOG", level);
        run(command)
    };
    assert!(!log("", &[]).err.contains("stopping"));
    assert!(log("", &["-v"]).err.contains("stopping"));
    assert!(log("info", &[]).err.contains("stopping"));
    assert!(
        !log("info", &["--log-level", "error"]).err.contains("stopping"),
        "an option outweighs the variable"
    );
    let wrong = log("loud", &[]);
    assert!(wrong.code() == Some(2) && wrong.message().contains("WEFT_LOG"), "{wrong:?}");
}

#[test]
fn shells_and_man_know_every_command() {
    let dir = Scratch::new("man");
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = done(&dir, &["completions", shell]);
        assert!(
            ["list-subsys", "disconnect", "read-only"].iter().all(|word| script.contains(word)),
            "{shell}"
        );
    }
    std::fs::write(dir.path().join("weft.bash"), done(&dir, &["completions", "bash"])).unwrap();
    if programs::have(&["bash"]) {
        let mut bash = programs::command("bash");
        let bash = bash.args(["-n", "weft.bash"]).current_dir(dir.path()).output().unwrap();
        assert!(bash.status.success(), "{bash:?}");
    }
    // As in `weft completions bash | head -1`: nobody reads any more.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = weft(dir.path(), &["completions", "bash"]);
    let output = command.stdout(writer).stderr(std::process::Stdio::piped()).output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
    done(&dir, &["man", "pages/man1"]);
    let page =
        |name: &str| std::fs::read_to_string(dir.path().join("pages/man1").join(name)).unwrap();
    assert!(
        page("weft.1").contains("weft\\-serve(1)") && page("weft-serve.1").contains("read\\-only")
    );
}
