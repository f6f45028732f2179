//! NVMe: admin and I/O commands, field by field (Base 2.1, NVM Command Set 1.1).

use super::PeerState::{Admin, Ready};
use super::nvme_tcp::with;
use super::{Fault, fault};
use crate::wire;
use weft_proto::nvme::host::command;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Lba, Nsid};

/// Where the command is in a capsule.
pub(super) const SQE: usize = 8;

pub(super) fn command_without_data(opcode: u8, nsid: u32, dwords: &[(usize, u32)]) -> Vec<u8> {
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

pub(super) fn read(nsid: u32, lba: u64, blocks: u32, bytes: u32) -> Vec<u8> {
    wire::capsule_moving(&command::read(Nsid(nsid), Lba(lba), blocks), 1, bytes)
}

const GET_LOG: u8 = AdminOpcode::GET_LOG_PAGE.0;
const IDENTIFY: u8 = AdminOpcode::IDENTIFY.0;
const ADMIN: &str = "Base §3.1.3.4";
const IO: &str = "NVM §3.3";
const GENERIC: &str = "Base §4.1";

pub(super) const TABLE: &[Fault] = &[
    fault(
        ADMIN,
        "admin: unknown opcode",
        Admin,
        |_| command_without_data(0xc1, 0, &[]),
        "Invalid Command Opcode (0x1), DNR",
    ),
    fault(
        ADMIN,
        "admin: Create I/O Submission Queue",
        Admin,
        |_| command_without_data(1, 0, &[]),
        "Invalid Command Opcode (0x1), DNR",
    ),
    fault(
        ADMIN,
        "admin: an I/O command",
        Admin,
        |_| read(1, 0, 8, 4096),
        "Invalid Field in Command (0x2), DNR",
    ),
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
        |_| {
            // Fewer than the queue has entries.
            (0..20)
                .flat_map(|cid| {
                    wire::capsule(&Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, Nsid(0)), cid, &[])
                })
                .collect()
        },
        "Asynchronous Event Request Limit Exceeded (0x105), DNR",
    ),
    fault(
        "Base §5.1.1",
        "Abort: a command that is not there",
        Admin,
        |_| command_without_data(8, 0, &[(10, 77 << 16 | 1)]),
        "Successful Completion (0x0)",
    ),
    fault(
        "Base §5.1.10",
        "Format NVM",
        Admin,
        |_| command_without_data(0x80, 1, &[]),
        "Invalid Command Opcode (0x1), DNR",
    ),
    fault(
        GENERIC,
        "I/O: unknown opcode",
        Ready,
        |_| command_without_data(0x7e, 1, &[]),
        "Invalid Command Opcode (0x1), DNR",
    ),
    fault(
        GENERIC,
        "I/O: NSID 0",
        Ready,
        |_| read(0, 0, 8, 4096),
        "Invalid Namespace or Format (0xb), DNR",
    ),
    fault(
        GENERIC,
        "I/O: NSID that does not exist",
        Ready,
        |_| read(99, 0, 8, 4096),
        "Invalid Namespace or Format (0xb), DNR",
    ),
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
    fault(
        IO,
        "read: SLBA behind the end",
        Ready,
        |_| read(1, 32_768, 8, 4096),
        "LBA Out of Range (0x80), DNR",
    ),
    fault(
        IO,
        "read: SLBA overflows",
        Ready,
        |_| read(1, u64::MAX, 8, 4096),
        "LBA Out of Range (0x80), DNR",
    ),
    fault(
        IO,
        "read: NLB beyond the end",
        Ready,
        |_| read(1, 32_764, 8, 4096),
        "LBA Out of Range (0x80), DNR",
    ),
    fault(
        IO,
        "read: longer than MDTS",
        Ready,
        |_| read(1, 0, 4096, 4096 * 512),
        "Invalid Field in Command (0x2), DNR",
    ),
    fault(
        IO,
        "read: SGL shorter than NLB",
        Ready,
        |_| read(1, 0, 8, 512),
        "Data SGL Length Invalid (0xf), DNR",
    ),
    fault(
        IO,
        "read: SGL longer than NLB",
        Ready,
        |_| read(1, 0, 1, 4096),
        "Data SGL Length Invalid (0xf), DNR",
    ),
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
];
