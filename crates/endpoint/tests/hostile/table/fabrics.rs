//! NVMe over Fabrics: Connect, properties and Disconnect, field by field (Base 2.1 §6).

use super::PeerState::{Admin, Greeted, Ready};
use super::nvme::{SQE, command_without_data, read};
use super::nvme_tcp::with;
use super::{Fault, Peer, fault, who};
use crate::wire::{self, Who};
use weft_proto::nvme::fabrics::Property;
use weft_proto::nvme::property::PropertyOffset;
use weft_proto::nvme::types::{Cntlid, Nqn};

/// Where the data of Connect is in a capsule.
const DATA: usize = 72;

/// Connect for the admin queue, changed in one place.
fn connect(at: usize, bytes: &[u8]) -> Vec<u8> {
    with(wire::connect_capsule(&who(), 0, Cntlid::DYNAMIC, 32), at, bytes)
}

/// Connect for an I/O queue of the controller of the peer, on a connection that has a queue.
fn connect_again(peer: &Peer, qid: u16) -> Vec<u8> {
    wire::connect_capsule(&who(), qid, peer.cntlid, 8)
}

const CONNECT: &str = "Base §6.3";
const FABRICS: &str = "Base §3.3.1, §6.1";
const PROPERTY: &str = "Base §6.4, §6.6";
const DISCONNECT: &str = "Base §6.2";

/// FCTYPE of Disconnect.
const LEAVE: u8 = 8;

/// Disconnect with these command dwords.
fn disconnect(dwords: &[(usize, u32)]) -> Vec<u8> {
    with(command_without_data(0x7f, 0, dwords), SQE + 4, &[LEAVE])
}

