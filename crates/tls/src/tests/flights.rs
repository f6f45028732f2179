//! Attacks between both ends: each flight of a handshake changed and cut at each place, records
//! twice and out of order, and whole recordings.

use super::{IoSlice, IoSliceMut, Pair, PskHash, identity, is_skipped, look, psk};
use crate::secured::SecuredStream;
use weft_io::Stream;

/// The flights of a handshake.
const HELLO: usize = 0;
const ANSWER: usize = 1;
const END: usize = 2;

/// A handshake up to one of its flights, which is on its way.
fn up_to(flight: usize) -> (Vec<u8>, Pair) {
    let mut pair = Pair::of(PskHash::Sha256);
    look(&mut pair.client).unwrap();
    if flight >= ANSWER {
        look(&mut pair.server).unwrap();
    }
    if flight >= END {
        look(&mut pair.client).unwrap();
    }
    let way = if flight == ANSWER { &pair.to_client } else { &pair.to_server };
    let bytes = way.change(|way| way.bytes.drain(..).collect());
    (bytes, pair)
}

/// The end that takes a flight, which may end after it, has taken these bytes for it; whether it is
/// open then.
fn opens(flight: usize, pair: &mut Pair, bytes: &[u8], ended: bool) -> bool {
    let (end, way) = match flight {
        ANSWER => (&mut pair.client, &pair.to_client),
        _ => (&mut pair.server, &pair.to_server),
    };
    way.change(|way| {
        way.bytes.extend(bytes);
        way.ended = ended;
    });
    let _ = receive(end);
    identity(end).is_some()
}

/// What comes, up to a failure; never anything where there should be nothing.
fn receive(end: &mut SecuredStream) -> Vec<u8> {
    let (mut all, mut room) = (Vec::new(), [0; 256]);
    while let Ok(n @ 1..) = end.recv(&mut [IoSliceMut::new(&mut room)]) {
        all.extend_from_slice(&room[..n]);
    }
    all
}

/// Bytes that mean nothing: the second byte of the version of a record that is not encrypted (RFC
/// 8446 §5.1).
fn ignored(flight: &[u8]) -> Vec<usize> {
    let (mut at, mut places) = (0, Vec::new());
    while let Some(header) = flight.get(at..at + 5) {
        if header[0] != 23 {
            places.push(at + 2);
        }
        at += 5 + usize::from(u16::from_be_bytes([header[3], header[4]]));
    }
    assert_eq!(at, flight.len(), "whole records");
    places
}

#[test]
fn a_flight_that_was_changed_opens_nothing() {
    if is_skipped() {
        return;
    }
    for flight in [ANSWER, END] {
        let (bytes, mut pair) = up_to(flight);
        assert!(opens(flight, &mut pair, &bytes, false), "flight {flight} as it is");
        let ignored = ignored(&bytes);
        for at in (0..bytes.len()).filter(|at| !ignored.contains(at)) {
            let (mut bytes, mut pair) = up_to(flight);
            bytes[at] ^= 0x41;
            assert!(!opens(flight, &mut pair, &bytes, false), "flight {flight}, byte {at}");
        }
    }
}

#[test]
fn a_flight_that_is_cut_opens_nothing() {
    if is_skipped() {
        return;
    }
    for flight in [ANSWER, END] {
        let len = up_to(flight).0.len();
        for cut in 0..len {
            let (bytes, mut pair) = up_to(flight);
            assert!(
                !opens(flight, &mut pair, &bytes[..cut], cut % 2 == 0),
                "flight {flight} cut at {cut}"
            );
        }
    }
}

#[test]
fn flights_of_another_connection_and_one_s_own_open_nothing() {
    if is_skipped() {
        return;
    }
    for flight in [ANSWER, END] {
        let (_, mut pair) = up_to(flight);
        assert!(
            !opens(flight, &mut pair, &up_to(flight).0, true),
            "flight {flight} of another connection"
        );
        for other in [HELLO, ANSWER, END].into_iter().filter(|other| *other != flight) {
            let (_, mut pair) = up_to(flight);
            assert!(
                !opens(flight, &mut pair, &up_to(other).0, true),
                "flight {other} instead of {flight}"
            );
        }
    }
    // The hello again, and the end of a handshake without a beginning.
    for flights in [&[HELLO, HELLO][..], &[END], &[HELLO, END]] {
        let (_, mut pair) = up_to(HELLO);
        let bytes: Vec<u8> = flights.iter().flat_map(|flight| up_to(*flight).0).collect();
        assert!(!opens(HELLO, &mut pair, &bytes, true), "{flights:?}");
    }
}

#[test]
fn a_recorded_connection_opens_nothing_and_gives_no_data() {
    if is_skipped() {
        return;
    }
    let mut pair = Pair::open(PskHash::Sha256);
    assert_eq!(pair.client.send(&[IoSlice::new(b"a secret")]).unwrap(), 8);
    assert_eq!(receive(&mut pair.server), b"a secret");
    let recorded = pair.to_server.change(|way| way.record.clone());
    let mut other = Pair::of(PskHash::Sha256);
    other.to_server.change(|way| {
        way.bytes.extend(&recorded);
        way.ended = true;
    });
    assert!(receive(&mut other.server).is_empty() && identity(&other.server).is_none());
}

#[test]
fn records_twice_or_out_of_order_or_left_out_end_the_connection() {
    if is_skipped() {
        return;
    }
    let said: [&[u8]; 3] = [b"one", b"two", b"three"];
    for hash in [PskHash::Sha256, PskHash::Sha384] {
        assert_eq!(psk(hash).hash, hash);
        for (order, comes) in [
            (&[0, 1, 2][..], &b"onetwothree"[..]),
            (&[0, 0, 1, 2], b"one"),
            (&[1, 0, 2], b""),
            (&[0, 2], b"one"),
            (&[2, 1, 0], b""),
            (&[0, 1, 0], b"onetwo"),
        ] {
            let mut pair = Pair::open(hash);
            let records = said.map(|text| {
                assert_eq!(pair.client.send(&[IoSlice::new(text)]).unwrap(), text.len());
                pair.to_server.change(|way| way.bytes.drain(..).collect::<Vec<u8>>())
            });
            order.iter().for_each(|number| {
                pair.to_server.change(|way| way.bytes.extend(&records[*number]))
            });
            assert_eq!(receive(&mut pair.server), comes, "{order:?}");
            let is_sound = order.len() == 3 && order.is_sorted();
            assert_eq!(pair.server.send(&[IoSlice::new(b"x")]).is_ok(), is_sound, "{order:?}");
        }
    }
    // A record of one direction in the other.
    let mut pair = Pair::open(PskHash::Sha256);
    assert_eq!(pair.client.send(&[IoSlice::new(b"mine")]).unwrap(), 4);
    let own: Vec<u8> = pair.to_server.change(|way| way.bytes.drain(..).collect());
    pair.to_client.change(|way| way.bytes.extend(&own));
    assert!(
        receive(&mut pair.client).is_empty() && pair.client.send(&[IoSlice::new(b"x")]).is_err()
    );
}
