//! PERSISTENT RESERVE IN (SPC-4 §6.15).

use super::{Reservations, is_all_registrants};
use crate::limits::{SCSI_REGISTRATIONS_MAX, SCSI_RESPONSE_BYTES_MAX};
use crate::scsi::lun::name::TRANSPORT_ID_BYTES_MAX;
use crate::scsi::lun::writer::Writer;
use crate::scsi::opcode::ReserveIn;

/// Bytes of a full status descriptor without its TransportID.
const STATUS_BYTES: usize = 24;

/// Types that can be had: all six (PERSISTENT RESERVATION TYPE MASK, SPC-4 §6.15.4).
const TYPE_MASK: u64 = 0xea01;

const _: () = assert!(8 + SCSI_REGISTRATIONS_MAX * (STATUS_BYTES + TRANSPORT_ID_BYTES_MAX) <= SCSI_RESPONSE_BYTES_MAX);

/// Bytes of the response of a service action, at most.
pub(in crate::scsi::lun) const fn response_bytes(action: ReserveIn) -> usize {
    match action {
        ReserveIn::READ_KEYS => 8 + 8 * SCSI_REGISTRATIONS_MAX,
        ReserveIn::READ_FULL_STATUS => SCSI_RESPONSE_BYTES_MAX,
        _ => 24,
    }
}

/// Writes the response.
pub(in crate::scsi::lun) fn report(state: &Reservations, action: ReserveIn, out: &mut Writer) {
    if action == ReserveIn::REPORT_CAPABILITIES {
        // ATP_C, but neither CRH, SIP_C nor PTPL_C; TMV: the type mask is valid.
        out.number(2, 8);
        out.bytes(&[0x04, 0x80]);
        out.number(2, TYPE_MASK);
        return out.zeroes(2);
    }
    out.number(4, state.generation.into());
    out.zeroes(4);
    match action {
        ReserveIn::READ_KEYS => state.registrations.iter().for_each(|registration| out.number(8, registration.key)),
        ReserveIn::READ_RESERVATION => state.report_reservation(out),
        _ => state.report_status(out),
    }
    out.set(4, 4, out.len() as u64 - 8);
}

impl Reservations {
    fn report_reservation(&self, out: &mut Writer) {
        let Some(reservation) = &self.reservation else { return };
        let key = if is_all_registrants(reservation.kind) { 0 } else { self.key(&reservation.holder).unwrap_or(0) };
        out.number(8, key);
        out.zeroes(5);
        out.bytes(&[reservation.kind.0]);
        out.zeroes(2);
    }

    fn report_status(&self, out: &mut Writer) {
        for registration in &self.registrations {
            let held = self.reservation.as_ref().filter(|_| self.is_holder(&registration.nexus));
            let id = registration.nexus.initiator.as_bytes();
            out.number(8, registration.key);
            out.zeroes(4);
            out.bytes(&[
                u8::from(registration.all_ports) << 1 | u8::from(held.is_some()),
                held.map_or(0, |reservation| reservation.kind.0),
            ]);
            out.zeroes(4);
            out.number(2, registration.nexus.target_port.into());
            out.number(4, id.len() as u64);
            out.bytes(id);
        }
    }
}
