//! PDUs that may be right, nearly right, or wrong in any field.

use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Nsid};
use weft_proto::nvme_tcp::digest::Digests;

use crate::Input;
use crate::support::raw::Raw;

/// Any combination of digests.
pub fn digests(input: &mut Input) -> Digests {
    Digests { header: input.flag(), data: input.flag() }
}

/// Any PDU, sealed with digests that are right nearly always.
pub fn pdu(input: &mut Input, digests: Digests) -> Vec<u8> {
    let mut raw = match input.below(8) {
        0..3 => transfer(input),
        3..6 => capsule(input),
        6 => response(input),
        _ => other(input),
    };
    raw.flags = if input.one_in(8) { input.byte() } else { input.pick(&[0, 4, 4, 12]) };
    raw.padding = input.below(3) * 4;
    let named = u32::from_le_bytes(
        raw.specific.get(8..12).map_or([0; 4], |b| b.try_into().unwrap_or_default()),
    );
    let bytes = if raw.specific.len() == 16 && !input.one_in(8) {
        named.min(4096) as usize
    } else {
        input.below(600)
    };
    raw.data = vec![input.byte(); bytes];
    spoil(input, &mut raw);
    raw.sealed(digests)
}

/// Makes one of the lengths, or the digest, wrong now and then.
fn spoil(input: &mut Input, raw: &mut Raw) {
    match input.below(32) {
        28 => raw.hlen = Some(input.byte()),
        29 => raw.pdo = Some(input.byte()),
        30 => raw.plen = Some(input.u32()),
        31 => raw.bad_header_digest = true,
        _ => {}
    }
}

/// A small number most of the time: those that engines give out are small.
fn small(input: &mut Input) -> u32 {
    if input.one_in(16) { input.u32() } else { input.below(1024) as u32 * 4 }
}

/// A command identifier or transfer tag as an engine may have given it out: a tag, and how often it
/// was used before.
fn identifier(input: &mut Input) -> u16 {
    let tag = input.below(8) as u16;
    match input.below(4) {
        0 => tag,
        1 => 1 << 10 | tag,
        2 => 2 << 10 | tag,
        _ => input.u16(),
    }
}

fn transfer(input: &mut Input) -> Raw {
    let pdu_type = input.pick(&[6, 7, 9]);
    let (cid, ttag) = (identifier(input), identifier(input));
    Raw::transfer(pdu_type, cid, ttag, small(input), small(input))
}

fn capsule(input: &mut Input) -> Raw {
    let mut sqe = Sqe::new(input.byte(), Nsid(1));
    sqe.set_cid(Cid(identifier(input)));
    let identifier = input.pick(&[Sgl::TRANSPORT, Sgl::TRANSPORT, Sgl::IN_CAPSULE, 0x40]);
    let address = if input.one_in(8) { input.u64() } else { 0 };
    sqe.set_sgl(Sgl { address, length: small(input), identifier });
    Raw::capsule(&sqe)
}

fn response(input: &mut Input) -> Raw {
    let status = if input.one_in(4) { Status(input.u16() & 0x7ff) } else { Status::SUCCESS };
    let cqe = Cqe { result: input.u64(), ..Cqe::new(Cid(identifier(input)), status) };
    Raw::new(5, &cqe.encode())
}

fn other(input: &mut Input) -> Raw {
    let bytes = input.pick(&[16, 16, 64, 120, 130, 7]);
    Raw::new(input.byte(), &input.bytes(bytes))
}
