//! Garbage by chance: random bytes, and valid conversations with some bytes changed, at every
//! point.

use crate::hostile::tcp::{BYSTANDERS, Bystander, Served, Tcp, who};
use crate::wire::{self, ON};
use weft_endpoint::export::nvme::TargetLimits;
use weft_io::sim::Rng;
use weft_proto::nvme::fabrics::{ConnectResponse, Property};
use weft_proto::nvme::host::command;
use weft_proto::nvme::property::PropertyOffset;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Cntlid, Lba, Nsid};
use weft_proto::nvme_tcp::digest::Digests;

fn random(rng: &mut Rng, most: u64) -> Vec<u8> {
    (0..rng.magnitude(most)).map(|_| rng.bits() as u8).collect()
}

/// A command with any opcode and any fields, or nearly a good one.
fn any_command(rng: &mut Rng) -> Vec<u8> {
    let mut sqe = match rng.below(6) {
        0 => command::read(Nsid(1), Lba(rng.below(40_000)), rng.magnitude(2048) as u32),
        1 => command::write(Nsid(1), Lba(30_000), rng.magnitude(16) as u32, rng.one_in(2)),
        2 => command::compare(Nsid(1), Lba(30_000), 1),
        3 => command::deallocate(Nsid(1), rng.magnitude(256) as u16),
        4 => command::write_zeroes(
            Nsid(1),
            Lba(30_000),
            rng.magnitude(512) as u32,
            rng.one_in(2),
            false,
        ),
        _ => {
            let mut sqe = Sqe::default();
            sqe.0.iter_mut().for_each(|byte| *byte = rng.bits() as u8);
            sqe
        }
    };
    if rng.one_in(3) {
        sqe.0[rng.below(64) as usize] = rng.bits() as u8;
    }
    if sqe.nsid() == BYSTANDERS {
        sqe.0[4] = 1;
    }
    let cid = rng.below(64) as u16;
    match rng.below(3) {
        0 => wire::capsule(&sqe, cid, &random(rng, 8192)),
        1 => wire::capsule(&sqe, cid, &[]),
        _ => wire::capsule_moving(&sqe, cid, rng.magnitude(1 << 20) as u32),
    }
}

/// Changes some bytes, or cuts or stretches.
fn spoil(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.magnitude(4) {
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(4) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.insert(at, rng.bits() as u8),
            _ => bytes[at] = rng.bits() as u8,
        }
    }
}

/// Says it all without listening, and then leaves by one of the doors.
fn blurt(mut tcp: Tcp, rng: &mut Rng, bytes: &[u8]) {
    for piece in bytes.chunks(rng.magnitude(20_000) as usize) {
        tcp.try_put(piece);
    }
    if rng.one_in(2) {
        tcp.finish();
        tcp.wait_for_end();
    }
}

#[test]
fn random_bytes_at_any_point_of_a_conversation() {
    let served = Served::new(TargetLimits::default());
    let bystander = Bystander::new(&served);
    let connect = wire::connect_capsule(&who(), 0, Cntlid::DYNAMIC, 32);
    let enable = wire::capsule(&Property::set(PropertyOffset::CC, ON.into()), 1, &[]);
    let steps = [wire::ic_req(Digests::NONE), connect, enable];
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let said = rng.below(steps.len() as u64 + 1) as usize;
        let bytes = [steps[..said].concat(), random(&mut rng, 100_000)].concat();
        blurt(served.connect(), &mut rng, &bytes);
    }
    bystander.goes_on();
}

#[test]
fn conversations_with_some_bytes_changed() {
    let served = Served::new(TargetLimits::default());
    let bystander = Bystander::new(&served);
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let connect = wire::connect_capsule(&who(), 0, Cntlid::DYNAMIC, 32);
        let enable = wire::capsule(&Property::set(PropertyOffset::CC, ON.into()), 1, &[]);
        let mut said = [wire::ic_req(Digests::NONE), connect, enable].concat();
        (0..rng.magnitude(30)).for_each(|_| said.extend(any_command(&mut rng)));
        spoil(&mut rng, &mut said);
        blurt(served.connect(), &mut rng, &said);
    }
    bystander.goes_on();
}

#[test]
fn any_commands_on_queues_that_came_up_well() {
    let served = Served::new(TargetLimits::default());
    let bystander = Bystander::new(&served);
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let (mut admin, mut io) = (served.connect(), served.connect());
        wire::greet(&mut admin);
        let cqe = wire::connect(&mut admin, &who(), 0, Cntlid::DYNAMIC, 32);
        let cntlid = ConnectResponse::decode(cqe.result as u32).cntlid;
        wire::set_cc(&mut admin, ON);
        wire::io_queue(&mut io, &who(), cntlid, 1, 128);
        let mut said = Vec::new();
        (0..rng.magnitude(100)).for_each(|_| said.extend(any_command(&mut rng)));
        if rng.one_in(2) {
            spoil(&mut rng, &mut said);
        }
        let tcp = if rng.one_in(3) { &mut admin } else { &mut io };
        for piece in said.chunks(rng.magnitude(20_000) as usize) {
            tcp.try_put(piece);
        }
        if rng.one_in(2) {
            tcp.finish();
        }
    }
    bystander.goes_on();
}
