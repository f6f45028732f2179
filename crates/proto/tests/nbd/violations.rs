//! Messages that a peer must not send: for each rule, the connection is closed.

use crate::nbd::negotiation::{greeted, option, request};
use crate::nbd::pair::{Pair, exports};
use crate::nbd::transfers::ready;
use weft_proto::nbd::code::{ChunkType, CommandCode, CommandFlags, ErrorCode, OptionCode};
use weft_proto::nbd::{BlockSizes, ClientConfig, Form, ServerConfig, Violation};
use weft_proto::stream::StreamEngine;

fn server(bytes: &[u8]) -> Option<Violation> {
    let mut pair = greeted(ServerConfig::new(exports()));
    pair.target.receive(bytes);
    assert_eq!(pair.target.end.closed, pair.target.end.engine.violation().is_some());
    pair.target.end.engine.violation()
}

#[test]
fn of_a_client() {
    assert_eq!(server(b"IHAVEOP!\0\0\0\x03\0\0\0\0"), Some(Violation::OptionMagic));
    assert_eq!(server(&option(OptionCode::EXPORT_NAME, b"third")), Some(Violation::ExportName));
    assert_eq!(server(&option(OptionCode::EXPORT_NAME, b"\xff")), Some(Violation::ExportName));
    let mut go = option(OptionCode::EXPORT_NAME, b"first");
    assert_eq!(server(&go), None);
    let long = request(false, CommandCode::WRITE, 1, 0, 33 << 20);
    assert_eq!(server(&[&go[..], &long].concat()), Some(Violation::Payload(33 << 20)));
    go.extend_from_slice(&[0; 28]);
    assert_eq!(server(&go), Some(Violation::RequestMagic));
    let mut pair = Pair::plain("");
    pair.target.transmit();
    pair.target.receive(&[0, 0, 0, 4]);
    assert_eq!(pair.target.end.engine.violation(), Some(Violation::ClientFlags(4)));
    let mut tls = greeted(ServerConfig { tls: true, ..ServerConfig::new(exports()) });
    tls.target
        .receive(&[option(OptionCode::STARTTLS, &[]), option(OptionCode::LIST, &[])].concat());
    tls.target.resume();
    assert_eq!(tls.target.end.engine.violation(), Some(Violation::PlainTextBeforeTls));
}

/// Returns a client's reaction to bytes at its start.
fn client(config: ClientConfig, bytes: &[u8]) -> Option<Violation> {
    let mut pair = Pair::new(config, ServerConfig::new(exports()));
    pair.feed_client(bytes);
    pair.client.engine.violation()
}

fn reply(option: OptionCode, code: u32, data: &[u8]) -> Vec<u8> {
    let magic = 0x0003_e889_0455_65a9u64.to_be_bytes();
    let head = [
        &magic[..],
        &option.0.to_be_bytes(),
        &code.to_be_bytes(),
        &(data.len() as u32).to_be_bytes(),
    ]
    .concat();
    [&head[..], data].concat()
}

#[test]
fn of_a_server_that_negotiates() {
    let simple = || ClientConfig { form: Form::Simple, ..ClientConfig::new("") };
    let greeting = b"NBDMAGICIHAVEOPT\0\x03";
    let after = |bytes: &[u8]| client(simple(), &[&greeting[..], bytes].concat());
    assert_eq!(client(simple(), b"SSH-2.0-OpenSSH\r\n"), Some(Violation::NotNbd));
    assert_eq!(client(simple(), b"NBDMAGICNBDMAGIC\0\x03"), Some(Violation::NotNbd));
    assert_eq!(after(&[0; 20]), Some(Violation::OptionReplyMagic));
    assert_eq!(
        after(&reply(OptionCode::LIST, 1, &[])),
        Some(Violation::OptionMismatch(OptionCode::LIST))
    );
    assert_eq!(after(&reply(OptionCode::GO, 2, &[])), Some(Violation::OptionReply(OptionCode::GO)));
    assert_eq!(
        after(&reply(OptionCode::GO, 3, &[0, 0, 1])),
        Some(Violation::OptionReply(OptionCode::GO))
    );
    assert_eq!(
        after(&reply(OptionCode::GO, 3, &[0; 20_000])),
        Some(Violation::OptionReply(OptionCode::GO))
    );
    assert_eq!(after(&reply(OptionCode::GO, 1, &[])), Some(Violation::NoSize));
    assert_eq!(
        after(&reply(OptionCode::GO, 3, &[0, 9]).repeat(100)),
        Some(Violation::OptionReply(OptionCode::GO))
    );
    let export = reply(OptionCode::GO, 3, &[0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1]);
    assert_eq!(after(&[&export[..], &reply(OptionCode::GO, 1, &[])].concat()), None);
}

