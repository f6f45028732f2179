//! Data: whole, in pieces, and with the keys that belong to it.

use super::super::layout::{OVERHEAD_BYTES, TAG_BYTES};
use super::*;
use crate::control::{key_update, record};
use crate::limits::{TLS_KEY_RECORDS_MAX, TLS_RECORD_BYTES, TLS_SEND_BYTES};
use crate::tests::{hex, pattern};

/// RFC 8448 §3: the first record with data of the client.
#[test]
fn a_record_is_that_of_the_published_trace() {
    let traced = || {
        TrafficSecret::new(
            &hex("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5"),
            PskHash::Sha256,
        )
    };
    let expected = hex(
        "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20\
         441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4",
    );
    let data: Vec<u8> = (0..50).collect();
    let [up, down] = [Direction::default(), Direction::default()];
    let pipe =
        |from: &Direction, to: &Direction| Box::new(Pipe { from: from.clone(), to: to.clone() });
    let other = || secret(TlsRole::Server, PskHash::Sha256);
    let mut client = RecordStream::new(pipe(&down, &up), TlsRole::Client, traced(), other());
    assert_eq!(client.send(&[IoSlice::new(&data)]).unwrap(), 50);
    assert_eq!(up.change(|way| way.record.clone()), expected);
    let mut server = RecordStream::new(pipe(&up, &down), TlsRole::Server, other(), traced());
    let mut room = [0; 64];
    assert_eq!(server.recv(&mut [IoSliceMut::new(&mut room)]).unwrap(), 50);
    assert_eq!(&room[..50], data);
}

#[test]
fn data_arrives_whatever_it_is_divided_into() {
    let data = pattern(400_000);
    for (seed, hash) in [(1, PskHash::Sha256), (2, PskHash::Sha384), (3, PskHash::Sha256)] {
        let mut numbers = Numbers(seed);
        let [mut from, mut to] = pair(hash);
        let most = [20_000, 200, 70_000][seed as usize - 1];
        let (mut sent, mut got) = (0, Vec::new());
        while got.len() < data.len() {
            from.from_it.change(|way| {
                way.piece = 1 + numbers.below(most);
                way.room = way.bytes.len() + numbers.below(2 * most);
            });
            // A call that was told to come again brings the same bytes, and may bring more.
            let rest = &data[sent..];
            let (first, second) = rest.split_at(numbers.below(most).min(rest.len()));
            let (second, third) = second.split_at(numbers.below(100).min(second.len()));
            let pieces = [first, &[], second, third].map(IoSlice::new);
            match from.stream.send(&pieces) {
                Ok(n) => sent += n,
                Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
            }
            let mut rooms = [0, 1, 2].map(|_| vec![0; numbers.below(most)]);
            let wanted: usize = rooms.iter().map(Vec::len).sum();
            let mut places = rooms.each_mut().map(|room| IoSliceMut::new(room));
            match to.stream.recv(&mut places) {
                Ok(n) => {
                    assert!(n <= wanted && (n > 0 || wanted == 0), "an end");
                    got.extend(rooms.concat().into_iter().take(n));
                }
                Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
            }
        }
        assert!(got == data, "what arrived differs");
    }
}

#[test]
fn small_pieces_share_a_record_and_large_ones_fill_theirs() {
    let [mut from, _] = pair(PskHash::Sha256);
    let piece = pattern(100);
    let pieces: Vec<IoSlice<'_>> = (0..200).map(|_| IoSlice::new(&piece)).collect();
    assert_eq!(from.stream.send(&pieces).unwrap(), 20_000);
    let sent = from.from_it.change(|way| way.record.len());
    assert_eq!(sent, 20_000 + 2 * OVERHEAD_BYTES);
    // No more than is sealed ahead.
    let data = pattern(2 * TLS_SEND_BYTES);
    assert_eq!(from.send(&data), TLS_SEND_BYTES);
    let records = TLS_SEND_BYTES / TLS_RECORD_BYTES;
    let more = from.from_it.change(|way| way.record.len()) - sent;
    assert_eq!(more, TLS_SEND_BYTES + records * OVERHEAD_BYTES);
    assert_eq!(from.send(&[]), 0);
    assert_eq!(from.from_it.change(|way| way.record.len()), sent + more, "a record of nothing");
}

