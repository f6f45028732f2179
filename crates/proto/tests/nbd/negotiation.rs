//! Options, from LIST to GO.

use crate::nbd::pair::{Pair, exports, info};
use weft_proto::nbd::code::{CommandCode, CommandFlags, OptionCode, ReplyCode, TransmissionFlags};
use weft_proto::nbd::{BlockSizes, ClientConfig, Form, ServerConfig, Violation};

/// An option on the wire.
pub fn option(code: OptionCode, data: &[u8]) -> Vec<u8> {
    let head =
        [&b"IHAVEOPT"[..], &code.0.to_be_bytes(), &(data.len() as u32).to_be_bytes()].concat();
    [&head[..], data].concat()
}

/// A string with its length.
fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// The replies in what a server sends: option, code and data of each.
fn replies(mut bytes: &[u8]) -> Vec<(u32, ReplyCode, Vec<u8>)> {
    let word = |at: usize, bytes: &[u8]| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut found = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(bytes[..8], 0x0003_e889_0455_65a9u64.to_be_bytes());
        let len = word(16, bytes) as usize;
        found.push((word(8, bytes), ReplyCode(word(12, bytes)), bytes[20..20 + len].to_vec()));
        bytes = &bytes[20 + len..];
    }
    found
}

/// A server that has greeted and been answered.
pub fn greeted(config: ServerConfig) -> Pair {
    let mut pair = Pair::new(ClientConfig::new(""), config);
    let greeting = pair.target.transmit();
    assert_eq!(greeting, b"NBDMAGICIHAVEOPT\0\x03");
    pair.target.receive(&[0, 0, 0, 3]);
    pair
}

fn ask(pair: &mut Pair, code: OptionCode, data: &[u8]) -> Vec<(u32, ReplyCode, Vec<u8>)> {
    pair.target.receive(&option(code, data));
    replies(&pair.target.transmit())
}

fn codes(replies: &[(u32, ReplyCode, Vec<u8>)]) -> Vec<ReplyCode> {
    replies.iter().map(|(_, code, _)| *code).collect()
}

#[test]
fn exports_are_listed_with_their_descriptions() {
    let mut pair = greeted(ServerConfig::new(exports()));
    let listed = ask(&mut pair, OptionCode::LIST, &[]);
    assert_eq!(codes(&listed), [ReplyCode::SERVER, ReplyCode::SERVER, ReplyCode::ACK]);
    assert_eq!(listed[1].2, [&string("second")[..], b"the second"].concat());
    assert_eq!(codes(&ask(&mut pair, OptionCode::LIST, b"x")), [ReplyCode::ERR_INVALID]);
}

#[test]
fn info_tells_what_go_would() {
    let mut pair = greeted(ServerConfig::new(exports()));
    let data = [&string("")[..], &[0, 3, 0, 1, 0, 2, 0, 3]].concat();
    let told = ask(&mut pair, OptionCode::INFO, &data);
    assert_eq!(
        codes(&told),
        [ReplyCode::INFO, ReplyCode::INFO, ReplyCode::INFO, ReplyCode::INFO, ReplyCode::ACK]
    );
    assert_eq!(told[0].2[..10], [&[0, 0][..], &info().size_bytes.to_be_bytes()].concat());
    assert_eq!(told[1].2, [&[0, 1][..], b"first"].concat());
    assert_eq!(told[3].2, [&[0, 3][..], &[0, 0, 2, 0, 0, 0, 16, 0, 0, 1, 0, 0]].concat());
    assert!(!pair.target.end.engine.is_transmitting());
    assert_eq!(
        codes(&ask(&mut pair, OptionCode::INFO, &[&string("third")[..], &[0, 0]].concat())),
        [ReplyCode::ERR_UNKNOWN]
    );
    for malformed in
        [&[][..], &[0, 0, 0, 9, 1], &[0, 0, 0, 0, 0, 1], &[0, 0, 0, 0, 0, 0, 1], &[0xff; 40]]
    {
        assert_eq!(
            codes(&ask(&mut pair, OptionCode::GO, malformed)),
            [ReplyCode::ERR_INVALID],
            "{malformed:?}"
        );
    }
    assert_eq!(codes(&ask(&mut pair, OptionCode::GO, &data)).pop(), Some(ReplyCode::ACK));
    assert!(pair.target.end.engine.is_transmitting());
}