/// As libnbd does it.
#[test]
fn block_sizes_against_the_rules_are_not_counted() {
    let mut pair = Pair::new(
        ClientConfig { form: Form::Simple, ..ClientConfig::new("") },
        ServerConfig::new(exports()),
    );
    let export = reply(OptionCode::GO, 3, &[0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1]);
    let sizes = reply(OptionCode::GO, 3, &[0, 3, 0, 0, 2, 1, 0, 0, 16, 0, 0, 1, 0, 0]);
    pair.feed_client(
        &[&b"NBDMAGICIHAVEOPT\0\x03"[..], &export, &sizes, &reply(OptionCode::GO, 1, &[])].concat(),
    );
    let client = &pair.client.engine;
    assert_eq!((client.violation(), client.export().sizes), (None, BlockSizes::DEFAULT));
    assert_eq!(
        client.strange_sizes(),
        Some(BlockSizes { minimum: 513, preferred: 4096, payload_max: 65_536 })
    );
    assert!(pair.ready);
}

/// `nbdkit --oldstyle`, and servers of before 2012.
#[test]
fn oldstyle_servers_have_one_export() {
    let flags = 0b1101_u32;
    let size = (1_u64 << 20).to_be_bytes();
    let greeting = [
        &b"NBDMAGIC"[..],
        &0x0000_4202_8186_1253u64.to_be_bytes(),
        &size,
        &flags.to_be_bytes(),
        &[0; 124],
    ]
    .concat();
    for cut in [1, 17, 27, 28, 29, 151, 152] {
        let mut pair = Pair::plain("");
        pair.feed_client(&greeting[..cut]);
        pair.feed_client(&greeting[cut..]);
        assert!(pair.ready && pair.client.engine.violation().is_none(), "{cut}");
        let export = pair.client.engine.export();
        assert_eq!(
            (export.size_bytes, u32::from(export.flags.0), export.sizes),
            (1 << 20, flags, BlockSizes::DEFAULT)
        );
    }
    let tls = ClientConfig { tls: true, ..ClientConfig::new("") };
    for (config, option) in
        [(ClientConfig::new("disk"), OptionCode::GO), (tls, OptionCode::STARTTLS)]
    {
        let mut pair = Pair::new(config, ServerConfig::new(exports()));
        pair.feed_client(&greeting);
        assert_eq!(pair.client.engine.refusal().unwrap().option, option);
        assert!(
            !pair.ready && !pair.client.engine.wants_transmit(),
            "it would take options for requests"
        );
    }
}

