//! Both ends over TCP sockets, with the records in the kernel where it takes them. Without it they
//! are in user space: the same has to happen. The lab's case `tls-kernel` runs these tests on
//! kernels that have it.

use crate::endpoint::OptionalTls;
use crate::openssl::{Context, Secrets};
use crate::reason::TlsRole;
use crate::secured::SecuredStream;
use crate::tests::{IDENTITY, pattern, psk, server};
use crate::{Peer, PskHash, Records, available};
use std::io::{ErrorKind, IoSlice, IoSliceMut, Write};
use std::net::{TcpListener, TcpStream};
use weft_io::stream::Stream;
use weft_io::tcp::Tcp;
use weft_testing::wait::PATIENCE;

/// Where the records of client and server are, if the kernel takes them.
const PLACES: [[bool; 2]; 4] = [[true, true], [true, false], [false, true], [false, false]];

/// One end.
struct SocketEndpoint<S = SecuredStream> {
    stream: S,
    peer: Peer,
    /// The socket below, to break into.
    raw: TcpStream,
}

impl SocketEndpoint {
    fn new(socket: TcpStream, secrets: Secrets, role: TlsRole, kernel: bool) -> Self {
        let raw = socket.try_clone().unwrap();
        let context = Context::new(secrets).unwrap();
        let (stream, peer) =
            SecuredStream::wrap(Box::new(Tcp::from_std(socket).unwrap()), &context, role, kernel)
                .unwrap();
        Self { stream, peer, raw }
    }
}

