//! Targets that read CHAP_A as one number: weft's own target, behind a connection that refuses
//! lists of algorithms in its place.

use super::host::{IQN, secret, serve_with, user};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use weft_endpoint::export::iscsi::{Settings, TargetLimits};
use weft_endpoint::source::iscsi::{self, IscsiOptions};
use weft_endpoint::url::{ISCSI_PORT, IscsiUrl};
use weft_endpoint::{ConnectOptions, Disk, PathOptions};
use weft_proto::iscsi::pdu::{LoginFlags, LoginResponse, LoginStage, LoginStatus, TaskTag};
use weft_proto::iscsi::text::Name;

/// How such a target refuses a value.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    Status(LoginStatus),
    /// By the value `Reject`.
    Word,
    /// It closes the connection.
    End,
}

impl Refusal {
    fn answer(self) -> Vec<u8> {
        let response = LoginResponse { task: TaskTag(0x8000_0000), ..LoginResponse::default() };
        match self {
            Self::Status(status) => LoginResponse { status, ..response }.encode(0).to_vec(),
            Self::Word => {
                let text = b"CHAP_A=Reject\0";
                let flags = LoginFlags::new(LoginStage::SECURITY, None);
                let response = LoginResponse { flags, ..response };
                [&response.encode(text.len() as u32)[..], text, &[0; 2]].concat()
            }
            Self::End => Vec::new(),
        }
    }
}

/// Passes what an initiator sends on to the target, up to a value that is refused.
fn pass(mut near: TcpStream, mut far: TcpStream, how: Refusal, refused: &[&[u8]]) {
    let mut bytes = [0; 8192];
    while let Ok(count @ 1..) = near.read(&mut bytes) {
        let said = &bytes[..count];
        let is_refused = |value: &&[u8]| said.windows(value.len()).any(|window| window == *value);
        if refused.iter().any(is_refused) {
            let _ = near.write_all(&how.answer());
            break;
        }
        if far.write_all(said).is_err() {
            break;
        }
    }
    let _ = near.shutdown(Shutdown::Both);
    let _ = far.shutdown(Shutdown::Both);
}

/// A place in front of a target at which these values are refused.
fn in_front(of: SocketAddr, how: Refusal, refused: &'static [&'static [u8]]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for near in listener.incoming() {
            let (Ok(near), Ok(far)) = (near, TcpStream::connect(of)) else { return };
            let (mut back, mut to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            thread::spawn(move || _ = std::io::copy(&mut back, &mut to));
            thread::spawn(move || pass(near, far, how, refused));
        }
    });
    at
}

fn options() -> ConnectOptions {
    let iscsi = IscsiOptions {
        initiator_name: Some(Name::new("iqn.2026-01.example.weft:alices").unwrap()),
        secret: Some(secret("alice").into()),
        ..IscsiOptions::default()
    };
    let paths = PathOptions::once();
    ConnectOptions { iscsi, paths, nr_io_queues: 3, ..ConnectOptions::default() }
}

const LIST: &[u8] = b"CHAP_A=8,5,7\0";
const MD5: &[u8] = b"CHAP_A=5\0";

#[test]
fn targets_that_take_one_algorithm_get_md5_alone() {
    let settings = Settings { chap: vec![user("alice", &[])], ..Settings::default() };
    let served = serve_with(&["ram:16MiB"], 64 << 20, settings, TargetLimits::default());
    let target = served.addresses()[0];
    for how in [
        Refusal::Status(LoginStatus::INITIATOR_ERROR),
        Refusal::Status(LoginStatus::AUTHENTICATION_FAILURE),
        Refusal::Word,
        Refusal::End,
    ] {
        let at = in_front(target, how, &[LIST]);
        let disk = Disk::open(&format!("iscsi://alice@{at}/{IQN}/0"), &options())
            .unwrap_or_else(|e| panic!("{how:?}: {e}"));
        let mut block = [0; 512];
        disk.write(0, &[7; 512]).unwrap();
        disk.read(0, &mut block).unwrap();
        assert_eq!(block, [7; 512], "{how:?}");
        let url = IscsiUrl::parse(&format!("iscsi://alice@{at}"), ISCSI_PORT).unwrap();
        let found = iscsi::discover(&url, &options()).unwrap();
        assert_eq!(found.len(), 1, "{how:?}");

        let at = in_front(target, how, &[LIST, MD5]);
        let url = format!("iscsi://alice@{at}/{IQN}/0");
        let error = Disk::open(&url, &options()).err().expect("nothing is left to offer");
        let text = error.to_string();
        assert!(text.contains("CHAP_A=8,5,7") && text.contains("CHAP_A=5"), "{how:?}: {text}");
    }
}

/// A network that loses connections must not bring the weakest algorithm about.
#[test]
fn a_connection_that_is_lost_is_no_refusal_of_the_list() {
    let settings = Settings { chap: vec![user("alice", &[])], ..Settings::default() };
    let served = serve_with(&["ram:16MiB"], 64 << 20, settings, TargetLimits::default());
    let (target, listener) = (served.addresses()[0], TcpListener::bind("127.0.0.1:0").unwrap());
    let (at, lists) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&lists);
    thread::spawn(move || {
        for near in listener.incoming() {
            let (Ok(mut near), Ok(mut far)) = (near, TcpStream::connect(target)) else { return };
            let mut bytes = [0; 8192];
            // The request for CHAP, and its answer.
            let Ok(count) = near.read(&mut bytes) else { continue };
            far.write_all(&bytes[..count]).unwrap();
            let Ok(count) = far.read(&mut bytes) else { continue };
            near.write_all(&bytes[..count]).unwrap();
            // Closed with the list unread, which resets the connection.
            let Ok(count) = near.peek(&mut bytes) else { continue };
            let said = &bytes[..count];
            let is_list = said.windows(LIST.len()).any(|window| window == LIST);
            seen.fetch_add(if is_list { 1 } else { 1000 }, Ordering::SeqCst);
        }
    });
    let url = format!("iscsi://alice@{at}/{IQN}/0");
    let text = Disk::open(&url, &options()).err().expect("the connection is lost").to_string();
    assert!(!text.contains("CHAP_A=5"), "{text}");
    assert_eq!(lists.load(Ordering::SeqCst), 1, "nothing else was offered");
}
