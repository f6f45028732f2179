//! Reservations of a logical unit.
//!
//! A registration belongs to one nexus, so a session that is registered lets no other session of
//! the device write. Registering all of them would not be right: one that comes back, or is opened
//! later, would have to register by itself, and so undo that another initiator has shut this one
//! out. Therefore only a device with one session, which is its only path, changes reservations. A
//! session that takes the place of a lost one has the same name, and with it the registration.

use uuid::Uuid;
use weft_block::{Op, ReservationHolder, ReservationKind, ReservationReport, ReserveAction};
use weft_connection::limits::ISCSI_FULL_STATUS_BYTES;
use weft_connection::memory::piece_mut;
use weft_proto::reservation::Kind;
use weft_proto::scsi::cdb::Command;
use weft_proto::scsi::initiator::parameters::{RESERVE_OUT_BYTES, reserve_out};
use weft_proto::scsi::initiator::{FullStatus, ReportedRegistrant};
use weft_proto::scsi::opcode::{ReserveIn, ReserveOut};

/// Parameter data of READ FULL STATUS.
pub(super) type Status = [u8; ISCSI_FULL_STATUS_BYTES];

/// The command of a change, and its parameter list.
pub(super) fn change(action: ReserveAction) -> (Command, [u8; RESERVE_OUT_BYTES]) {
    let (action, kind, keys) = match action {
        ReserveAction::Register { key } => (ReserveOut::REGISTER_AND_IGNORE, None, (0, key)),
        ReserveAction::Unregister { key } => (ReserveOut::REGISTER, None, (key, 0)),
        ReserveAction::Acquire { key, kind } => (ReserveOut::RESERVE, Some(kind), (key, 0)),
        ReserveAction::Preempt { key, of, kind } => (ReserveOut::PREEMPT, Some(kind), (key, of)),
        ReserveAction::Release { key, kind } => (ReserveOut::RELEASE, Some(kind), (key, 0)),
    };
    let kind = kind.and_then(|kind| Kind::of_nvme(kind.nvme())).map_or(0, Kind::scsi);
    (
        Command::ReserveOut { action, scope: 0, kind, parameters: RESERVE_OUT_BYTES as u32 },
        reserve_out(keys.0, keys.1),
    )
}

/// The command that asks for the report.
pub(super) fn question() -> Command {
    Command::ReserveIn {
        action: ReserveIn::READ_FULL_STATUS,
        allocation: ISCSI_FULL_STATUS_BYTES as u32,
    }
}

/// Puts the report that came into the data of its operation; `false`: it is none.
pub(super) fn fill(op: &mut Op, status: &[u8]) -> bool {
    let Some(status) = FullStatus::decode(status, ISCSI_FULL_STATUS_BYTES) else { return false };
    let kind = status.kind.and_then(|kind| ReservationKind::of_nvme(kind.nvme()));
    let registrants = status.registrants.iter().map(holder).collect();
    let report = ReservationReport {
        generation: status.generation,
        kind,
        registrants,
        is_cut: status.is_cut,
    }
    .encode();
    let mut done = 0;
    while let Some(piece) = piece_mut(&mut op.data, done as u32, (report.len() - done) as u32)
        .filter(|it| !it.is_empty())
    {
        piece.copy_from_slice(&report[done..done + piece.len()]);
        done += piece.len();
    }
    true
}

/// The name of an initiator port is longer than a host identifier, which is derived from it.
fn holder(of: &ReportedRegistrant<'_>) -> ReservationHolder {
    let host = Uuid::new_v5(&Uuid::NAMESPACE_OID, of.initiator).into_bytes();
    ReservationHolder { host, key: of.key, holds: of.holds }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::OpKind;
    use weft_block::limits::RESERVATION_REPORT_BYTES;
    use weft_io::{Pool, Segments};

    #[test]
    fn a_report_goes_into_memory_in_pieces() {
        let pool = Pool::new(1 << 20);
        let pieces = [8, 2 * RESERVATION_REPORT_BYTES];
        let data: Segments = pieces.map(|len| pool.take(len).unwrap().into()).into_iter().collect();
        let mut op = Op::new(OpKind::Read, 0, 1, 0, data);
        // Generation 3, and nobody is registered.
        assert!(fill(&mut op, &[0, 0, 0, 3, 0, 0, 0, 0]));
        let (kind, registrants) = (None, Vec::new());
        let report = ReservationReport { generation: 3, kind, registrants, is_cut: false }.encode();
        assert!(report.len() > 8, "it needs both pieces");
        let filled = [&op.data[0][..], &op.data[1][..report.len() - 8]].concat();
        op.give_up();
        assert_eq!(filled, report);
    }
}