impl<S: Stream> SocketEndpoint<S> {
    /// Receives what is there.
    fn receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, String> {
        let (head, rest) = into.split_at_mut(into.len().min(24));
        match self.stream.recv(&mut [IoSliceMut::new(head), IoSliceMut::new(rest)]) {
            Ok(n) => Ok(Some(n)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e.to_string()),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, String> {
        let (head, rest) = bytes.split_at(bytes.len().min(24));
        match self.stream.send(&[IoSlice::new(head), IoSlice::new(rest)]) {
            Ok(n) => Ok(n),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Until something comes, the connection ends or fails.
    fn next(&mut self) -> Result<usize, String> {
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            if let Some(n) = self.receive(&mut [0; 100])? {
                return Ok(n);
            }
            assert!(std::time::Instant::now() < end, "waited in vain");
            std::thread::yield_now();
        }
    }
}

/// Two ends of a connection.
fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (socket, listener.accept().unwrap().0)
}

/// Two ends after their handshake.
fn pair(hash: PskHash, [client, server_kernel]: [bool; 2]) -> [SocketEndpoint; 2] {
    let (socket, accepted) = sockets();
    let mut client = SocketEndpoint::new(
        socket,
        Secrets::Client(IDENTITY.to_vec(), psk(hash)),
        TlsRole::Client,
        client,
    );
    let mut server = SocketEndpoint::new(
        accepted,
        server(vec![(IDENTITY, psk(hash))]),
        TlsRole::Server,
        server_kernel,
    );
    shake_hands(&mut client, &mut server);
    [client, server]
}

/// Until both know who the other is.
fn shake_hands<S: Stream>(client: &mut SocketEndpoint, server: &mut SocketEndpoint<S>) {
    let end = std::time::Instant::now() + PATIENCE;
    while client.peer.identity().is_none() || server.peer.identity().is_none() {
        assert_eq!(
            (client.receive(&mut [0; 100]), server.receive(&mut [0; 100])),
            (Ok(None), Ok(None))
        );
        assert!(std::time::Instant::now() < end, "waited in vain");
    }
}

/// Returns whether this kernel has TLS.
fn has_kernel() -> bool {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp").unwrap_or_default();
    known.split_whitespace().any(|name| name == "tls")
}

/// Sends bytes from one end to the other, in one direction.
fn carry<S: Stream, T: Stream>(
    from: &mut SocketEndpoint<S>,
    to: &mut SocketEndpoint<T>,
    bytes: &[u8],
) {
    let (mut sent, mut got, mut room) = (0, Vec::new(), vec![0; 50_000]);
    let end = std::time::Instant::now() + PATIENCE;
    while got.len() < bytes.len() {
        if sent < bytes.len() {
            sent += from.send(&bytes[sent..]).unwrap();
        }
        // What is left of answers goes out with the next look.
        assert_eq!(from.receive(&mut [0; 100]), Ok(None));
        if let Some(n) = to.receive(&mut room).unwrap() {
            assert!(n > 0, "the end");
            got.extend_from_slice(&room[..n]);
        }
        assert!(
            std::time::Instant::now() < end,
            "waited in vain: {} of {} bytes",
            got.len(),
            bytes.len()
        );
    }
    assert!(got == bytes, "what arrived differs");
}

fn is_skipped() -> bool {
    available().map_err(weft_testing::skip).is_err()
}

#[test]
fn bytes_arrive_wherever_the_records_are() {
    if is_skipped() {
        return;
    }
    for hash in [PskHash::Sha256, PskHash::Sha384] {
        for places in PLACES {
            let [mut client, mut server] = pair(hash, places);
            for bytes in [1, 24, 4120, 16_384, 16_385, 1 << 20] {
                carry(&mut client, &mut server, &pattern(bytes));
                carry(&mut server, &mut client, &pattern(bytes));
            }
            let place = |is_asked: bool| {
                Some(if is_asked && has_kernel() { Records::Kernel } else { Records::UserSpace })
            };
            assert_eq!(
                [client.peer.records(), server.peer.records()],
                places.map(place),
                "{hash:?}"
            );
            // The kernel's count, by which keys are changed in time: at least one for each 16 KiB,
            // at most one for each call.
            for end in [&client, &server] {
                let counts = end.stream.records().into_iter();
                counts.for_each(|count| assert!((70..100_000).contains(&count), "{count}"));
            }
        }
    }
}

/// A port that looks at the first byte of what comes gives the records away as one that demands
/// TLS.
#[test]
fn the_kernel_has_the_records_of_those_who_chose_tls() {
    if is_skipped() {
        return;
    }
    for hash in [PskHash::Sha256, PskHash::Sha384] {
        for (client, kernel) in [(true, true), (false, true), (true, false)] {
            let (socket, accepted) = sockets();
            let raw = accepted.try_clone().unwrap();
            let context = Context::new(server(vec![(IDENTITY, psk(hash))])).unwrap();
            let stream = OptionalTls::new(
                Box::new(Tcp::from_std(accepted).unwrap()),
                &context.into(),
                kernel,
            );
            let mut server = SocketEndpoint { peer: stream.whom().clone(), stream, raw };
            assert_eq!(
                (server.receive(&mut [0; 100]), server.stream.encrypted_by()),
                (Ok(None), None)
            );
            let mut client = SocketEndpoint::new(
                socket,
                Secrets::Client(IDENTITY.to_vec(), psk(hash)),
                TlsRole::Client,
                client,
            );
            shake_hands(&mut client, &mut server);
            for bytes in [1, 4120, 16_385, 1 << 20] {
                carry(&mut client, &mut server, &pattern(bytes));
                carry(&mut server, &mut client, &pattern(bytes));
            }
            let place = if kernel && has_kernel() { Records::Kernel } else { Records::UserSpace };
            assert_eq!(
                (server.peer.records(), server.stream.encrypted_by()),
                (Some(place), Some(place.name())),
                "{hash:?}"
            );
            client.stream.shutdown().unwrap();
            assert_eq!(server.next(), Ok(0));
        }
    }
}

#[test]
fn keys_are_changed_wherever_the_records_are() {
    if is_skipped() {
        return;
    }
    for places in PLACES {
        let [mut client, mut server] = pair(PskHash::Sha384, places);
        if [&client, &server].iter().any(|end| end.stream.keeps_keys()) {
            // The connection ends in order instead.
            client.stream.renew();
            let _ = client.send(b"with new keys");
            let results = [server.next(), client.next()];
            assert!(
                results
                    .iter()
                    .any(|result| matches!(result, Err(why) if why.contains("this kernel cannot"))),
                "{results:?}"
            );
            continue;
        }
        for round in 0..4 {
            let renewed = if round % 2 == 0 { &mut client } else { &mut server };
            renewed.stream.renew();
            carry(&mut client, &mut server, &pattern(70_000 + round));
            carry(&mut server, &mut client, &pattern(30_000 + round));
            // Each round has keys of its own, of both directions.
            for end in [&client, &server] {
                let counts = end.stream.records().into_iter();
                counts.for_each(|count| assert!(count < 200, "{count}"));
            }
        }
        // Both at once.
        client.stream.renew();
        server.stream.renew();
        carry(&mut client, &mut server, &pattern(70_000));
        carry(&mut server, &mut client, &pattern(70_000));
    }
}

#[test]
fn the_end_is_announced_and_seen() {
    if is_skipped() {
        return;
    }
    for places in PLACES {
        let [mut client, mut server] = pair(PskHash::Sha256, places);
        carry(&mut client, &mut server, b"something");
        client.stream.shutdown().unwrap();
        assert_eq!(server.next(), Ok(0));
        // The other direction goes on.
        assert_eq!(server.send(b"the rest"), Ok(8));
        assert_eq!(client.next(), Ok(8));
        server.stream.shutdown().unwrap();
        assert_eq!(client.next(), Ok(0));
        let [mut client, server] = pair(PskHash::Sha256, places);
        drop(server);
        assert!(matches!(client.next(), Ok(0) | Err(_)));
    }
}

#[test]
fn records_of_others_end_the_connection() {
    if is_skipped() {
        return;
    }
    // What is written to a socket whose records are the kernel's is encrypted.
    for places in [[false, true], [false, false]] {
        for (record, whys) in [
            (
                [&[23, 3, 3, 0, 32][..], &[7; 32]].concat(),
                ["a record was changed", "a record was changed"],
            ),
            ([&[23, 3, 3, 0xff, 0xff][..], &[7; 64]].concat(), ["too long", "length"]),
        ] {
            let [mut client, mut server] = pair(PskHash::Sha256, places);
            carry(&mut client, &mut server, b"before");
            client.raw.write_all(&record).unwrap();
            let why = server.next().expect_err("it is taken");
            assert!(whys.iter().any(|expected| why.contains(expected)), "{why}");
            assert!(server.send(b"behind").is_err() && server.next().is_err(), "it goes on");
        }
    }
}
