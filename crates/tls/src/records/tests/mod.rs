//! Records between two ends in memory whose keys are known, and from a peer that breaks the rules.
//! OpenSSL has no part in it.

mod breaches;
mod control;
mod data;

use super::forge::Forger;
use super::stream::RecordStream;
use crate::key::PskHash;
use crate::reason::TlsRole;
use crate::schedule::TrafficSecret;
use crate::tests::pipe::{Direction, Pipe};
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use weft_io::stream::Stream;

/// The secret of what a role sends.
fn secret(of: TlsRole, hash: PskHash) -> TrafficSecret {
    TrafficSecret::new(&[if of == TlsRole::Client { 5 } else { 6 }; 48][..hash.bytes()], hash)
}

/// One end and what is on its way to and from it.
struct End {
    stream: RecordStream,
    to_it: Direction,
    from_it: Direction,
}

impl End {
    fn new(role: TlsRole, hash: PskHash, to_it: Direction, from_it: Direction) -> Self {
        let other = if role == TlsRole::Client { TlsRole::Server } else { TlsRole::Client };
        let pipe = Box::new(Pipe { from: to_it.clone(), to: from_it.clone() });
        let stream = RecordStream::new(pipe, role, secret(role, hash), secret(other, hash));
        Self { stream, to_it, from_it }
    }

    /// A server in the hands of a client that keeps no rules.
    fn forged() -> (Self, Forger) {
        let end =
            Self::new(TlsRole::Server, PskHash::Sha256, Direction::default(), Direction::default());
        (end, Forger::new(secret(TlsRole::Client, PskHash::Sha256)))
    }

    fn comes(&self, bytes: &[u8]) {
        self.to_it.change(|way| way.bytes.extend(bytes));
    }

    /// What a receive of at most so many bytes gives; none where nothing is there.
    fn receive(&mut self, most: usize) -> Result<Option<Vec<u8>>, String> {
        let mut room = vec![0; most];
        match self.stream.recv(&mut [IoSliceMut::new(&mut room)]) {
            Ok(n) => {
                room.truncate(n);
                Ok(Some(room))
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e.to_string()),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        match self.stream.send(&[IoSlice::new(bytes)]) {
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
            Err(e) => panic!("{e}"),
        }
    }

    /// The last alert that it has sent, as its peer reads it.
    fn alert(&mut self, hash: PskHash) -> Option<u8> {
        let mut peer = End::new(TlsRole::Client, hash, self.from_it.clone(), Direction::default());
        let why = peer.receive(100).err()?;
        why.strip_prefix("TLS: the peer ended it with alert ")
            .and_then(|number| number.parse().ok())
            .or_else(|| why.contains("a record was changed").then_some(20))
    }
}

/// A client and a server.
fn pair(hash: PskHash) -> [End; 2] {
    let (up, down) = (Direction::default(), Direction::default());
    [
        End::new(TlsRole::Client, hash, down.clone(), up.clone()),
        End::new(TlsRole::Server, hash, up, down),
    ]
}

/// Numbers without an order, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}
