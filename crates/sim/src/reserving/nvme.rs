//! A host that reserves by NVMe/TCP: an admin queue, an I/O queue, and no digests.

use super::link::{PollingDriver, StreamLost, TimedStream};
use super::model::{ModelAction, ModelState};
use super::{BLOCK, Ended};
use std::net::SocketAddr;
use weft_endpoint::identity::HostIdentity;
use weft_io::Time;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::{Connect, ConnectData, ConnectResponse, Property};
use weft_proto::nvme::host::command;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::property::{Configuration, ControllerStatus, PropertyOffset};
use weft_proto::nvme::reservation::{RegisteredController, ReservationStatus};
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Cntlid, Lba, Nqn, Nsid, Qid};
use weft_proto::nvme::wire::NqnField;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::pdu::{
    CAPSULE_CMD_BYTES, CAPSULE_RESP_BYTES, COMMON_BYTES, CommonHeader, Flags, IcReq, PduType,
    decode_capsule_resp, encode_capsule_cmd,
};

/// Entries of both queues.
const ENTRIES: u16 = 8;

/// Longest report: a header and registrants of 64 bytes each.
const REPORT_BYTES: usize = 64 * 16;

/// A report in its extended form.
fn decode(shown: &[u8], who_of: impl Fn(u64) -> usize) -> Option<(u32, ModelState)> {
    let header = ReservationStatus::decode(shown).ok()?;
    let registrants: Option<Vec<_>> = (1..=usize::from(header.regctl))
        .map(|n| RegisteredController::decode(shown.get(n * 64..)?).ok())
        .collect();
    let registrants = registrants?;
    let holder = registrants
        .iter()
        .find(|known| known.rcsts & RegisteredController::HOLDS != 0)
        .map(|known| who_of(known.rkey));
    let held = (header.rtype != 0).then_some((header.rtype, holder));
    Some((
        header.generation,
        ModelState::new(registrants.iter().map(|known| who_of(known.rkey)).collect(), held),
    ))
}

/// An association.
pub struct NvmeHost {
    _admin: TimedStream,
    io: TimedStream,
}

/// A whole PDU.
async fn pdu(link: &mut TimedStream) -> Result<Vec<u8>, StreamLost> {
    let mut bytes = link.receive(COMMON_BYTES).await?;
    let header = CommonHeader::decode(bytes.first_chunk().ok_or(StreamLost)?);
    let rest = (header.plen as usize).checked_sub(COMMON_BYTES).ok_or(StreamLost)?;
    bytes.extend(link.receive(rest).await?);
    Ok(bytes)
}

/// A command whose data, if it has any, comes with it; the response.
async fn command(link: &mut TimedStream, sqe: &Sqe, data: &[u8]) -> Result<Cqe, StreamLost> {
    let mut sqe = *sqe;
    sqe.set_cid(Cid(1));
    sqe.set_sgl(if data.is_empty() {
        Sgl::transport(0)
    } else {
        Sgl::in_capsule(data.len() as u32)
    });
    let pdo = if data.is_empty() { 0 } else { CAPSULE_CMD_BYTES as u8 };
    let plen = (CAPSULE_CMD_BYTES + data.len()) as u32;
    let common = CommonHeader {
        pdu_type: PduType::CAPSULE_CMD,
        flags: Flags(0),
        hlen: CAPSULE_CMD_BYTES as u8,
        pdo,
        plen,
    };
    link.send(&[&encode_capsule_cmd(common, &sqe)[..], data].concat()).await?;
    let answer = pdu(link).await?;
    let is_response = CommonHeader::decode(answer.first_chunk().ok_or(StreamLost)?).pdu_type
        == PduType::CAPSULE_RESP;
    answer
        .first_chunk::<CAPSULE_RESP_BYTES>()
        .filter(|_| is_response)
        .map(decode_capsule_resp)
        .ok_or(StreamLost)
}

async fn expect(link: &mut TimedStream, sqe: &Sqe, data: &[u8]) -> Result<Cqe, StreamLost> {
    let cqe = command(link, sqe, data).await?;
    if cqe.status.is_success() { Ok(cqe) } else { Err(StreamLost) }
}

/// A queue of a controller.
async fn queue(
    link: &mut TimedStream,
    host: &HostIdentity,
    subsystem: &Nqn,
    qid: u16,
    cntlid: Cntlid,
    keep_alive_ms: u32,
) -> Result<Cqe, StreamLost> {
    link.send(&IcReq { pfv: 0, hpda: 0, digests: Digests::NONE, maxr2t: 0 }.encode()).await?;
    pdu(link).await?;
    let connect = Connect {
        record_format: 0,
        qid: Qid(qid),
        sq_size: ENTRIES - 1,
        attributes: 0,
        keep_alive_ms,
    };
    let data = ConnectData {
        host_id: host.id,
        cntlid,
        subnqn: NqnField::from(subsystem),
        hostnqn: NqnField::from(&host.nqn),
    };
    let mut bytes = vec![0; ConnectData::BYTES];
    data.put(&mut bytes);
    expect(link, &connect.encode(), &bytes).await
}

