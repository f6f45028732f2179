//! The client's end of an NBD connection, fed greetings, replies, chunks and noise cut arbitrarily,
//! with reads, writes and block status under way.

#[path = "../../crates/proto/tests/nbd/connection_end.rs"]
mod connection_end;

use connection_end::{ConnectionEnd, Go};
use weft_fuzz::Input;
use weft_proto::nbd::client::ClientCommand;
use weft_proto::nbd::code::{CommandCode, CommandFlags, ErrorCode};
use weft_proto::nbd::{ClientConfig, ClientEvent, Form, NbdClient};
use weft_proto::stream::Tag;

/// Bytes of each read and write.
const BYTES: u64 = 4096;

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let form = input.pick(&[Form::Simple, Form::Structured, Form::Extended]);
    let config =
        ClientConfig { form, tls: input.one_in(16), requests_max: 8, ..ClientConfig::new("x") };
    let mut end = ConnectionEnd::new(NbdClient::new(config));
    let mut open: Vec<Tag> = Vec::new();
    let mut ready = false;
    let mut message = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
    while !end.closed {
        let piece = input.below(60) + 1;
        for piece in message.chunks(piece) {
            end.receive(piece, &mut |end, event| take(end, &mut open, &mut ready, event));
        }
        if input.is_empty() {
            return;
        }
        if ready && input.one_in(2) {
            submit(&mut end, &mut open, &mut input);
        }
        if input.one_in(2) {
            end.transmit();
            for tag in core::mem::take(&mut end.released) {
                if let Some(event) = end.engine.sent(tag) {
                    take(&mut end, &mut open, &mut ready, event);
                }
            }
        }
        message = if ready { reply(&mut input, form) } else { option_reply(&mut input) };
    }
}

/// What was submitted is answered once, and only that.
fn take(
    end: &mut ConnectionEnd<NbdClient>,
    open: &mut Vec<Tag>,
    ready: &mut bool,
    event: ClientEvent,
) -> Go {
    match event {
        ClientEvent::StartTls => end.engine.secured(),
        ClientEvent::Ready => *ready = true,
        ClientEvent::Refused => {}
        ClientEvent::Hole { tag, offset, len } => {
            end.memory[tag.index()][offset as usize..(offset + len) as usize].fill(0)
        }
        ClientEvent::Extent { tag, length, .. } => {
            assert!(open.contains(&tag) && (1..=BYTES).contains(&length));
        }
        ClientEvent::Response { tag, error } => {
            let at = open.iter().position(|open| *open == tag).expect("an answer to nothing");
            open.swap_remove(at);
            assert!(error != ErrorCode::SUCCESS || !end.memory[tag.index()].is_empty());
            end.engine.release(tag);
        }
    }
    Go::On
}

fn submit(end: &mut ConnectionEnd<NbdClient>, open: &mut Vec<Tag>, input: &mut Input) {
    let status =
        if end.engine.tells_extents() { CommandCode::BLOCK_STATUS } else { CommandCode::READ };
    let code = input.pick(&[CommandCode::READ, CommandCode::WRITE, status]);
    let command =
        ClientCommand { code, flags: CommandFlags::default(), offset: 8192, length: BYTES };
    if let Ok(tag) = end.engine.submit(command) {
        end.provide(tag, vec![1; BYTES as usize]);
        open.push(tag);
    }
}

fn option_reply(input: &mut Input) -> Vec<u8> {
    if input.one_in(16) {
        return input.bytes(60);
    }
    let data = match input.below(5) {
        0 => Vec::new(),
        1 => b"\0\0\0\0\0\0\0\x10\0\0\0\x7f".to_vec(),
        2 => b"\0\x03\0\0\x02\0\0\0\x10\0\0\x10\0\0".to_vec(),
        3 => b"\0\0\0\x01base:allocation".to_vec(),
        _ => input.bytes(60),
    };
    let code = input.pick(&[1u32, 1, 3, 3, 4, 0x8000_0001, 0x8000_0006]);
    let option = u32::from(input.pick(&[7u8, 7, 8, 10, 11, 5]));
    let head =
        [&0x0003_e889_0455_65a9u64.to_be_bytes()[..], &option.to_be_bytes(), &code.to_be_bytes()]
            .concat();
    [&head[..], &(data.len() as u32).to_be_bytes(), &data].concat()
}

fn reply(input: &mut Input, form: Form) -> Vec<u8> {
    if input.one_in(32) {
        return input.bytes(60);
    }
    let cookie = u64::from(input.byte() & 7) | u64::from(input.byte() & 1) << 16;
    if form == Form::Simple || input.one_in(8) {
        let error: u32 = input.pick(&[0, 0, 5, 28]);
        let head = [&0x6744_6698u32.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()]
            .concat();
        return [&head[..], &vec![2; input.below(2) * BYTES as usize]].concat();
    }
    let kind: u16 = input.pick(&[0, 1, 1, 2, 5, 6, 0x8001, 0x8002, 0x8003]);
    let (offset, len) =
        (8192 + u64::from(input.byte() & 15) * 512, u32::from(input.byte() & 15) * 512);
    let data = match kind {
        1 => [&offset.to_be_bytes()[..], &vec![3; len as usize]].concat(),
        2 => [&offset.to_be_bytes()[..], &len.to_be_bytes()].concat(),
        5 => {
            let each = [len.to_be_bytes(), [0, 0, 0, input.byte() & 3]].concat();
            [&1u32.to_be_bytes()[..], &each.repeat(1 + input.below(3))].concat()
        }
        0x8000.. => [&[0, 0, 0, 5, 0, 0][..], &input.bytes(12)].concat(),
        _ => input.bytes(24),
    };
    let magic: u32 = if form == Form::Extended { 0x6e8a_278c } else { 0x668e_33ef };
    let head = [
        &magic.to_be_bytes()[..],
        &[0, input.byte() & 1],
        &kind.to_be_bytes(),
        &cookie.to_be_bytes(),
    ]
    .concat();
    if form == Form::Extended {
        return [&head[..], &8192u64.to_be_bytes(), &(data.len() as u64).to_be_bytes(), &data]
            .concat();
    }
    [&head[..], &(data.len() as u32).to_be_bytes(), &data].concat()
}
