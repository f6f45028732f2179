//! EDK2's NVMe-oF driver (`NetworkPkg/NvmeOfDxe`), which drives SPDK's host library of its time:
//! from the boot manager to the kernel.

use weft_proto::nvme::controller::IoRequestKind;
use weft_proto::nvme::deviation::Deviation;
use weft_proto::nvme::identify::IdentifyController;
use weft_proto::nvme::status::Status;

use crate::nvme_controller_support::{nqn, subsystem};
use crate::nvme_host_sequences::wire::{Admin, Io, command, connect_data};

/// The driver gives a time in units of 100 ns where milliseconds are asked for: eight days instead
/// of 70 seconds.
const KATO: u32 = 700_000_000;
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:99999999-2222-3333-4444-555555555555";

fn start(admin: &mut Admin) -> IdentifyController {
    assert_eq!(admin.property(8, false), 0x0002_0000);
    let cap = admin.property(0, true);
    // CC, to see whether it is enabled; then CC.EN, with CSS as CAP has it.
    assert_eq!((admin.property(0x14, false), cap >> 43 & 1), (0, 1));
    assert_eq!(admin.property(0x1c, false), 0);
    admin.set_cc(0x0046_0061);
    assert_eq!(admin.property(0x1c, false), 1);
    let id = IdentifyController::decode(&admin.ok(command(0x06, 0, 0, 4096, [1, 0, 0])).1).unwrap();
    // Critical warnings and what OAES has.
    admin.ok(command(0x09, 0, 0, 0, [0x0b, 0x1f | id.oaes & 0xb00, 0]));
    (0..=id.aerl).for_each(|_| admin.hold(command(0x0c, 0, 0, 0, [0; 3])));
    assert_eq!(
        admin.ok(command(0x0a, 0, 0, 0, [0x0f, 0, 0])).0,
        u64::from(KATO),
        "the timer as it is"
    );
    id
}

/// Zoned namespaces are asked for wherever CC.CSS is 110b. If that succeeded, their effects log
/// would be next.
fn look(admin: &mut Admin) {
    let zoned = admin.run(command(0x06, 0, 0, 4096, [6, 2 << 24, 0]));
    assert_eq!(zoned.status, Status::INVALID_FIELD);
    // All the queues that the library can have.
    admin.ok(command(0x09, 0, 0, 0, [7, 0x03ff_03ff, 0]));
    admin.ok(command(0x06, 0, 0, 4096, [2, 0, 0]));
    for nsid in [1, 2, 4] {
        admin.ok(command(0x06, 0, nsid, 4096, [0, 0, 0]));
        admin.ok(command(0x06, 0, nsid, 4096, [3, 0, 0]));
    }
}

#[test]
fn edk2_boots() {
    let mut subsystem = subsystem();
    let name = nqn("disk");
    let connect = |sqe| command(0x7f, 0, 1, 1024, sqe);
    let data = connect_data(0x99, 0xffff, name.as_str(), HOST);
    let mut admin = Admin::connect(&mut subsystem, &connect([0, 31, KATO]), &data);
    let id = start(&mut admin);
    look(&mut admin);

    // An I/O queue of 256 entries for each namespace; the timeout comes with each Connect.
    let data = connect_data(0x99, id.cntlid.0, name.as_str(), HOST);
    let mut queues = [1u32, 2, 3]
        .map(|qid| Io::connect(&mut subsystem, &connect([qid << 16, 255, KATO]), &data));
    for (queue, nsid) in queues.iter_mut().zip([1, 2, 4]) {
        let (asked, answer) = queue.run(
            &command(0x02, 0, nsid, 4096, [0, 0, if nsid == 4 { 0 } else { 7 }]),
            false,
            &[],
        );
        assert_eq!(
            asked.map(|request| (request.kind, request.bytes)),
            Some((IoRequestKind::Read, 4096))
        );
        assert_eq!(answer.data, [0x5a; 4096]);
        assert_eq!(queue.noted(), [Deviation::IoQueueKeepAlive]);
    }
    let (_, answer) = queues[0].run(&command(0x01, 1, 1, 512, [0, 0, 0]), true, &[7; 512]);
    assert_eq!(answer.status, Status::SUCCESS);
    // FlushBlocks; the driver sends Keep Alive by a timer of its own.
    assert_eq!(
        queues[1].run(&command(0x00, 2, 2, 0, [0; 3]), false, &[]).1.status,
        Status::SUCCESS,
        "nothing is cached"
    );
    admin.ok(command(0x18, 0, 0, 0, [0; 3]));

    // The disk is detached before the kernel starts: CC is read and written back with a shutdown.
    let cc = admin.property(0x14, false) as u32;
    admin.set_cc(cc | 1 << 14);
    admin.quiesce();
    assert_eq!(admin.property(0x1c, false) >> 2 & 3, 2);
    assert_eq!(admin.noted(), []);
}