impl NvmeHost {
    /// Connects both queues. The controller goes away if the host is silent for as long as its keep
    /// alive timeout.
    pub async fn open(
        place: &PollingDriver,
        to: SocketAddr,
        host: &HostIdentity,
        subsystem: &Nqn,
        keep_alive_ms: u32,
        limit: Time,
    ) -> Result<Self, StreamLost> {
        let mut admin = TimedStream::open(place, to, limit).await?;
        let cqe = queue(&mut admin, host, subsystem, 0, Cntlid::DYNAMIC, keep_alive_ms).await?;
        let cntlid = ConnectResponse::decode(cqe.result as u32).cntlid;
        let on = Configuration::ENABLE | Configuration::NVM_ENTRY_SIZES;
        expect(&mut admin, &Property::set(PropertyOffset::CC, on.into()), &[]).await?;
        let cqe = expect(&mut admin, &Property::get(PropertyOffset::CSTS), &[]).await?;
        if !ControllerStatus(cqe.result as u32).ready() {
            return Err(StreamLost);
        }
        let mut io = TimedStream::open(place, to, limit).await?;
        queue(&mut io, host, subsystem, 1, cntlid, 0).await?;
        Ok(Self { _admin: admin, io })
    }

    async fn run(&mut self, sqe: &Sqe, data: &[u8]) -> Result<Ended, StreamLost> {
        Ok(match command(&mut self.io, sqe, data).await?.status {
            Status::SUCCESS => Ended::Done,
            Status::RESERVATION_CONFLICT => Ended::Conflict,
            Status::INVALID_FIELD => Ended::Invalid,
            Status::INTERNAL_ERROR => Ended::Unknown,
            _ => Ended::NotExecuted,
        })
    }

    /// Asks for something; keys by number.
    pub async fn reserve(
        &mut self,
        action: ModelAction,
        own: u64,
        key_of: impl Fn(usize) -> u64,
    ) -> Result<Ended, StreamLost> {
        let (opcode, dword10, keys) = match action {
            ModelAction::Register => (NvmOpcode::RESERVATION_REGISTER, 0, vec![0, own]),
            ModelAction::Unregister { .. } => (NvmOpcode::RESERVATION_REGISTER, 1, vec![own, 0]),
            ModelAction::Acquire(kind) => {
                (NvmOpcode::RESERVATION_ACQUIRE, u32::from(kind) << 8, vec![own, 0])
            }
            ModelAction::Preempt { victim, kind, abort } => (
                NvmOpcode::RESERVATION_ACQUIRE,
                (1 + u32::from(abort)) | (u32::from(kind) << 8),
                vec![own, key_of(victim)],
            ),
            ModelAction::Release(kind) => {
                (NvmOpcode::RESERVATION_RELEASE, u32::from(kind) << 8, vec![own])
            }
            ModelAction::Clear => (NvmOpcode::RESERVATION_RELEASE, 1, vec![own]),
            ModelAction::Report => return Ok(Ended::NotExecuted),
        };
        let mut sqe = Sqe::new(opcode.0, Nsid(1));
        sqe.set_dword(10, dword10);
        let data: Vec<u8> = keys.into_iter().flat_map(u64::to_le_bytes).collect();
        self.run(&sqe, &data).await
    }

    /// The state that a Reservation Report shows, and its generation; `None`: it was not executed.
    pub async fn report(
        &mut self,
        who_of: impl Fn(u64) -> usize,
    ) -> Result<Option<(u32, ModelState)>, StreamLost> {
        let mut sqe = Sqe::new(NvmOpcode::RESERVATION_REPORT.0, Nsid(1));
        sqe.set_dword(10, REPORT_BYTES as u32 / 4 - 1);
        sqe.set_dword(11, 1);
        sqe.set_cid(Cid(1));
        sqe.set_sgl(Sgl::transport(REPORT_BYTES as u32));
        let (hlen, plen) = (CAPSULE_CMD_BYTES as u8, CAPSULE_CMD_BYTES as u32);
        let common =
            CommonHeader { pdu_type: PduType::CAPSULE_CMD, flags: Flags(0), hlen, pdo: 0, plen };
        self.io.send(&encode_capsule_cmd(common, &sqe)).await?;
        let mut shown = Vec::new();
        loop {
            let answer = pdu(&mut self.io).await?;
            let header = CommonHeader::decode(answer.first_chunk().ok_or(StreamLost)?);
            match header.pdu_type {
                PduType::C2H_DATA => shown
                    .extend_from_slice(answer.get(usize::from(header.pdo)..).ok_or(StreamLost)?),
                PduType::CAPSULE_RESP => {
                    let status = answer
                        .first_chunk::<CAPSULE_RESP_BYTES>()
                        .map(decode_capsule_resp)
                        .ok_or(StreamLost)?
                        .status;
                    return if status.is_success() {
                        decode(&shown, who_of).map(Some).ok_or(StreamLost)
                    } else {
                        Ok(None)
                    };
                }
                _ => return Err(StreamLost),
            }
        }
    }

    /// Writes one block.
    pub async fn write(&mut self, lba: u64, content: &[u8; BLOCK]) -> Result<Ended, StreamLost> {
        self.run(&command::write(Nsid(1), Lba(lba), 1, false), content).await
    }
}
