//! A server that takes what its clients begin with.

use super::*;
use crate::endpoint::OptionalTls;

/// A server's end, what a client sends to it, and what it sends back.
fn end(piece: usize) -> (OptionalTls, Direction, Direction) {
    let (to_server, to_client) = (Direction::default(), Direction::default());
    to_server.change(|way| way.piece = piece);
    let context = Arc::new(Context::new(server(vec![(IDENTITY, psk(PskHash::Sha256))])).unwrap());
    let pipe = Box::new(Pipe { from: to_server.clone(), to: to_client.clone() });
    (OptionalTls::new(pipe, &context, true), to_server, to_client)
}

/// Receives all that there is.
fn drain(from: &mut OptionalTls, piece: usize) -> Vec<u8> {
    let (mut got, mut first, mut second) = (Vec::new(), [0; 3], vec![0; piece]);
    loop {
        match from.recv(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)]) {
            Ok(0) => return got,
            Ok(n) => got.extend(first.iter().chain(&second).take(n)),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::WouldBlock);
                return got;
            }
        }
    }
}

#[test]
fn plain_text_stays_as_it_is() {
    if is_skipped() {
        return;
    }
    for piece in [1, 5, usize::MAX] {
        let (mut end, to_server, to_client) = end(piece);
        assert!(drain(&mut end, 100).is_empty());
        assert_eq!(end.send(&[IoSlice::new(b"early")]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let bytes = pattern(5000);
        to_server.change(|way| way.bytes.extend(&bytes));
        assert!(drain(&mut end, 100) == bytes, "pieces of {piece}");
        assert_eq!(end.send(&[IoSlice::new(b"answer")]).unwrap(), 6);
        assert_eq!(to_client.change(|way| way.record.clone()), b"answer");
        assert!(end.whom().identity().is_none() && !end.has_buffered());
        to_server.change(|way| way.ended = true);
        assert_eq!(end.recv(&mut [IoSliceMut::new(&mut [0; 9])]).unwrap(), 0);
    }
}

#[test]
fn a_hello_begins_tls() {
    if is_skipped() {
        return;
    }
    for piece in [1, usize::MAX] {
        let (mut end, to_server, to_client) = end(piece);
        let context =
            Context::new(Secrets::Client(IDENTITY.to_vec(), psk(PskHash::Sha256))).unwrap();
        let pipe = Box::new(Pipe { from: to_client, to: to_server.clone() });
        let mut client = super::end(pipe, &context, TlsRole::Client);
        for _ in 0..100 {
            look(&mut client).unwrap();
            look(&mut end).unwrap();
        }
        assert_eq!(end.whom().identity(), Some(IDENTITY));
        let bytes = pattern(40_000);
        carry(&mut client, &mut end, &bytes);
        carry(&mut end, &mut client, &bytes);
        assert!(
            to_server.change(|way| !way.record.windows(64).any(|some| some == &bytes[..64])),
            "plain text"
        );
    }
}

#[test]
fn what_only_looks_like_a_hello_is_refused() {
    if is_skipped() {
        return;
    }
    let (mut end, to_server, _) = end(usize::MAX);
    to_server.change(|way| way.bytes.extend([&[0x16][..], &[0; 127]].concat()));
    let refused = end.recv(&mut [IoSliceMut::new(&mut [0; 128])]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidData);
    assert!(end.whom().identity().is_none());
}

#[test]
fn nothing_at_all_is_an_end() {
    if is_skipped() {
        return;
    }
    let (mut end, to_server, _) = end(1);
    to_server.change(|way| way.ended = true);
    assert_eq!(end.recv(&mut [IoSliceMut::new(&mut [0; 8])]).unwrap(), 0);
}