#[test]
fn unknown_and_oversized_options_are_answered_and_skipped() {
    let mut pair = greeted(ServerConfig::new(exports()));
    assert_eq!(codes(&ask(&mut pair, OptionCode(77), b"whatever")), [ReplyCode::ERR_UNSUP]);
    assert_eq!(
        codes(&ask(&mut pair, OptionCode::INFO, &vec![0; 100_000])),
        [ReplyCode::ERR_TOO_BIG]
    );
    assert_eq!(codes(&ask(&mut pair, OptionCode::STARTTLS, &[])), [ReplyCode::ERR_POLICY]);
    assert_eq!(codes(&ask(&mut pair, OptionCode::LIST, &[])).len(), 3);
}

#[test]
fn contexts_are_selected_for_the_export_that_is_used() {
    for (form, chunk) in [(OptionCode::STRUCTURED_REPLY, 5), (OptionCode::EXTENDED_HEADERS, 6)] {
        for (context, used, works) in [("first", "first", true), ("second", "first", false)] {
            let mut pair = greeted(ServerConfig::new(exports()));
            let queries =
                [&string(context)[..], &1u32.to_be_bytes(), &string("base:allocation")].concat();
            assert_eq!(
                codes(&ask(&mut pair, OptionCode::SET_META_CONTEXT, &queries)),
                [ReplyCode::ERR_INVALID]
            );
            assert_eq!(codes(&ask(&mut pair, form, &[])), [ReplyCode::ACK]);
            assert_eq!(
                codes(&ask(&mut pair, OptionCode::SET_META_CONTEXT, &queries)),
                [ReplyCode::META_CONTEXT, ReplyCode::ACK]
            );
            ask(&mut pair, OptionCode::GO, &[&string(used)[..], &[0, 0]].concat());
            pair.target.receive(&request(
                form == OptionCode::EXTENDED_HEADERS,
                CommandCode::BLOCK_STATUS,
                7,
                512,
                4096,
            ));
            let answer = pair.target.transmit();
            let kind = u16::from_be_bytes(answer[6..8].try_into().unwrap());
            assert_eq!(kind, if works { chunk } else { 0x8001 });
            if works {
                // One extent, as long as what was asked about, without flags.
                let tail = if chunk == 5 { 8 } else { 16 };
                let extent = &answer[answer.len() - tail..];
                assert_eq!(
                    extent[..tail / 2].iter().rev().take(4).rev().copied().collect::<Vec<_>>(),
                    4096u32.to_be_bytes()
                );
                assert!(extent[tail / 2..].iter().all(|&byte| byte == 0));
            }
        }
    }
}

/// A request on the wire.
pub fn request(
    extended: bool,
    code: CommandCode,
    cookie: u64,
    offset: u64,
    length: u64,
) -> Vec<u8> {
    let magic: u32 = if extended { 0x21e4_1c71 } else { 0x2560_9513 };
    let mut bytes = [
        &magic.to_be_bytes()[..],
        &[0, 0],
        &code.0.to_be_bytes(),
        &cookie.to_be_bytes(),
        &offset.to_be_bytes(),
    ]
    .concat();
    if extended {
        bytes.extend_from_slice(&length.to_be_bytes());
    } else {
        bytes.extend_from_slice(&(length as u32).to_be_bytes());
    }
    bytes
}

#[test]
fn contexts_are_listed() {
    let mut pair = greeted(ServerConfig::new(exports()));
    ask(&mut pair, OptionCode::STRUCTURED_REPLY, &[]);
    for (queries, found) in [
        (vec![], true),
        (vec!["base:"], true),
        (vec!["qemu:x", "x", "base:allocation"], true),
        (vec!["x-y:"], false),
        (vec!["x"], false),
    ] {
        let mut data = [&string("first")[..], &(queries.len() as u32).to_be_bytes()].concat();
        queries.iter().for_each(|query| data.extend(string(query)));
        assert_eq!(
            codes(&ask(&mut pair, OptionCode::LIST_META_CONTEXT, &data)).len(),
            1 + usize::from(found),
            "{queries:?}"
        );
    }
    assert_eq!(
        codes(&ask(&mut pair, OptionCode::LIST_META_CONTEXT, b"\0\0\0\0\0\0\0\x01\0\0\0\x02x")),
        [ReplyCode::ERR_INVALID]
    );
}

