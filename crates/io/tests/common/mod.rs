//! Drivers that the tests run on real and on simulated loops alike.

use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use weft_io::accept::Acceptor;
use weft_io::{Activity, Driver, DriverId, Handle, Stream};

/// Bytes that an echo holds between receiving and sending.
const HELD: usize = 16 << 10;

/// Receives that one turn makes at most.
const RECEIVES_PER_TURN: usize = 8;

/// Sends back what it receives, ends with the stream.
pub struct Echo {
    stream: Box<dyn Stream>,
    id: DriverId,
    bytes: Vec<u8>,
    /// Valid length of `bytes`: received, and of it sent.
    received: usize,
    sent: usize,
    ended: bool,
}

impl Echo {
    pub fn spawn(on: &Handle, mut stream: Box<dyn Stream>) {
        on.spawn(|id| {
            on.registrar(id, |r| stream.register(r)).expect("a fresh stream registers");
            Self { stream, id, bytes: vec![0; HELD], received: 0, sent: 0, ended: false }
        });
    }
}

impl Driver for Echo {
    fn receive(&mut self, on: &Handle) -> Activity {
        for turn in 0..RECEIVES_PER_TURN {
            if self.ended || self.received == self.bytes.len() {
                return Activity::busy_if(turn > 0);
            }
            match self.stream.recv(&mut [IoSliceMut::new(&mut self.bytes[self.received..])]) {
                Ok(0) => self.ended = true,
                Ok(n) => {
                    on.counters().recv_bytes.add(n as u64);
                    self.received += n;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Activity::busy_if(turn > 0),
                Err(_) => on.remove(self.id),
            }
        }
        Activity::Busy
    }

    fn work(&mut self, on: &Handle) -> Activity {
        if self.ended && self.sent == self.received {
            on.remove(self.id);
        }
        Activity::Idle
    }

    fn send(&mut self, on: &Handle) -> Activity {
        if self.sent == self.received {
            return Activity::Idle;
        }
        match self.stream.send(&[IoSlice::new(&self.bytes[self.sent..self.received])]) {
            Ok(n) => {
                on.counters().send_bytes.add(n as u64);
                self.sent += n;
                if self.sent == self.received {
                    (self.sent, self.received) = (0, 0);
                }
                Activity::Busy
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => Activity::Idle,
            Err(_) => {
                on.remove(self.id);
                Activity::Busy
            }
        }
    }
}

/// Listens at `at` and echoes on every connection; returns the address. `trouble` is that of
/// [`Acceptor::spawn`].
pub fn serve_echo(
    on: &Handle,
    at: &str,
    trouble: impl FnMut(&Handle, &io::Error, Duration) + 'static,
) -> String {
    let listener = on.listen(at.parse().expect("an address")).expect("the address is free");
    let address = listener.local();
    Acceptor::spawn(on, listener, Echo::spawn, trouble).expect("a listener registers");
    address
}

/// For [`serve_echo`] where accepting is not to fail.
#[allow(dead_code, reason = "the tests with a process of their own expect no trouble")]
pub fn no_trouble(_: &Handle, error: &io::Error, _: Duration) {
    panic!("cannot accept: {error}");
}
