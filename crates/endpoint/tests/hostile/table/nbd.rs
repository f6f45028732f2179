//! NBD: greeting, options and requests, field by field (the protocol document of the NBD project).

use super::PeerState::{Fresh, Greeted};
use super::{Fault, Line, PeerState, fault};

const GREETING: usize = 18;

/// Brings the client where the fault begins.
pub(super) fn begin(line: &mut impl Line, state: PeerState) {
    if state == PeerState::Fresh {
        return;
    }
    // Fixed newstyle, no zeroes.
    line.put(&[0, 0, 0, 3]);
    if state == PeerState::Ready {
        line.put(&option(1, b"1"));
    }
    let expected = if state == PeerState::Ready { GREETING + 10 } else { GREETING };
    let (bytes, _) = line.hear(|bytes| bytes.len() >= expected);
    assert_eq!(bytes.len(), expected);
}

pub(super) fn option(code: u32, data: &[u8]) -> Vec<u8> {
    announced(code, data.len() as u32, data)
}

pub(super) fn announced(code: u32, bytes: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &code.to_be_bytes()[..], &bytes.to_be_bytes(), data].concat()
}

/// GO, with a name of this length and so many information requests announced.
pub(super) fn go(name_bytes: u32, name: &[u8], requests: u16) -> Vec<u8> {
    option(7, &[&name_bytes.to_be_bytes()[..], name, &requests.to_be_bytes()].concat())
}

pub(super) fn request(
    magic: u32,
    flags: u16,
    command: u16,
    offset: u64,
    bytes: u32,
    data: &[u8],
) -> Vec<u8> {
    let head = [
        &magic.to_be_bytes()[..],
        &flags.to_be_bytes(),
        &command.to_be_bytes(),
        &[7; 8],
        &offset.to_be_bytes(),
    ];
    [&head.concat()[..], &bytes.to_be_bytes(), data].concat()
}

/// The options for metadata contexts.
pub(super) fn contexts(code: u32, export: &[u8], announced: u32, queries: &[u8]) -> Vec<u8> {
    let len = (export.len() as u32).to_be_bytes();
    option(code, &[&len[..], export, &announced.to_be_bytes(), queries].concat())
}

/// This option, for another form of requests or replies, and then the export.
pub(super) fn choose(code: u32) -> Vec<u8> {
    [option(code, &[]), go(1, b"1", 0)].concat()
}

/// A request with an extended header.
pub(super) fn extended(flags: u16, command: u16, offset: u64, bytes: u64, data: &[u8]) -> Vec<u8> {
    let head = [
        &EXTENDED_MAGIC.to_be_bytes()[..],
        &flags.to_be_bytes(),
        &command.to_be_bytes(),
        &[7; 8],
        &offset.to_be_bytes(),
    ];
    [&head.concat()[..], &bytes.to_be_bytes(), data].concat()
}

pub(super) const EXTENDED_MAGIC: u32 = 0x21e4_1c71;
pub(super) const MAGIC: u32 = 0x2560_9513;
pub(super) const END: u64 = 16 << 20;
const HAND: &str = "Newstyle negotiation";
const OPTION: &str = "Option types";

