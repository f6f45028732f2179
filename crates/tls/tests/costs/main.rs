//! Cost of an encrypted stream for a message, through its public interface: calls of the stream
//! below, records, allocations of this process, and in functions of their own, instructions, which
//! `cargo xtask race --gates` counts under callgrind. Where OpenSSL is missing, nothing is counted.

mod wire;

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use weft_io::stream::Stream;
use weft_testing::allocations::{Counting, in_a_quiet_window, of_thread};
use weft_tls::{Keys, Psk, PskHash, TlsAcceptor, TlsConnector};
use wire::{Spent, Way, wire};

#[global_allocator]
static COUNTING: Counting = Counting;

const IDENTITY: &[u8] = b"NVMe1R01 host subsystem digest";

/// Bytes before the payload of a message, in memory of their own, as the headers of a protocol are.
const HEADER_BYTES: usize = 72;

/// Bytes that a record adds to its payload: header, type and tag (RFC 8446 §5.2).
const RECORD_OVERHEAD_BYTES: u64 = 22;

/// Payload of a record, at most (RFC 8446 §5.1).
const RECORD_BYTES: u64 = 16 << 10;

/// Messages that are counted, and those that come before.
const COUNTED: u64 = 200;
const WARM_UP: u64 = 20;

struct One;

impl Keys for One {
    fn find(&self, identity: &[u8]) -> Option<Psk> {
        (identity == IDENTITY).then(psk)
    }
}

fn psk() -> Psk {
    Psk::new(&[7; 32], PskHash::Sha256)
}

/// Two ends with a connection that is open, and the message that goes over it.
struct Pair {
    client: Box<dyn Stream>,
    server: Box<dyn Stream>,
    to_server: Way,
    header: Vec<u8>,
    payload: Vec<u8>,
    room: Vec<u8>,
}

impl Pair {
    /// None where this machine has no TLS.
    fn open(payload_bytes: usize) -> Option<Self> {
        weft_tls::available().map_err(weft_testing::skip).ok()?;
        let ([first, second], [to_server, _]) = wire();
        let (client, _) =
            TlsConnector::new(IDENTITY, psk()).unwrap().wrap(Box::new(first)).unwrap();
        let (server, _) = TlsAcceptor::new(Arc::new(One)).unwrap().wrap(Box::new(second)).unwrap();
        let mut pair = Self {
            client,
            server,
            to_server,
            header: vec![1; HEADER_BYTES],
            payload: vec![2; payload_bytes],
            room: vec![0; 128 << 10],
        };
        for _ in 0..10 {
            for end in [&mut pair.client, &mut pair.server] {
                let nothing = end.recv(&mut [IoSliceMut::new(&mut pair.room)]);
                assert!(nothing.is_err_and(|e| e.kind() == ErrorKind::WouldBlock));
            }
        }
        Some(pair)
    }

    fn message_bytes(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }

    /// One message; the calls of the streams themselves.
    fn carry(&mut self) -> [u64; 2] {
        let sends = measured_send(&mut *self.client, &self.header, &self.payload);
        let whole = self.message_bytes();
        [sends, measured_receive(&mut *self.server, &mut self.room, whole)]
    }
}

/// Counted: a message is sent; by how many calls.
#[inline(never)]
fn measured_send(end: &mut dyn Stream, header: &[u8], payload: &[u8]) -> u64 {
    let (mut calls, mut sent) = (0, 0);
    while sent < header.len() + payload.len() {
        let in_header = sent.min(header.len());
        let rest = [&header[in_header..], &payload[sent - in_header..]].map(IoSlice::new);
        sent += end.send(&rest).expect("the wire takes it all");
        calls += 1;
    }
    calls
}

/// Counted: a message is received; by how many calls.
#[inline(never)]
fn measured_receive(end: &mut dyn Stream, room: &mut [u8], bytes: usize) -> u64 {
    let (mut calls, mut got) = (0, 0);
    while got < bytes {
        got += end.recv(&mut [IoSliceMut::new(&mut room[got..])]).expect("it has come");
        calls += 1;
    }
    calls
}

/// What a message costs: calls of the streams, and what was done to the wire for all that are
/// counted.
fn cost(payload_bytes: usize) -> Option<([u64; 2], Spent)> {
    let mut pair = Pair::open(payload_bytes)?;
    let warm: Vec<_> = (0..WARM_UP).map(|_| pair.carry()).collect();
    let before = pair.to_server.spent();
    for _ in 0..COUNTED {
        assert_eq!(pair.carry(), warm[0], "all are alike");
    }
    let after = pair.to_server.spent();
    let spent = Spent {
        sends: after.sends - before.sends,
        receives: after.receives - before.receives,
        empty: after.empty - before.empty,
        bytes: after.bytes - before.bytes,
    };
    Some((warm[0], spent))
}

/// Payload, and the calls of the wire that a message of it may cost: sends, and receives.
const LIMITS: [(usize, u64, u64); 3] = [(4 << 10, 1, 1), (64 << 10, 1, 2), (100 << 10, 1, 2)];

#[test]
fn calls_and_records_of_a_message_are_few() {
    for (payload_bytes, sends_max, receives_max) in LIMITS {
        let Some((calls, spent)) = cost(payload_bytes) else { return };
        assert_eq!(cost(payload_bytes), Some((calls, spent)), "it does not depend on the run");
        let each = |count: u64| count as f64 / COUNTED as f64;
        let plain = (HEADER_BYTES + payload_bytes) as u64;
        let records = (spent.bytes - COUNTED * plain) / COUNTED / RECORD_OVERHEAD_BYTES;
        println!(
            "{payload_bytes} bytes: {calls:?} calls of the streams; below {} sends, {} receives and {} that found nothing; {records} records",
            each(spent.sends),
            each(spent.receives),
            each(spent.empty)
        );
        assert_eq!(records, plain.div_ceil(RECORD_BYTES), "records are full but for the last");
        assert_eq!(calls[0], 1, "a message is taken at once");
        assert!(spent.sends <= sends_max * COUNTED, "{spent:?}");
        assert!(spent.receives + spent.empty <= receives_max * COUNTED, "{spent:?}");
    }
}

#[test]
fn a_message_allocates_nothing() {
    for (payload_bytes, ..) in LIMITS {
        let Some(mut pair) = Pair::open(payload_bytes) else { return };
        let counted = in_a_quiet_window(0, || {
            let before = of_thread();
            (0..COUNTED).for_each(|_| _ = pair.carry());
            of_thread() - before
        });
        assert_eq!(counted, 0, "{payload_bytes} bytes");
    }
}

/// Carries messages, for callgrind; prints how many there were.
fn instructions(payload_bytes: usize) {
    let Some(mut pair) = Pair::open(payload_bytes) else { return };
    (0..COUNTED).for_each(|_| _ = pair.carry());
    println!("commands {COUNTED}");
}

#[test]
fn send_4k() {
    instructions(4 << 10);
}

#[test]
fn send_64k() {
    instructions(64 << 10);
}

#[test]
fn receive_4k() {
    instructions(4 << 10);
}

#[test]
fn receive_64k() {
    instructions(64 << 10);
}
