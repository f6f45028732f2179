//! The controller's end of a connection, fed arbitrary PDUs and bytes cut arbitrarily, under a
//! layer above that does all that it may.

use weft_fuzz::support::raw::Raw;
use weft_fuzz::support::{ConnectionEnd, Next};
use weft_fuzz::{Input, digests, pdu};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme_tcp::{TcpTargetConfig, TcpTargetConnection, TcpTargetEvent};
use weft_proto::stream::Tag;

/// Commands that the layer above has and did nothing with yet.
type Held = Vec<(Tag, Sqe)>;

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let digests = digests(&mut input);
    let config = TcpTargetConfig {
        queue_entries: 8,
        max_r2t_bytes: input.pick(&[16, 512, 4096]),
        max_c2h_data_bytes: 64,
        r2t_outstanding: input.below(8) as u8 + 1,
        max_data_bytes: 8192,
        cpda: input.below(4) as u8,
        ..TcpTargetConfig::default()
    };
    let mut end = ConnectionEnd::with_part_limit(TcpTargetConnection::new(config), 4);
    let mut held = Held::new();
    let mut stream =
        if input.one_in(8) { Vec::new() } else { Raw::ic(0, 0, 0, digests.encode(), 7).bytes() };
    loop {
        let piece = input.below(300) + 1;
        for piece in stream.chunks(piece) {
            end.stage(piece);
            if !drain(&mut end, &mut held, &mut input) {
                return;
            }
        }
        if input.is_empty() {
            return;
        }
        stream = if input.one_in(8) { input.bytes(64) } else { pdu(&mut input, digests) };
    }
}

/// Handles what has arrived; `false` when the connection is over.
fn drain(end: &mut ConnectionEnd<TcpTargetConnection>, held: &mut Held, input: &mut Input) -> bool {
    loop {
        match end.next() {
            Next::Event(TcpTargetEvent::Command { tag, .. }) => {
                let sqe = *end.engine.sqe();
                act(end, held, input, tag, sqe);
            }
            Next::Event(
                TcpTargetEvent::DataArrived { tag } | TcpTargetEvent::DataFailed { tag },
            ) => {
                end.engine.complete(tag, Cqe::new(Default::default(), Status::SUCCESS), 0);
            }
            Next::Event(_) => {}
            Next::Closed => {
                end.flush();
                return false;
            }
            Next::Starved => break,
        }
        if input.one_in(4)
            && let Some((tag, sqe)) = held.pop()
        {
            complete(end, input, tag, &sqe);
        }
    }
    end.flush();
    true
}

/// What the layer above does with a command.
fn act(
    end: &mut ConnectionEnd<TcpTargetConnection>,
    held: &mut Held,
    input: &mut Input,
    tag: Tag,
    sqe: Sqe,
) {
    let bytes = sqe.sgl().length;
    match input.below(8) {
        0..4 => match end.engine.fetch(tag, bytes) {
            Ok(()) => drop(end.memory(tag, bytes as usize)),
            Err(status) => end.engine.complete(tag, Cqe::refuse(sqe.cid(), status), 0),
        },
        4 => complete(end, input, tag, &sqe),
        5 => held.push((tag, sqe)),
        6 => drop(end.engine.abandon(tag)),
        _ => {
            end.engine.ignore_data(tag);
            held.push((tag, sqe));
            let mut dropped = Vec::new();
            end.engine.drop_pending(|tag| dropped.push(tag));
            dropped.into_iter().for_each(|tag| end.memory(tag, 0).clear());
        }
    }
}

/// Answers a command with as much data as it takes.
fn complete(end: &mut ConnectionEnd<TcpTargetConnection>, input: &mut Input, tag: Tag, sqe: &Sqe) {
    let bytes = input.below(9000) as u32;
    end.memory(tag, bytes as usize);
    end.engine.complete(tag, Cqe::new(sqe.cid(), Status::SUCCESS), bytes);
}
