//! `weft serve --slow`: commands that take long are logged, with their stages.

use crate::support::{Scratch, Server, run, weft};
use std::fs::File;
use std::path::Path;
use weft_testing::wait::until;

const NQN: &str = "nqn.2026-01.example.weft:slow";
const HOST: &str = "nqn.2026-01.example.host:slow";

/// A server whose log goes into a file.
fn server(dir: &Path, args: &[&str]) -> Server {
    let mut command = weft(dir, &["serve", "--nqn", NQN]);
    command.args(args).stderr(File::create(dir.join("log")).unwrap());
    Server::spawn(command)
}

/// What is logged of slow commands.
fn lines(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("log")).unwrap();
    let slow = text.lines().filter(|line| line.contains("slow command: "));
    slow.map(str::to_owned).collect()
}

/// The time of a stage, in milliseconds.
fn stage(line: &str, name: &str) -> f64 {
    let (_, rest) =
        line.split_once(&format!("{name} +")).unwrap_or_else(|| panic!("{name}: {line}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn slow_commands_are_logged_whatever_protocol_they_come_by() {
    // The command's name, as the protocol has it, and what stands in front of its number.
    let names = [
        ("nvme+tcp", "Read", "Write", ", queue 1, command ", HOST),
        ("iscsi", "READ", "WRITE", ", task 0x", "iqn."),
        ("nbd", "Read", "Write", ", cookie 0x", "127.0.0.1"),
    ];
    for (protocol, read, write, id, host) in names {
        let dir = Scratch::new("slow");
        let listen = format!("{protocol}://127.0.0.1:0");
        let args = ["delay:read=50ms,write=50ms,ram:16MiB", "--slow", "40ms", "--listen", &listen];
        let server = server(dir.path(), &args);
        for (rw, word) in [("--rw=read", read), ("--rw=write", write)] {
            let bench = ["bench", server.url(), rw, "--bs=8k", "--offset=64k", "--number_ios=1"];
            let more: &[&str] = if protocol == "nvme+tcp" { &["--hostnqn", HOST] } else { &[] };
            let ran = run(weft(dir.path(), &[&bench[..], &["--time_based=0"], more].concat()));
            assert_eq!(ran.code(), Some(0), "{ran:?}");
            let of = |line: &String| {
                line.contains(&format!(" by {protocol}"))
                    && line.contains(&format!("slow command: {word}"))
                    && line.contains("LBA 128, blocks 16;")
            };
            until("it is logged", || lines(dir.path()).iter().any(of));
            let line = lines(dir.path()).into_iter().find(of).unwrap();
            for part in [id, host, "namespace 1 of nqn.2026-01.example.weft:slow", "127.0.0.1:"] {
                assert!(line.contains(part), "{part}: {line}");
            }
            for name in ["had memory", "submitted", "answered", "sent"] {
                assert!(stage(&line, name) >= 0.0);
            }
            assert!(stage(&line, "completed") >= 50.0, "{line}");
        }
    }
}

/// Whoever is slow does not fill the log.
#[test]
fn there_are_fewer_lines_than_slow_commands() {
    let dir = Scratch::new("slow-many");
    let config = "listen = [\"nvme+tcp://127.0.0.1:0\"]\n[server]\nslow = \"1ms\"\n\
        [[subsystem]]\nnqn = \"nqn.2026-01.example.weft:slow\"\n\
        [[subsystem.namespace]]\nnsid = 1\nsource = \"delay:read=5ms,ram:16MiB\"\n";
    std::fs::write(dir.path().join("weft.toml"), config).unwrap();
    let mut command = weft(dir.path(), &["serve", "--config", "weft.toml"]);
    command.stderr(File::create(dir.path().join("log")).unwrap());
    let server = Server::spawn(command);
    let bench = ["bench", server.url(), "--rw=randread", "--bs=4k", "--iodepth=16"];
    let bench = [&bench[..], &["--number_ios=300", "--time_based=0"]].concat();
    let ran = run(weft(dir.path(), &bench));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let count = lines(dir.path()).len();
    assert!((20..200).contains(&count), "{count}");
    for wrong in ["0s", "soon"] {
        let ran = run(weft(dir.path(), &["serve", "ram:1MiB", "--slow", wrong]));
        assert!(ran.code() == Some(2) && ran.err.contains("--slow"), "{ran:?}");
    }
}