/// A chunk of a structured reply.
fn chunk(done: bool, kind: u16, cookie: u64, data: &[u8]) -> Vec<u8> {
    let head = [
        &0x668e_33efu32.to_be_bytes()[..],
        &[0, u8::from(done)],
        &kind.to_be_bytes(),
        &cookie.to_be_bytes(),
    ]
    .concat();
    [&head[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

fn data(offset: u64, len: usize) -> Vec<u8> {
    [&offset.to_be_bytes()[..], &vec![9; len]].concat()
}

fn hole(offset: u64, len: u32) -> Vec<u8> {
    [&offset.to_be_bytes()[..], &len.to_be_bytes()].concat()
}

/// Returns the reaction of a client that reads 4096 bytes from 8192 on to an answer, whose cookie
/// is 0.
fn answered(form: Form, bytes: &[u8]) -> (Option<Violation>, Vec<ErrorCode>, Vec<u8>) {
    let mut pair = ready(form);
    pair.target.hold = true;
    pair.submit(CommandCode::READ, CommandFlags::default(), 8192, 4096, vec![1; 4096]);
    pair.run();
    pair.feed_client(bytes);
    let errors = pair.responses.iter().map(|(_, error)| *error).collect();
    (pair.client.engine.violation(), errors, pair.client.memory[0].clone())
}

#[test]
fn of_a_server_that_answers() {
    let broken = |bytes: &[u8]| answered(Form::Structured, bytes).0;
    let simple =
        |cookie: u64| [&0x6744_6698u32.to_be_bytes()[..], &[0; 4], &cookie.to_be_bytes()].concat();
    assert_eq!(broken(&[7; 20]), Some(Violation::ReplyMagic));
    assert_eq!(broken(&simple(0)), Some(Violation::SimpleRead));
    assert_eq!(broken(&simple(1)), Some(Violation::Cookie));
    assert_eq!(broken(&simple(1 << 16)), Some(Violation::Cookie));
    assert_eq!(broken(&chunk(true, 0, 5, &[])), Some(Violation::Cookie));
    assert_eq!(broken(&chunk(true, 0, 0, &[])), Some(Violation::DataMissing));
    assert_eq!(broken(&chunk(true, 1, 0, &data(8192, 2048))), Some(Violation::DataMissing));
    assert_eq!(broken(&chunk(true, 1, 0, &data(8191, 2))), Some(Violation::DataRange));
    assert_eq!(broken(&chunk(true, 1, 0, &data(8192, 4097))), Some(Violation::DataRange));
    assert_eq!(broken(&chunk(true, 1, 0, &data(u64::MAX, 1))), Some(Violation::DataRange));
    let twice =
        [chunk(false, 1, 0, &data(8192, 512)), chunk(false, 2, 0, &hole(8600, 512))].concat();
    assert_eq!(broken(&twice), Some(Violation::DataRange));
    assert_eq!(broken(&chunk(true, 2, 0, &hole(8192, 0))), Some(Violation::DataRange));
    assert_eq!(
        broken(&chunk(true, 5, 0, &[0; 12])),
        Some(Violation::Chunk(ChunkType::BLOCK_STATUS))
    );
    assert_eq!(broken(&chunk(false, 0, 0, &[])), Some(Violation::Chunk(ChunkType::NONE)));
    assert_eq!(broken(&chunk(true, 1, 0, &[0; 8])), Some(Violation::Chunk(ChunkType::OFFSET_DATA)));
    assert_eq!(broken(&chunk(true, 0x8001, 0, &[0; 6])), Some(Violation::Chunk(ChunkType::ERROR)));
    assert_eq!(
        broken(&chunk(true, 0x8001, 0, &[0, 0, 0, 5, 0, 9])),
        Some(Violation::Chunk(ChunkType::ERROR))
    );
}

#[test]
fn pieces_holes_and_errors_are_put_together() {
    let bytes =
        [chunk(false, 1, 0, &data(10_240, 2048)), chunk(true, 2, 0, &hole(8192, 2048))].concat();
    let (violation, errors, memory) = answered(Form::Structured, &bytes);
    assert_eq!((violation, errors), (None, vec![ErrorCode::SUCCESS]));
    assert!(
        memory[..2048].iter().all(|&byte| byte == 0)
            && memory[2048..].iter().all(|&byte| byte == 9)
    );
    let text = [&[0, 0, 0, 5, 0, 3][..], b"bad", &8192u64.to_be_bytes()].concat();
    let bytes = [
        chunk(false, 1, 0, &data(8192, 512)),
        chunk(false, 0x8002, 0, &text),
        chunk(true, 0, 0, &[]),
    ]
    .concat();
    assert_eq!(answered(Form::Structured, &bytes).1, [ErrorCode::EIO]);
    let unknown = chunk(true, 0x8123, 0, &[0, 0, 0, 28, 0, 0, 7, 7]);
    assert_eq!(answered(Form::Structured, &unknown).1, [ErrorCode::ENOSPC]);
}

/// Returns a client's reaction to an answer to block status of 8192 bytes from 4096 on. The context
/// has number 1, as that of our server.
fn told(form: Form, bytes: &[u8]) -> (Option<Violation>, Vec<(u64, bool)>, Vec<ErrorCode>) {
    let mut pair = ready(form);
    pair.target.hold = true;
    let code = CommandCode::BLOCK_STATUS;
    pair.submit(code, CommandFlags::default(), 4096, 8192, Vec::new());
    // Our server answers at once: it is not asked.
    pair.client.transmit();
    for piece in bytes.chunks(7) {
        pair.feed_client(piece);
    }
    let errors = pair.responses.iter().map(|(_, error)| *error).collect();
    (pair.client.engine.violation(), pair.extents, errors)
}

fn extents(context: u32, all: &[(u32, u32)]) -> Vec<u8> {
    let each = all.iter().flat_map(|(len, flags)| [len.to_be_bytes(), flags.to_be_bytes()]);
    [context.to_be_bytes()].into_iter().chain(each).flatten().collect()
}

#[test]
fn extents_are_told_in_order_and_lie_in_what_was_asked_for() {
    let structured =
        |all: &[(u32, u32)]| told(Form::Structured, &chunk(true, 5, 0, &extents(1, all)));
    let good = (None, vec![(512, true), (1024, false), (6656, true)], vec![ErrorCode::SUCCESS]);
    // The last one may end behind it; a hole that is not zero is data.
    assert_eq!(structured(&[(512, 3), (1024, 1), (1 << 30, 2)]), good);
    let part = (None, vec![(512, false)], vec![ErrorCode::SUCCESS]);
    assert_eq!(structured(&[(512, 0)]), part, "a part may be told");
    let wrong = |bytes: &[u8]| told(Form::Structured, bytes).0;
    for all in [&[(0, 0)][..], &[(8192, 0), (512, 0)], &[(512, 0), (0, 0)], &[]] {
        assert_eq!(structured(all).0, Some(Violation::Extents), "{all:?}");
    }
    let fine = extents(1, &[(512, 0)]);
    assert_eq!(wrong(&chunk(true, 5, 0, &extents(2, &[(512, 0)]))), Some(Violation::Extents));
    assert_eq!(wrong(&chunk(true, 5, 0, &fine[..11])), Some(Violation::Extents));
    let twice = [chunk(false, 5, 0, &fine), chunk(true, 5, 0, &fine)].concat();
    assert_eq!(wrong(&twice), Some(Violation::Extents));
    // So many that they are not even waited for.
    let mut flood = chunk(true, 5, 0, &fine);
    flood[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(wrong(&flood), Some(Violation::Extents));
    assert_eq!(wrong(&chunk(true, 0, 0, &[])), Some(Violation::DataMissing));
    let wide = ChunkType::BLOCK_STATUS_EXT;
    assert_eq!(wrong(&chunk(true, 6, 0, &[0; 24])), Some(Violation::Chunk(wide)));
    assert_eq!(
        wrong(&chunk(true, 1, 0, &data(4096, 512))),
        Some(Violation::Chunk(ChunkType::OFFSET_DATA))
    );
    let failed = [chunk(false, 5, 0, &fine), chunk(true, 0x8001, 0, &[0, 0, 0, 5, 0, 0])].concat();
    assert_eq!(told(Form::Structured, &failed).2, [ErrorCode::EIO]);
}

#[test]
fn wide_extents_say_how_many_they_are() {
    let wide = |count: u32| {
        let numbers: Vec<u8> =
            [512u64, 2, 1 << 60, 0].iter().flat_map(|number| number.to_be_bytes()).collect();
        let data = [&1u32.to_be_bytes()[..], &count.to_be_bytes(), &numbers].concat();
        let head = [&0x6e8a_278cu32.to_be_bytes()[..], &[0, 1, 0, 6], &[0; 8], &[0; 8]].concat();
        let bytes = [&head[..], &(data.len() as u64).to_be_bytes(), &data].concat();
        told(Form::Extended, &bytes)
    };
    assert_eq!(wide(2), (None, vec![(512, true), (7680, false)], vec![ErrorCode::SUCCESS]));
    assert_eq!(wide(3).0, Some(Violation::Extents));
}

#[test]
fn only_the_context_that_was_asked_for_is_taken() {
    let config = || ClientConfig { form: Form::Structured, ..ClientConfig::new("") };
    let after = |bytes: &[u8]| {
        let ack = reply(OptionCode::STRUCTURED_REPLY, 1, &[]);
        let mut pair = Pair::new(config(), ServerConfig::new(exports()));
        pair.feed_client(&[&b"NBDMAGICIHAVEOPT\0\x03"[..], &ack, bytes].concat());
        (pair.client.engine.violation(), pair.client.engine.tells_extents())
    };
    let set = OptionCode::SET_META_CONTEXT;
    let ours = reply(set, 4, b"\0\0\0\x09base:allocation");
    let (ack, wrong) = (reply(set, 1, &[]), Some(Violation::OptionReply(set)));
    assert_eq!(after(&[&ours[..], &ack].concat()), (None, true));
    assert_eq!(after(&ack), (None, false));
    assert_eq!(after(&reply(set, 0x8000_0001, &[])), (None, false));
    assert_eq!(after(&[&ours[..], &reply(set, 0x8000_0006, &[])].concat()), (None, false));
    assert_eq!(after(&[&ours[..], &ours].concat()).0, wrong);
    assert_eq!(after(&reply(set, 4, b"\0\0\0\x09qemu:dirty")).0, wrong);
    assert_eq!(after(&reply(set, 4, b"\0\0")).0, wrong);
}
