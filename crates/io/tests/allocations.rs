//! An echo allocates nothing per message: counted by an allocator of this program's own.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use weft_io::event_loop::spawn;
use weft_io::{LoopConfig, RemoteLoop};
use weft_testing::allocations::{Counting, in_a_quiet_window, of_thread, uncounted};

const MESSAGE_BYTES: usize = 64;
/// Messages that are under way together.
const DEPTH: usize = 16;
const MESSAGES: usize = 50_000;

/// Allocations that all of them may cost together: none, but for the poller's own tables on
/// Windows.
const GROWTH: u64 = if cfg!(windows) { 50 } else { 0 };

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of the loop's thread so far, those for this answer not included.
fn allocations(of: &RemoteLoop) -> u64 {
    let (give, take) = mpsc::channel();
    of.post(move |_| {
        // What the channel takes is not the echo's.
        uncounted(|| give.send(of_thread()).expect("somebody waits"));
    });
    take.recv().expect("the loop runs")
}

fn exchange(stream: &mut TcpStream, messages: usize) {
    let mut sent = [0; MESSAGE_BYTES * DEPTH];
    let mut back = [0; MESSAGE_BYTES * DEPTH];
    for round in 0..messages / DEPTH {
        sent.fill(round as u8);
        stream.write_all(&sent).unwrap();
        stream.read_exact(&mut back).unwrap();
        assert_eq!(sent, back);
    }
}

#[test]
fn an_echo_allocates_nothing_per_message() {
    let (address, remote, thread) = spawn(LoopConfig::default(), |on| {
        common::serve_echo(on, "127.0.0.1:0", common::no_trouble)
    })
    .unwrap();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_nodelay(true).unwrap();
    assert!(allocations(&remote) > 0, "the loop itself was allocated, so allocations are counted");
    let allocated = in_a_quiet_window(GROWTH, || {
        let before = allocations(&remote);
        exchange(&mut stream, MESSAGES);
        allocations(&remote) - before
    });
    assert!((0..=GROWTH).contains(&allocated), "{allocated} allocations for {MESSAGES} messages");
    remote.post(|on| on.stop());
    thread.join().unwrap().unwrap();
}
