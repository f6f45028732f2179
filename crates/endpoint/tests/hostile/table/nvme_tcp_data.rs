//! NVMe/TCP: capsules, data and digests on a connection that stands.

use super::PeerState::{Asked, Digested, Fresh, Greeted, Ready};
use super::nvme_tcp::*;
use super::{Fault, fault};
use crate::wire;
use weft_proto::nvme::host::command;
use weft_proto::nvme::sqe::Sgl;
use weft_proto::nvme::types::{Lba, Nsid};

const S5: &str = "NVMe TCP §3.6.2.5";
const S6: &str = "NVMe TCP §3.6.2.6";
const S9: &str = "NVMe TCP §3.6.2.9";
const DIGEST: &str = "NVMe TCP §3.3.1";

pub(super) const TABLE: &[Fault] = &[
    fault(
        S5,
        "CapsuleCmd: HLEN too short",
        Ready,
        |_| with(in_capsule(), 2, &[64]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 2; closed",
    ),
    fault(
        S5,
        "CapsuleCmd: HLEN too long",
        Ready,
        |_| with(in_capsule(), 2, &[255]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 2; closed",
    ),
    fault(
        S5,
        "CapsuleCmd: PDO in the header",
        Ready,
        |_| with(in_capsule(), 3, &[68]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 3; closed",
    ),
    fault(
        S5,
        "CapsuleCmd: PDO behind the PDU",
        Ready,
        |_| with(wire::capsule(&write(), 1, &[1; 8]), 3, &[84]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 3; closed",
    ),
    fault(
        S5,
        "CapsuleCmd: PDO not aligned",
        Ready,
        |_| with(in_capsule(), 3, &[74]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 3; closed",
    ),
    fault(
        S5,
        "CapsuleCmd: PLEN below the header",
        Ready,
        |_| with(in_capsule(), 4, &71_u32.to_le_bytes()),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 4; closed",
    ),
    fault(
        S5,
        "CapsuleCmd: PLEN of 4 GiB",
        Ready,
        |_| with(in_capsule(), 4, &[0xff; 4]),
        "C2HTermReq Data Transfer Limit Exceeded (by a host) or R2T Limit Exceeded (by a controller) (0x5); closed",
    ),
    fault(
        S5,
        "CapsuleCmd: more data than IOCCSZ",
        Ready,
        |_| with(in_capsule(), 4, &(72_u32 + 8196).to_le_bytes()),
        "C2HTermReq Data Transfer Limit Exceeded (by a host) or R2T Limit Exceeded (by a controller) (0x5); closed",
    ),
    fault(
        S5,
        "CapsuleCmd: header digest flag without the digest (tolerated)",
        Ready,
        |_| with(in_capsule(), 1, &[1]),
        "Successful Completion (0x0)",
    ),
    fault(
        S5,
        "CapsuleCmd: reserved PDU flags (tolerated)",
        Ready,
        |_| with(in_capsule(), 1, &[0xf8]),
        "Successful Completion (0x0)",
    ),
    fault(
        S6,
        "H2CData for no command",
        Ready,
        |_| data(9, 0, 0, 8, 8),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 10; closed",
    ),
    fault(
        S6,
        "H2CData: TTAG of no R2T",
        Asked,
        |_| data(1, 77, 0, 8, 8),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 10; closed",
    ),
    fault(
        S6,
        "H2CData: CCCID of another command",
        Asked,
        |_| data(2, 0, 0, 8, 8),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 8; closed",
    ),
    fault(
        S6,
        "H2CData: DATAO out of order",
        Asked,
        |_| data(1, 0, 8, 8, 8),
        "C2HTermReq PDU Sequence Error (0x2); closed",
    ),
    fault(
        S6,
        "H2CData: DATAO beyond the R2T",
        Asked,
        |_| data(1, 0, 4096, 8, 8),
        "C2HTermReq Data Transfer Out of Range (0x4); closed",
    ),
    fault(
        S6,
        "H2CData: DATAO overflows",
        Asked,
        |_| data(1, 0, u32::MAX - 3, 8, 8),
        "C2HTermReq Data Transfer Out of Range (0x4); closed",
    ),
    fault(
        S6,
        "H2CData: DATAL against PLEN",
        Asked,
        |_| data(1, 0, 0, 12, 8),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 16; closed",
    ),
    fault(
        S6,
        "H2CData: more than the R2T asked for",
        Asked,
        |_| data(1, 0, 0, 4104, 4104),
        "C2HTermReq Data Transfer Out of Range (0x4); closed",
    ),
    fault(
        S6,
        "H2CData: HLEN",
        Asked,
        |_| with(data(1, 0, 0, 8, 8), 2, &[20]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 2; closed",
    ),
    fault(
        S6,
        "H2CData: PDO",
        Asked,
        |_| with(data(1, 0, 0, 8, 8), 3, &[20]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 3; closed",
    ),
    fault(
        S6,
        "H2CData: PLEN 0",
        Asked,
        |_| with(data(1, 0, 0, 8, 8), 4, &[0]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 4; closed",
    ),
    fault(
        S6,
        "H2CData: reserved PDU flags (tolerated)",
        Asked,
        |_| with(data(1, 0, 0, 4096, 4096), 1, &[0xfc]),
        "Successful Completion (0x0)",
    ),
    fault(
        S6,
        "H2CData: reserved bytes (tolerated)",
        Asked,
        |_| with(data(1, 0, 0, 4096, 4096), 20, &[0xff; 4]),
        "Successful Completion (0x0)",
    ),
    fault(
        S6,
        "H2CData: no LAST_PDU flag on the last (tolerated)",
        Asked,
        |_| with(data(1, 0, 0, 4096, 4096), 1, &[0]),
        "Successful Completion (0x0)",
    ),
    fault(
        S6,
        "H2CData: LAST_PDU flag before the last (tolerated: more may come)",
        Asked,
        |_| data(1, 0, 0, 2048, 2048),
        "nothing",
    ),
    fault(S6, "H2CData: DATAL 0", Asked, |_| data(1, 0, 0, 0, 0), "nothing"),
    fault(
        S6,
        "H2CData: again",
        Asked,
        |_| [data(1, 0, 0, 8, 8), data(1, 0, 0, 8, 8)].concat(),
        "C2HTermReq PDU Sequence Error (0x2); closed",
    ),
    fault(
        S6,
        "H2CData for a read",
        Asked,
        |_| {
            [wire::capsule_moving(&command::read(Nsid(1), Lba(0), 8), 2, 4096), data(2, 0, 0, 8, 8)]
                .concat()
        },
        "C2HTermReq Invalid PDU Header Field (0x1), byte 8; closed",
    ),
    fault(
        S6,
        "H2CData for data in the capsule",
        Ready,
        |_| [in_capsule(), data(1, 0, 0, 8, 8)].concat(),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 10; closed",
    ),
    fault(
        S9,
        "a command of a host with PDU type R2T",
        Ready,
        |_| pdu(9, 0, 24, 0, 24, &[0; 16]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 0; closed",
    ),
    fault(
        S5,
        "more commands than the queue has entries",
        Ready,
        |_| (0..9).flat_map(asks).collect(),
        "C2HTermReq PDU Sequence Error (0x2); closed",
    ),
    fault(
        S5,
        "a command identifier that is in use (another command)",
        Ready,
        |_| [asks(1), asks(1)].concat(),
        "R2T",
    ),
    fault(
        DIGEST,
        "a wrong header digest of a command",
        Fresh,
        |_| digested(|right| right ^ 1),
        "ICResp; C2HTermReq Header Digest Error (0x3); closed",
    ),
    fault(
        DIGEST,
        "a header digest that was not agreed on (tolerated)",
        Greeted,
        |_| digested(|right| right)[128..].to_vec(),
        "Successful Completion (0x0)",
    ),
    fault(
        DIGEST,
        "a wrong data digest",
        Fresh,
        |_| data_digested(),
        "ICResp; Transient Transport Error (0x22)",
    ),
    fault(
        DIGEST,
        "H2CData: a wrong header digest",
        Digested,
        |_| answer_to_r2t(1, 0),
        "C2HTermReq Header Digest Error (0x3); closed",
    ),
    fault(
        DIGEST,
        "H2CData: a wrong data digest",
        Digested,
        |_| answer_to_r2t(0, 1),
        "Transient Transport Error (0x22)",
    ),
    fault(
        DIGEST,
        "H2CData: no digest flags although digests were agreed on",
        Digested,
        |_| with(answer_to_r2t(0, 0), 1, &[4]),
        "C2HTermReq Invalid PDU Header Field (0x1), byte 1; closed",
    ),
    fault(
        DIGEST,
        "H2CData with right digests",
        Digested,
        |_| answer_to_r2t(0, 0),
        "Successful Completion (0x0)",
    ),
    fault(
        "NVMe TCP §3.3.2.1",
        "SGL: data in the capsule, of another length",
        Ready,
        |_| with(in_capsule(), 8 + 24 + 8, &512_u32.to_le_bytes()),
        "Data SGL Length Invalid (0xf), DNR",
    ),
    fault(
        "NVMe TCP §3.3.2.1",
        "SGL: offset into the capsule",
        Ready,
        |_| with(in_capsule(), 8 + 24, &[16]),
        "SGL Offset Invalid (0x16), DNR",
    ),
    fault(
        "NVMe TCP §3.3.2.1",
        "SGL: data in the capsule, and there is none",
        Ready,
        |_| {
            with(
                wire::capsule(&write(), 1, &[]),
                8 + 24 + 8,
                &[0, 16, 0, 0, 0, 0, 0, Sgl::IN_CAPSULE],
            )
        },
        "SGL Offset Invalid (0x16), DNR",
    ),
    fault(
        "NVMe TCP §3.3.2",
        "SGL: a keyed data block",
        Ready,
        |_| with(asks(1), 8 + 24 + 15, &[0x40]),
        "SGL Descriptor Type Invalid (0x11), DNR",
    ),
    fault(
        "NVMe TCP §3.3.2",
        "SGL: a segment",
        Ready,
        |_| with(asks(1), 8 + 24 + 15, &[0x20]),
        "SGL Descriptor Type Invalid (0x11), DNR",
    ),
    fault(
        "NVMe TCP §3.3.2",
        "SGL: a data block with an address",
        Ready,
        |_| with(asks(1), 8 + 24 + 15, &[0]),
        "SGL Descriptor Type Invalid (0x11), DNR",
    ),
    fault(
        "NVMe TCP §3.3.2",
        "PRPs instead of an SGL",
        Ready,
        |_| with(asks(1), 8 + 1, &[0]),
        "Invalid Field in Command (0x2), DNR",
    ),
];
