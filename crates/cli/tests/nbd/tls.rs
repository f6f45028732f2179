//! NBD over TLS, with certificates that both sides check.

use super::{Foreign, foreign, image, same, succeeds, verifies};
use crate::support::{Scratch, Server, run, weft};
use std::path::{Path, PathBuf};
use weft_testing::programs::have;

/// An authority, and certificates of a server and a client, under the names that libnbd and nbdkit
/// look for.
fn certificates(dir: &Path) -> PathBuf {
    let pki = dir.join("pki");
    std::fs::create_dir_all(&pki).unwrap();
    let extensions = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n";
    std::fs::write(pki.join("extensions"), extensions).unwrap();
    let openssl =
        |args: &str| drop(succeeds(&pki, "openssl", &args.split(' ').collect::<Vec<_>>()));
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca-key.pem -out ca-cert.pem -days 2 -subj /CN=ca"));
    for role in ["server", "client"] {
        openssl(&format!("req {key} -keyout {role}-key.pem -out {role}.csr -subj /CN={role}"));
        let sign = "x509 -req -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile extensions";
        openssl(&format!("{sign} -in {role}.csr -out {role}-cert.pem"));
    }
    pki
}

#[test]
fn tls_works_with_both_sides_of_others() {
    if !have(&["nbdkit", "nbdcopy", "openssl"]) {
        return;
    }
    let dir = Scratch::new("nbd-tls");
    let pki = certificates(dir.path());
    let parameters = format!("tls-certificates={}", pki.display());
    let listen = format!("nbds://127.0.0.1:0?{parameters}");
    let server = Server::start(dir.path(), &["ram:16MiB", "--listen", &listen]);
    let url = format!("{}?{parameters}", server.url());
    let from = image(dir.path(), "from.img", 16 << 20);
    succeeds(dir.path(), "nbdcopy", &["--connections=4", "from.img", &url]);
    succeeds(dir.path(), "nbdcopy", &["--connections=2", &url, "back.img"]);
    assert!(same(&from, &dir.path().join("back.img")));
    verifies(dir.path(), &url, &["--bs=64k"]);
    let refused =
        run(weft(dir.path(), &["bench", &server.url().replace("nbds:", "nbd:"), "--runtime=1s"]));
    assert_eq!(refused.code(), Some(4), "{refused:?}");
    assert!(refused.message().contains("use nbds://"), "{refused:?}");
    let tls = format!("--tls-certificates={}", pki.display());
    let args = ["-f", "-U", "{}", "--tls=require", &tls, "--tls-verify-peer", "memory", "16M"];
    let behind = Foreign::start(dir.path(), "nbdkit", &args);
    verifies(
        dir.path(),
        &format!("{}&{parameters}", behind.url("nbds", "")),
        &["--bs=4k", "--numjobs=2"],
    );
}

#[test]
fn certificates_are_checked_on_both_sides() {
    if !have(&["openssl"]) {
        return;
    }
    let dir = Scratch::new("nbd-certificates");
    let pki = certificates(dir.path());
    let file = |name: &str| pki.join(name).to_string_lossy().into_owned();
    let (cert, key, ca) = (file("server-cert.pem"), file("server-key.pem"), file("ca-cert.pem"));
    let options = ["--tls-cert-file", &cert, "--tls-cert-key-file", &key, "--tls-ca-file", &ca];
    let server = Server::start(
        dir.path(),
        &[&["ram:8MiB", "--listen", "nbds://127.0.0.1:0"], &options[..]].concat(),
    );
    verifies(
        dir.path(),
        server.url(),
        &[
            "--tls-ca-file",
            &ca,
            "--tls-cert-file",
            &file("client-cert.pem"),
            "--tls-cert-key-file",
            &file("client-key.pem"),
        ],
    );
    let bench = |options: &[&str]| {
        run(weft(dir.path(), &[&["bench", server.url(), "--runtime=1s"], options].concat()))
    };
    let nobody = bench(&["--tls-ca-file", &ca]);
    assert!(matches!(nobody.code(), Some(4 | 7)), "a client without a certificate: {nobody:?}");
    let distrustful = bench(&["--tls-ca-file", &cert]);
    assert_eq!(
        distrustful.code(),
        Some(4),
        "a server that another authority vouches for: {distrustful:?}"
    );
    assert!(distrustful.message().contains("check the certificates"), "{distrustful:?}");
    let careless = bench(&[]);
    assert_eq!(careless.code(), Some(2), "{careless:?}");
    let missing = bench(&["--tls-ca-file", "./absent.pem"]);
    assert_eq!(missing.code(), Some(3), "{missing:?}");
}

/// As nbdkit's --tls-verify-peer and qemu-nbd's verify-peer: ca-cert.pem in a server's directory
/// names those whose clients it serves.
#[test]
fn an_authority_in_the_directory_is_that_of_clients() {
    if !have(&["openssl", "nbdinfo"]) {
        return;
    }
    let dir = Scratch::new("nbd-verify-peer");
    let pki = certificates(dir.path());
    let strangers = dir.path().join("strangers");
    std::fs::create_dir_all(&strangers).unwrap();
    std::fs::copy(pki.join("ca-cert.pem"), strangers.join("ca-cert.pem")).unwrap();
    let listen = |dir: &Path| format!("nbds://127.0.0.1:0?tls-certificates={}", dir.display());
    let sees = |server: &Server, with: &Path| {
        let url = format!("{}?tls-certificates={}", server.url(), with.display());
        foreign(dir.path(), "nbdinfo", &["--size", &url]).code() == Some(0)
    };
    let careful = Server::start(dir.path(), &["ram:8MiB", "--listen", &listen(&pki)]);
    assert!(sees(&careful, &pki) && !sees(&careful, &strangers));
    // Without one, clients need no certificate.
    let own = dir.path().join("own");
    std::fs::create_dir_all(&own).unwrap();
    for name in ["server-cert.pem", "server-key.pem"] {
        std::fs::copy(pki.join(name), own.join(name)).unwrap();
    }
    let open = Server::start(dir.path(), &["ram:8MiB", "--listen", &listen(&own)]);
    assert!(sees(&open, &pki) && sees(&open, &strangers));
}

/// What plain `openssl req -x509` makes is the certificate of an authority.
#[test]
fn a_certificate_that_is_no_servers_is_explained() {
    if !have(&["openssl"]) {
        return;
    }
    let dir = Scratch::new("nbd-self-signed");
    let make = |more: &str| {
        let line = format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=127.0.0.1 \
             -addext subjectAltName=IP:127.0.0.1{more}"
        );
        succeeds(dir.path(), "openssl", &line.split_whitespace().collect::<Vec<_>>());
        let args = [
            "ram:8MiB",
            "--listen",
            "nbds://127.0.0.1:0",
            "--tls-cert-file",
            "cert.pem",
            "--tls-cert-key-file",
            "key.pem",
        ];
        Server::start(dir.path(), &args)
    };
    let server = make("");
    let refused = run(weft(
        dir.path(),
        &["bench", server.url(), "--runtime=1s", "--tls-ca-file", "cert.pem"],
    ));
    assert_eq!(refused.code(), Some(4), "{refused:?}");
    assert!(
        refused.message().contains("-addext basicConstraints=critical,CA:FALSE"),
        "{refused:?}"
    );
    drop(server);
    // As the message says.
    let server = make(" -addext basicConstraints=critical,CA:FALSE");
    verifies(dir.path(), server.url(), &["--tls-ca-file", "cert.pem"]);
}