#[test]
fn extended_headers_take_precedence() {
    let mut pair = greeted(ServerConfig::new(exports()));
    assert_eq!(codes(&ask(&mut pair, OptionCode::STRUCTURED_REPLY, &[])), [ReplyCode::ACK]);
    assert_eq!(codes(&ask(&mut pair, OptionCode::EXTENDED_HEADERS, &[])), [ReplyCode::ACK]);
    assert_eq!(
        codes(&ask(&mut pair, OptionCode::STRUCTURED_REPLY, &[])),
        [ReplyCode::ERR_EXT_HEADER_REQD]
    );
    pair.target.receive(&option(OptionCode::EXPORT_NAME, b"first"));
    assert_eq!(pair.target.end.engine.violation(), Some(Violation::ExportName));
}

#[test]
fn an_export_name_is_answered_with_or_without_zeroes() {
    for (flags, length) in [(1u8, 134), (3, 10)] {
        let mut pair = Pair::plain("");
        pair.target.transmit();
        pair.target.receive(&[0, 0, 0, flags]);
        pair.target.receive(&option(OptionCode::EXPORT_NAME, b"first"));
        assert_eq!(pair.target.transmit().len(), length);
        assert!(pair.target.end.engine.is_transmitting());
    }
}

#[test]
fn the_negotiation_is_ended_by_abort() {
    let mut pair = greeted(ServerConfig::new(exports()));
    assert_eq!(codes(&ask(&mut pair, OptionCode::ABORT, b"bye")), [ReplyCode::ACK]);
    assert!(pair.target.end.closed && pair.target.end.engine.violation().is_none());
}

#[test]
fn tls_comes_first_where_it_is_wanted() {
    let config = ServerConfig { tls: true, ..ServerConfig::new(exports()) };
    let mut plain = Pair::new(ClientConfig::new("first"), config.clone());
    plain.run();
    let refusal = plain.client.engine.refusal().unwrap();
    assert_eq!((refusal.option, refusal.code), (OptionCode::GO, ReplyCode::ERR_TLS_REQD));
    assert!(plain.refused && !plain.ready);
    let mut pair = Pair::new(ClientConfig { tls: true, ..ClientConfig::new("first") }, config);
    pair.run();
    assert!(!pair.ready);
    pair.target.end.engine.secured();
    pair.client.engine.secured();
    pair.run();
    assert!(pair.ready);
    pair.write(0, vec![5; 512]);
}

#[test]
fn a_client_that_wants_tls_goes_on_with_nothing_else() {
    let mut pair = Pair::new(
        ClientConfig { tls: true, ..ClientConfig::new("first") },
        ServerConfig::new(exports()),
    );
    pair.run();
    let refusal = pair.client.engine.refusal().unwrap();
    assert_eq!((refusal.option, refusal.code), (OptionCode::STARTTLS, ReplyCode::ERR_POLICY));
    assert!(pair.target.end.closed, "the client takes its leave");
}

#[test]
fn a_missing_export_is_named() {
    let mut pair = Pair::plain("third");
    pair.run();
    let refusal = pair.client.engine.refusal().unwrap();
    assert_eq!((refusal.code, refusal.message.as_str()), (ReplyCode::ERR_UNKNOWN, "not here"));
}

#[test]
fn sizes_and_flags_reach_the_client() {
    let mut pair = Pair::plain("");
    pair.run();
    let export = *pair.client.engine.export();
    assert_eq!(export.sizes, BlockSizes { minimum: 512, preferred: 4096, payload_max: 65_536 });
    assert_eq!(export.flags, info().flags.with(TransmissionFlags::SEND_DF));
    assert_eq!(pair.client.engine.form(), Form::Extended);
    assert_eq!(
        pair.command(CommandCode::TRIM, CommandFlags::default(), 0, 1 << 20, Vec::new()).0.0,
        0
    );
}

#[test]
fn a_client_that_chooses_no_export_is_given_up() {
    use core::time::Duration;
    use weft_proto::stream::StreamEngine;
    let limit = Duration::from_secs(10);
    let mut pair =
        greeted(ServerConfig { negotiation_limit: limit, ..ServerConfig::new(exports()) });
    let server = &mut pair.target.end.engine;
    server.tick(limit);
    assert_eq!(server.deadline(), Some(2 * limit));
    server.tick(2 * limit);
    assert!(server.is_closed() && !server.wants_transmit());
    assert_eq!(
        (server.violation(), server.deadline()),
        (Some(Violation::NegotiationLate(limit)), None)
    );
}
