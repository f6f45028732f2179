//! Recorded streams, cut in two at every position: what an engine tells and sends must not depend
//! on the cut.

use crate::support::pair::{Disk, FAIL, Pair, READ, WRITE, command};
use crate::support::{ConnectionEnd, Next};
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::{
    HostConnection, HostData, TcpHostConfig, TcpHostEvent, TcpTargetConfig, TcpTargetEvent,
};

fn configs(digests: Digests, pda: u8) -> (TcpHostConfig, TcpTargetConfig) {
    let host = TcpHostConfig {
        digests,
        hpda: pda,
        r2t_outstanding: 8,
        in_capsule_bytes: 512,
        ..TcpHostConfig::default()
    };
    let target = TcpTargetConfig {
        cpda: pda,
        max_h2c_data_bytes: 4096,
        max_c2h_data_bytes: 400,
        max_r2t_bytes: 1000,
        r2t_outstanding: 2,
        queue_entries: 32,
        ..TcpTargetConfig::default()
    };
    (host, target)
}

/// In the capsule, by several R2Ts, refused with data in the capsule, and reads in several PDUs.
const COMMANDS: [(u8, HostData); 5] = [
    (WRITE, HostData::Out(100)),
    (READ, HostData::In(900)),
    (WRITE, HostData::Out(2600)),
    (FAIL, HostData::Out(64)),
    (READ, HostData::In(12)),
];

fn submit(host: &mut ConnectionEnd<HostConnection>) {
    for (opcode, data) in COMMANDS {
        let tag = host.engine.submit(command(opcode, 0), data).unwrap();
        let (HostData::In(len) | HostData::Out(len)) = data else { continue };
        host.memory(tag, len as usize);
    }
}

fn record(digests: Digests, pda: u8) -> Pair {
    let (host, target) = configs(digests, pda);
    let mut pair = Pair::new(host, target);
    pair.run();
    submit(&mut pair.host);
    pair.run();
    assert_eq!(pair.outcomes.len(), COMMANDS.len());
    pair
}

fn replay_target(
    pair: &Pair,
    digests: Digests,
    pda: u8,
    cut: usize,
) -> (Vec<TcpTargetEvent>, Vec<u8>, Vec<u8>) {
    let mut disk = Disk::new(configs(digests, pda).1, 8192);
    disk.end.eager = true;
    let (first, second) = pair.to_disk.split_at(cut);
    for part in [first, second] {
        disk.end.stage(part);
        disk.run();
    }
    assert_eq!(disk.end.engine.violation(), None, "cut at {cut}");
    (disk.log, disk.end.wire, disk.store)
}

/// Returns the ends of the PDUs of a stream.
fn pdu_ends(stream: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 0;
    while let Some(plen) = stream.get(at + 4..at + 8) {
        at += u32::from_le_bytes(plen.try_into().unwrap()) as usize;
        ends.push(at);
    }
    assert_eq!(at, stream.len());
    ends
}

fn replay_host(
    pair: &Pair,
    digests: Digests,
    pda: u8,
    cut: usize,
) -> (Vec<TcpHostEvent>, Vec<Vec<u8>>) {
    let mut host = ConnectionEnd::new(HostConnection::new(configs(digests, pda).0));
    host.eager = true;
    submit(&mut host);
    let mut ends = pdu_ends(&pair.to_host);
    ends.push(cut);
    ends.sort_unstable();
    let (mut log, mut from) = (Vec::new(), 0);
    for end in ends {
        host.stage(&pair.to_host[from..end]);
        from = end;
        while let Next::Event(event) = host.next() {
            log.push(event);
        }
        // A controller answers a write when it has the data.
        host.flush();
    }
    assert_eq!(host.engine.violation(), None, "cut at {cut}");
    (log, host.memory)
}

fn every_cut(digests: Digests, pda: u8) {
    let pair = record(digests, pda);
    let whole = replay_target(&pair, digests, pda, 0);
    assert_eq!(whole.0, pair.disk.log);
    for cut in 1..=pair.to_disk.len() {
        assert_eq!(replay_target(&pair, digests, pda, cut), whole, "cut at {cut}");
    }
    let whole = replay_host(&pair, digests, pda, 0);
    assert_eq!(whole.0, pair.log);
    for cut in 1..=pair.to_host.len() {
        assert_eq!(replay_host(&pair, digests, pda, cut), whole, "cut at {cut}");
    }
}

#[test]
fn without_digests() {
    every_cut(Digests::NONE, 0);
}

#[test]
fn with_header_digests() {
    every_cut(Digests { header: true, data: false }, 2);
}

#[test]
fn with_data_digests() {
    every_cut(Digests { header: false, data: true }, 31);
}

#[test]
fn with_both_digests() {
    every_cut(Digests::BOTH, 1);
}
