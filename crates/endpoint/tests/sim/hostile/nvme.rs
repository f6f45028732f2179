//! NVMe: Connect, properties, admin and I/O commands, field by field (Base 2.1, NVM Command Set 1.1).

use super::State::{Admin, Greeted, Ready};
use super::nvme_tcp::with;
use super::{Fault, Peer, fault, who};
use crate::wire::{self, Who};
use weft_proto::nvme::fabrics::Property;
use weft_proto::nvme::host::command;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::property::PropertyOffset;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Cntlid, Lba, Nqn, Nsid};

/// Where the command and its data are in a capsule.
const SQE: usize = 8;
const DATA: usize = 72;

/// Connect for the admin queue, changed in one place.
fn connect(at: usize, bytes: &[u8]) -> Vec<u8> {
    with(wire::connect_capsule(&who(), 0, Cntlid::DYNAMIC, 32), at, bytes)
}

/// Connect for an I/O queue of the controller of the peer, on a connection that has a queue.
fn connect_again(peer: &Peer, qid: u16) -> Vec<u8> {
    wire::connect_capsule(&who(), qid, super::nvme_tcp::cntlid(peer), 8)
}

fn command_without_data(opcode: u8, nsid: u32, dwords: &[(usize, u32)]) -> Vec<u8> {
    let mut sqe = Sqe::new(opcode, Nsid(nsid));
    dwords.iter().for_each(|(dword, value)| sqe.set_dword(*dword, *value));
    wire::capsule(&sqe, 1, &[])
}

/// A command whose data goes to the host.
fn asking(opcode: u8, nsid: u32, dwords: &[(usize, u32)], bytes: u32) -> Vec<u8> {
    let mut sqe = Sqe::new(opcode, Nsid(nsid));
    dwords.iter().for_each(|(dword, value)| sqe.set_dword(*dword, *value));
    wire::capsule_moving(&sqe, 1, bytes)
}

fn read(nsid: u32, lba: u64, blocks: u32, bytes: u32) -> Vec<u8> {
    wire::capsule_moving(&command::read(Nsid(nsid), Lba(lba), blocks), 1, bytes)
}

const GET_LOG: u8 = AdminOpcode::GET_LOG_PAGE.0;
const IDENTIFY: u8 = AdminOpcode::IDENTIFY.0;
const CONNECT: &str = "Base §6.3";
const FABRICS: &str = "Base §3.3.1, §6.1";
const PROPERTY: &str = "Base §6.4, §6.6";
const ADMIN: &str = "Base §3.1.3.4";
const IO: &str = "NVM §3.3";
const GENERIC: &str = "Base §4.1";

