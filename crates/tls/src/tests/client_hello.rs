//! Servers that receive a ClientHello that was changed, cut, or recorded from another connection.

use super::{IDENTITY, Pair, identity, is_skipped, look, psk, server};
use crate::{Psk, PskHash};
use std::io::IoSliceMut;
use weft_io::stream::Stream;

/// What the client says first, for a server to be misled with.
fn first_flight(client: Psk) -> (Vec<u8>, Pair) {
    let mut pair = Pair::new(client, server(vec![(IDENTITY, psk(PskHash::Sha256))]));
    look(&mut pair.client).unwrap();
    let flight = pair.to_server.change(|way| way.bytes.drain(..).collect());
    (flight, pair)
}

#[test]
fn a_hello_that_was_changed_opens_nothing() {
    if is_skipped() {
        return;
    }
    let (hello, _) = first_flight(psk(PskHash::Sha256));
    // The second byte of the record's version is none of the handshake's, and receivers ignore it
    // (RFC 8446 §5.1).
    for at in (0..hello.len()).filter(|at| *at != 2) {
        let (mut flight, mut pair) = first_flight(psk(PskHash::Sha256));
        flight[at] ^= 0x41;
        pair.to_server.change(|way| way.bytes.extend(&flight));
        let _ = pair.shake_hands();
        // The random number and the like of a hello are as good as others, but both ends have to
        // have seen the same.
        assert_eq!((identity(&pair.client), identity(&pair.server)), (None, None), "byte {at}");
    }
}

#[test]
fn a_hello_that_is_cut_opens_nothing() {
    if is_skipped() {
        return;
    }
    let (hello, _) = first_flight(psk(PskHash::Sha256));
    for cut in 0..hello.len() {
        let (flight, mut pair) = first_flight(psk(PskHash::Sha256));
        pair.to_server.change(|way| {
            way.bytes.extend(&flight[..cut]);
            way.ended = true;
        });
        let mut room = [0; 16];
        let came = pair.server.recv(&mut [IoSliceMut::new(&mut room)]);
        assert!(
            !matches!(came, Ok(1..)) && identity(&pair.server).is_none(),
            "cut at {cut}: {came:?}"
        );
    }
}

#[test]
fn a_hello_of_another_connection_opens_nothing() {
    if is_skipped() {
        return;
    }
    let (old, _) = first_flight(psk(PskHash::Sha256));
    let (_, mut pair) = first_flight(psk(PskHash::Sha256));
    pair.to_server.change(|way| way.bytes.extend(&old));
    let [client, _] = pair.shake_hands();
    assert!(client.is_some(), "the client takes an answer to another hello");
    assert_eq!((identity(&pair.client), identity(&pair.server)), (None, None));
}
