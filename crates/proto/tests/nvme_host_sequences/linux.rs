//! Linux 6.12 (`drivers/nvme/host`: `fabrics.c`, `core.c`, `tcp.c`, `hwmon.c`) from `nvme connect`
//! over I/O to `nvme disconnect`, without options, so that SQ flow control stays on.

use weft_proto::nvme::controller::IoRequestKind;
use weft_proto::nvme::identify::{
    CommandSetCombinations, IdentifyController, IdentifyNamespace, NamespaceDescriptors,
    NamespaceList,
};
use weft_proto::nvme::log_page::EffectsLog;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Lba, Nsid};

use crate::nvme_controller_support::{nqn, subsystem};
use crate::nvme_host_sequences::wire::{Admin, Answer, Io, command, connect_data};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";

/// NVME_AQ_DEPTH - 1, and the default of kato in milliseconds.
const ADMIN_CONNECT: [u32; 3] = [0, 31, 5_000];
/// I/O command sets (where CAP.CSS has bit 6), 4 KiB pages, round robin, entries of 64 and 16
/// bytes.
const CONFIGURATION: u32 = 0x0046_0060;

/// Commands without data have a null SGL (`nvme_tcp_set_sg_null`), whose type is that of a
/// transport data block.
fn enable(admin: &mut Admin) {
    let cap = admin.property(0, true);
    assert_eq!(cap >> 43 & 1, 1, "CAP.CSS bit 6");
    assert_eq!(cap >> 48 & 0xf, 0, "CAP.MPSMIN");
    // First without EN, as CAP may change with that.
    admin.set_cc(CONFIGURATION);
    assert_eq!(admin.property(0, true), cap);
    assert_eq!(cap >> 59 & 1, 1, "CAP.CRMS.CRWMS");
    let ready_timeout = admin.property(0x68, false) & 0xffff;
    assert!(ready_timeout >= cap >> 24 & 0xff);
    admin.set_cc(CONFIGURATION | 1);
    assert_eq!(admin.property(0x1c, false), 1);
    assert_eq!(admin.property(8, false), 0x0002_0000);
}

/// `nvme_init_identify` and what follows it.
fn identify(admin: &mut Admin) -> IdentifyController {
    let (_, data) = admin.ok(command(0x06, 0, 0, 4096, [1, 0, 0]));
    let id = IdentifyController::decode(&data).unwrap();
    // nvme_check_ctrl_fabric_info and nvme_tcp_setup_ctrl.
    assert_eq!((id.cntlid, id.icdoff, id.sgls & 3), (admin.control.cntlid(), 0, 1));
    assert!(id.ioccsz >= 4 && id.iorcsz >= 1 && id.kas > 0 && id.maxcmd >= 128);
    // The Commands Supported and Effects log is asked for with NSID 0.
    let (_, effects) = admin.ok(command(0x02, 0, 0, 4096, [5 | 1023 << 16, 0, 0]));
    let effects = EffectsLog::decode(&effects).unwrap();
    assert!(
        [0x00, 0x01, 0x02, 0x08, 0x09].iter().all(|&opcode: &usize| effects.io[opcode] & 1 != 0)
    );
    // hwmon: SMART, then thresholds of the composite temperature as they are read from sysfs.
    let (_, smart) = admin.ok(command(0x02, 0, u32::MAX, 512, [2 | 127 << 16, 0, 0]));
    assert!(smart[0] == 0 && id.wctemp > 0 && id.cctemp > 0);
    for under in [0, 1 << 20] {
        admin.ok(command(0x0a, 0, 0, 0, [4, under, 0]));
    }
    id
}

fn io_connect(qid: u32) -> [u32; 3] {
    // SQSIZE: the default queue_size of 128, counted from zero. No KATO.
    [qid << 16, 127, 0]
}