pub(super) const TABLE: &[Fault] = &[
    fault(HAND, "client flags that were not offered", Fresh, |_| vec![0x80, 0, 0, 3], "closed"),
    fault(
        HAND,
        "another protocol than NBD",
        Fresh,
        |_| b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        "closed",
    ),
    fault(HAND, "an option without its magic number", Greeted, |_| vec![0; 16], "closed"),
    fault(OPTION, "an unknown option", Greeted, |_| option(99, &[]), "ERR_UNSUP"),
    fault(OPTION, "an option of 4 GiB", Greeted, |_| announced(3, u32::MAX, &[]), "nothing"),
    fault(
        OPTION,
        "an unknown option of 1 MiB",
        Greeted,
        |_| announced(99, 1 << 20, &[0; 1 << 20]),
        "ERR_TOO_BIG",
    ),
    fault(OPTION, "EXPORT_NAME that does not exist", Greeted, |_| option(1, b"nobody"), "closed"),
    fault(OPTION, "EXPORT_NAME that is not text", Greeted, |_| option(1, &[0xff; 5]), "closed"),
    fault(
        OPTION,
        "GO: a name that does not exist",
        Greeted,
        |_| go(6, b"nobody", 0),
        "ERR_UNKNOWN",
    ),
    fault(
        OPTION,
        "GO: a name longer than the option",
        Greeted,
        |_| go(600, b"1", 0),
        "ERR_INVALID",
    ),
    fault(
        OPTION,
        "GO: a name of 5000 bytes",
        Greeted,
        |_| go(5000, &[b'x'; 5000], 0),
        "ERR_INVALID",
    ),
    fault(
        OPTION,
        "GO: information requests that are not there",
        Greeted,
        |_| go(1, b"1", 9),
        "ERR_INVALID",
    ),
    fault(OPTION, "PEEK_EXPORT, which was withdrawn", Greeted, |_| option(4, &[]), "ERR_UNSUP"),
    fault(OPTION, "ABORT with data", Greeted, |_| option(2, b"data"), "ACK; closed"),
    fault(
        OPTION,
        "EXPORT_NAME with extended headers",
        Greeted,
        |_| [option(11, &[]), option(1, b"1")].concat(),
        "ACK; closed",
    ),
    fault(
        OPTION,
        "INFO: a name that does not exist",
        Greeted,
        |_| option(6, &[&6_u32.to_be_bytes()[..], b"nobody", &[0; 2]].concat()),
        "ERR_UNKNOWN",
    ),
    fault(
        OPTION,
        "GO: shorter than the length of a name",
        Greeted,
        |_| option(7, &[0; 3]),
        "ERR_INVALID",
    ),
    fault(
        OPTION,
        "GO: a name that is not text",
        Greeted,
        |_| go(2, &[0xff, 0xfe], 0),
        "ERR_INVALID",
    ),
    fault(
        OPTION,
        "GO: bytes behind the information requests",
        Greeted,
        |_| option(7, &[&1_u32.to_be_bytes()[..], b"1", &[0; 2], &[9; 7]].concat()),
        "ERR_INVALID",
    ),
    fault(
        OPTION,
        "GO: information requests that nobody defined (ignored)",
        Greeted,
        |_| option(7, &[&1_u32.to_be_bytes()[..], b"1", &1_u16.to_be_bytes(), &[0x77; 2]].concat()),
        "INFO; ACK",
    ),
    fault(OPTION, "LIST with data", Greeted, |_| option(3, b"data"), "ERR_INVALID"),
    fault(OPTION, "STARTTLS without TLS", Greeted, |_| option(5, &[]), "ERR_POLICY"),
    fault(OPTION, "STRUCTURED_REPLY with data", Greeted, |_| option(8, b"data"), "ERR_INVALID"),
    fault(
        OPTION,
        "SET_META_CONTEXT without structured replies",
        Greeted,
        |_| option(10, &[&1_u32.to_be_bytes()[..], b"1", &0_u32.to_be_bytes()].concat()),
        "ERR_INVALID",
    ),
    fault(OPTION, "EXTENDED_HEADERS with data", Greeted, |_| option(11, b"data"), "ERR_INVALID"),
    fault(
        OPTION,
        "STRUCTURED_REPLY after EXTENDED_HEADERS",
        Greeted,
        |_| [option(11, &[]), option(8, &[])].concat(),
        "ACK; ERR_EXT_HEADER_REQD",
    ),
    fault(
        OPTION,
        "LIST_META_CONTEXT without structured replies",
        Greeted,
        |_| contexts(9, b"1", 0, &[]),
        "ERR_INVALID",
    ),
    fault(
        OPTION,
        "SET_META_CONTEXT: an export that does not exist",
        Greeted,
        |_| [option(8, &[]), contexts(10, b"nobody", 0, &[])].concat(),
        "ACK; ERR_UNKNOWN",
    ),
    fault(
        OPTION,
        "SET_META_CONTEXT: queries that are not there",
        Greeted,
        |_| [option(8, &[]), contexts(10, b"1", u32::MAX, &[])].concat(),
        "ACK; ERR_INVALID",
    ),
    fault(
        OPTION,
        "SET_META_CONTEXT: a query longer than the option",
        Greeted,
        |_| [option(8, &[]), contexts(10, b"1", 1, &u32::MAX.to_be_bytes())].concat(),
        "ACK; ERR_INVALID",
    ),
    fault(
        OPTION,
        "SET_META_CONTEXT: a context that nobody knows",
        Greeted,
        |_| [option(8, &[]), contexts(10, b"1", 1, b"\0\0\0\x03x:y")].concat(),
        "ACK",
    ),
    fault(
        OPTION,
        "a request before the export is chosen",
        Greeted,
        |_| request(MAGIC, 0, 0, 0, 512, &[]),
        "closed",
    ),
];

