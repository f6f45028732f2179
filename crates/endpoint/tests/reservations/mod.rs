//! Hosts of all protocols over one namespace: an NVMe host, an iSCSI initiator, an NBD client and a
//! host in the serving process keep each other out.

mod group;
mod in_process;
mod nvme;

use crate::iscsi_wire::host::{self, Host, IQN, READ, WRITE};
use crate::served::{self, Served};
use crate::wire::{self, Peer};
use nvme::NvmeHost;
use std::net::SocketAddr;
use std::sync::Arc;
use weft_endpoint::export::ListeningExport;
use weft_endpoint::export::iscsi::{
    Settings, Target as Iscsi, TargetConfig as IscsiConfig, TargetLimits,
};
use weft_endpoint::export::nbd::{NbdLimits, NbdServer};
use weft_endpoint::export::nvme::{Target as Nvme, TargetConfig as NvmeConfig};
use weft_endpoint::identity::Identities;
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::{ConnectOptions, Disk, PathOptions};
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::host::command;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Lba, Nqn, Nsid};
use weft_proto::nvme_tcp::pdu::PduType;

const NQN: &str = "nqn.2026-01.example.weft:reserved";
const INITIATOR: &str = "iqn.2026-01.example:initiator";
const GOOD: u8 = 0;
const CONFLICT: u8 = 0x18;
/// Additional sense codes.
const REGISTRATIONS_PREEMPTED: u16 = 0x2a05;

/// One RAM disk, by three protocols.
struct Testbed {
    nvme: Served<Nvme>,
    iscsi: Served<Iscsi>,
    nbd: Served<NbdServer>,
}

impl Testbed {
    fn new() -> Self {
        let subsystem = SubsystemConfig::new(Nqn::new(NQN).unwrap());
        Self::serve(LiveInventory::of_devices(subsystem, served::devices(&["ram:1MiB"])).unwrap())
    }

    fn serve(inventory: Arc<LiveInventory>) -> Self {
        let subsystem = Nqn::new(NQN).unwrap();
        let listen = || vec!["127.0.0.1:0".parse::<SocketAddr>().unwrap()];
        let (one, two, three) = (Arc::clone(&inventory), Arc::clone(&inventory), inventory);
        Self {
            nvme: Served::start(&served::loops(2), |loops| {
                Nvme::start(
                    NvmeConfig {
                        inventory: one,
                        listen: listen(),
                        identities: Identities::system(),
                        tls: weft_endpoint::TlsFiles::default(),
                    },
                    loops,
                )
                .unwrap()
            }),
            iscsi: Served::start(&served::loops(1), |loops| {
                let settings =
                    Settings { name: Some(Name::new(IQN).unwrap()), ..Settings::default() };
                let config = IscsiConfig { settings, inventory: two, subsystem, listen: listen() };
                Iscsi::start_limited(config, TargetLimits::default(), loops).unwrap()
            }),
            nbd: Served::start(&served::loops(1), |loops| {
                NbdServer::start(three, &["nbd://127.0.0.1:0"], NbdLimits::default(), loops)
                    .unwrap()
            }),
        }
    }

    fn nbd_client(&self) -> Disk {
        let options = ConnectOptions { paths: PathOptions::once(), ..ConnectOptions::default() };
        Disk::open(&self.nbd.urls()[0], &options).unwrap()
    }

    fn nvme_host(&self, id: u8) -> NvmeHost {
        NvmeHost::new(self.nvme.addresses()[0], NQN, id)
    }
}

/// PERSISTENT RESERVE OUT of an initiator.
/// PERSISTENT RESERVE OUT and its parameters.
fn persistent_reserve_out(action: u8, kind: u8, keys: [u64; 2]) -> ([u8; 16], Vec<u8>) {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5f, action, kind, 24);
    (cdb, [&keys.map(u64::to_be_bytes).concat()[..], &[0; 8]].concat())
}

fn reserve_out(host: &mut Host, action: u8, kind: u8, keys: [u64; 2]) -> u8 {
    let (cdb, list) = persistent_reserve_out(action, kind, keys);
    host.command(&cdb, 0, &list, list.len()).status
}

fn scsi_write(host: &mut Host) -> u8 {
    host.command(&host::blocks(WRITE, 0, 1), 0, &[9; 512], 512).status
}

fn scsi_read(host: &mut Host) -> u8 {
    host.command(&host::blocks(READ, 0, 1), 512, &[], 0).status
}

