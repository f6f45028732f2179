//! Records that are not data, between data.

use super::super::layout::OVERHEAD_BYTES;
use super::*;
use crate::control::{alert, key_update, record};
use crate::limits::TLS_CONTROL_RECORDS_MAX;
use crate::tests::pattern;

#[test]
fn the_end_comes_behind_the_data_and_is_told_by_itself() {
    let [mut from, mut to] = pair(PskHash::Sha256);
    assert_eq!(from.send(b"the last"), 8);
    from.stream.shutdown().unwrap();
    from.stream.shutdown().unwrap();
    assert_eq!(from.from_it.change(|way| way.record.len()), 8 + 2 + 2 * OVERHEAD_BYTES);
    assert_eq!(to.receive(100), Ok(Some(b"the last".to_vec())));
    assert!(to.stream.has_buffered() && !to.stream.tells_rest(), "no readiness tells the end");
    // What comes behind the end is nothing.
    to.comes(b"anything");
    for _ in 0..2 {
        assert_eq!(to.receive(100), Ok(Some(Vec::new())));
        assert!(!to.stream.has_buffered());
    }
    // The other direction goes on, and the one that has ended does not.
    assert_eq!(to.send(b"answer"), 6);
    assert_eq!(from.receive(100), Ok(Some(b"answer".to_vec())));
    let refused = from.stream.send(&[IoSlice::new(b"x")]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_stream_that_is_cut_gives_whole_records_and_ends() {
    let [mut from, to] = pair(PskHash::Sha256);
    assert_eq!(from.send(b"first"), 5);
    let first = to.to_it.change(|way| way.bytes.len());
    assert_eq!(from.send(b"second"), 6);
    let bytes: Vec<u8> = to.to_it.change(|way| way.bytes.drain(..).collect());
    for cut in 0..bytes.len() {
        let [_, mut to] = pair(PskHash::Sha256);
        to.comes(&bytes[..cut]);
        to.to_it.change(|way| way.ended = true);
        let expected: &[u8] = if cut >= first { b"first" } else { b"" };
        let got = to.receive(100).unwrap().unwrap();
        assert_eq!(got, expected, "cut at {cut}");
        assert_eq!(to.receive(100), Ok(Some(Vec::new())), "cut at {cut}");
    }
}

#[test]
fn an_alert_ends_the_connection_for_its_reason() {
    for (number, expected) in [
        (40, "the peer ended it with alert 40"),
        (20, "a record was changed on its way, or the keys differ"),
        (115, "the peer has no key for this PSK identity"),
    ] {
        let (mut end, mut client) = End::forged();
        end.comes(&client.record(record::APPLICATION_DATA, b"data", 0));
        end.comes(&client.record(record::ALERT, &[2, number], 0));
        assert_eq!(end.receive(100), Ok(Some(b"data".to_vec())));
        assert!(end.stream.has_buffered(), "the failure is still to be told");
        let why = format!("TLS: {expected}");
        for _ in 0..2 {
            assert_eq!(end.receive(100), Err(why.clone()));
            assert_eq!(end.stream.send(&[IoSlice::new(b"x")]).unwrap_err().to_string(), why);
        }
        assert_eq!(end.alert(PskHash::Sha256), None, "an alert is not answered");
    }
}

#[test]
fn keys_change_in_the_middle_of_a_load_from_either_end() {
    for hash in [PskHash::Sha256, PskHash::Sha384] {
        let [mut client, mut server] = pair(hash);
        let data = pattern(600_000);
        let (mut sent, mut got) = ([0, 0], [Vec::new(), Vec::new()]);
        let mut round = 0;
        while got.iter().any(|got| got.len() < data.len()) {
            round += 1;
            for way in [&client.from_it, &server.from_it] {
                way.change(|way| way.room = way.bytes.len() + 9000);
            }
            match round % 7 {
                0 => client.stream.renew(),
                3 => server.stream.renew(),
                5 => {
                    client.stream.renew();
                    server.stream.renew();
                }
                _ => {}
            }
            sent[0] += client.send(&data[sent[0]..]);
            got[0].extend(server.receive(7000).unwrap().unwrap_or_default());
            sent[1] += server.send(&data[sent[1]..]);
            got[1].extend(client.receive(7000).unwrap().unwrap_or_default());
        }
        assert!(got == [data.clone(), data], "what arrived differs");
        assert!(client.stream.records().iter().all(|count| *count < 50), "old keys");
    }
}

#[test]
fn new_keys_without_a_demand_are_not_answered() {
    let (mut end, mut client) = End::forged();
    for _ in 0..3 {
        end.comes(&client.record(record::HANDSHAKE, &key_update(false), 0));
        client.renew();
        end.comes(&client.record(record::APPLICATION_DATA, b"data", 0));
        assert_eq!(end.receive(10), Ok(Some(b"data".to_vec())));
    }
    assert!(end.from_it.change(|way| way.record.is_empty()));
}

#[test]
fn old_keys_are_good_for_nothing_once_there_are_new_ones() {
    let (mut end, mut client) = End::forged();
    end.comes(&client.record(record::HANDSHAKE, &key_update(false), 0));
    // A forger that does not use the keys that it has announced.
    end.comes(&client.record(record::APPLICATION_DATA, b"data", 0));
    assert!(end.receive(10).unwrap_err().contains("the keys differ"));
    assert_eq!(end.alert(PskHash::Sha256), Some(alert::BAD_RECORD_MAC));
}

#[test]
fn records_without_data_come_to_an_end() {
    for kind in ["keys", "nothing", "warnings"] {
        for has_data in [true, false] {
            let (mut end, mut client) = End::forged();
            let mut failed = None;
            for round in 0..3 * TLS_CONTROL_RECORDS_MAX {
                end.comes(&match kind {
                    "keys" => client.record(record::HANDSHAKE, &key_update(true), 0),
                    "nothing" => client.record(record::APPLICATION_DATA, b"", 9),
                    _ => client.record(record::ALERT, &[1, 90], 0),
                });
                if kind == "keys" {
                    client.renew();
                }
                if has_data {
                    end.comes(&client.record(record::APPLICATION_DATA, b"x", 0));
                }
                if let Err(why) = end.receive(10) {
                    failed = Some((round, why));
                    break;
                }
            }
            let expected = (!has_data).then_some(TLS_CONTROL_RECORDS_MAX);
            assert_eq!(failed.as_ref().map(|(round, _)| *round), expected, "{kind}: {failed:?}");
        }
    }
}