#[test]
fn bytes_are_taken_once_they_are_sent() {
    let [mut from, mut to] = pair(PskHash::Sha256);
    from.from_it.change(|way| way.room = 30_000);
    let data = pattern(50_000);
    assert_eq!((from.send(&data), from.send(&data)), (0, 0));
    assert_eq!(to.receive(100_000), Ok(Some(data[..TLS_RECORD_BYTES].to_vec())));
    assert_eq!(from.send(&data), data.len());
    assert_eq!(from.stream.unsent(), 0);
    assert_eq!(to.receive(100_000).unwrap().unwrap(), data[TLS_RECORD_BYTES..]);
}

#[test]
fn what_there_is_is_told() {
    let [mut from, mut to] = pair(PskHash::Sha256);
    assert_eq!(from.send(&pattern(40_000)), 40_000);
    assert!(!to.stream.has_buffered());
    // The rest of a record, then whole records, are there without more having come.
    let mut left = 40_000;
    for most in [10, 16_374, 20, 30_000] {
        assert_eq!(to.receive(most).unwrap().map(|some| some.len()), Some(most.min(left)));
        left -= most.min(left);
        assert_eq!(to.stream.has_buffered(), left > 0, "{left}");
    }
    // A part of a record is not.
    assert_eq!(from.send(b"data"), 4);
    let record: Vec<u8> = to.to_it.change(|way| way.bytes.drain(..).collect());
    for byte in &record {
        assert_eq!((to.receive(9), to.stream.has_buffered()), (Ok(None), false));
        to.comes(&[*byte]);
    }
    assert_eq!(to.receive(9), Ok(Some(b"data".to_vec())));
}

#[test]
fn only_a_receive_that_emptied_the_socket_tells_so() {
    let [mut from, mut to] = pair(PskHash::Sha256);
    assert_eq!(from.send(b"some data"), 9);
    assert_eq!(to.receive(100).unwrap().map(|some| some.len()), Some(9));
    assert!(to.stream.tells_rest());
    // What is left of a record says nothing of the socket: what has come meanwhile was announced
    // once, perhaps before.
    assert_eq!(from.send(b"some data"), 9);
    assert_eq!(to.receive(4).unwrap().map(|some| some.len()), Some(4));
    assert!(!to.stream.tells_rest());
    assert_eq!(from.send(b"more"), 4);
    assert_eq!(to.receive(100).unwrap().map(|some| some.len()), Some(5));
    assert!(!to.stream.tells_rest());
    assert_eq!(to.receive(100), Ok(Some(b"more".to_vec())));
    assert!(to.stream.tells_rest());
    // A receive that filled its room says nothing of the rest, and one that found nothing does.
    for (most, emptied) in [(TLS_SEND_BYTES, false), (2 * TLS_SEND_BYTES, true)] {
        assert_eq!(from.send(&pattern(TLS_SEND_BYTES)), TLS_SEND_BYTES);
        assert_eq!(to.receive(most).unwrap().map(|some| some.len()), Some(TLS_SEND_BYTES));
        assert_eq!(to.stream.tells_rest(), emptied);
    }
    // A socket whose receives say nothing.
    to.to_it.change(|way| way.piece = 1000);
    assert_eq!(from.send(b"some data"), 9);
    assert_eq!(to.receive(100).unwrap().map(|some| some.len()), Some(9));
    assert!(!to.stream.tells_rest());
}

#[test]
fn what_ends_behind_data_is_told_behind_it() {
    let [mut from, mut to] = pair(PskHash::Sha256);
    assert_eq!(from.send(&pattern(TLS_SEND_BYTES)), TLS_SEND_BYTES);
    from.stream.shutdown().unwrap();
    assert_eq!(to.receive(TLS_SEND_BYTES).unwrap().map(|some| some.len()), Some(TLS_SEND_BYTES));
    assert_eq!(to.receive(100), Ok(Some(Vec::new())));
    assert_eq!(to.receive(100), Ok(Some(Vec::new())));
}