/// `nvme_scan_work`: the limits of the command set, the list, then each namespace.
fn scan(admin: &mut Admin) {
    admin.ok(command(0x06, 0, 0, 4096, [6, 0, 0]));
    let list = NamespaceList::decode(&admin.ok(command(0x06, 0, 0, 4096, [2, 0, 0])).1).unwrap();
    assert_eq!(list.0, [1, 2, 4].map(Nsid));
    for Nsid(nsid) in list.0 {
        let names =
            NamespaceDescriptors::decode(&admin.ok(command(0x06, 0, nsid, 4096, [3, 0, 0])).1)
                .unwrap();
        assert!(
            names.csi.is_some() && names.uuid.is_some(),
            "with CC.CSS 110b a namespace without CSI is dropped"
        );
        // Once for what all command sets have in common, once for the disk.
        for _ in 0..2 {
            let id =
                IdentifyNamespace::decode(&admin.ok(command(0x06, 0, nsid, 4096, [0, 0, 0])).1)
                    .unwrap();
            assert!(id.nsze > 0 && id.ncap == id.nsze && id.format().is_some());
        }
    }
}

fn read_and_write(io: &mut Io) {
    let (asked, answer) = io.run(&command(0x02, 1, 1, 4096, [8, 0, 7]), false, &[]);
    assert_eq!(
        asked.map(|request| (request.kind, request.lba, request.blocks)),
        Some((IoRequestKind::Read, Lba(8), 8))
    );
    assert_eq!((answer.status, answer.data), (Status::SUCCESS, vec![0x5a; 4096]));
    // A write that fits the capsule, one that does not, with FUA as the second.
    for (bytes, in_capsule, fua) in [(4096, true, 0), (65_536, false, 1 << 30)] {
        let blocks = bytes as u32 / 512 - 1;
        let sqe = command(0x01, 2, 1, bytes as u32, [16, 0, blocks | fua]);
        let (asked, answer) = io.run(&sqe, in_capsule, &vec![0x17; bytes]);
        let asked = asked.unwrap();
        assert_eq!(
            (asked.kind, asked.bytes as usize, asked.fua),
            (IoRequestKind::Write, bytes, fua != 0)
        );
        assert_eq!(answer.status, Status::SUCCESS);
    }
    let (asked, _) = io.run(&command(0x00, 3, 1, 0, [0; 3]), false, &[]);
    assert_eq!(asked.map(|request| request.kind), Some(IoRequestKind::Flush));
}

/// `nvme_setup_discard` sends 4 KiB however few ranges there are; `nvme_setup_write_zeroes` sets
/// DEAC where DLFEAT allows it.
fn discard(io: &mut Io) {
    let mut ranges = vec![0; 4096];
    ranges[4..8].copy_from_slice(&8u32.to_le_bytes());
    let (asked, answer) = io.run(&command(0x09, 4, 1, 4096, [0, 4, 0]), true, &ranges);
    assert_eq!(
        asked.map(|request| (request.kind, request.blocks)),
        Some((IoRequestKind::Discard, 8))
    );
    assert_eq!(answer.status, Status::SUCCESS);
    let (asked, _) = io.run(&command(0x08, 5, 1, 0, [0, 0, 7 | 1 << 25]), false, &[]);
    assert_eq!(
        asked.map(|request| request.kind),
        Some(IoRequestKind::WriteZeroes { deallocate: true })
    );
}