const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const SIMPLE_REPLY: u32 = 0x6744_6698;

/// The answers of a server.
pub(super) fn words(mut bytes: Vec<u8>) -> String {
    let mut parts = Vec::new();
    if bytes.starts_with(b"NBDMAGIC") {
        bytes.drain(..GREETING);
    }
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).map(|word| u32::from_be_bytes(word.try_into().unwrap()))
    };
    while bytes.len() >= 16 {
        // The length of a payload is the last word in front of it.
        let (header, part) = if bytes.starts_with(&OPTION_REPLY.to_be_bytes()) {
            (20, word(&bytes, 12).map(option_reply))
        } else if bytes.starts_with(&SIMPLE_REPLY.to_be_bytes()) {
            parts.extend(word(&bytes, 4).map(|code| error(code).to_owned()));
            bytes.drain(..16);
            continue;
        } else if let Some((name, header)) = chunk(&bytes) {
            let is_error = bytes[6] & 0x80 != 0;
            (
                header,
                if is_error {
                    word(&bytes, header).map(|code| error(code).to_owned())
                } else {
                    Some(name)
                },
            )
        } else {
            parts.push("data".to_owned());
            break;
        };
        let Some(end) = word(&bytes, header - 4).map(|length| header + length as usize) else {
            break;
        };
        if bytes.len() < end {
            break;
        }
        parts.extend(part);
        bytes.drain(..end);
    }
    super::join(parts)
}

/// What a structured or extended reply is called, and where its payload begins.
fn chunk(bytes: &[u8]) -> Option<(String, usize)> {
    let kind = u16::from_be_bytes([bytes[6], bytes[7]]);
    match u32::from_be_bytes(bytes[..4].try_into().unwrap()) {
        0x668e_33ef => Some((format!("a chunk of type {kind}"), 20)),
        0x6e8a_278c => Some((format!("an extended chunk of type {kind}"), 32)),
        _ => None,
    }
}

fn option_reply(code: u32) -> String {
    match code {
        1 => "ACK".to_owned(),
        2 => "SERVER".to_owned(),
        3 => "INFO".to_owned(),
        4 => "META_CONTEXT".to_owned(),
        0x8000_0001 => "ERR_UNSUP".to_owned(),
        0x8000_0002 => "ERR_POLICY".to_owned(),
        0x8000_0003 => "ERR_INVALID".to_owned(),
        0x8000_0006 => "ERR_UNKNOWN".to_owned(),
        0x8000_0009 => "ERR_TOO_BIG".to_owned(),
        0x8000_000a => "ERR_EXT_HEADER_REQD".to_owned(),
        other => format!("reply {other:#x}"),
    }
}

fn error(code: u32) -> &'static str {
    match code {
        0 => "success",
        1 => "EPERM",
        5 => "EIO",
        12 => "ENOMEM",
        22 => "EINVAL",
        28 => "ENOSPC",
        75 => "EOVERFLOW",
        95 => "ENOTSUP",
        108 => "ESHUTDOWN",
        _ => "another error",
    }
}
