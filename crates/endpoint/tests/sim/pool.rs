//! Targets with very little memory: everything ends, and no more is taken than was allowed.

use crate::checker::{Checker, Ledger, Plan};
use crate::devices::Testing;
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{Scene, Setup, options};
use crate::sim::{scene, seeds};
use crate::wire::{self, Pdu, Peer};
use std::sync::Arc;
use std::time::Duration;
use weft_block::BlockDevice;
use weft_endpoint::ConnectOptions;
use weft_endpoint::limits::IN_CAPSULE_BYTES;
use weft_io::sim::{NetConfig, Rng};
use weft_proto::nvme::host::command;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Lba, Nsid};
use weft_proto::nvme_tcp::pdu::PduType;

const LIMIT: Duration = Duration::from_secs(120);

const POOL_BYTES: usize = 64 << 10;

/// The largest transfer on loops with so much memory.
const TRANSFER_BYTES: u32 = 16 << 10;

fn small(seed: u64, device: Arc<Testing>) -> Scene {
    let mut setup = Setup::new(seed, device);
    setup.target_pool_bytes = POOL_BYTES;
    setup.client_loops = 4;
    Scene::new(setup)
}

#[test]
fn deep_queues_of_large_transfers_end_and_stay_within_their_memory() {
    for seed in seeds(20) {
        let mut rng = Rng::new(seed);
        let device = Testing::new("ram:64MiB");
        device.knobs.set_delay(Duration::from_nanos(rng.magnitude(200_000)));
        let mut scene = small(seed, device);
        scene.world.set_net(|net| {
            *net = NetConfig { jitter: Duration::from_micros(50), ..NetConfig::default() }
        });
        let connections = rng.within(1, 4) as usize;
        let options = ConnectOptions {
            nr_io_queues: connections as u16,
            hdr_digest: rng.one_in(2),
            data_digest: rng.one_in(2),
            ..options()
        };
        let remote = scene.open(&options).unwrap();
        assert_eq!(remote.geometry().max_transfer_bytes, TRANSFER_BYTES);
        let ledgers: Vec<_> = (0..connections as u64)
            .map(|n| Ledger::new(n * 127 * 32, 127, TRANSFER_BYTES / 512, 512))
            .collect();
        let start = |(n, ledger)| {
            Checker::spawn(
                &scene.io_loop(n),
                remote.as_ref(),
                ledger,
                Plan::Chance(1000),
                Rng::new(seed + n as u64),
            )
            .unwrap()
        };
        let runs: Vec<_> = ledgers.iter().enumerate().map(start).collect();
        let target = scene.world.handle(scene.target_loops[0]);
        let most = POOL_BYTES + connections * IN_CAPSULE_BYTES as usize;
        let ended = scene.world.run_until(
            |_| {
                let bytes = target.pool().allocated_bytes();
                assert!(bytes <= most, "{bytes} bytes with {connections} connections");
                runs.iter().all(|run| run.borrow().over)
            },
            LIMIT,
        );
        assert!(ended, "{runs:?}");
        assert!(
            ledgers.iter().all(|ledger| ledger.borrow().failed == 0)
                && runs.iter().all(|run| !run.borrow().lost)
        );
        drop(remote);
        scene.settle(LIMIT);
        assert!(target.pool().allocated_bytes() <= POOL_BYTES);
    }
}

/// A queue of a host that asks for all it can get and then neither sends nor takes anything.
fn hog(scene: &mut Scene, sqe: &Sqe, qid: u16) -> [Puppet; 2] {
    let (admin, io) = (Puppet::new(scene), Puppet::new(scene));
    let cntlid = wire::admin(&mut admin.within(scene), &who());
    wire::io_queue(&mut io.within(scene), &who(), cntlid, qid, 128);
    io.set_deaf(true);
    for cid in 0..127 {
        io.put(&wire::capsule_moving(sqe, cid, TRANSFER_BYTES));
    }
    scene.world.run_for(Duration::from_secs(1));
    [admin, io]
}

