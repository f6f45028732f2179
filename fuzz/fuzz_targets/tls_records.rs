//! Records of TLS to a server whose handshake is over: sound ones of every type, padded, divided
//! and with new keys, some of them broken, and noise.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex};

use weft_fuzz::Input;
use weft_io::event_loop::Registrar;
use weft_io::stream::Stream;
use weft_tls::fuzzing::{Forger, server};
use weft_tls::limits::TLS_RECORD_BYTES;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// What an end may have sent that nobody asked for: an answer to each announcement of new keys,
/// an alert and its end, and no more.
const ANSWER_BYTES_MAX: usize = 27;

/// What comes to the server, and how much it has sent.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<(VecDeque<u8>, usize)>>);

impl Stream for Wire {
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let (comes, _) = &mut *self.0.lock().unwrap();
        let n = bufs[0].len().min(comes.len());
        bufs[0].iter_mut().zip(comes.drain(..n)).for_each(|(to, byte)| *to = byte);
        if n == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(n) }
    }

    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.lock().unwrap().1 += bufs[0].len();
        Ok(bufs[0].len())
    }

    fn shutdown(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn connected(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn peer(&self) -> String {
        String::new()
    }

    fn local(&self) -> String {
        String::new()
    }

    fn register(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        Ok(())
    }

    fn deregister(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// A client that keeps the rules or not.
struct Client {
    forger: Forger,
    /// The data of all records that can be authentic.
    data: Vec<u8>,
    /// Records with data were all that it sent.
    is_plain: bool,
    /// A record was broken: no later one is authentic.
    is_broken: bool,
    demands: usize,
}

impl Client {
    /// The next bytes that it sends.
    fn bytes(&mut self, input: &mut Input) -> Vec<u8> {
        let choice = input.below(16);
        self.is_plain &= choice < 8;
        match choice {
            0..8 => {
                let content = vec![input.byte(); 1 + input.below(TLS_RECORD_BYTES)];
                let padding = if input.one_in(4) { input.below(300) } else { 0 };
                self.sealed([&content[..], &[DATA], &vec![0; padding]].concat())
            }
            8 => {
                let demands = input.byte() % 2;
                self.demands += 1;
                let record = self.forger.record(HANDSHAKE, &[24, 0, 0, 1, demands], 0);
                self.forger.renew();
                record
            }
            9 => self.forger.record(ALERT, &[1, input.pick(&[0, 90, 90, 90, 20])], 0),
            10 => self.forger.record(HANDSHAKE, &input.bytes(6), 0),
            11 => self.sealed(vec![0; input.below(3)]),
            12 => {
                let inner = input.bytes(40);
                self.sealed(inner)
            }
            13 => input.bytes(12),
            _ => {
                let mut record = self.forger.record(DATA, b"broken", 0);
                let at = input.below(record.len());
                record[at] ^= 1 << input.below(8);
                self.is_broken = true;
                record
            }
        }
    }

    /// A record with anything in it, of which the data is remembered.
    fn sealed(&mut self, inner: Vec<u8>) -> Vec<u8> {
        let end = inner.iter().rposition(|byte| *byte != 0);
        match end {
            Some(end) if inner[end] == DATA && inner.len() <= TLS_RECORD_BYTES + 1 => {
                if !self.is_broken {
                    self.data.extend(&inner[..end]);
                }
            }
            _ => self.is_plain = false,
        }
        self.forger.sealed(&inner)
    }
}

thread_local! {
    static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; 3 * TLS_RECORD_BYTES]);
}

/// Receives once into two pieces.
fn receive(stream: &mut dyn Stream, input: &mut Input, got: &mut Vec<u8>) -> Result<bool, String> {
    ROOM.with_borrow_mut(|room| {
        let most = if input.flag() { room.len() } else { 1 + input.below(100) };
        let (first, second) = room[..most].split_at_mut(most.min(24));
        let result = stream.recv(&mut [IoSliceMut::new(first), IoSliceMut::new(second)]);
        match result {
            Ok(0) => Ok(false),
            Ok(n) => {
                got.extend(&room[..n]);
                Ok(true)
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                assert!(!stream.has_buffered(), "there is something, but it is not given");
                Ok(false)
            }
            Err(e) => Err(e.to_string()),
        }
    })
}

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let wire = Wire::default();
    let (mut stream, forger) = server(Box::new(wire.clone()), input.flag());
    let mut client =
        Client { forger, data: Vec::new(), is_plain: true, is_broken: false, demands: 0 };
    let (mut got, mut failed) = (Vec::new(), None);
    while !input.is_empty() {
        let bytes = client.bytes(&mut input);
        wire.0.lock().unwrap().0.extend(bytes);
        for _ in 0..input.below(4) {
            match receive(&mut *stream, &mut input, &mut got) {
                Ok(_) => assert!(failed.is_none(), "it goes on"),
                Err(why) => assert_eq!(*failed.get_or_insert_with(|| why.clone()), why),
            }
        }
    }
    while let Ok(true) = receive(&mut *stream, &mut input, &mut got) {}
    assert!(client.data.starts_with(&got), "what nobody has sent");
    if client.is_plain {
        assert!(failed.is_none() && got == client.data, "{failed:?}");
    }
    let sent = wire.0.lock().unwrap().1;
    assert!(sent <= (client.demands + 2) * ANSWER_BYTES_MAX, "{sent} bytes of answers");
}
