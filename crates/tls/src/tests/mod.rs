//! Both ends wired to each other in memory, and each in the hands of a peer that breaks the rules.
//! Without OpenSSL on the machine they are skipped.

mod client_hello;
mod flights;
mod optional;
pub(crate) mod pipe;
mod sockets;

use crate::openssl::{Context, Secrets};
use crate::reason::TlsRole;
use crate::secured::SecuredStream;
use crate::{Keys, Psk, PskHash, available};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use weft_io::stream::Stream;

use self::pipe::{Direction, Pipe};

pub(crate) const IDENTITY: &[u8] = b"NVMe1R01 host subsystem digest";

pub(crate) type KnownKeys = Vec<(&'static [u8], Psk)>;

struct TestKeys(KnownKeys);

impl Keys for TestKeys {
    fn find(&self, identity: &[u8]) -> Option<Psk> {
        self.0.iter().find(|(known, _)| *known == identity).map(|(_, psk)| psk.clone())
    }
}

pub(crate) fn psk(hash: PskHash) -> Psk {
    Psk::new(&[7; 48][..if hash == PskHash::Sha256 { 32 } else { 48 }], hash)
}

pub(crate) fn server(keys: KnownKeys) -> Secrets {
    Secrets::Server(Arc::new(TestKeys(keys)))
}

/// One end, with its records in user space.
fn end(pipe: Box<dyn Stream>, context: &Context, role: TlsRole) -> SecuredStream {
    SecuredStream::wrap(pipe, context, role, false).unwrap().0
}

/// Two ends and what is between them.
struct Pair {
    client: SecuredStream,
    server: SecuredStream,
    to_server: Direction,
    to_client: Direction,
}

impl Pair {
    fn new(client: Psk, known: Secrets) -> Self {
        let (to_server, to_client) = (Direction::default(), Direction::default());
        let client = Context::new(Secrets::Client(IDENTITY.to_vec(), client)).unwrap();
        let known = Context::new(known).unwrap();
        let pipe = |from: &Direction, to: &Direction| {
            Box::new(Pipe { from: from.clone(), to: to.clone() })
        };
        Self {
            client: end(pipe(&to_client, &to_server), &client, TlsRole::Client),
            server: end(pipe(&to_server, &to_client), &known, TlsRole::Server),
            to_server,
            to_client,
        }
    }

    fn of(hash: PskHash) -> Self {
        Self::new(psk(hash), server(vec![(IDENTITY, psk(hash))]))
    }

    /// Lets both go on until neither has anything to do; the failures of both.
    fn shake_hands(&mut self) -> [Option<String>; 2] {
        let mut failures = [None, None];
        for _ in 0..10_000 {
            let both = [look(&mut self.client), look(&mut self.server)];
            for (failure, result) in failures.iter_mut().zip(both) {
                if let Err(e) = result {
                    failure.get_or_insert(e.to_string());
                }
            }
            let is_quiet = [&self.to_server, &self.to_client]
                .iter()
                .all(|way| way.change(|way| way.bytes.is_empty()));
            if is_quiet && !self.client.has_unsent() && !self.server.has_unsent() {
                break;
            }
        }
        failures
    }

    fn open(hash: PskHash) -> Self {
        let mut pair = Self::of(hash);
        assert_eq!(pair.shake_hands(), [None, None]);
        pair
    }
}

/// Receives what may be there, which is nothing.
fn look(end: &mut impl Stream) -> io::Result<()> {
    match end.recv(&mut [IoSliceMut::new(&mut [0; 64])]) {
        Ok(0) => Ok(()),
        Ok(n) => panic!("{n} bytes came"),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(()),
        Err(e) => Err(e),
    }
}

/// Moves bytes in pieces of several sizes.
fn carry(from: &mut impl Stream, to: &mut impl Stream, bytes: &[u8]) {
    let (mut sent, mut got) = (0, Vec::new());
    let mut room = vec![0; 70_000];
    while got.len() < bytes.len() {
        if sent < bytes.len() {
            let (head, rest) = bytes[sent..].split_at((bytes.len() - sent).min(24));
            match from.send(&[IoSlice::new(head), IoSlice::new(rest)]) {
                Ok(n) => sent += n,
                Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
            }
        } else {
            // What is left of an answer goes out with the next look.
            let _ = look(from);
        }
        let (first, second) = room.split_at_mut(1000);
        match to.recv(&mut [IoSliceMut::new(first), IoSliceMut::new(second)]) {
            Ok(n) => got.extend_from_slice(&room[..n]),
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
    }
    assert!(got == bytes, "what arrived differs");
}

/// The bytes of a published trace.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n * 31 + n / 251) as u8).collect()
}

fn is_skipped() -> bool {
    available().map_err(weft_testing::skip).is_err()
}

fn identity(end: &SecuredStream) -> Option<Vec<u8>> {
    end.whom().identity().map(<[u8]>::to_vec)
}

#[test]
fn data_goes_both_ways_with_both_hashes() {
    if is_skipped() {
        return;
    }
    for hash in [PskHash::Sha256, PskHash::Sha384] {
        let mut pair = Pair::of(hash);
        assert_eq!((identity(&pair.client), identity(&pair.server)), (None, None));
        assert_eq!(pair.shake_hands(), [None, None]);
        assert_eq!(identity(&pair.client).as_deref(), Some(IDENTITY));
        assert_eq!(identity(&pair.server).as_deref(), Some(IDENTITY));
        for bytes in [1, 24, 4096, 16_384, 16_385, 300_000] {
            let bytes = pattern(bytes);
            carry(&mut pair.client, &mut pair.server, &bytes);
            carry(&mut pair.server, &mut pair.client, &bytes);
        }
        let plain = pattern(64);
        for way in [&pair.to_client, &pair.to_server] {
            way.change(|way| {
                assert!(!way.record.windows(plain.len()).any(|bytes| bytes == plain), "plain text")
            });
        }
    }
}

#[test]
fn nothing_is_sent_before_the_handshake_is_over() {
    if is_skipped() {
        return;
    }
    let mut pair = Pair::of(PskHash::Sha256);
    for end in [&mut pair.client, &mut pair.server] {
        assert_eq!(end.send(&[IoSlice::new(b"secret")]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    assert!(
        pair.to_server.change(|way| way.record.is_empty())
            && pair.to_client.change(|way| way.record.is_empty())
    );
}

#[test]
fn pieces_of_any_size_and_full_sockets_change_nothing() {
    if is_skipped() {
        return;
    }
    for (piece, room) in [(1, usize::MAX), (7, 100), (5000, 9000)] {
        let mut pair = Pair::of(PskHash::Sha384);
        for way in [&pair.to_client, &pair.to_server] {
            way.change(|way| (way.piece, way.room) = (piece, room));
        }
        assert_eq!(pair.shake_hands(), [None, None]);
        let bytes = pattern(100_000);
        carry(&mut pair.server, &mut pair.client, &bytes);
        carry(&mut pair.client, &mut pair.server, &bytes);
    }
}

#[test]
fn another_key_or_identity_opens_nothing() {
    if is_skipped() {
        return;
    }
    let cases: [(KnownKeys, &str, &str); 3] = [
        (vec![(IDENTITY, Psk::new(&[8; 32], PskHash::Sha256))], "another key", "another key"),
        (vec![(b"other", psk(PskHash::Sha256))], "no key", "NVMe1R01 host"),
        (vec![(IDENTITY, psk(PskHash::Sha384))], "", ""),
    ];
    for (known, client, server_says) in cases {
        let mut pair = Pair::new(psk(PskHash::Sha256), server(known));
        let [told_client, told_server] = pair.shake_hands().map(Option::unwrap_or_default);
        assert!(told_client.starts_with("TLS: ") && told_client.contains(client), "{told_client}");
        assert!(
            told_server.starts_with("TLS: ") && told_server.contains(server_says),
            "{told_server}"
        );
        assert_eq!((identity(&pair.client), identity(&pair.server)), (None, None));
        for end in [&mut pair.client, &mut pair.server] {
            assert_eq!(
                end.send(&[IoSlice::new(b"secret")]).unwrap_err().kind(),
                ErrorKind::InvalidData
            );
        }
    }
}

#[test]
fn a_server_chooses_among_its_keys() {
    if is_skipped() {
        return;
    }
    let known = vec![(b"other".as_slice(), psk(PskHash::Sha384)), (IDENTITY, psk(PskHash::Sha256))];
    let mut pair = Pair::new(psk(PskHash::Sha256), server(known));
    assert_eq!(pair.shake_hands(), [None, None]);
    carry(&mut pair.client, &mut pair.server, b"data");
}

#[test]
fn an_end_is_told() {
    if is_skipped() {
        return;
    }
    let mut pair = Pair::open(PskHash::Sha256);
    carry(&mut pair.client, &mut pair.server, b"the last");
    pair.client.shutdown().unwrap();
    let mut room = [0; 16];
    assert_eq!(pair.server.recv(&mut [IoSliceMut::new(&mut room)]).unwrap(), 0);
    // The other direction stays.
    carry(&mut pair.server, &mut pair.client, b"answer");
    pair.server.shutdown().unwrap();
    assert_eq!(pair.client.recv(&mut [IoSliceMut::new(&mut room)]).unwrap(), 0);
}

#[test]
fn keys_are_renewed_by_either_end() {
    if is_skipped() {
        return;
    }
    let mut pair = Pair::open(PskHash::Sha256);
    let bytes = pattern(50_000);
    for _ in 0..3 {
        pair.client.renew();
        carry(&mut pair.client, &mut pair.server, &bytes);
        pair.server.renew();
        carry(&mut pair.server, &mut pair.client, &bytes);
    }
}

#[test]
fn one_answer_is_enough_for_any_number_of_demands() {
    if is_skipped() {
        return;
    }
    let mut pair = Pair::open(PskHash::Sha256);
    pair.to_client.change(|way| way.room = 0);
    let mut room = [0; 16];
    for _ in 0..1000 {
        pair.client.renew();
        assert_eq!(pair.client.send(&[IoSlice::new(b"x")]).unwrap(), 1);
        assert_eq!(pair.server.recv(&mut [IoSliceMut::new(&mut room)]).unwrap(), 1);
        assert!(pair.server.user_space().unsent() < 100, "what nobody receives grows");
    }
    let before = pair.to_client.change(|way| {
        way.room = usize::MAX;
        way.record.len()
    });
    look(&mut pair.server).unwrap();
    // The one that could not be sent, and one for all demands that came behind it.
    let answers = pair.to_client.change(|way| way.record.len()) - before;
    assert_eq!(answers, 2 * (22 + 5));
    let bytes = pattern(100_000);
    carry(&mut pair.server, &mut pair.client, &bytes);
    carry(&mut pair.client, &mut pair.server, &bytes);
}

#[test]
fn a_record_that_was_changed_gives_no_data() {
    if is_skipped() {
        return;
    }
    for at in 0..40 {
        let mut pair = Pair::open(PskHash::Sha256);
        assert_eq!(pair.client.send(&[IoSlice::new(b"eighteen bytes now")]).unwrap(), 18);
        pair.to_server.change(|way| way.bytes[at] ^= 1);
        let mut room = [0; 64];
        let came = pair.server.recv(&mut [IoSliceMut::new(&mut room)]);
        assert!(came.as_ref().is_err(), "byte {at}: {came:?}");
        assert!(pair.server.send(&[IoSlice::new(b"x")]).is_err() || at < 5, "byte {at}");
    }
}

#[test]
fn who_speaks_no_tls_is_told_so() {
    if is_skipped() {
        return;
    }
    // The ICReq of NVMe/TCP, and a request of HTTP.
    for said in [[0, 0, 128, 0, 128, 0, 0, 0].repeat(16), b"GET / HTTP/1.1\r\n\r\n".repeat(8)] {
        let mut pair = Pair::of(PskHash::Sha256);
        pair.to_server.change(|way| way.bytes.extend(&said));
        let why = look(&mut pair.server).unwrap_err().to_string();
        assert!(why.contains("does not speak TLS"), "{why}");
    }
}
