//! A host that says what a test wants, byte by byte, on whatever carries bytes.

#![allow(dead_code, reason = "each test program uses what it needs")]

use weft_endpoint::identity::HostIdentity;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::{Connect, ConnectData, ConnectResponse, Property};
use weft_proto::nvme::property::{Configuration, ControllerStatus, PropertyOffset};
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Cntlid, Nqn, Qid};
use weft_proto::nvme::wire::NqnField;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::pdu::{
    CAPSULE_CMD_BYTES, CAPSULE_RESP_BYTES, COMMON_BYTES, CommonHeader, DataTransfer, Flags, IcReq,
    PduType, TRANSFER_BYTES, decode_capsule_resp, encode_capsule_cmd,
};

/// CC with the controller enabled.
pub const ON: u32 = Configuration::ENABLE | Configuration::NVM_ENTRY_SIZES;

/// The other end of a connection, as a test sees it.
pub trait Peer {
    /// Sends.
    fn put(&mut self, bytes: &[u8]);

    /// The next whole PDU; `None` at the end of the stream, or when none comes for long.
    fn pdu(&mut self) -> Option<Pdu>;
}

impl<P: Peer> Peer for &mut P {
    fn put(&mut self, bytes: &[u8]) {
        (**self).put(bytes);
    }

    fn pdu(&mut self) -> Option<Pdu> {
        (**self).pdu()
    }
}

/// A PDU without digests.
#[derive(Clone, Debug)]
pub struct Pdu(pub Vec<u8>);

impl Pdu {
    /// Takes the first PDU from `bytes`, when it is there whole.
    pub fn split(bytes: &mut Vec<u8>) -> Option<Self> {
        let header = CommonHeader::decode(bytes.first_chunk::<COMMON_BYTES>()?);
        let len = header.plen as usize;
        assert!(len >= COMMON_BYTES, "the peer sent a PDU of {len} bytes");
        if bytes.len() < len {
            return None;
        }
        let rest = bytes.split_off(len);
        Some(Self(std::mem::replace(bytes, rest)))
    }

    pub fn header(&self) -> CommonHeader {
        CommonHeader::decode(self.0.first_chunk().unwrap())
    }

    pub fn kind(&self) -> PduType {
        self.header().pdu_type
    }

    pub fn cqe(&self) -> Cqe {
        assert_eq!(self.kind(), PduType::CAPSULE_RESP, "{self:?}");
        decode_capsule_resp(self.0.first_chunk::<CAPSULE_RESP_BYTES>().unwrap())
    }

    pub fn transfer(&self) -> DataTransfer {
        DataTransfer::decode(self.0.first_chunk::<TRANSFER_BYTES>().unwrap())
    }
}

pub fn ic_req(digests: Digests) -> Vec<u8> {
    IcReq { pfv: 0, hpda: 0, digests, maxr2t: 0 }.encode().to_vec()
}

fn header(kind: PduType, header_bytes: usize, flags: Flags, data_bytes: usize) -> CommonHeader {
    let pdo = if data_bytes > 0 { header_bytes as u8 } else { 0 };
    CommonHeader {
        pdu_type: kind,
        flags,
        hlen: header_bytes as u8,
        pdo,
        plen: (header_bytes + data_bytes) as u32,
    }
}

/// A command whose data, if it has any, comes with it.
pub fn capsule(sqe: &Sqe, cid: u16, data: &[u8]) -> Vec<u8> {
    let mut sqe = *sqe;
    sqe.set_cid(Cid(cid));
    sqe.set_sgl(if data.is_empty() {
        Sgl::transport(0)
    } else {
        Sgl::in_capsule(data.len() as u32)
    });
    let common = header(PduType::CAPSULE_CMD, CAPSULE_CMD_BYTES, Flags(0), data.len());
    [&encode_capsule_cmd(common, &sqe)[..], data].concat()
}

