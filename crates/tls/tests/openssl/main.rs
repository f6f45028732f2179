//! An independent peer: the programs `openssl s_client` and `openssl s_server`. Where they are
//! missing the tests are skipped.

mod command;
mod end;
mod session;

use command::{Openssl, is_skipped};
use end::End;
use session::session_file;
use std::net::TcpListener;
use std::sync::Arc;
use weft_tls::{Keys, Psk, PskHash, TlsAcceptor, TlsConnector};

const IDENTITY: &str = "NVMe1R01 nqn.host nqn.subsystem digest";

/// Knows one key.
struct One(Psk);

impl Keys for One {
    fn find(&self, identity: &[u8]) -> Option<Psk> {
        (identity == IDENTITY.as_bytes()).then(|| self.0.clone())
    }
}

fn bytes(hash: PskHash) -> Vec<u8> {
    (1..=if hash == PskHash::Sha256 { 32 } else { 48 }).collect()
}

fn psk(hash: PskHash) -> Psk {
    Psk::new(&bytes(hash), hash)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Our server's end of a connection that `openssl s_client` makes with these options.
fn accept(known: Psk, options: &[&str]) -> (End, Openssl) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let client = Openssl::start(&[&["s_client", "-connect", &at], options].concat());
    let (socket, _) = listener.accept().unwrap();
    let server = TlsAcceptor::new(Arc::new(One(known))).unwrap();
    (End::new(socket, |stream| server.wrap(stream)), client)
}

/// Our client's end of a connection to `openssl s_server` with these options.
fn connect(known: Psk, options: &[&str]) -> (End, Openssl) {
    let (server, at) = Openssl::serve(options);
    let client = TlsConnector::new(IDENTITY.as_bytes(), known).unwrap();
    (End::new(std::net::TcpStream::connect(at).unwrap(), |stream| client.wrap(stream)), server)
}

/// Lines go both ways.
fn talk(end: &mut End, openssl: &mut Openssl) {
    end.put(b"from weft\n");
    openssl.wait_for("from weft");
    openssl.say("to weft");
    assert_eq!(end.line().as_deref(), Ok("to weft"), "{}", openssl.printed());
}

#[test]
fn s_client_with_sha_256_whatever_suites_it_prefers() {
    if is_skipped() {
        return;
    }
    let key = hex(&bytes(PskHash::Sha256));
    let orders = ["TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"];
    for order in orders {
        let options = ["-tls1_3", "-psk", &key, "-psk_identity", IDENTITY, "-ciphersuites", order];
        let (mut end, mut client) = accept(psk(PskHash::Sha256), &options);
        talk(&mut end, &mut client);
        assert_eq!(end.identity().as_deref(), Some(IDENTITY.as_bytes()));
        client.wait_for("TLS_AES_128_GCM_SHA256");
    }
}

#[test]
fn s_client_with_sha_384() {
    if is_skipped() {
        return;
    }
    let file = session_file(&bytes(PskHash::Sha384));
    let (mut end, mut client) = accept(
        psk(PskHash::Sha384),
        &["-tls1_3", "-psk_session", file.to_str().unwrap(), "-psk_identity", IDENTITY],
    );
    talk(&mut end, &mut client);
    client.wait_for("TLS_AES_256_GCM_SHA384");
}

#[test]
fn s_server_with_both_hashes() {
    if is_skipped() {
        return;
    }
    let key = hex(&bytes(PskHash::Sha256));
    let (mut end, mut server) =
        connect(psk(PskHash::Sha256), &["-psk", &key, "-psk_identity", IDENTITY]);
    talk(&mut end, &mut server);
    assert_eq!(end.identity().as_deref(), Some(IDENTITY.as_bytes()));
    let file = session_file(&bytes(PskHash::Sha384));
    let (mut end, mut server) = connect(
        psk(PskHash::Sha384),
        &["-psk_session", file.to_str().unwrap(), "-psk_identity", IDENTITY],
    );
    talk(&mut end, &mut server);
}

#[test]
fn new_keys_of_the_peer_are_answered() {
    if is_skipped() {
        return;
    }
    let key = hex(&bytes(PskHash::Sha256));
    let (mut end, mut client) =
        accept(psk(PskHash::Sha256), &["-tls1_3", "-msg", "-psk", &key, "-psk_identity", IDENTITY]);
    talk(&mut end, &mut client);
    for (n, (command, answers)) in [("k", 0), ("K", 1), ("K", 2)].into_iter().enumerate() {
        // A command that is read together with another line is none: wait until it is taken. The
        // program sends its new keys with the next line, and the library answers with the next
        // record that it writes.
        client.say(command);
        client.wait_for_times("KEYUPDATE", n + 1);
        talk(&mut end, &mut client);
        talk(&mut end, &mut client);
        client.wait_for_times("<<< TLS 1.3, Handshake [length 0005], KeyUpdate", answers);
    }
}

#[test]
fn the_end_is_announced() {
    if is_skipped() {
        return;
    }
    let key = hex(&bytes(PskHash::Sha256));
    let (mut end, mut client) =
        accept(psk(PskHash::Sha256), &["-tls1_3", "-msg", "-psk", &key, "-psk_identity", IDENTITY]);
    talk(&mut end, &mut client);
    end.shutdown();
    client.wait_for("warning close_notify");
    let (mut end, mut client) =
        accept(psk(PskHash::Sha256), &["-tls1_3", "-psk", &key, "-psk_identity", IDENTITY]);
    talk(&mut end, &mut client);
    client.say("Q");
    assert_eq!(end.line(), Ok(String::new()));
}

#[test]
fn nothing_else_is_taken() {
    if is_skipped() {
        return;
    }
    let (key, wrong) = (hex(&bytes(PskHash::Sha256)), hex(&[9; 32]));
    let cases: [(&[&str], &str); 5] = [
        (&["-tls1_2", "-psk", &key, "-psk_identity", IDENTITY], "does not speak TLS 1.3"),
        (&["-tls1_3"], "no pre-shared key"),
        (&["-tls1_3", "-psk", &wrong, "-psk_identity", IDENTITY], "another key"),
        (&["-tls1_3", "-psk", &key, "-psk_identity", "somebody"], "\"somebody\""),
        (
            &[
                "-tls1_3",
                "-psk",
                &key,
                "-psk_identity",
                IDENTITY,
                "-ciphersuites",
                "TLS_AES_256_GCM_SHA384",
            ],
            "",
        ),
    ];
    for (options, why) in cases {
        let (mut end, _client) = accept(psk(PskHash::Sha256), options);
        let said = end.line().expect_err("it is taken");
        assert!(said.starts_with("TLS: ") && said.contains(why), "{options:?}: {said}");
        assert_eq!(end.identity(), None);
    }
    // Without a Diffie-Hellman exchange what is recorded can be read by whoever learns the key
    // later.
    let options = ["-tls1_3", "-allow_no_dhe_kex", "-psk", &key, "-psk_identity", IDENTITY];
    let (mut end, mut client) = accept(psk(PskHash::Sha256), &options);
    talk(&mut end, &mut client);
    client.wait_for("X25519");
}

#[test]
fn a_certificate_is_no_replacement_for_the_key() {
    if is_skipped() {
        return;
    }
    let Some((_directory, [cert, key])) = command::certificate() else {
        return weft_testing::skip("openssl makes no certificate");
    };
    let options = ["-cert", &cert, "-key", &key];
    let (mut end, _server) = connect(psk(PskHash::Sha256), &options);
    let said = end.line().expect_err("it is taken");
    assert!(said.contains("certificate"), "{said}");
    assert_eq!(end.identity(), None);
}
