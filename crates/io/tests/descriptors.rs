//! A process without descriptors left: its listeners neither spin nor die.

#![cfg(unix)]

mod common;

use common::serve_echo;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use weft_base::lock::Lock;
use weft_io::LoopConfig;
use weft_io::event_loop::spawn;
use weft_testing::wait::until;

/// Lets the process open `count` descriptors at most; those that are open stay so, whatever their
/// number. With none, every further one is refused, even when a number below becomes free.
fn allow(count: Option<u64>) {
    setrlimit(Resource::Nofile, Rlimit { current: count, ..getrlimit(Resource::Nofile) }).unwrap();
}

/// The limit is that of the process: one test at a time.
static LIMIT: Lock<()> = Lock::new(());

#[test]
fn connections_leave_descriptors_to_files() {
    let _alone = LIMIT.lock();
    let before = getrlimit(Resource::Nofile).current;
    let (address, remote, thread) =
        spawn(LoopConfig::default(), |on| serve_echo(on, "127.0.0.1:0", |_, _, _| ())).unwrap();
    // Of 256 a half is reserved.
    allow(Some(256));
    let mut peers = Vec::new();
    let refused = loop {
        let mut peer = TcpStream::connect(&address).expect("there are descriptors for this end");
        // One that is refused may be closed by now, or reset.
        let _ = peer.write_all(b"hello");
        match peer.read(&mut [0; 5]) {
            Ok(0) | Err(_) => break peer,
            Ok(_) => peers.push(peer),
        }
    };
    assert!((32..=64).contains(&peers.len()), "{} connections", peers.len());
    let files: Vec<_> = (0..16).map(|_| std::fs::File::open("/dev/null")).collect();
    assert!(files.iter().all(Result::is_ok), "{files:?}");
    // Those that are there are served as ever, and one that comes when others went.
    let served = |peer: &mut TcpStream| {
        let mut back = [0; 5];
        peer.write_all(b"again").is_ok() && peer.read_exact(&mut back).is_ok()
    };
    assert!(peers.iter_mut().all(served));
    drop((files, refused, peers));
    until("a new one is served", || served(&mut TcpStream::connect(&address).unwrap()));
    allow(before);
    remote.post(|on| on.stop());
    thread.join().unwrap().unwrap();
}

#[test]
fn a_listener_without_descriptors_waits_and_recovers() {
    let _alone = LIMIT.lock();
    let before = getrlimit(Resource::Nofile).current;
    let troubles = Arc::new(AtomicU64::new(0));
    let noted = Arc::clone(&troubles);
    let (address, remote, thread) = spawn(LoopConfig::default(), move |on| {
        serve_echo(on, "127.0.0.1:0", move |_, error, _| {
            assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
            noted.fetch_add(1, Ordering::SeqCst);
        })
    })
    .unwrap();

    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    allow(Some(0));
    let to: SocketAddr = address.parse().unwrap();
    socket.connect(&to.into()).expect("the system queues the connection");
    let mut stream = TcpStream::from(socket);
    until("the listener tries in vain", || {
        thread.is_finished() || troubles.load(Ordering::SeqCst) >= 6
    });
    assert!(!thread.is_finished(), "the loop has ended");
    let (give, take) = mpsc::channel();
    remote.post(move |on| give.send(on.counters().snapshot()).unwrap());
    let counted = take.recv().unwrap();
    assert_eq!(counted.accepts, 0);
    // Each attempt in vain is a sleep; so are the start, the connection and this question.
    let attempts = troubles.load(Ordering::SeqCst);
    assert!(counted.sleeps <= attempts + 5, "{attempts} attempts, {counted:?}");

    allow(before);
    let mut back = [0; 5];
    stream.write_all(b"hello").unwrap();
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
    drop(TcpStream::connect(&address).unwrap());
    remote.post(|on| on.stop());
    thread.join().unwrap().unwrap();
}

/// Sends as many descriptors as a message can have.
#[cfg(target_os = "linux")]
fn send_many(to: &std::os::unix::net::UnixStream) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::os::fd::AsFd;
    let file = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let files = [file.as_fd(); 253];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    let bytes = [std::io::IoSlice::new(b"x")];
    assert_eq!(sendmsg(to, &bytes, &mut control, SendFlags::empty()), Ok(1));
}

#[cfg(target_os = "linux")]
#[test]
fn messages_leave_descriptors_to_files() {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use weft_io::accept::Accept;
    use weft_io::guest::messages::MessageListener;
    let _alone = LIMIT.lock();
    let before = getrlimit(Resource::Nofile).current;
    let path = std::env::temp_dir().join(format!("weft-messages-{}.sock", std::process::id()));
    let mut listener = MessageListener::listen(&path, None).unwrap();
    let mut connect = || {
        let peer = std::os::unix::net::UnixStream::connect(&path).unwrap();
        (peer, listener.accept().unwrap())
    };
    let ((peer, one), (other_peer, other)) = (connect(), connect());
    // Of 1,024 a half is reserved, and all others are in use.
    allow(Some(1024));
    let mut used: Vec<File> = Vec::new();
    while used.last().is_none_or(|file| file.as_raw_fd() < 511) {
        used.push(File::open("/dev/null").unwrap());
    }
    send_many(&peer);
    send_many(&other_peer);
    let (mut brought, mut later) = (Vec::new(), Vec::new());
    let full = one.receive(&mut [0; 8], &mut brought).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
    assert_eq!(brought.len(), 253, "none was closed by the system");
    // As long as these are open no further ones come.
    let busy = other.receive(&mut [0; 8], &mut later).unwrap_err();
    assert_eq!(busy.kind(), std::io::ErrorKind::ResourceBusy);
    assert!(later.is_empty());
    let files: Vec<_> = (0..128).map(|_| File::open("/dev/null")).collect();
    assert!(files.iter().all(Result::is_ok), "there are descriptors for files");
    drop((files, used, brought));
    assert_eq!(other.receive(&mut [0; 8], &mut later).unwrap(), 1);
    assert_eq!(later.len(), 253);
    allow(before);
}