#[test]
fn hosts_that_hold_on_to_memory_leave_some_for_others() {
    let blocks = TRANSFER_BYTES / 512;
    let mut scene = small(1, Testing::new("ram:64MiB"));
    scene.world.set_net(|net| (net.send_buffer_bytes, net.recv_buffer_bytes) = (4096, 4096));
    // One whose writes' data never comes, one that takes no answer.
    let mut hogs = Vec::from(hog(&mut scene, &command::write(Nsid(1), Lba(0), blocks, false), 1));
    hogs.extend(hog(&mut scene, &command::read(Nsid(1), Lba(0), blocks), 2));
    let taken = scene.world.handle(scene.target_loops[0]).pool().taken_bytes();
    assert!((TRANSFER_BYTES as usize..=POOL_BYTES).contains(&taken), "{taken} bytes");
    // Waiting for memory is not work.
    let before = scene.world.handle(scene.target_loops[0]).counters().snapshot();
    scene.world.run_for(Duration::from_secs(1));
    let busy =
        scene.world.handle(scene.target_loops[0]).counters().snapshot().since(&before).turns_busy;
    assert!(busy < 10, "{busy} busy turns");
    let remote = scene.open(&options()).unwrap();
    let ledger = Ledger::new(0, 16, 8, 512);
    let run =
        Checker::spawn(&scene.io_loop(0), remote.as_ref(), &ledger, Plan::Chance(300), Rng::new(1))
            .unwrap();
    assert!(scene.world.run_until(|_| run.borrow().over, LIMIT), "{run:?}");
    assert!(!run.borrow().lost);
    drop(remote);
    hogs.iter().for_each(Puppet::hang_up);
    scene.settle(LIMIT);
}

/// One half of a fused operation.
fn half(sqe: &Sqe, first: bool) -> Sqe {
    let mut sqe = *sqe;
    sqe.0[1] = sqe.0[1] & !3 | if first { 1 } else { 2 };
    sqe
}

#[test]
fn fused_halves_do_not_wait_for_memory_that_other_halves_hold() {
    let mut scene = small(1, Testing::new("ram:1MiB,block=4096"));
    let admin = Puppet::new(&scene);
    let cntlid = wire::admin(&mut admin.within(&mut scene), &who());
    // More first halves than there are buffers, all of which are asked for by R2T.
    let queues: Vec<_> = (1..=20)
        .map(|qid| {
            let io = Puppet::new(&scene);
            wire::io_queue(&mut io.within(&mut scene), &who(), cntlid, qid, 8);
            let compare = half(&command::compare(Nsid(1), Lba(qid.into()), 1), true);
            io.put(&wire::capsule_moving(&compare, 1, 4096));
            io
        })
        .collect();
    scene.world.run_for(Duration::from_secs(1));
    for (qid, io) in (1..).zip(&queues) {
        io.put(&wire::capsule_moving(
            &half(&command::write(Nsid(1), Lba(qid), 1, false), false),
            2,
            4096,
        ));
    }
    for io in &queues {
        let mut answers = 0;
        while answers < 2 {
            let pdu: Pdu = io.within(&mut scene).pdu().expect("pairs go on");
            if pdu.kind() == PduType::R2T {
                let r2t = pdu.transfer();
                let data = if r2t.cid.0 == 1 { [0; 4096] } else { [7; 4096] };
                io.put(&wire::h2c_data(&r2t, &data));
            } else {
                assert_eq!(pdu.cqe().status, Status::SUCCESS);
                answers += 1;
            }
        }
    }
    queues.iter().chain([&admin]).for_each(Puppet::hang_up);
    scene.settle(LIMIT);
}

#[test]
fn a_host_with_little_memory_of_its_own_discards_too() {
    let mut scene = small(1, Testing::new("ram:1MiB"));
    let remote = scene.open(&options()).unwrap();
    let on = scene.io_loop(0);
    // Nothing of the loop's memory is left.
    let mut all = Vec::new();
    while let Some(buf) = on.pool().take(1 << 20) {
        all.push(buf);
    }
    let done = scene::run_ops(
        &mut scene.world,
        &on,
        remote.as_ref(),
        vec![weft_block::Op::bare(weft_block::OpKind::Discard, 0, 64, 1)],
    );
    assert!(done[0].outcome.is_success(), "{done:?}");
}

