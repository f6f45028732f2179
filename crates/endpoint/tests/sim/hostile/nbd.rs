//! NBD: greeting, options and requests, field by field (the protocol document of the NBD project).

use super::State::{Fresh, Greeted, Ready};
use super::{Fault, State, fault};
use crate::protocols::AnyScene;
use crate::puppet::Puppet;
use std::time::Duration;

const GREETING: usize = 18;

/// Brings the client where the fault begins.
pub(super) fn begin(scene: &mut AnyScene, puppet: &Puppet, state: State) {
    if state == State::Fresh {
        return;
    }
    // Fixed newstyle, no zeroes.
    puppet.put(&[0, 0, 0, 3]);
    if state == State::Ready {
        puppet.put(&option(1, b"1"));
    }
    scene.world.run_for(Duration::from_secs(1));
    let expected = if state == State::Ready { GREETING + 10 } else { GREETING };
    assert_eq!(puppet.take_bytes().len(), expected);
}

fn option(code: u32, data: &[u8]) -> Vec<u8> {
    announced(code, data.len() as u32, data)
}

fn announced(code: u32, bytes: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &code.to_be_bytes()[..], &bytes.to_be_bytes(), data].concat()
}

/// GO, with a name of this length and so many information requests announced.
fn go(name_bytes: u32, name: &[u8], requests: u16) -> Vec<u8> {
    option(7, &[&name_bytes.to_be_bytes()[..], name, &requests.to_be_bytes()].concat())
}

fn request(magic: u32, flags: u16, command: u16, offset: u64, bytes: u32, data: &[u8]) -> Vec<u8> {
    let head = [&magic.to_be_bytes()[..], &flags.to_be_bytes(), &command.to_be_bytes(), &[7; 8], &offset.to_be_bytes()];
    [&head.concat()[..], &bytes.to_be_bytes(), data].concat()
}

const MAGIC: u32 = 0x2560_9513;
const END: u64 = 16 << 20;
const HAND: &str = "Newstyle negotiation";
const OPTION: &str = "Option types";
const REQUEST: &str = "Request message";
const COMMAND: &str = "Request types";

pub(super) const TABLE: &[Fault] = &[
    fault(HAND, "client flags that were not offered", Fresh, |_| vec![0x80, 0, 0, 3], "closed"),
    fault(HAND, "another protocol than NBD", Fresh, |_| b"GET / HTTP/1.1\r\n\r\n".to_vec(), "closed"),
    fault(HAND, "an option without its magic number", Greeted, |_| vec![0; 16], "closed"),
    fault(OPTION, "an unknown option", Greeted, |_| option(99, &[]), "ERR_UNSUP"),
    fault(OPTION, "an option of 4 GiB", Greeted, |_| announced(3, u32::MAX, &[]), "nothing"),
    fault(OPTION, "an unknown option of 1 MiB", Greeted, |_| announced(99, 1 << 20, &[0; 1 << 20]), "ERR_TOO_BIG"),
    fault(OPTION, "EXPORT_NAME that does not exist", Greeted, |_| option(1, b"nobody"), "closed"),
    fault(OPTION, "EXPORT_NAME that is no text", Greeted, |_| option(1, &[0xff; 5]), "closed"),
    fault(OPTION, "GO: a name that does not exist", Greeted, |_| go(6, b"nobody", 0), "ERR_UNKNOWN"),
    fault(OPTION, "GO: a name longer than the option", Greeted, |_| go(600, b"1", 0), "ERR_INVALID"),
    fault(OPTION, "GO: a name of 5000 bytes", Greeted, |_| go(5000, &[b'x'; 5000], 0), "ERR_INVALID"),
    fault(OPTION, "GO: information requests that are not there", Greeted, |_| go(1, b"1", 9), "ERR_INVALID"),
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
    fault(OPTION, "a request before the export is chosen", Greeted, |_| request(MAGIC, 0, 0, 0, 512, &[]), "closed"),
    fault(REQUEST, "a wrong magic number", Ready, |_| request(MAGIC ^ 1, 0, 0, 0, 512, &[]), "closed"),
    fault(REQUEST, "an unknown command", Ready, |_| request(MAGIC, 0, 99, 0, 512, &[]), "EINVAL"),
    fault(REQUEST, "flags that do not exist", Ready, |_| request(MAGIC, 0x8000, 0, 0, 512, &[]), "EINVAL"),
    fault(COMMAND, "a read beyond the end", Ready, |_| request(MAGIC, 0, 0, END - 512, 1024, &[]), "EINVAL"),
    fault(COMMAND, "a read whose offset overflows", Ready, |_| request(MAGIC, 0, 0, u64::MAX - 511, 1024, &[]), "EINVAL"),
    fault(COMMAND, "a read of no bytes", Ready, |_| request(MAGIC, 0, 0, 0, 0, &[]), "EINVAL"),
    fault(COMMAND, "a read of 4 GiB", Ready, |_| request(MAGIC, 0, 0, 0, u32::MAX, &[]), "EINVAL"),
    fault(COMMAND, "a write beyond the end", Ready, |_| request(MAGIC, 0, 1, END - 512, 1024, &[1; 1024]), "ENOSPC"),
    fault(COMMAND, "a write of 4 GiB", Ready, |_| request(MAGIC, 0, 1, 0, u32::MAX, &[]), "closed"),
    fault(COMMAND, "a write of no bytes", Ready, |_| request(MAGIC, 0, 1, 0, 0, &[]), "EINVAL"),
    fault(COMMAND, "a trim beyond the end", Ready, |_| request(MAGIC, 0, 4, END - 512, 1024, &[]), "EINVAL"),
    fault(COMMAND, "write zeroes beyond the end of the export", Ready, |_| request(MAGIC, 0, 6, END - 512, 1024, &[]), "ENOSPC"),
    fault(COMMAND, "a flush with an address", Ready, |_| request(MAGIC, 0, 3, 512, 512, &[]), "EINVAL"),
    fault(COMMAND, "block status, which was not negotiated", Ready, |_| request(MAGIC, 0, 7, 0, 512, &[]), "EINVAL"),
    fault(
        COMMAND,
        "a cookie that is in use",
        Ready,
        |_| [request(MAGIC, 0, 1, 0, 512, &[1; 512]), request(MAGIC, 0, 1, 0, 512, &[1; 512])].concat(),
        "success",
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
    while bytes.len() >= 16 {
        let taken = if bytes.starts_with(&OPTION_REPLY.to_be_bytes()) {
            let code = u32::from_be_bytes(bytes[12..16].try_into().unwrap());
            parts.push(option_reply(code));
            20 + u32::from_be_bytes(bytes[16..20].try_into().unwrap()) as usize
        } else if bytes.starts_with(&SIMPLE_REPLY.to_be_bytes()) {
            parts.push(error(u32::from_be_bytes(bytes[4..8].try_into().unwrap())).to_owned());
            16
        } else {
            parts.push("data".to_owned());
            bytes.len()
        };
        bytes.drain(..taken.min(bytes.len()));
    }
    super::join(parts)
}

fn option_reply(code: u32) -> String {
    match code {
        1 => "ACK".to_owned(),
        2 => "SERVER".to_owned(),
        3 => "INFO".to_owned(),
        0x8000_0001 => "ERR_UNSUP".to_owned(),
        0x8000_0002 => "ERR_POLICY".to_owned(),
        0x8000_0003 => "ERR_INVALID".to_owned(),
        0x8000_0006 => "ERR_UNKNOWN".to_owned(),
        0x8000_0009 => "ERR_TOO_BIG".to_owned(),
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
