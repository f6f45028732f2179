//! The byte streams cut at every position, and served in small pieces: nothing changes.

use crate::nbd::pair::{Pair, exports};
use weft_proto::nbd::code::{CommandCode, CommandFlags, ErrorCode};
use weft_proto::nbd::{ClientConfig, Form, ServerConfig};

/// A conversation with everything in it; gives how many bytes went each way.
fn converse(form: Form, cuts: [usize; 2], step: usize) -> [usize; 2] {
    let mut pair = Pair::new(
        ClientConfig { form, ..ClientConfig::new("first") },
        ServerConfig::new(exports()),
    );
    (pair.cuts, pair.step) = (cuts, step);
    pair.run();
    assert!(pair.ready, "{cuts:?}");
    let data: Vec<u8> = (0..1024).map(|n| (n / 3) as u8).collect();
    pair.write(512, data.clone());
    assert!(pair.read(512, 1024) == data, "{cuts:?}");
    let none = CommandFlags::default();
    assert_eq!(pair.command(CommandCode::READ, none, 1, 1, vec![0]).0, ErrorCode::EINVAL);
    assert_eq!(pair.command(CommandCode::WRITE, none, 1, 512, vec![0; 512]).0, ErrorCode::EINVAL);
    assert_eq!(pair.command(CommandCode::FLUSH, none, 0, 0, Vec::new()).0, ErrorCode::SUCCESS);
    pair.client.engine.disconnect();
    pair.run();
    assert!(
        pair.target.left
            && pair.target.end.engine.violation().is_none()
            && pair.client.engine.violation().is_none()
    );
    pair.passed
}

#[test]
fn one_cut_anywhere_changes_nothing() {
    for form in [Form::Simple, Form::Structured, Form::Extended] {
        let [feed_server, feed_client] = converse(form, [0, 0], usize::MAX);
        (0..feed_server).for_each(|at| {
            assert_eq!(converse(form, [at, 0], usize::MAX), [feed_server, feed_client])
        });
        (0..feed_client).for_each(|at| {
            assert_eq!(converse(form, [0, at], usize::MAX), [feed_server, feed_client])
        });
    }
}

#[test]
fn small_pieces_change_nothing() {
    for form in [Form::Simple, Form::Structured, Form::Extended] {
        let whole = converse(form, [0, 0], usize::MAX);
        (1..70).for_each(|step| assert_eq!(converse(form, [0, 0], step), whole));
    }
}

#[test]
fn a_stream_that_ends_anywhere_leaves_truthful_engines() {
    for end in 0..200 {
        let mut pair = Pair::plain("first");
        pair.run();
        let tag = pair.submit(CommandCode::WRITE, CommandFlags::default(), 0, 512, vec![1; 512]);
        assert!(pair.client.engine.never_sent(tag));
        let bytes = pair.client.transmit();
        assert!(!pair.client.engine.never_sent(tag));
        pair.target.receive(&bytes[..end]);
        assert!(
            pair.target.log.len() <= 1 && pair.target.disk.iter().all(|&byte| byte == 0),
            "nothing is written by half"
        );
    }
}
