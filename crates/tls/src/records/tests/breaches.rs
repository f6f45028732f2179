//! Records that are invalid, were changed, or have no place after the handshake.

use super::super::layout::HEADER_BYTES;
use super::*;
use crate::control::{alert, key_update, record};
use crate::limits::TLS_RECORD_BYTES;

/// What an end says to these bytes, and the alert that it sends; it says the same again.
fn refused(bytes: &[u8], mut end: End) -> (String, Option<u8>) {
    end.comes(bytes);
    let why = end.receive(1 << 15).expect_err("it is taken");
    assert_eq!(end.receive(1 << 15), Err(why.clone()), "it is told differently");
    assert!(end.stream.send(&[IoSlice::new(b"x")]).is_err() && !end.stream.has_buffered());
    let alert = end.alert(PskHash::Sha256);
    (why, alert)
}

#[test]
fn a_record_that_was_changed_anywhere_leaves_no_byte() {
    let (_, mut client) = End::forged();
    let good = client.record(record::APPLICATION_DATA, b"the first", 0);
    let bad = client.record(record::APPLICATION_DATA, &[7; 300], 20);
    for at in 0..bad.len() {
        for bit in [1, 0x80] {
            let (mut end, _) = End::forged();
            let mut changed = bad.clone();
            changed[at] ^= bit;
            end.comes(&[&good[..], &changed, &[0; 700]].concat());
            let mut room = [0xee; 1000];
            let n = end.stream.recv(&mut [IoSliceMut::new(&mut room)]).unwrap();
            assert_eq!(&room[..n], b"the first", "byte {at}");
            assert!(room[n..].iter().all(|byte| *byte == 0xee), "byte {at}: of no use, but there");
            // A length may be one for which not enough has come.
            match end.receive(100) {
                Ok(None) => assert_eq!(at, 3, "byte {at}"),
                Ok(Some(data)) => panic!("byte {at}: {data:?}"),
                Err(_) => assert!(end.alert(PskHash::Sha256).is_some(), "byte {at}"),
            }
        }
    }
}

#[test]
fn a_record_may_be_as_long_as_the_standard_says() {
    let (mut end, mut client) = End::forged();
    let full = vec![7; TLS_RECORD_BYTES];
    end.comes(&client.record(record::APPLICATION_DATA, &full, 0));
    assert_eq!(end.receive(1 << 15), Ok(Some(full.clone())));
    for (content, padding) in
        [(TLS_RECORD_BYTES, 1), (0, TLS_RECORD_BYTES + 1), (TLS_RECORD_BYTES, 239)]
    {
        let (end, mut client) = End::forged();
        let record = client.record(record::APPLICATION_DATA, &full[..content], padding);
        let (why, alert) = refused(&record, end);
        assert!(why.contains("too long") && alert == Some(alert::RECORD_OVERFLOW), "{why}");
    }
    // A header is enough to know.
    let (why, alert) = refused(&[23, 3, 3, 0x41, 0x01], End::forged().0);
    assert!(why.contains("too long") && alert == Some(alert::RECORD_OVERFLOW), "{why}");
}

#[test]
fn a_record_too_short_for_its_tag_is_not_authentic() {
    for len in 0..17 {
        let record = [&[23, 3, 3, 0, len][..], &vec![0; len.into()]].concat();
        let (why, alert) = refused(&record, End::forged().0);
        assert_eq!(alert, Some(alert::BAD_RECORD_MAC), "{len}: {why}");
    }
}

#[test]
fn what_is_not_encrypted_is_refused_by_its_first_byte() {
    // A ChangeCipherSpec, an alert, a hello, and what is no TLS at all.
    for bytes in [&[20, 3, 3, 0, 1, 1][..], &[21, 3, 3, 0, 2, 1, 0], &[22, 3, 3, 0, 1], b"GET /"] {
        let (why, alert) = refused(bytes, End::forged().0);
        assert!(why.contains("does not belong") && alert == Some(alert::UNEXPECTED_MESSAGE));
    }
}

#[test]
fn the_version_of_a_record_says_nothing() {
    // It is authenticated as it stands, so only whoever seals the record can choose it.
    let (mut end, mut client) = End::forged();
    end.comes(&client.record(record::APPLICATION_DATA, b"data", 0));
    assert_eq!(end.receive(10), Ok(Some(b"data".to_vec())));
    let mut record = client.record(record::APPLICATION_DATA, b"data", 0);
    record[2] = 1;
    let (why, alert) = refused(&record, end);
    assert!(why.contains("changed") && alert == Some(alert::BAD_RECORD_MAC), "{why}");
}

#[test]
fn what_a_record_may_not_hold_is_refused() {
    let ticket = [4, 0, 0, 1, 0];
    let cases: [(Vec<u8>, u8); 8] = [
        // All padding, and nothing.
        (vec![0; 100], alert::UNEXPECTED_MESSAGE),
        (Vec::new(), alert::UNEXPECTED_MESSAGE),
        // Types that there are not, and that of a ChangeCipherSpec.
        (vec![1, 99], alert::UNEXPECTED_MESSAGE),
        (vec![1, 20], alert::UNEXPECTED_MESSAGE),
        // Messages: none, one for clients, data behind the end of the keys, half an alert.
        (vec![record::HANDSHAKE], alert::UNEXPECTED_MESSAGE),
        ([&ticket[..], &[record::HANDSHAKE]].concat(), alert::UNEXPECTED_MESSAGE),
        (
            [&key_update(false)[..], &ticket, &[record::HANDSHAKE]].concat(),
            alert::UNEXPECTED_MESSAGE,
        ),
        (vec![2, record::ALERT], 50),
    ];
    for (inner, expected) in cases {
        let (end, mut client) = End::forged();
        let sealed = client.sealed(&inner);
        assert!(sealed.len() >= HEADER_BYTES);
        let (why, alert) = refused(&sealed, end);
        assert_eq!(alert, Some(expected), "{inner:?}: {why}");
    }
}

#[test]
fn data_within_a_message_is_not_given() {
    let (mut end, mut client) = End::forged();
    end.comes(&client.record(record::HANDSHAKE, &key_update(true)[..3], 0));
    assert_eq!(end.receive(10), Ok(None));
    let data = client.record(record::APPLICATION_DATA, b"data", 0);
    let (_, alert) = refused(&data, end);
    assert_eq!(alert, Some(alert::UNEXPECTED_MESSAGE));
}

#[test]
fn records_twice_or_left_out_end_the_connection() {
    let (_, mut client) = End::forged();
    let records = [b"one", b"two"].map(|text| client.record(record::APPLICATION_DATA, text, 0));
    for order in [&[0, 0][..], &[1]] {
        let (mut end, _) = End::forged();
        let bytes: Vec<u8> = order.iter().flat_map(|at: &usize| records[*at].clone()).collect();
        end.comes(&bytes);
        let first = end.receive(100);
        assert!(first.is_err() || first == Ok(Some(b"one".to_vec())), "{first:?}");
        assert!(end.receive(100).unwrap_err().contains("changed"));
    }
}