pub(super) const TABLE: &[Fault] = &[
    fault(
        FABRICS,
        "a read before Connect",
        Greeted,
        |_| read(1, 0, 8, 4096),
        "Command Sequence Error (0xc), DNR",
    ),
    fault(
        FABRICS,
        "Property Get before Connect",
        Greeted,
        |_| wire::capsule(&Property::get(PropertyOffset::CAP), 1, &[]),
        "Command Sequence Error (0xc), DNR",
    ),
    fault(
        CONNECT,
        "Connect: RECFMT",
        Greeted,
        |_| connect(SQE + 40, &[1]),
        "Connect Incompatible Format (0x180), DNR",
    ),
    fault(
        CONNECT,
        "Connect: SQSIZE 0",
        Greeted,
        |_| connect(SQE + 44, &[0, 0]),
        "Connect Invalid Parameters (0x182), DNR",
    ),
    fault(
        CONNECT,
        "Connect: SQSIZE of 65,536 entries",
        Greeted,
        |_| connect(SQE + 44, &[0xff, 0xff]),
        "Connect Invalid Parameters (0x182), DNR",
    ),
    fault(
        CONNECT,
        "Connect for an I/O queue first",
        Greeted,
        |_| wire::connect_capsule(&who(), 1, Cntlid(1), 8),
        "Connect Invalid Parameters (0x182), DNR",
    ),
    fault(
        CONNECT,
        "Connect: QID that does not exist",
        Greeted,
        |_| wire::connect_capsule(&who(), 0xfff0, Cntlid(1), 8),
        "Connect Invalid Parameters (0x182), DNR",
    ),
    fault(
        CONNECT,
        "Connect: CNTLID of the static model",
        Greeted,
        |_| connect(DATA + 16, &[1, 0]),
        "Connect Invalid Parameters (0x182), DNR",
    ),
    fault(
        CONNECT,
        "Connect: a subsystem that does not exist",
        Greeted,
        |_| {
            let who =
                Who { subsystem: Nqn::new("nqn.2026-01.example.weft:nobody").unwrap(), ..who() };
            wire::connect_capsule(&who, 0, Cntlid::DYNAMIC, 32)
        },
        "Connect Invalid Parameters (0x182), DNR",
    ),
    fault(
        CONNECT,
        "Connect: SUBNQN without an end",
        Greeted,
        |_| connect(DATA + 256, &[b'n'; 256]),
        "Connect Invalid Parameters (0x182), DNR",
    ),
    fault(
        CONNECT,
        "Connect: HOSTNQN without an end",
        Greeted,
        |_| connect(DATA + 512, &[b'n'; 256]),
        "Connect Invalid Parameters (0x182), DNR",
    ),
    fault(
        CONNECT,
        "Connect: data too short",
        Greeted,
        |_| {
            let (sqe, data) = wire::connect_parts(&who(), 0, Cntlid::DYNAMIC, 32);
            wire::capsule(&sqe, 0, &data[..512])
        },
        "Data SGL Length Invalid (0xf), DNR",
    ),
    fault(
        CONNECT,
        "Connect without data",
        Greeted,
        |_| {
            let (sqe, _) = wire::connect_parts(&who(), 0, Cntlid::DYNAMIC, 32);
            wire::capsule(&sqe, 0, &[])
        },
        "Data SGL Length Invalid (0xf), DNR",
    ),
    fault(
        CONNECT,
        "Connect again on the admin queue",
        Admin,
        |peer| connect_again(peer, 0),
        "Command Sequence Error (0xc), DNR",
    ),
    fault(
        CONNECT,
        "Connect again on an I/O queue",
        Ready,
        |peer| connect_again(peer, 1),
        "Command Sequence Error (0xc), DNR",
    ),
    fault(
        CONNECT,
        "Connect: KATO 0 (no keep alive)",
        Greeted,
        |_| connect(SQE + 48, &[0; 4]),
        "Successful Completion (0x0)",
    ),
    fault(
        CONNECT,
        "Connect: KATO of 1 ms (rounded up)",
        Greeted,
        |_| connect(SQE + 48, &[1, 0, 0, 0]),
        "Successful Completion (0x0)",
    ),
    fault(
        CONNECT,
        "Connect: KATO of 4,294,967,295 ms",
        Greeted,
        |_| connect(SQE + 48, &[0xff; 4]),
        "Successful Completion (0x0)",
    ),
    fault(
        CONNECT,
        "Connect: reserved bits of CATTR",
        Greeted,
        |_| connect(SQE + 46, &[0xf0]),
        "Successful Completion (0x0)",
    ),
    fault(
        CONNECT,
        "Connect: HOSTID of zero (tolerated)",
        Greeted,
        |_| connect(DATA, &[0; 16]),
        "Successful Completion (0x0)",
    ),
    fault(
        CONNECT,
        "Connect: HOSTNQN empty (tolerated)",
        Greeted,
        |_| connect(DATA + 512, &[0; 256]),
        "Successful Completion (0x0)",
    ),
    fault(
        CONNECT,
        "Connect: SUBNQN empty",
        Greeted,
        |_| connect(DATA + 256, &[0; 256]),
        "Connect Invalid Parameters (0x182), DNR",
    ),
    fault(
        CONNECT,
        "Connect: reserved bytes of the data",
        Greeted,
        |_| connect(DATA + 18, &[0xff; 200]),
        "Successful Completion (0x0)",
    ),
    fault(
        CONNECT,
        "Connect: a QID that is taken",
        Greeted,
        |_| wire::connect_capsule(&who(), 0, Cntlid(0xfffe), 32),
        "Connect Invalid Parameters (0x182), DNR",
    ),
    fault(
        PROPERTY,
        "Property Get: an offset that does not exist",
        Admin,
        |_| wire::capsule(&Property::get(PropertyOffset(0x1300)), 1, &[]),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        PROPERTY,
        "Property Get: 4 bytes of an 8-byte property",
        Admin,
        |_| with(wire::capsule(&Property::get(PropertyOffset::CAP), 1, &[]), SQE + 40, &[0]),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        PROPERTY,
        "Property Get: 8 bytes of a 4-byte property",
        Admin,
        |_| with(wire::capsule(&Property::get(PropertyOffset::CC), 1, &[]), SQE + 40, &[1]),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        PROPERTY,
        "Property Get: a reserved size",
        Admin,
        |_| with(wire::capsule(&Property::get(PropertyOffset::CC), 1, &[]), SQE + 40, &[5]),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        PROPERTY,
        "Property Set: a property for reading only",
        Admin,
        |_| wire::capsule(&Property::set(PropertyOffset::CSTS, 0), 1, &[]),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        PROPERTY,
        "Property Set: 8 bytes of CC",
        Admin,
        |_| {
            with(
                wire::capsule(&Property::set(PropertyOffset::CC, wire::ON.into()), 1, &[]),
                SQE + 40,
                &[1],
            )
        },
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        PROPERTY,
        "Property Get: an offset within a property",
        Admin,
        |_| wire::capsule(&Property::get(PropertyOffset(4)), 1, &[]),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        PROPERTY,
        "Property Set: an offset that does not exist",
        Admin,
        |_| wire::capsule(&Property::set(PropertyOffset(0x1300), 0), 1, &[]),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        PROPERTY,
        "Property Set: 8 bytes of a property for reading only",
        Admin,
        |_| with(wire::capsule(&Property::set(PropertyOffset::CAP, 0), 1, &[]), SQE + 40, &[1]),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        PROPERTY,
        "Property Set: a reserved size",
        Admin,
        |_| {
            with(
                wire::capsule(&Property::set(PropertyOffset::CC, wire::ON.into()), 1, &[]),
                SQE + 40,
                &[7],
            )
        },
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        PROPERTY,
        "Property Set on an I/O queue",
        Ready,
        |_| wire::capsule(&Property::set(PropertyOffset::CC, 0), 1, &[]),
        "Invalid Command Opcode (0x1), DNR",
    ),
    fault(
        PROPERTY,
        "Property Get on an I/O queue",
        Ready,
        |_| wire::capsule(&Property::get(PropertyOffset::CAP), 1, &[]),
        "Invalid Command Opcode (0x1), DNR",
    ),
    fault(
        DISCONNECT,
        "Disconnect of the admin queue",
        Admin,
        |_| disconnect(&[]),
        "Invalid Command Opcode (0x1), DNR",
    ),
    fault(
        DISCONNECT,
        "Disconnect before Connect",
        Greeted,
        |_| disconnect(&[]),
        "Command Sequence Error (0xc), DNR",
    ),
    fault(
        DISCONNECT,
        "Disconnect of an I/O queue",
        Ready,
        |_| disconnect(&[]),
        "Invalid Command Opcode (0x1), DNR",
    ),
    fault(
        DISCONNECT,
        "Disconnect with a reserved record format",
        Ready,
        |_| disconnect(&[(10, 9)]),
        "Invalid Command Opcode (0x1), DNR",
    ),
];
