//! PERSISTENT RESERVE IN (SPC-4 §6.15).

use crate::limits::{REGISTRANTS_MAX, SCSI_RESPONSE_BYTES_MAX};
use crate::reservation::{Registrant, ReservationState, Reservations};
use crate::scsi::lun::name::{TRANSPORT_ID_BYTES_MAX, TransportId};
use crate::scsi::lun::writer::Writer;
use crate::scsi::opcode::ReserveIn;

/// Bytes of a full status descriptor without its TransportID.
const STATUS_BYTES: usize = 24;

/// Types that can be had: all six (PERSISTENT RESERVATION TYPE MASK, SPC-4 §6.15.4).
const TYPE_MASK: u64 = 0xea01;

const ATP_C: u8 = 0x04;
const PTPL_C: u8 = 0x01;
const TMV: u8 = 0x80;
const PTPL_A: u8 = 0x01;

const _: () = assert!(
    8 + REGISTRANTS_MAX * (STATUS_BYTES + TRANSPORT_ID_BYTES_MAX) <= SCSI_RESPONSE_BYTES_MAX
);

/// Bytes of the response of a service action, at most.
pub(in crate::scsi::lun) const fn response_bytes(action: ReserveIn) -> usize {
    match action {
        ReserveIn::READ_KEYS => 8 + 8 * REGISTRANTS_MAX,
        ReserveIn::READ_FULL_STATUS => SCSI_RESPONSE_BYTES_MAX,
        _ => 24,
    }
}

/// Writes the response; `None`: another gateway may still act by an older state.
pub(in crate::scsi::lun) fn report(
    reservations: &Reservations,
    action: ReserveIn,
    out: &mut Writer,
) -> Option<()> {
    if action == ReserveIn::REPORT_CAPABILITIES {
        // Neither CRH nor SIP_C.
        let persists = if reservations.can_persist() { PTPL_C } else { 0 };
        let is_active = if reservations.look(ReservationState::is_persistent) { PTPL_A } else { 0 };
        out.number(2, 8);
        out.bytes(&[ATP_C | persists, TMV | is_active]);
        out.number(2, TYPE_MASK);
        out.zeroes(2);
        return Some(());
    }
    reservations.look_settled(|state| {
        out.number(4, state.generation().into());
        out.zeroes(4);
        match action {
            ReserveIn::READ_KEYS => state
                .registrations()
                .iter()
                .for_each(|registration| out.number(8, registration.key)),
            ReserveIn::READ_RESERVATION => report_reservation(state, out),
            _ => report_status(state, out),
        }
    })?;
    out.set(4, 4, out.len() as u64 - 8);
    Some(())
}

fn report_reservation(state: &ReservationState, out: &mut Writer) {
    let Some(reservation) = state.reservation() else { return };
    let key =
        if reservation.kind.all_hold() { 0 } else { state.key(&reservation.holder).unwrap_or(0) };
    out.number(8, key);
    out.zeroes(5);
    out.bytes(&[reservation.kind.scsi()]);
    out.zeroes(2);
}

fn report_status(state: &ReservationState, out: &mut Writer) {
    for registration in state.registrations() {
        let held = state.reservation().filter(|_| state.is_holder(&registration.registrant));
        let (id, port) = match &registration.registrant {
            Registrant::Nexus(nexus) => (nexus.initiator.clone(), nexus.target_port),
            Registrant::Host(host) => (TransportId::nvme(host), 0),
        };
        out.number(8, registration.key);
        out.zeroes(4);
        out.bytes(&[
            u8::from(registration.all_ports) << 1 | u8::from(held.is_some()),
            held.map_or(0, |reservation| reservation.kind.scsi()),
        ]);
        out.zeroes(4);
        out.number(2, port.into());
        out.number(4, id.as_bytes().len() as u64);
        out.bytes(id.as_bytes());
    }
}
