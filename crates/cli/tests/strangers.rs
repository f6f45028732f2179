//! Log messages of a server about clients that it does not serve, and their rate.
#![cfg(unix)]

use crate::support::{Scratch, Server, weft};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use weft_testing::programs;
use weft_testing::wait::{PATIENCE, until};

/// The options GO and STARTTLS.
const GO: u32 = 7;
const STARTTLS: u32 = 5;

/// A server whose log is a file.
fn serve(dir: &Scratch, args: &[&str]) -> Server {
    let mut command = weft(dir.path(), &["serve", "ram:8MiB"]);
    command.args(args).stderr(File::create(dir.path().join("log")).unwrap());
    Server::spawn(command)
}

fn log(dir: &Scratch) -> String {
    std::fs::read_to_string(dir.path().join("log")).unwrap()
}

/// A client of NBD that was greeted.
fn client(url: &str) -> TcpStream {
    let address = url.split("://").nth(1).unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(&[0, 0, 0, 3]).unwrap();
    stream
}

/// Sends an option, and reads its reply's code.
fn option(stream: &mut TcpStream, option: u32, data: &[u8]) -> u32 {
    let head = [&b"IHAVEOPT"[..], &option.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data]
        .concat();
    stream.write_all(&head).unwrap();
    let mut reply = [0; 20];
    stream.read_exact(&mut reply).unwrap();
    u32::from_be_bytes([reply[12], reply[13], reply[14], reply[15]])
}

/// The data of GO.
fn go(name: &str) -> Vec<u8> {
    [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), &[0, 0]].concat()
}

#[test]
fn nbd_clients_that_are_refused_are_in_the_log() {
    let dir = Scratch::new("strangers");
    if !programs::have(&["openssl"]) {
        return;
    }
    let made = programs::command("openssl")
        .args(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=here"
                .split(' '),
        )
        .args([
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])
        .current_dir(dir.path())
        .output();
    assert!(made.unwrap().status.success());
    let listen = ["--listen", "nbd://127.0.0.1:0", "--listen", "nbds://127.0.0.1:0"];
    let server = serve(
        &dir,
        &[&listen[..], &["--tls-cert-file", "cert.pem", "--tls-cert-key-file", "key.pem"]].concat(),
    );
    let (plain, tls) = (&server.urls[0], &server.urls[1]);
    let says = |stream: &TcpStream, what: &str| {
        let from = stream.local_addr().unwrap().to_string();
        until(what, || log(&dir).lines().any(|line| line.contains(&from) && line.contains(what)));
    };
    let mut unknown = client(plain);
    assert_eq!(option(&mut unknown, GO, &go("an\nexport")), 0x8000_0006);
    says(&unknown, "there is no export an\\u{a}export");
    let mut bare = client(tls);
    assert_eq!(option(&mut bare, GO, &go("")), 0x8000_0005);
    bare.shutdown(std::net::Shutdown::Both).unwrap();
    says(&bare, "did not start TLS");
    let mut garbage = client(tls);
    assert_eq!(option(&mut garbage, STARTTLS, &[]), 1);
    garbage.write_all(&[b'?'; 64]).unwrap();
    says(&garbage, "TLS: ");
    let mut flags = client(plain);
    flags.write_all(&[0xff; 16]).unwrap();
    says(&flags, "connection closed");
    // However many there are, the log stays short.
    for _ in 0..200 {
        assert_eq!(option(&mut client(plain), GO, &go("x")), 0x8000_0006);
    }
    let lines = log(&dir).lines().count();
    assert!(lines < 100, "{lines} lines");
}

/// Shells and service managers give programs 1,024 descriptors, which one client can use up.
#[test]
#[cfg(target_os = "linux")]
fn the_limit_of_open_files_is_the_highest_there_is() {
    let dir = Scratch::new("descriptors");
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_weft");
    command.args([
        "-c",
        "ulimit -Sn 128; exec \"$@\"",
        "sh",
        program,
        "serve",
        "ram:8MiB",
        "--listen",
        "nbd://127.0.0.1:0",
    ]);
    command.current_dir(dir.path()).env("WEFT_STATE_DIR", dir.path().join("state"));
    let server = Server::spawn(command);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[0], words[1], "{line}");
}
