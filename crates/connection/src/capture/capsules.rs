//! NVMe over RDMA in a capture: each capsule, and the data of each command, as the PDU of NVMe/TCP
//! that it would be. Analysers know no other form of it above RDMA.

use super::Capture;
use super::tap::{Start, Tap};
use weft_proto::capture::{End, Protocol, Role};
use weft_proto::nvme_tcp::pdu::PduType;
use weft_proto::stream::Tag;

/// Bytes of a PDU's header, by what it is.
const IC_BYTES: usize = 128;
const COMMAND_BYTES: usize = 72;
const DATA_BYTES: usize = 24;

/// The flag of the last data of a command.
const LAST: u8 = 4;

/// Captures one queue pair.
#[doc(hidden)]
pub struct CapsuleTap {
    tap: Tap,
    /// Command identifiers, by tag, as they stand in the command.
    ids: Vec<Option<[u8; 2]>>,
    goes_on: bool,
}

impl CapsuleTap {
    /// Captures a queue pair at `end`, between these addresses, if there is room.
    #[doc(hidden)]
    pub fn begin(
        capture: &Capture,
        end: End,
        [local, peer]: [&str; 2],
        start: Start,
    ) -> Option<Box<Self>> {
        let role = Role { protocol: Protocol::NvmeTcp, end };
        let is_first = matches!(start, Start::First);
        let tap = capture.tap(role, local, peer, start)?;
        let mut this = Self { tap, ids: Vec::new(), goes_on: true };
        if is_first {
            // Both ends want what is the least.
            for (kind, from) in [(PduType::IC_REQ, End::Host), (PduType::IC_RESP, End::Target)] {
                let mut pdu = [0; IC_BYTES];
                put_common(&mut pdu, kind, 0, 0, IC_BYTES);
                this.put(from, &[&pdu]);
            }
        }
        Some(Box::new(this))
    }

    /// Returns true if the capture still records.
    #[doc(hidden)]
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// The host has sent a command.
    #[cold]
    #[doc(hidden)]
    pub fn command(&mut self, tag: Tag, sqe: &[u8; 64]) {
        if self.ids.len() <= tag.index() {
            self.ids.resize(tag.index() + 1, None);
        }
        self.ids[tag.index()] = Some([sqe[2], sqe[3]]);
        let mut header = [0; COMMAND_BYTES];
        put_common(&mut header, PduType::CAPSULE_CMD, 0, 0, COMMAND_BYTES);
        header[8..].copy_from_slice(sqe);
        self.put(End::Host, &[&header]);
    }

    /// The controller has sent a completion.
    #[cold]
    #[doc(hidden)]
    pub fn response(&mut self, cqe: &[u8; 16]) {
        let mut header = [0; DATA_BYTES];
        put_common(&mut header, PduType::CAPSULE_RESP, 0, 0, DATA_BYTES);
        header[8..].copy_from_slice(cqe);
        self.put(End::Target, &[&header]);
    }

    /// `bytes` from `offset` on of a command's data went from one end to the other, where `piece`
    /// gives them. Nothing is shown of a command that was not seen.
    #[cold]
    #[doc(hidden)]
    pub fn data(
        &mut self,
        from: End,
        tag: Tag,
        (offset, bytes, is_last): (u32, u32, bool),
        mut piece: impl FnMut(u32, u32, &mut Vec<u8>) -> u32,
    ) {
        let Some(Some(id)) = self.ids.get(tag.index()).copied() else { return };
        let (mut data, mut at) = (Vec::with_capacity(bytes as usize), 0);
        while at < bytes && self.goes_on {
            match piece(offset + at, bytes - at, &mut data) {
                0 => return,
                n => at += n,
            }
        }
        let kind = if from == End::Host { PduType::H2C_DATA } else { PduType::C2H_DATA };
        let mut header = [0; DATA_BYTES];
        let flags = if is_last { LAST } else { 0 };
        put_common(&mut header, kind, flags, DATA_BYTES as u8, DATA_BYTES + data.len());
        header[8..10].copy_from_slice(&id);
        header[12..16].copy_from_slice(&offset.to_le_bytes());
        header[16..20].copy_from_slice(&bytes.to_le_bytes());
        self.put(from, &[&header, &data]);
    }

    fn put(&mut self, from: End, pieces: &[&[u8]]) {
        self.goes_on = self.goes_on && self.tap.message(from, pieces);
    }
}

/// Writes the common header of a PDU.
fn put_common(header: &mut [u8], PduType(kind): PduType, flags: u8, pdo: u8, bytes: usize) {
    let hlen = header.len() as u8;
    header[..4].copy_from_slice(&[kind, flags, hlen, pdo]);
    header[4..8].copy_from_slice(&(bytes as u32).to_le_bytes());
}