/// A command whose data moves by data PDUs, in either direction.
pub fn capsule_moving(sqe: &Sqe, cid: u16, bytes: u32) -> Vec<u8> {
    let mut sqe = *sqe;
    sqe.set_cid(Cid(cid));
    sqe.set_sgl(Sgl::transport(bytes));
    encode_capsule_cmd(header(PduType::CAPSULE_CMD, CAPSULE_CMD_BYTES, Flags(0), 0), &sqe).to_vec()
}

/// The whole answer to an R2T.
pub fn h2c_data(r2t: &DataTransfer, data: &[u8]) -> Vec<u8> {
    let common = header(PduType::H2C_DATA, TRANSFER_BYTES, Flags::LAST, data.len());
    [&r2t.encode(common)[..], data].concat()
}

/// A host that asks for a queue, and the subsystem that it asks.
#[derive(Clone)]
pub struct Who {
    pub host: HostIdentity,
    pub subsystem: Nqn,
    pub keep_alive_ms: u32,
}

/// Connect and its data.
pub fn connect_parts(who: &Who, qid: u16, cntlid: Cntlid, entries: u16) -> (Sqe, Vec<u8>) {
    let keep_alive_ms = if qid == 0 { who.keep_alive_ms } else { 0 };
    let connect = Connect {
        record_format: 0,
        qid: Qid(qid),
        sq_size: entries - 1,
        attributes: 0,
        keep_alive_ms,
    };
    let data = ConnectData {
        host_id: who.host.id,
        cntlid,
        subnqn: NqnField::from(&who.subsystem),
        hostnqn: NqnField::from(&who.host.nqn),
    };
    let mut bytes = vec![0; ConnectData::BYTES];
    data.put(&mut bytes);
    (connect.encode(), bytes)
}

pub fn connect_capsule(who: &Who, qid: u16, cntlid: Cntlid, entries: u16) -> Vec<u8> {
    let (sqe, data) = connect_parts(who, qid, cntlid, entries);
    capsule(&sqe, 0, &data)
}

pub fn greet(peer: &mut impl Peer) {
    peer.put(&ic_req(Digests::NONE));
    assert_eq!(peer.pdu().expect("an answer to ICReq").kind(), PduType::IC_RESP);
}

/// The next response.
pub fn response(peer: &mut impl Peer) -> Cqe {
    peer.pdu().expect("a response").cqe()
}

pub fn connect(peer: &mut impl Peer, who: &Who, qid: u16, cntlid: Cntlid, entries: u16) -> Cqe {
    peer.put(&connect_capsule(who, qid, cntlid, entries));
    response(peer)
}

pub fn set_cc(peer: &mut impl Peer, value: u32) -> Cqe {
    peer.put(&capsule(&Property::set(PropertyOffset::CC, value.into()), 1, &[]));
    response(peer)
}

pub fn status(peer: &mut impl Peer) -> ControllerStatus {
    peer.put(&capsule(&Property::get(PropertyOffset::CSTS), 2, &[]));
    let cqe = response(peer);
    assert_eq!(cqe.status, Status::SUCCESS);
    ControllerStatus(cqe.result as u32)
}

/// Brings up an admin queue with an enabled controller.
pub fn admin(peer: &mut impl Peer, who: &Who) -> Cntlid {
    greet(peer);
    let cqe = connect(peer, who, 0, Cntlid::DYNAMIC, 32);
    assert_eq!(cqe.status, Status::SUCCESS);
    assert_eq!(set_cc(peer, ON).status, Status::SUCCESS);
    assert!(status(peer).ready());
    ConnectResponse::decode(cqe.result as u32).cntlid
}

/// Brings up an I/O queue of that controller.
pub fn io_queue(peer: &mut impl Peer, who: &Who, cntlid: Cntlid, qid: u16, entries: u16) {
    greet(peer);
    assert_eq!(connect(peer, who, qid, cntlid, entries).status, Status::SUCCESS);
}