#[test]
fn a_failure_that_the_socket_tells_once_is_told_behind_the_data_and_stays() {
    let (mut end, mut client) = End::forged();
    end.comes(&client.record(record::APPLICATION_DATA, b"data", 0));
    end.comes(&client.record(record::HANDSHAKE, &key_update(true), 0));
    end.from_it.change(|way| way.failure = Some(ErrorKind::ConnectionReset));
    assert_eq!(end.receive(100), Ok(Some(b"data".to_vec())));
    assert!(end.stream.has_buffered(), "the failure is there to be told");
    let why = ErrorKind::ConnectionReset.to_string();
    assert_eq!(end.receive(100), Err(why.clone()));
    assert_eq!(end.receive(100), Err(why));
}

#[test]
fn what_came_before_answers_could_not_be_sent_is_received() {
    let (mut end, mut client) = End::forged();
    end.from_it.change(|way| way.room = 0);
    end.comes(&client.record(record::HANDSHAKE, &key_update(true), 0));
    assert_eq!(end.receive(100), Ok(None));
    end.from_it.change(|way| way.failure = Some(ErrorKind::ConnectionReset));
    client.renew();
    for data in ["some", "more"] {
        end.comes(&client.record(record::APPLICATION_DATA, data.as_bytes(), 0));
    }
    for data in ["some", "more"] {
        assert_eq!(end.receive(4), Ok(Some(data.into())));
        assert!(end.stream.has_buffered());
    }
    let why = ErrorKind::ConnectionReset.to_string();
    assert_eq!(end.receive(100), Err(why.clone()));
    assert_eq!(end.receive(100), Err(why));
}

#[test]
fn padding_is_no_data() {
    let (mut end, mut client) = End::forged();
    for padding in [0, 1, 1000, TLS_RECORD_BYTES - 4] {
        end.comes(&client.record(record::APPLICATION_DATA, b"data", padding));
        assert_eq!(end.receive(100), Ok(Some(b"data".to_vec())));
    }
}

#[test]
fn keys_are_changed_by_count() {
    for direction in [[TLS_KEY_RECORDS_MAX - 2, 0], [0, TLS_KEY_RECORDS_MAX - 2]] {
        let [mut client, mut server] = pair(PskHash::Sha384);
        client.stream.skip_to(direction);
        server.stream.skip_to([direction[1], direction[0]]);
        let data = pattern(3 * TLS_SEND_BYTES);
        let mut taken = [0, 0];
        let mut got = [Vec::new(), Vec::new()];
        while got.iter().any(|got| got.len() < data.len()) {
            taken[0] += client.send(&data[taken[0]..]);
            got[0].extend(server.receive(50_000).unwrap().unwrap_or_default());
            taken[1] += server.send(&data[taken[1]..]);
            got[1].extend(client.receive(50_000).unwrap().unwrap_or_default());
        }
        assert!(got.iter().all(|got| *got == data), "what arrived differs");
        for end in [&client, &server] {
            assert!(updates(end) > 0, "one direction keeps its keys");
            let records = end.stream.records();
            assert!(records.iter().all(|count| *count < 100), "{records:?}");
        }
    }
}

/// Announcements of new keys that an end has sent.
fn updates(end: &End) -> usize {
    let sent = end.from_it.change(|way| way.record.clone());
    let (mut rest, mut count) = (&sent[..], 0);
    while let [_, _, _, high, low, behind @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        count += usize::from(len == key_update(true).len() + 1 + TAG_BYTES);
        rest = &behind[len..];
    }
    count
}

#[test]
fn a_demand_for_keys_is_answered_once() {
    let (mut end, mut client) = End::forged();
    end.comes(&client.record(record::HANDSHAKE, &key_update(true), 0));
    for _ in 0..2 {
        assert_eq!(end.receive(10), Ok(None));
        assert_eq!(end.from_it.change(|way| way.record.len()), OVERHEAD_BYTES + 5, "an answer");
    }
    client.renew();
    end.comes(&client.record(record::APPLICATION_DATA, b"data", 0));
    assert_eq!(end.receive(10), Ok(Some(b"data".to_vec())));
    assert_eq!(end.stream.records(), [0, 1]);
}

#[test]
fn a_connection_at_rest_has_no_buffers() {
    let [mut from, mut to] = pair(PskHash::Sha256);
    for _ in 0..3 {
        assert_eq!(from.send(&pattern(1000)), 1000);
        assert_eq!(to.receive(2000).unwrap().map(|some| some.len()), Some(1000));
        assert_eq!(to.receive(2000), Ok(None));
        assert_eq!((from.stream.held(), to.stream.held()), (0, 0));
    }
}