#[test]
fn fused_halves_that_are_too_long_get_no_memory() {
    let mut scene = small(1, Testing::new("ram:1MiB,block=4096"));
    let admin = Puppet::new(&scene);
    let cntlid = wire::admin(&mut admin.within(&mut scene), &who());
    let queues: Vec<_> = (1..=10)
        .map(|qid| {
            let io = Puppet::new(&scene);
            wire::io_queue(&mut io.within(&mut scene), &who(), cntlid, qid, 8);
            for cid in 0..7 {
                let compare = half(&command::compare(Nsid(1), Lba(0), TRANSFER_BYTES / 4096), true);
                io.put(&wire::capsule_moving(&compare, cid, TRANSFER_BYTES));
            }
            io
        })
        .collect();
    scene.world.run_for(Duration::from_secs(1));
    let pool = scene.world.handle(scene.target_loops[0]).pool().clone();
    assert_eq!(pool.taken_bytes(), 0);
    // They end as halves without another do, and the pair as one that is too long.
    let io = &queues[0];
    for _ in 0..6 {
        assert_eq!(wire::response(&mut io.within(&mut scene)).status, Status::MISSING_FUSED);
    }
    let write = half(&command::write(Nsid(1), Lba(0), TRANSFER_BYTES / 4096, false), false);
    io.put(&wire::capsule_moving(&write, 7, TRANSFER_BYTES));
    for _ in 0..2 {
        assert_eq!(
            wire::response(&mut io.within(&mut scene)).status,
            Status::ATOMIC_WRITE_UNIT_EXCEEDED
        );
    }
    queues.iter().chain([&admin]).for_each(Puppet::hang_up);
    scene.settle(LIMIT);
}

#[test]
fn answers_to_admin_commands_stay_within_the_memory_that_there_is() {
    let mut scene = small(1, Testing::new("ram:1MiB"));
    scene.world.set_net(|net| (net.send_buffer_bytes, net.recv_buffer_bytes) = (4096, 4096));
    let pool = scene.world.handle(scene.target_loops[0]).pool().clone();
    let deaf: Vec<_> = (0..20)
        .map(|_| {
            let admin = Puppet::new(&scene);
            wire::admin(&mut admin.within(&mut scene), &who());
            admin.set_deaf(true);
            for cid in 10..18 {
                admin.put(&wire::capsule_moving(&error_log(), cid, 4096));
            }
            scene.world.run_for(Duration::from_millis(100));
            admin
        })
        .collect();
    assert!(
        pool.taken_bytes() > 0 && pool.allocated_bytes() <= POOL_BYTES,
        "{} bytes",
        pool.allocated_bytes()
    );
    // What waited is answered when there is memory again.
    deaf.iter().for_each(|admin| admin.set_deaf(false));
    for (nth, admin) in deaf.iter().enumerate() {
        for _ in 0..8 {
            let mut kind = PduType::C2H_DATA;
            while kind == PduType::C2H_DATA {
                let pdu = admin.within(&mut scene).pdu().expect("an answer");
                kind = pdu.kind();
                if kind != PduType::C2H_DATA {
                    assert_eq!(pdu.cqe().status, Status::SUCCESS, "of host {nth}");
                }
            }
        }
    }
    deaf.iter().for_each(Puppet::hang_up);
    scene.settle(LIMIT);
}

/// Get Log Page: Error Information, 4 KiB of it.
fn error_log() -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::GET_LOG_PAGE.0, Nsid(0));
    sqe.set_dword(10, 0x01 | 1023 << 16);
    sqe
}

/// Sends a write whose data is asked for; the R2T, if it comes soon.
fn begin_write(scene: &mut Scene, io: &Puppet, cid: u16, blocks: u32) -> Option<Pdu> {
    let sqe = command::write(Nsid(1), Lba(u64::from(cid) * 64), blocks, false);
    io.put(&wire::capsule_moving(&sqe, cid, blocks * 512));
    scene.world.run_for(Duration::from_millis(20));
    io.take()
}

/// Asks for the abort of a command of the I/O queue whose data is not there. Nothing says that it
/// was aborted before it has completed.
fn abort(scene: &mut Scene, admin: &Puppet, cid: u16) {
    let mut abort = Sqe::new(AdminOpcode::ABORT.0, Nsid(0));
    abort.set_dword(10, 1 | u32::from(cid) << 16);
    admin.put(&wire::capsule(&abort, 3, &[]));
    scene.world.run_for(Duration::from_secs(1));
    assert!(admin.take().is_none(), "the write has not completed");
}