pub(super) const TABLE: &[Fault] = &[
    fault(FABRICS, "a read before Connect", Greeted, |_| read(1, 0, 8, 4096), "Command Sequence Error (0xc), DNR"),
    fault(
        FABRICS,
        "Property Get before Connect",
        Greeted,
        |_| wire::capsule(&Property::get(PropertyOffset::CAP), 1, &[]),
        "Command Sequence Error (0xc), DNR",
    ),
    fault(CONNECT, "Connect: RECFMT", Greeted, |_| connect(SQE + 40, &[1]), "Connect Incompatible Format (0x180), DNR"),
    fault(CONNECT, "Connect: SQSIZE 0", Greeted, |_| connect(SQE + 44, &[0, 0]), "Connect Invalid Parameters (0x182), DNR"),
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
            let who = Who { subsystem: Nqn::new("nqn.2026-01.example.weft:nobody").unwrap(), ..who() };
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
    fault(CONNECT, "Connect again on the admin queue", Admin, |peer| connect_again(peer, 0), "Command Sequence Error (0xc), DNR"),
    fault(CONNECT, "Connect again on an I/O queue", Ready, |peer| connect_again(peer, 1), "Command Sequence Error (0xc), DNR"),
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
        |_| with(wire::capsule(&Property::set(PropertyOffset::CC, wire::ON.into()), 1, &[]), SQE + 40, &[1]),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        PROPERTY,
        "Property Get on an I/O queue",
        Ready,
        |_| wire::capsule(&Property::get(PropertyOffset::CAP), 1, &[]),
        "Invalid Command Opcode (0x1), DNR",
    ),
    fault(ADMIN, "admin: unknown opcode", Admin, |_| command_without_data(0xc1, 0, &[]), "Invalid Command Opcode (0x1), DNR"),
    fault(
        ADMIN,
        "admin: Create I/O Submission Queue",
        Admin,
        |_| command_without_data(1, 0, &[]),
        "Invalid Command Opcode (0x1), DNR",
    ),
    fault(ADMIN, "admin: an I/O command", Admin, |_| read(1, 0, 8, 4096), "Invalid Field in Command (0x2), DNR"),
    fault(
        ADMIN,
        "admin: a reserved fabrics command",
        Admin,
        |_| with(command_without_data(0x7f, 0, &[]), SQE + 4, &[0x7e]),
        "Invalid Command Opcode (0x1), DNR",
    ),
    fault(
        "Base §5.1.13",
        "Identify: CNS",
        Admin,
        |_| asking(IDENTIFY, 0, &[(10, 0xee)], 4096),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        "Base §5.1.13",
        "Identify: NSID",
        Admin,
        |_| asking(IDENTIFY, 99, &[(10, 0)], 4096),
        "C2HData; Successful Completion (0x0)",
    ),
    fault(
        "Base §5.1.13",
        "Identify: data shorter than 4096 bytes",
        Admin,
        |_| asking(IDENTIFY, 0, &[(10, 1)], 512),
        "Data SGL Length Invalid (0xf), DNR",
    ),
    fault(
        "Base §5.1.12",
        "Get Log Page: identifier",
        Admin,
        |_| asking(GET_LOG, 0, &[(10, 127 << 16 | 0xee)], 512),
        "Invalid Log Page (0x109), DNR",
    ),
    fault(
        "Base §5.1.12",
        "Get Log Page: offset beyond the page",
        Admin,
        |_| asking(GET_LOG, u32::MAX, &[(10, 127 << 16 | 2), (12, 1 << 20)], 512),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        "Base §5.1.12",
        "Get Log Page: offset not in dwords",
        Admin,
        |_| asking(GET_LOG, u32::MAX, &[(10, 127 << 16 | 2), (12, 3)], 512),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        "Base §5.1.12",
        "Get Log Page: more than its SGL",
        Admin,
        |_| asking(GET_LOG, u32::MAX, &[(10, 1023 << 16 | 2)], 512),
        "Data SGL Length Invalid (0xf), DNR",
    ),
    fault(
        "Base §5.1.25",
        "Set Features: identifier",
        Admin,
        |_| command_without_data(9, 0, &[(10, 0xee)]),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        "Base §5.1.11",
        "Get Features: identifier",
        Admin,
        |_| command_without_data(10, 0, &[(10, 0xee)]),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        "Base §5.1.2",
        "Asynchronous Event Requests beyond AERL",
        Admin,
        |_| (0..40).flat_map(|cid| wire::capsule(&Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, Nsid(0)), cid, &[])).collect(),
        "Asynchronous Event Request Limit Exceeded (0x105), DNR",
    ),
    fault(
        "Base §5.1.1",
        "Abort: a command that is not there",
        Admin,
        |_| command_without_data(8, 0, &[(10, 77 << 16 | 1)]),
        "Successful Completion (0x0)",
    ),
    fault("Base §5.1.10", "Format NVM", Admin, |_| command_without_data(0x80, 1, &[]), "Invalid Command Opcode (0x1), DNR"),
    fault(GENERIC, "I/O: unknown opcode", Ready, |_| command_without_data(0x7e, 1, &[]), "Invalid Command Opcode (0x1), DNR"),
    fault(GENERIC, "I/O: NSID 0", Ready, |_| read(0, 0, 8, 4096), "Invalid Namespace or Format (0xb), DNR"),
    fault(GENERIC, "I/O: NSID that does not exist", Ready, |_| read(99, 0, 8, 4096), "Invalid Namespace or Format (0xb), DNR"),
    fault(
        GENERIC,
        "I/O: NSID of all namespaces",
        Ready,
        |_| read(u32::MAX, 0, 8, 4096),
        "Invalid Namespace or Format (0xb), DNR",
    ),
    fault(
        GENERIC,
        "I/O: FUSE reserved",
        Ready,
        |_| with(read(1, 0, 8, 4096), SQE + 1, &[0x43]),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        "Base §3.4.2",
        "the second of a fused pair without the first",
        Ready,
        |_| with(read(1, 0, 8, 4096), SQE + 1, &[0x42]),
        "Command Aborted due to Missing Fused Command (0xa), DNR",
    ),
    fault(IO, "read: SLBA behind the end", Ready, |_| read(1, 32_768, 8, 4096), "LBA Out of Range (0x80), DNR"),
    fault(IO, "read: SLBA overflows", Ready, |_| read(1, u64::MAX, 8, 4096), "LBA Out of Range (0x80), DNR"),
    fault(IO, "read: NLB beyond the end", Ready, |_| read(1, 32_764, 8, 4096), "LBA Out of Range (0x80), DNR"),
    fault(IO, "read: longer than MDTS", Ready, |_| read(1, 0, 4096, 4096 * 512), "Invalid Field in Command (0x2), DNR"),
    fault(IO, "read: SGL shorter than NLB", Ready, |_| read(1, 0, 8, 512), "Data SGL Length Invalid (0xf), DNR"),
    fault(IO, "read: SGL longer than NLB", Ready, |_| read(1, 0, 1, 4096), "Data SGL Length Invalid (0xf), DNR"),
    fault(
        IO,
        "read: data in the capsule",
        Ready,
        |_| wire::capsule(&command::read(Nsid(1), Lba(0), 8), 1, &[0; 4096]),
        "SGL Descriptor Type Invalid (0x11), DNR",
    ),
    fault(
        IO,
        "write: SLBA behind the end",
        Ready,
        |_| wire::capsule(&command::write(Nsid(1), Lba(32_768), 1, false), 1, &[0; 512]),
        "LBA Out of Range (0x80), DNR",
    ),
    fault(
        IO,
        "write: less data than NLB",
        Ready,
        |_| wire::capsule(&command::write(Nsid(1), Lba(0), 8, false), 1, &[0; 512]),
        "Data SGL Length Invalid (0xf), DNR",
    ),
    fault(
        IO,
        "write: more data than NLB",
        Ready,
        |_| wire::capsule(&command::write(Nsid(1), Lba(0), 1, false), 1, &[0; 4096]),
        "Data SGL Length Invalid (0xf), DNR",
    ),
    fault(
        IO,
        "compare: data that differs",
        Ready,
        |_| wire::capsule(&command::compare(Nsid(1), Lba(0), 1), 1, &[9; 512]),
        "Compare Failure (0x285), DNR",
    ),
    fault(
        IO,
        "write zeroes beyond the end",
        Ready,
        |_| wire::capsule(&command::write_zeroes(Nsid(1), Lba(32_767), 2, false, false), 1, &[]),
        "LBA Out of Range (0x80), DNR",
    ),
    fault(
        IO,
        "dataset management: more ranges than data",
        Ready,
        |_| wire::capsule(&command::deallocate(Nsid(1), 256), 1, &[0; 16]),
        "Data SGL Length Invalid (0xf), DNR",
    ),
    fault(
        IO,
        "dataset management: a range beyond the end",
        Ready,
        |_| {
            let mut range = [0; 16];
            command::put_range(&mut range, Lba(32_760), 100);
            wire::capsule(&command::deallocate(Nsid(1), 1), 1, &range)
        },
        "LBA Out of Range (0x80), DNR",
    ),
    fault(
        "Base §7.2",
        "flush: NSID that does not exist",
        Ready,
        |_| wire::capsule(&command::flush(Nsid(99)), 1, &[]),
        "Invalid Namespace or Format (0xb), DNR",
    ),
    fault(
        "Base §6.2",
        "Disconnect with a reserved record format",
        Ready,
        |_| with(command_without_data(0x7f, 0, &[(10, 9)]), SQE + 4, &[8]),
        "Invalid Command Opcode (0x1), DNR",
    ),
];
