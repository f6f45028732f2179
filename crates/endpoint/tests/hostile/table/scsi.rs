//! SCSI: CDBs over iSCSI (SPC-4, SBC-3).

use super::PeerState::Ready;
use super::iscsi::{READ, WRITE, command, moving, pdu, read_cdb, scsi, with};
use super::{Fault, fault};

const SPC: &str = "SPC-4 §6, SAM-5 §5.3";
const SBC: &str = "SBC-3 §5";

pub(super) const TABLE: &[Fault] = &[
    fault(
        SPC,
        "an unknown operation code",
        Ready,
        |_| read_cdb(&[0xee]),
        "ILLEGAL REQUEST, Invalid command operation code (20h/00h)",
    ),
    fault(
        SPC,
        "an unknown service action",
        Ready,
        |_| read_cdb(&[0x9e, 0x1f]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SPC,
        "INQUIRY: a page that does not exist",
        Ready,
        |_| read_cdb(&[0x12, 1, 0xee, 16, 0, 0]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SPC,
        "INQUIRY: a page code without EVPD",
        Ready,
        |_| read_cdb(&[0x12, 0, 0x83, 16, 0, 0]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SPC,
        "MODE SENSE: a page that does not exist",
        Ready,
        |_| read_cdb(&[0x5a, 0, 0x3e, 0, 0, 0, 0, 16, 0, 0]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SPC,
        "MODE SELECT: a parameter list that is cut off",
        Ready,
        |_| pdu(command(1, WRITE, 4, &[0x55, 0x10, 0, 0, 0, 0, 0, 0, 4, 0]).encode(4), &[0; 4]),
        "ILLEGAL REQUEST, Parameter list length error (1ah/00h)",
    ),
    fault(
        SPC,
        "REPORT LUNS: a reserved report",
        Ready,
        |_| read_cdb(&[0xa0, 0, 0x20, 0, 0, 0, 0, 0, 16, 0, 0, 0]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SPC,
        "PERSISTENT RESERVE OUT: a reserved service action",
        Ready,
        |_| pdu(command(1, WRITE, 24, &[0x5f, 0x1f, 0, 0, 0, 0, 0, 0, 24, 0]).encode(24), &[0; 24]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SPC,
        "PERSISTENT RESERVE OUT: a list of the wrong length",
        Ready,
        |_| pdu(command(1, WRITE, 8, &[0x5f, 0, 0, 0, 0, 0, 0, 0, 8, 0]).encode(8), &[0; 8]),
        "ILLEGAL REQUEST, Parameter list length error (1ah/00h)",
    ),
    fault(
        SPC,
        "PERSISTENT RESERVE OUT: a key that is not registered",
        Ready,
        |_| pdu(command(1, WRITE, 24, &[0x5f, 1, 1, 0, 0, 0, 0, 0, 24, 0]).encode(24), &[1; 24]),
        "RESERVATION CONFLICT, residual underflow",
    ),
    fault(
        SPC,
        "NACA in the control byte",
        Ready,
        |_| read_cdb(&[0x28, 0, 0, 0, 0, 0, 0, 0, 8, 4]),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SBC,
        "READ (10) behind the end",
        Ready,
        |_| read_cdb(&moving(0x28, 32_768, 8)),
        "ILLEGAL REQUEST, Logical block address out of range (21h/00h)",
    ),
    fault(
        SBC,
        "READ (10) beyond the end",
        Ready,
        |_| read_cdb(&moving(0x28, 32_764, 8)),
        "ILLEGAL REQUEST, Logical block address out of range (21h/00h)",
    ),
    fault(
        SBC,
        "READ (16) whose address overflows",
        Ready,
        |_| read_cdb(&[0x88, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 8, 0, 0]),
        "ILLEGAL REQUEST, Logical block address out of range (21h/00h)",
    ),
    fault(
        SBC,
        "READ with protection information",
        Ready,
        |_| read_cdb(&with(moving(0x28, 0, 8).to_vec(), 1, &[0x20])),
        "ILLEGAL REQUEST, Invalid field in CDB (24h/00h)",
    ),
    fault(
        SBC,
        "WRITE (10) behind the end",
        Ready,
        |_| scsi(WRITE, 4096, &moving(0x2a, 32_768, 8)),
        "ILLEGAL REQUEST, Logical block address out of range (21h/00h)",
    ),
    fault(
        SBC,
        "WRITE (10) for which the initiator has less data",
        Ready,
        |_| pdu(command(1, WRITE, 512, &moving(0x2a, 0, 8)).encode(512), &[1; 512]),
        "GOOD, residual overflow",
    ),
    fault(
        SBC,
        "READ (10) for which the initiator has less room",
        Ready,
        |_| scsi(READ, 512, &moving(0x28, 0, 8)),
        "Data-In",
    ),
    fault(
        SBC,
        "UNMAP: a parameter list that is cut off",
        Ready,
        |_| pdu(command(1, WRITE, 4, &[0x42, 0, 0, 0, 0, 0, 0, 0, 4, 0]).encode(4), &[0; 4]),
        "ILLEGAL REQUEST, Parameter list length error (1ah/00h)",
    ),
    fault(
        SBC,
        "UNMAP: a range beyond the end",
        Ready,
        |_| {
            let list =
                [0, 22, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0, 0, 0, 9, 0, 0, 0, 0];
            pdu(command(1, WRITE, 24, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0]).encode(24), &list)
        },
        "ILLEGAL REQUEST, Logical block address out of range (21h/00h)",
    ),
    fault(
        SBC,
        "WRITE SAME (16) beyond the end",
        Ready,
        |_| {
            pdu(
                command(1, WRITE, 512, &[0x93, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0, 0, 0, 9, 0, 0])
                    .encode(512),
                &[0; 512],
            )
        },
        "ILLEGAL REQUEST, Logical block address out of range (21h/00h)",
    ),
    fault(
        SBC,
        "COMPARE AND WRITE with data that differs",
        Ready,
        |_| {
            pdu(
                command(1, WRITE, 1024, &[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0])
                    .encode(1024),
                &[9; 1024],
            )
        },
        "MISCOMPARE, Miscompare during verify operation (1dh/00h)",
    ),
    fault(
        SBC,
        "a write as a read: the direction of the CDB against the flags",
        Ready,
        |_| scsi(READ, 4096, &moving(0x2a, 0, 8)),
        "GOOD",
    ),
];
