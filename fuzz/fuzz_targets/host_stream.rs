//! The host's end of a connection with commands of all kinds outstanding, fed arbitrary PDUs and
//! bytes cut arbitrarily.

use weft_fuzz::support::pair::{READ, command};
use weft_fuzz::support::raw::Raw;
use weft_fuzz::support::{ConnectionEnd, Next};
use weft_fuzz::{Input, digests, pdu};
use weft_proto::nvme_tcp::{HostConnection, HostData, TcpHostConfig, TcpHostEvent};

/// Commands outstanding, at most.
const ENTRIES: u16 = 8;

/// Which commands were submitted and not answered.
type Outstanding = [bool; ENTRIES as usize];

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let digests = digests(&mut input);
    let config = TcpHostConfig {
        digests,
        queue_entries: ENTRIES,
        in_capsule_bytes: 64,
        r2t_outstanding: input.below(8) as u8 + 1,
        hpda: input.below(4) as u8,
    };
    let mut end = ConnectionEnd::with_part_limit(HostConnection::new(config), 4);
    let mut outstanding = Outstanding::default();
    let mut stream =
        if input.one_in(8) { Vec::new() } else { Raw::ic(1, 0, 0, digests.encode(), 4096).bytes() };
    loop {
        submit(&mut end, &mut outstanding, &mut input);
        let piece = input.below(300) + 1;
        for piece in stream.chunks(piece) {
            end.stage(piece);
            if !drain(&mut end, &mut outstanding) {
                return;
            }
        }
        if input.is_empty() {
            return;
        }
        stream = if input.one_in(8) { input.bytes(64) } else { pdu(&mut input, digests) };
    }
}

/// Submits some commands.
fn submit(
    end: &mut ConnectionEnd<HostConnection>,
    outstanding: &mut Outstanding,
    input: &mut Input,
) {
    for _ in 0..input.below(4) {
        let bytes = input.below(1024) as u32 * 4;
        let data = input.pick(&[
            HostData::In(bytes),
            HostData::Out(bytes),
            HostData::Out(bytes & 63),
            HostData::None,
        ]);
        let Ok(tag) = end.engine.submit(command(READ, 0), data) else { return };
        assert!(!std::mem::replace(&mut outstanding[tag.index()], true), "{tag:?} is in use");
        end.memory(tag, bytes as usize);
    }
    end.flush();
}

/// Handles what has arrived; `false` when the connection is over.
fn drain(end: &mut ConnectionEnd<HostConnection>, outstanding: &mut Outstanding) -> bool {
    loop {
        match end.next() {
            Next::Event(
                TcpHostEvent::Response { tag, .. } | TcpHostEvent::DataFailed { tag, .. },
            ) => {
                assert!(
                    std::mem::replace(&mut outstanding[tag.index()], false),
                    "{tag:?} is answered twice"
                );
                end.engine.release(tag);
            }
            Next::Event(_) => {}
            Next::Closed => {
                end.flush();
                return false;
            }
            Next::Starved => break,
        }
    }
    end.flush();
    assert_eq!(end.engine.outstanding(), outstanding.iter().filter(|used| **used).count());
    true
}
