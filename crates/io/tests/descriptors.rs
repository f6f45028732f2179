//! A process without descriptors left: its listeners neither spin nor die.

#![cfg(unix)]

mod common;

use common::serve_echo;
use core::time::Duration;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use weft_io::LoopConfig;
use weft_io::event_loop::spawn;

/// Descriptors that the process may have, so that it does not take long to use them up.
const DESCRIPTORS: u64 = 128;

/// Takes every descriptor that is free.
fn take_all() -> Vec<File> {
    let one = File::open("/dev/null").unwrap();
    let clones: Vec<_> = std::iter::from_fn(|| one.try_clone().ok()).collect();
    clones.into_iter().chain([one]).collect()
}

#[test]
fn a_listener_without_descriptors_waits_and_recovers() {
    setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS), ..getrlimit(Resource::Nofile) }).unwrap();
    let troubles = Arc::new(AtomicU64::new(0));
    let noted = Arc::clone(&troubles);
    let (address, remote, thread) = spawn(LoopConfig::default(), move |on| {
        serve_echo(on, "127.0.0.1:0", move |_, error, _| {
            assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
            noted.fetch_add(1, Ordering::SeqCst);
        })
    })
    .unwrap();

    let mut taken = take_all();
    taken.pop();
    let mut stream = TcpStream::connect(&address).expect("one was left, and the system queues the connection");
    while troubles.load(Ordering::SeqCst) < 6 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (give, take) = mpsc::channel();
    remote.post(move |on| give.send(on.counters().snapshot()).unwrap());
    let counted = take.recv().unwrap();
    assert_eq!(counted.accepts, 0);
    // Each attempt in vain is a sleep; so are the start, the connection and this question.
    let attempts = troubles.load(Ordering::SeqCst);
    assert!(counted.sleeps <= attempts + 5, "{attempts} attempts, {counted:?}");

    taken.clear();
    let mut back = [0; 5];
    stream.write_all(b"hello").unwrap();
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
    drop(TcpStream::connect(&address).unwrap());
    remote.post(|on| on.stop());
    thread.join().unwrap().unwrap();
}