#[test]
fn linux_connects_works_and_disconnects() {
    let mut subsystem = subsystem();
    let name = nqn("disk");
    let sqe = command(0x7f, 0, 1, 1024, ADMIN_CONNECT);
    let mut admin =
        Admin::connect(&mut subsystem, &sqe, &connect_data(0x11, 0xffff, name.as_str(), HOST));
    enable(&mut admin);
    let id = identify(&mut admin);

    // Two queues: Set Features counts from zero and gets what there is.
    let (granted, _) = admin.ok(command(0x09, 0, 0, 0, [7, 0x0001_0001, 0]));
    assert!(granted & 0xffff >= 1);
    let data = connect_data(0x11, id.cntlid.0, name.as_str(), HOST);
    let mut queues = [1, 2]
        .map(|qid| Io::connect(&mut subsystem, &command(0x7f, 0, 1, 1024, io_connect(qid)), &data));
    assert_eq!(queues[1].queue.entries(), 128);

    // OAES and what Linux knows of it; the request has a CID beyond the tags.
    admin.ok(command(0x09, 0, 0, 0, [0x0b, id.oaes & 0x8000_0b00, 0]));
    admin.hold(command(0x0c, 31, 0, 0, [0; 3]));
    scan(&mut admin);
    queues.iter_mut().for_each(read_and_write);
    discard(&mut queues[0]);
    admin.ok(command(0x18, 0, 0, 0, [0; 3]));

    // nvme disconnect: CC as it was, with a normal shutdown.
    admin.set_cc(CONFIGURATION | 1 | 1 << 14);
    assert_eq!(admin.property(0x1c, false), 0x5);
    admin.quiesce();
    assert_eq!(admin.property(0x1c, false), 0x9);
    assert_eq!(
        (admin.noted(), queues.map(|mut queue| queue.noted())),
        (vec![], [vec![], vec![]]),
        "Linux keeps to the rules"
    );
}

/// `nvme` (the command line) over the same queue: what its plain commands ask.
#[test]
fn nvme_cli_asks_around() {
    let mut subsystem = subsystem();
    let sqe = command(0x7f, 0, 1, 1024, ADMIN_CONNECT);
    let data = connect_data(0x11, 0xffff, nqn("disk").as_str(), HOST);
    let mut admin = Admin::connect(&mut subsystem, &sqe, &data);
    admin.set_cc(CONFIGURATION | 1);
    // error-log of ELPE + 1 entries, fw-log, changed-ns-list-log, supported-log-pages,
    // fid-support-effects-log.
    for (page, bytes) in [(1, 64 * 64), (3, 512), (4, 4096), (0, 1024), (0x12, 1024)] {
        let (_, log) =
            admin.ok(command(0x02, 0, u32::MAX, bytes, [page | (bytes / 4 - 1) << 16, 0, 0]));
        assert_eq!(log.len(), bytes as usize, "log page {page:#x}");
    }
    // smart-log -n 1, get-feature -f 4 -s 3: what LPA and ONCS do not offer.
    admin.ok(command(0x02, 0, 1, 512, [2 | 127 << 16, 0, 0]));
    admin.ok(command(0x0a, 0, 0, 0, [4 | 3 << 8, 0, 0]));
    let noted = admin.noted().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(
        noted.len() == 2 && noted[0].contains("Select") && noted[1].contains("NSID"),
        "{noted:?}"
    );
    // cmdset-ind-id-ns, nvm-id-ns, id-iocs of this controller.
    for (cns, nsid) in [(8, 1), (5, 1), (0xffff_001c, 0)] {
        let (_, id) = admin.ok(command(0x06, 0, nsid, 4096, [cns, 0, 0]));
        assert_eq!(
            CommandSetCombinations::decode(&id).unwrap().vectors[0] & 1,
            u64::from(cns == 0xffff_001c),
            "{cns:#x}"
        );
    }
    // ana-log.
    let (_, log) = admin.ok(command(0x02, 0, u32::MAX, 4096, [0xc | 1023 << 16, 0, 0]));
    assert_eq!((log[8], log[16], log[32]), (1, 1, 1), "one group, 1, which is optimized");
    // persistent event log and timestamp: refused as nvmet refuses them, and the connection lives.
    for sqe in [
        command(0x02, 0, u32::MAX, 4096, [0xd | 1023 << 16, 0, 0]),
        command(0x0a, 0, 0, 8, [0xe, 0, 0]),
    ] {
        let Answer { status, .. } = admin.run(sqe);
        assert!([Status::INVALID_LOG_PAGE, Status::INVALID_FIELD].contains(&status), "{status}");
    }
    admin.ok(command(0x18, 0, 0, 0, [0; 3]));
}
