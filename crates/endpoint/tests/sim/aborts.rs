//! Aborts on a queue that always has something to send.

use crate::devices::Testing;
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{Scene, Setup};
use crate::wire::{self, Peer};
use std::time::Duration;
use weft_proto::nvme::host::command;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Lba, Nsid};
use weft_proto::nvme_tcp::pdu::PduType;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn an_abort_is_answered_on_a_queue_that_is_never_idle() {
    let mut scene = Scene::new(Setup::new(1, Testing::new("ram:16MiB")));
    scene.world.set_net(|net| (net.send_buffer_bytes, net.recv_buffer_bytes) = (4096, 4096));
    let (admin, io) = (Puppet::new(&scene), Puppet::new(&scene));
    let cntlid = wire::admin(&mut admin.within(&mut scene), &who());
    wire::io_queue(&mut io.within(&mut scene), &who(), cntlid, 1, 32);
    io.put(&wire::capsule_moving(&command::write(Nsid(1), Lba(0), 8, false), 1, 4096));
    let r2t = io.within(&mut scene).pdu().expect("an R2T");
    assert_eq!(r2t.kind(), PduType::R2T);
    let mut abort = Sqe::new(AdminOpcode::ABORT.0, Nsid(0));
    abort.set_dword(10, 1 | 1 << 16);
    admin.put(&wire::capsule(&abort, 3, &[]));
    scene.world.run_for(Duration::from_secs(1));
    assert!(admin.take().is_none(), "the data of the write has not come");

    // Reads that are sent again when they have completed, far more than the network takes at once.
    let read = |cid| {
        io.put(&wire::capsule_moving(&command::read(Nsid(1), Lba(0), 64), cid, 32 * 1024));
    };
    (2..30).for_each(read);
    scene.world.run_for(Duration::from_millis(5));
    io.put(&wire::h2c_data(&r2t.transfer(), &[7; 4096]));
    let is_answered = (0..10_000).any(|_| {
        scene.world.run_for(Duration::from_millis(1));
        while let Some(pdu) = io.take() {
            if pdu.kind() == PduType::CAPSULE_RESP && pdu.cqe().cid.0 > 1 {
                read(pdu.cqe().cid.0);
            }
        }
        admin.received_bytes() > 0
    });
    assert!(is_answered, "the queue never was without something to send");
    let cqe = wire::response(&mut admin.within(&mut scene));
    assert_eq!((cqe.cid.0, cqe.result & 1), (3, 0), "it was aborted");
    admin.hang_up();
    io.hang_up();
    scene.settle(LIMIT);
}