#[test]
fn hosts_of_all_protocols_keep_each_other_out() {
    let stage = Testbed::new();
    let (mut nvme, mut scsi) = (stage.nvme_host(1), Host::logged_in(&stage.iscsi, INITIATOR));
    let disk = stage.nbd_client();
    let mut block = [0; 512];

    // The initiator reserves: write exclusive.
    assert_eq!(reserve_out(&mut scsi, 6, 0, [0, 0x11]), GOOD);
    assert_eq!(
        (nvme.write(), scsi_write(&mut scsi)),
        (Status::SUCCESS, GOOD),
        "registering keeps nobody out"
    );
    assert_eq!(reserve_out(&mut scsi, 1, 1, [0x11, 0]), GOOD);
    assert_eq!((nvme.read(), nvme.write()), (Status::SUCCESS, Status::RESERVATION_CONFLICT));
    assert_eq!((scsi_read(&mut scsi), scsi_write(&mut scsi)), (GOOD, GOOD));
    assert!(disk.read(0, &mut block).is_ok() && disk.write(0, &block).is_err());

    // The host preempts it: exclusive access.
    assert_eq!(
        nvme.reserve(NvmOpcode::RESERVATION_ACQUIRE, 1 | 2 << 8, [1, 0x11]),
        Status::RESERVATION_CONFLICT
    );
    assert_eq!(nvme.reserve(NvmOpcode::RESERVATION_REGISTER, 0, [0, 1]), Status::SUCCESS);
    assert_eq!(
        nvme.reserve(NvmOpcode::RESERVATION_ACQUIRE, 2 | 2 << 8, [1, 0x11]),
        Status::SUCCESS
    );
    assert_eq!((nvme.read(), nvme.write()), (Status::SUCCESS, Status::SUCCESS));
    assert_eq!(host_told(&mut scsi), REGISTRATIONS_PREEMPTED);
    assert_eq!((scsi_read(&mut scsi), scsi_write(&mut scsi)), (CONFLICT, CONFLICT));
    assert!(disk.read(0, &mut block).is_err());

    // The same host on another controller is one registrant; another host is another one.
    let (mut again, mut stranger) = (stage.nvme_host(1), stage.nvme_host(2));
    assert_eq!((again.write(), stranger.read()), (Status::SUCCESS, Status::RESERVATION_CONFLICT));

    // The initiator takes it back; both controllers of the host hear of it.
    assert_eq!(reserve_out(&mut scsi, 6, 0, [0, 0x11]), GOOD);
    assert_eq!(reserve_out(&mut scsi, 5, 5, [0x11, 1]), GOOD);
    assert_eq!((nvme.hear(), again.hear()), (1, 1));
    assert_eq!(
        (nvme.read(), nvme.write(), stranger.write()),
        (Status::SUCCESS, Status::RESERVATION_CONFLICT, Status::RESERVATION_CONFLICT)
    );
    assert_eq!(reserve_out(&mut scsi, 3, 0, [0x11, 0]), GOOD);
    assert_eq!((nvme.write(), stranger.write()), (Status::SUCCESS, Status::SUCCESS));
    assert!(disk.write(0, &block).is_ok());
    drop(disk);
}

/// What the next command is told instead of being executed.
fn host_told(host: &mut Host) -> u16 {
    host.command(&[0; 16], 0, &[], 0).code
}

/// The second host preempts the first, whose key is 1 and its own 2, and aborts its write, which
/// waits for data.
fn preempt_during_a_write(fenced: &mut NvmeHost, fencer: &mut NvmeHost) {
    // More than a capsule takes: the target asks for it.
    const BYTES: u32 = 64 << 10;
    fenced.io.put(&wire::capsule_moving(
        &command::write(Nsid(1), Lba(0), BYTES / 512, false),
        99,
        BYTES,
    ));
    let r2t = fenced.io.pdu().expect("an R2T");
    assert_eq!(r2t.kind(), PduType::R2T);
    // Preempt and abort.
    assert_eq!(fencer.reserve(NvmOpcode::RESERVATION_ACQUIRE, 2 | 3 << 8, [2, 1]), Status::SUCCESS);
    fenced.io.put(&wire::h2c_data(&r2t.transfer(), &vec![0xaa; BYTES as usize]));
    assert_eq!(wire::response(&mut fenced.io).status, Status::PREEMPT_ABORT);
}

#[test]
fn a_write_that_waits_for_its_data_is_fenced() {
    let stage = Testbed::new();
    let (mut fenced, mut fencer) = (stage.nvme_host(1), stage.nvme_host(2));
    for (host, key) in [(&mut fenced, 1), (&mut fencer, 2)] {
        assert_eq!(host.reserve(NvmOpcode::RESERVATION_REGISTER, 0, [0, key]), Status::SUCCESS);
    }
    assert_eq!(fenced.reserve(NvmOpcode::RESERVATION_ACQUIRE, 3 << 8, [1, 0]), Status::SUCCESS);
    preempt_during_a_write(&mut fenced, &mut fencer);
    assert_eq!(fenced.write(), Status::RESERVATION_CONFLICT);
    assert_eq!(fencer.write(), Status::SUCCESS);
}