/// The command has completed, so the host hears that it was aborted.
fn was_aborted(scene: &mut Scene, admin: &Puppet) {
    let cqe = wire::response(&mut admin.within(scene));
    assert_eq!((cqe.cid.0, cqe.result & 1), (3, 0), "it was aborted");
}

#[test]
fn an_aborted_write_that_waits_for_memory_is_never_stored() {
    let device = Testing::new("ram:16MiB");
    let knobs = Arc::clone(&device.knobs);
    let mut scene = small(1, device);
    let (admin, io) = (Puppet::new(&scene), Puppet::new(&scene));
    let cntlid = wire::admin(&mut admin.within(&mut scene), &who());
    wire::io_queue(&mut io.within(&mut scene), &who(), cntlid, 1, 32);
    knobs.freeze(true);
    knobs.honour_cancel(false);
    // What the device holds takes up the memory, until a write waits.
    let mut cid = 10;
    while let Some(r2t) = begin_write(&mut scene, &io, cid, TRANSFER_BYTES / 512) {
        io.put(&wire::h2c_data(&r2t.transfer(), &vec![1; TRANSFER_BYTES as usize]));
        cid += 1;
    }
    let (waits, held) = (cid, usize::from(cid) - 10);
    assert!(held > 0 && knobs.held() == held);
    abort(&mut scene, &admin, waits);
    knobs.freeze(false);
    let mut answers = Vec::new();
    while answers.len() <= held {
        let pdu = io.within(&mut scene).pdu().expect("everything ends");
        if pdu.kind() == PduType::R2T {
            assert!(admin.take().is_none(), "nor now");
            io.put(&wire::h2c_data(&pdu.transfer(), &vec![2; pdu.transfer().bytes as usize]));
        } else {
            answers.push((pdu.cqe().cid.0, pdu.cqe().status));
        }
    }
    assert!(answers.contains(&(waits, Status::ABORT_REQUESTED)), "{answers:?}");
    was_aborted(&mut scene, &admin);
    assert_eq!((answers.len(), knobs.writes()), (held + 1, held), "it was not stored");
    admin.hang_up();
    io.hang_up();
    scene.settle(LIMIT);
}

/// With a device that stores what comes in a capsule from where it was received, and with one that
/// does not.
#[test]
fn an_aborted_write_whose_capsule_is_still_arriving_is_never_stored() {
    let ram = || weft_block::open("ram:16MiB", &weft_block::OpenOptions::default()).unwrap();
    for device in [ram(), Testing::new("ram:16MiB") as Arc<dyn BlockDevice>] {
        let mut scene = Scene::new(Setup::new(1, device));
        let (admin, io) = (Puppet::new(&scene), Puppet::new(&scene));
        let cntlid = wire::admin(&mut admin.within(&mut scene), &who());
        wire::io_queue(&mut io.within(&mut scene), &who(), cntlid, 1, 32);
        let capsule = wire::capsule(&command::write(Nsid(1), Lba(0), 8, false), 10, &[7; 4096]);
        for cut in [72, 73, 1000, capsule.len() - 1] {
            io.put(&capsule[..cut]);
            scene.world.run_for(Duration::from_millis(20));
            abort(&mut scene, &admin, 10);
            io.put(&capsule[cut..]);
            let cqe = wire::response(&mut io.within(&mut scene));
            assert_eq!((cqe.cid.0, cqe.status), (10, Status::ABORT_REQUESTED), "cut at {cut}");
            was_aborted(&mut scene, &admin);
        }
        io.put(&wire::capsule_moving(&command::read(Nsid(1), Lba(0), 8), 11, 4096));
        let data = io.within(&mut scene).pdu().expect("data");
        assert!(data.0.ends_with(&[0; 4096]), "it was stored all the same");
        assert_eq!(wire::response(&mut io.within(&mut scene)).status, Status::SUCCESS);
        admin.hang_up();
        io.hang_up();
        scene.settle(LIMIT);
    }
}
