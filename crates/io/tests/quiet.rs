//! A loop sleeps while its connections are idle.

use crate::common;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Instant;
use weft_io::counters::Snapshot;
use weft_io::event_loop::spawn;
use weft_io::{LoopConfig, RemoteLoop};

const CONNECTIONS: usize = 100;

fn snapshot(of: &RemoteLoop) -> Snapshot {
    let (give, take) = mpsc::channel();
    of.post(move |on| give.send(on.counters().snapshot()).expect("somebody waits"));
    take.recv().expect("the loop runs")
}

fn say(stream: &mut TcpStream) {
    let mut back = [0; 5];
    stream.write_all(b"hello").unwrap();
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
}

#[test]
fn a_hundred_quiet_connections_wake_nobody() {
    let (address, remote, thread) = spawn(LoopConfig::default(), |on| {
        common::serve_echo(on, "127.0.0.1:0", common::no_trouble)
    })
    .unwrap();
    let mut streams: Vec<_> =
        (0..CONNECTIONS).map(|_| TcpStream::connect(&address).unwrap()).collect();
    streams.iter_mut().for_each(say);
    std::thread::sleep(Duration::from_millis(200));

    let begun = Instant::now();
    let before = snapshot(&remote);
    std::thread::sleep(Duration::from_secs(3));
    let quiet = snapshot(&remote).since(&before);
    let seconds = begun.elapsed().as_secs();
    assert_eq!(quiet.recv_bytes, 0);
    let wakeups = quiet.wakeups_ready + quiet.wakeups_remote + quiet.wakeups_timer;
    // One of them was ours: the second snapshot.
    assert!(wakeups <= seconds + 1, "{wakeups} in {seconds} s: {quiet:?}");
    assert!(quiet.sleeps <= seconds + 2, "{quiet:?}");

    // They are quiet, not dead.
    streams.iter_mut().for_each(say);
    remote.post(|on| on.stop());
    thread.join().unwrap().unwrap();
}
