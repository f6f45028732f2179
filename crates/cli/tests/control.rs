//! The control socket of a running server.
#![cfg(unix)]

use crate::support::{Scratch, Server, run, weft};
use serde_json::Value;

const NQN: &str = "nqn.2026-01.example.weft:control";

#[test]
fn the_only_server_needs_no_name() {
    let dir = Scratch::new("control");
    let none = run(weft(dir.path(), &["control", "server.info"]));
    assert_eq!(none.code(), Some(3), "{none:?}");
    assert!(none.message().contains("no weft serve of this user"), "{none:?}");

    let first = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]);
    let shown = run(weft(dir.path(), &["control", "inventory.show"]));
    let inventory: Value =
        serde_json::from_str(&shown.out).unwrap_or_else(|e| panic!("{e}: {shown:?}"));
    assert_eq!(inventory["urls"][0], first.url());
    assert_eq!(inventory["subsystems"][0]["nqn"], NQN);
    assert_eq!(inventory["subsystems"][0]["namespaces"][0]["bytes"], 16 << 20);

    let second = Server::start(dir.path(), &["ram:16MiB", "--control", "other"]);
    let several = run(weft(dir.path(), &["control", "server.info"]));
    assert_eq!(several.code(), Some(2), "{several:?}");
    let by_name = run(weft(dir.path(), &["control", "server.info", "--control", "other"]));
    assert_eq!(by_name.code(), Some(0), "{by_name:?}");
    let taken = run(weft(
        dir.path(),
        &["serve", "ram:16MiB", "--listen", "nvme+tcp://127.0.0.1:0", "--control", "other"],
    ));
    assert_eq!(taken.code(), Some(5), "{taken:?}");
    drop(second);

    let unknown = run(weft(dir.path(), &["control", "server.inform"]));
    assert_eq!(unknown.code(), Some(10), "{unknown:?}");
    assert!(unknown.message().contains("server.info lists"), "{unknown:?}");
}

/// What is missing is named, and a server without a control socket says that it has none.
#[test]
fn what_is_missing_is_said() {
    let dir = Scratch::new("missing");
    let listen = ["--listen", "nvme+tcp://127.0.0.1:0", "--listen", "iscsi://127.0.0.1:0"];
    let server = Server::start(dir.path(), &[&["ram:16MiB", "ram:16MiB"], &listen[..]].concat());
    let ran = run(weft(dir.path(), &["control", "namespace.add", "{}"]));
    assert!(ran.code() == Some(2) && ran.message().contains("source is missing"), "{ran:?}");
    let ran = run(weft(dir.path(), &["ana", "set", "1", "optimized", "--listener", "192.0.2.1:9"]));
    assert!(
        ran.code() == Some(2) && ran.message().matches("127.0.0.1:").count() == 2,
        "each address once: {ran:?}"
    );
    drop(server);
    std::fs::write(dir.path().join("file"), "").unwrap();
    let mut command =
        weft(dir.path(), &["serve", "ram:16MiB", "--listen", "nvme+tcp://127.0.0.1:0"]);
    command
        .env("WEFT_RUNTIME_DIR", dir.path().join("file/run"))
        .stderr(std::process::Stdio::piped());
    let mut server = Server::spawn(command);
    weft_testing::process::signal(server.pid(), "TERM");
    let (status, said) = server.wait();
    assert!(status.code() == Some(0) && said.contains("there is no control socket"), "{said}");
}

/// The lines of the last block of JSON in the document: requests, each followed by its answer.
#[test]
fn the_protocol_is_as_it_is_documented() {
    use std::io::{BufRead, BufReader, Write};
    let document = include_str!("../../../docs/control.md");
    let lines: Vec<Value> = document
        .rsplit("```json")
        .next()
        .unwrap()
        .lines()
        .map_while(|line| match line {
            "" => Some(None),
            "```" => None,
            line => Some(Some(serde_json::from_str(line).unwrap())),
        })
        .flatten()
        .collect();
    let dir = Scratch::new("protocol");
    let server = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN, "--control", "p"]);
    let socket = std::os::unix::net::UnixStream::connect(dir.path().join("run/p.control")).unwrap();
    let mut socket = BufReader::new(socket);
    // A server that has just started may have looked at its devices.
    let first = &lines[1]["result"]["generation"];
    let mut offset = None;
    for pair in lines.chunks(2) {
        let [request, wanted] = pair else { panic!("{pair:?}") };
        writeln!(socket.get_mut(), "{request}").unwrap();
        let mut line = String::new();
        socket.read_line(&mut line).unwrap();
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        if let Some(generation) = answer["result"].get("generation").and_then(Value::as_u64) {
            let offset = *offset.get_or_insert_with(|| generation - first.as_u64().unwrap());
            answer["result"]["generation"] = (generation - offset).into();
        }
        assert_eq!(answer, *wanted, "{request}");
    }
    assert!(lines.len() >= 10, "the document has examples");
    drop(server);
}
