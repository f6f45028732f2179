//! Discovery: libnvme (`src/nvme/fabrics.c`) over Linux, and SPDK's host library as EDK2's driver
//! uses it (`lib/nvme/nvme_fabric.c`).

use std::net::SocketAddr;
use std::sync::Arc;

use weft_proto::nvme::controller::{DiscoveryRecord, Subsystem};
use weft_proto::nvme::log_page::{DiscoveryEntry, DiscoveryHeader, SubsystemType};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Nqn};
use weft_proto::nvme_tcp::transport_address;

use crate::nvme_controller_support::{discovery_subsystem, nqn};
use crate::nvme_host_sequences::wire::{Admin, command, connect_data};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";

/// A discovery subsystem that lists itself and five others: six records, more than SPDK's 4 KiB
/// buffer holds.
fn subsystem() -> Subsystem {
    let mut subsystem = discovery_subsystem();
    let address = transport_address("192.0.2.1:4420".parse::<SocketAddr>().unwrap());
    let mut records = vec![DiscoveryRecord::new(
        &Nqn::discovery(),
        SubsystemType::CURRENT_DISCOVERY,
        &address,
        1,
        32,
        Cntlid::DYNAMIC,
    )];
    records.extend((1..6).map(|n| {
        DiscoveryRecord::new(
            &nqn(&format!("disk{n}")),
            SubsystemType::NVME,
            &address,
            1,
            32,
            Cntlid::DYNAMIC,
        )
    }));
    assert!(Arc::strong_count(&subsystem.set_discovery(records)) > 0);
    subsystem
}

/// Connect of an admin queue with this KATO.
fn admin(kato: u32) -> Admin {
    let data = connect_data(0x11, 0xffff, Nqn::DISCOVERY, HOST);
    Admin::connect(&mut subsystem(), &command(0x7f, 0, 1, 1024, [0, 31, kato]), &data)
}

fn log(admin: &mut Admin, nsid: u32, offset: u64, bytes: u32) -> Vec<u8> {
    let mut sqe = command(0x02, 0, nsid, bytes, [0x70 | (bytes / 4 - 1) << 16, 0, offset as u32]);
    sqe.set_dword(13, (offset >> 32) as u32);
    admin.ok(sqe).1
}

/// `nvme discover`: Linux enables the controller without CC.CSS, as CAP has no bit 6; then libnvme
/// reads 20 bytes of header, the records in pieces of 4 KiB, and the 20 bytes again.
#[test]
fn libnvme_discovers() {
    let mut admin = admin(0);
    let cap = admin.property(0, true);
    assert_eq!((cap >> 43 & 1, cap >> 37 & 1), (0, 1));
    admin.set_cc(0x0046_0000);
    admin.property(0x68, false);
    admin.set_cc(0x0046_0001);
    assert_eq!((admin.property(0x1c, false), admin.property(8, false)), (1, 0x0002_0000));
    admin.ok(command(0x06, 0, 0, 4096, [1, 0, 0]));
    admin.ok(command(0x02, 0, 0, 4096, [5 | 1023 << 16, 0, 0]));
    let header = log(&mut admin, 0, 0, 20);
    let (generation, records) =
        (&header[..8], u64::from_le_bytes(header[8..16].try_into().unwrap()));
    assert_eq!((records, &header[16..18]), (6, &[0, 0][..]));
    let mut entries = Vec::new();
    for offset in (0..records * 1024).step_by(4096) {
        let bytes = (records * 1024 - offset).min(4096) as u32;
        entries.extend(log(&mut admin, 0, 1024 + offset, bytes));
    }
    let mut names = entries
        .chunks(1024)
        .map(|entry| DiscoveryEntry::decode(entry).unwrap().subnqn.nqn().unwrap());
    assert_eq!(names.next_back(), Some(nqn("disk5")));
    assert_eq!(log(&mut admin, 0, 0, 20)[..8], *generation);
    assert_eq!(admin.noted(), []);
}

/// `nvme_fabric_ctrlr_discover`: always 4 KiB, also behind the last record. With a KATO the
/// controller stays and reports changes.
#[test]
fn spdk_discovers() {
    let mut admin = admin(700_000_000);
    assert_eq!(admin.property(0x14, false), 0);
    admin.set_cc(0x0046_0001);
    admin.ok(command(0x06, 0, 0, 4096, [1, 0, 0]));
    admin.ok(command(0x09, 0, 0, 0, [0x0b, 1 << 31, 0]));
    (0..4).for_each(|_| admin.hold(command(0x0c, 0, 0, 0, [0; 3])));
    assert_eq!(admin.ok(command(0x0a, 0, 0, 0, [0x0f, 0, 0])).0, 700_000_000);
    let first = log(&mut admin, 0, 0, 4096);
    assert_eq!(DiscoveryHeader::decode(&first).unwrap().numrec, 6);
    // Three records came with the header, the other three with the next; what is behind them is
    // zero.
    let second = log(&mut admin, 0, 4096, 4096);
    assert_eq!(DiscoveryEntry::decode(&second[2048..]).unwrap().subnqn.nqn(), Ok(nqn("disk5")));
    assert!(second[3072..].iter().all(|&byte| byte == 0));
    let beyond = admin.run(command(0x02, 0, 0, 4096, [0x70 | 1023 << 16, 0, 8192]));
    assert_eq!(beyond.status, Status::INVALID_FIELD, "nvmet and SPDK refuse it, too");
    assert_eq!(admin.noted(), []);
}
