//! A host that says what a test wants, by TLS.

use crate::wire::{Pdu, Peer};
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use weft_io::Stream;
use weft_io::tcp::Tcp;
use weft_proto::nvme::auth::{Hash, PskKeys};
use weft_proto::nvme::types::Nqn;
use weft_testing::wait::PATIENCE;
use weft_tls::{Psk, TlsConnector};

/// A connection whose handshake runs as it is used.
pub struct Secure {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
}

impl Secure {
    /// With the key of this host for this subsystem.
    pub fn connect(to: SocketAddr, keys: &PskKeys, host: &Nqn, subsystem: &Nqn) -> Self {
        let identity = keys.offer(host, subsystem).unwrap();
        let hash = if identity.hash == Hash::Sha256 {
            weft_tls::PskHash::Sha256
        } else {
            weft_tls::PskHash::Sha384
        };
        let client =
            TlsConnector::new(identity.text.as_bytes(), Psk::new(identity.psk.as_bytes(), hash))
                .unwrap();
        let socket = TcpStream::connect(to).unwrap();
        socket.set_nonblocking(true).unwrap();
        let (stream, _) = client.wrap(Box::new(Tcp::from_std(socket).unwrap())).unwrap();
        Self { stream, received: Vec::new() }
    }

    /// Receives what has come; `false` at the end.
    fn receive(&mut self) -> bool {
        let mut room = [0; 8192];
        match self.stream.recv(&mut [IoSliceMut::new(&mut room)]) {
            Ok(0) => false,
            Ok(n) => {
                self.received.extend_from_slice(&room[..n]);
                true
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
                true
            }
            Err(_) => false,
        }
    }
}

impl Secure {
    /// Waits until the peer has ended the connection.
    pub fn wait_for_end(&mut self) {
        let end = Instant::now() + PATIENCE;
        while self.receive() {
            assert!(Instant::now() < end, "the connection stays");
        }
    }
}

impl Peer for Secure {
    fn put(&mut self, bytes: &[u8]) {
        let (mut sent, end) = (0, Instant::now() + PATIENCE);
        while sent < bytes.len() {
            match self.stream.send(&[IoSlice::new(&bytes[sent..])]) {
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    assert!(self.receive(), "the peer ended the connection")
                }
                Err(e) => panic!("{e}"),
            }
            assert!(Instant::now() < end, "waited in vain");
        }
    }

    fn pdu(&mut self) -> Option<Pdu> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(pdu) = Pdu::split(&mut self.received) {
                return Some(pdu);
            }
            if !self.receive() || Instant::now() > end {
                return None;
            }
        }
    }
}
