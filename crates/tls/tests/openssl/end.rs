//! Our end of a connection, used as a program that may wait would use it.

use crate::command::unblocked;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use weft_io::Stream;
use weft_io::tcp::Tcp;
use weft_testing::wait::PATIENCE;
use weft_tls::{Peer, Unavailable};

/// An encrypted stream of lines.
pub struct End {
    stream: Box<dyn Stream>,
    peer: Peer,
    received: Vec<u8>,
    is_over: bool,
}

impl End {
    pub fn new(
        socket: TcpStream,
        wrap: impl FnOnce(Box<dyn Stream>) -> Result<(Box<dyn Stream>, Peer), Unavailable>,
    ) -> Self {
        let (stream, peer) = wrap(Box::new(Tcp::from_std(unblocked(socket)).unwrap())).unwrap();
        Self { stream, peer, received: Vec::new(), is_over: false }
    }

    pub fn identity(&self) -> Option<Vec<u8>> {
        self.peer.identity().map(<[u8]>::to_vec)
    }

    pub fn put(&mut self, bytes: &[u8]) {
        let (mut sent, end) = (0, Instant::now() + PATIENCE);
        while sent < bytes.len() {
            match self.stream.send(&[IoSlice::new(&bytes[sent..])]) {
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.receive().unwrap(),
                Err(e) => panic!("{e}"),
            }
            assert!(Instant::now() < end && !self.is_over, "waited in vain");
        }
    }

    /// The next line, without its end; empty at the end of the stream. The error is the stream's.
    pub fn line(&mut self) -> Result<String, String> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=at).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if self.is_over {
                return Ok(String::new());
            }
            self.receive()?;
            assert!(Instant::now() < end, "waited in vain");
        }
    }

    pub fn shutdown(&mut self) {
        self.stream.shutdown().unwrap();
    }

    fn receive(&mut self) -> Result<(), String> {
        let mut room = [0; 4096];
        match self.stream.recv(&mut [IoSliceMut::new(&mut room)]) {
            Ok(0) => self.is_over = true,
            Ok(n) => self.received.extend_from_slice(&room[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1))
            }
            Err(e) => return Err(e.to_string()),
        }
        Ok(())
    }
}
