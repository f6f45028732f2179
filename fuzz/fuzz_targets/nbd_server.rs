//! The server's end of an NBD connection, fed options, requests and noise cut arbitrarily, over a
//! disk in memory.

#[path = "../../crates/proto/tests/nbd/connection_end.rs"]
mod connection_end;
#[path = "../../crates/proto/tests/nbd/pair.rs"]
#[allow(dead_code, reason = "the client has a target of its own")]
mod pair;

use pair::{Target, exports, info};
use weft_fuzz::Input;
use weft_proto::nbd::ServerConfig;

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let config =
        ServerConfig { tls: input.one_in(8), requests_max: 4, ..ServerConfig::new(exports()) };
    let mut target = Target::new(config, info());
    target.receive(&[0, 0, 0, input.byte() & 7]);
    let mut extended = false;
    while !input.is_empty() && !target.end.closed && !target.left {
        let message = if target.end.engine.is_transmitting() {
            request(&mut input, extended)
        } else {
            option(&mut input)
        };
        extended |= message.get(11) == Some(&11);
        let piece = input.below(60) + 1;
        message.chunks(piece).for_each(|piece| target.receive(piece));
        target.transmit();
        if target.full {
            target.resume();
        }
        if input.one_in(4) {
            target.end.engine.secured();
            target.resume();
        }
        assert!(target.end.engine.outstanding() <= 4);
    }
}

fn option(input: &mut Input) -> Vec<u8> {
    if input.one_in(16) {
        return input.bytes(40);
    }
    let data = match input.below(5) {
        0 => Vec::new(),
        1 => b"\0\0\0\x05first\0\x01\0\x03".to_vec(),
        2 => b"\0\0\0\x05first\0\0\0\x01\0\0\0\x0fbase:allocation".to_vec(),
        3 => b"second".to_vec(),
        _ => input.bytes(60),
    };
    let len = if input.one_in(16) { input.u32() } else { data.len() as u32 };
    [&b"IHAVEOPT\0\0\0"[..], &[input.byte() % 13], &len.to_be_bytes(), &data].concat()
}

fn request(input: &mut Input, extended: bool) -> Vec<u8> {
    if input.one_in(32) {
        return input.bytes(60);
    }
    let magic: u32 = if extended { 0x21e4_1c71 } else { 0x2560_9513 };
    let offset = if input.one_in(8) { input.u64() } else { u64::from(input.u16()) * 512 };
    let length = if input.one_in(8) { input.u32() } else { input.below(9) as u32 * 512 };
    let (flags, command) = (u16::from(input.byte() & 63), u16::from(input.byte() % 10));
    let mut bytes = [
        &magic.to_be_bytes()[..],
        &flags.to_be_bytes(),
        &command.to_be_bytes(),
        &input.array::<8>(),
        &offset.to_be_bytes(),
    ]
    .concat();
    if extended {
        bytes.extend_from_slice(&u64::from(length).to_be_bytes());
    } else {
        bytes.extend_from_slice(&length.to_be_bytes());
    }
    if command == 1 {
        bytes.resize(bytes.len() + (length as usize).min(8192), 0x5a);
    }
    bytes
}
