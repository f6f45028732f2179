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
use weft_io::LoopConfig;
use weft_io::event_loop::spawn;
use weft_testing::wait::until;

/// Lets the process open `count` descriptors at most; those that are open stay so, whatever their
/// number. With none, every further one is refused, even when a number below falls free meanwhile.
fn allow(count: Option<u64>) {
    setrlimit(Resource::Nofile, Rlimit { current: count, ..getrlimit(Resource::Nofile) }).unwrap();
}

#[test]
fn a_listener_without_descriptors_waits_and_recovers() {
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
