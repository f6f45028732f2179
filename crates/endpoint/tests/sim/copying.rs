//! The Copy command on devices whose completions come late: within a namespace and across two, an
//! abort, the end of the connection, and little memory.

use crate::devices::{Knobs, Testing};
use crate::sim::controller::LIMIT;
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{Scene, Setup};
use crate::wire::{self, Peer};
use std::sync::Arc;
use std::time::Duration;
use weft_proto::nvme::copy::{Copy, CopyFormat, CopyRange, HostBehavior};
use weft_proto::nvme::feature::FeatureId;
use weft_proto::nvme::host::command;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Lba, Nsid};

/// A host with one I/O queue of a target with two namespaces, which copies across them.
struct Pair {
    scene: Scene,
    knobs: [Arc<Knobs>; 2],
    admin: Puppet,
    io: Puppet,
}

impl Pair {
    fn new(pool_bytes: usize) -> Self {
        let devices = [Testing::new("ram:16MiB"), Testing::new("ram:16MiB")];
        let knobs = devices.each_ref().map(|device| Arc::clone(&device.knobs));
        let [one, two] = devices;
        let mut setup = Setup::new(1, one);
        setup.devices.push(two);
        setup.target_pool_bytes = pool_bytes;
        let mut scene = Scene::new(setup);
        let (admin, io) = (Puppet::new(&scene), Puppet::new(&scene));
        let cntlid = wire::admin(&mut admin.within(&mut scene), &who());
        wire::io_queue(&mut io.within(&mut scene), &who(), cntlid, 1, 32);
        let mut pair = Self { scene, knobs, admin, io };
        let mut set = Sqe::new(AdminOpcode::SET_FEATURES.0, Nsid(0));
        set.set_dword(10, FeatureId::HOST_BEHAVIOR_SUPPORT.0.into());
        let behavior =
            HostBehavior { copy_formats: CopyFormat::ACROSS_NAMESPACES.bit(), enabled: [0; 4] };
        let capsule = wire::capsule(&set, 1, &behavior.encode());
        pair.admin.put(&capsule);
        let cqe = pair.admin.within(&mut pair.scene).pdu().unwrap().cqe();
        assert_eq!(cqe.status, Status::SUCCESS);
        pair
    }

    fn put_copy(&self, cid: u16, to: (u32, u64), ranges: &[(u32, u64, u32)]) {
        let range = |&(nsid, lba, blocks): &(u32, u64, u32)| CopyRange {
            nsid: Nsid(nsid),
            lba: Lba(lba),
            blocks,
            fast_only: false,
        };
        let data: Vec<u8> = ranges.iter().flat_map(|it| range(it).encode()).collect();
        let format = CopyFormat::ACROSS_NAMESPACES;
        let copy = Copy { to: Lba(to.1), ranges: ranges.len() as u32, format, fua: false };
        self.io.put(&wire::capsule(&copy.encode(Nsid(to.0)), cid, &data));
    }

    fn answer(&mut self) -> (u16, Status) {
        let cqe = self.io.within(&mut self.scene).pdu().expect("an answer").cqe();
        (cqe.cid.0, cqe.status)
    }

    /// The status of a command with data.
    fn run(&mut self, sqe: &Sqe, data: &[u8]) -> Status {
        self.io.put(&wire::capsule(sqe, 9, data));
        self.answer().1
    }

    fn until(&mut self, reached: impl Fn(&[Arc<Knobs>; 2]) -> bool) {
        let knobs = &self.knobs;
        assert!(self.scene.world.run_until(|_| reached(knobs), LIMIT));
    }

    fn settle(mut self) {
        self.admin.hang_up();
        self.io.hang_up();
        self.scene.settle(LIMIT);
        assert_eq!(self.knobs.each_ref().map(|knobs| knobs.held()), [0, 0]);
    }
}

#[test]
fn blocks_are_copied_within_a_namespace_and_across_two() {
    let mut pair = Pair::new(64 << 20);
    for n in 0..4u8 {
        let write = command::write(Nsid(1), Lba(n.into()), 1, false);
        assert_eq!(pair.run(&write, &[n + 1; 512]), Status::SUCCESS);
    }
    // 4 MiB in pieces first, so that the last blocks come behind.
    pair.put_copy(7, (2, 10), &[(1, 1000, 8192), (1, 2, 2), (1, 0, 2)]);
    assert_eq!(pair.answer(), (7, Status::SUCCESS));
    for (at, is) in [(8202, 3u8), (8203, 4), (8204, 1), (8205, 2), (10, 0)] {
        let compare = command::compare(Nsid(2), Lba(at), 1);
        assert_eq!(pair.run(&compare, &[is; 512]), Status::SUCCESS, "block {at}");
    }
    pair.put_copy(8, (1, 100), &[(1, 1, 3)]);
    assert_eq!(pair.answer(), (8, Status::SUCCESS));
    let compare = command::compare(Nsid(1), Lba(101), 1);
    assert_eq!(pair.run(&compare, &[3; 512]), Status::SUCCESS);
    for (ranges, status) in [
        (&[(3, 0, 1)], Status::INVALID_NAMESPACE),
        (&[(1, 32767, 2)], Status::LBA_OUT_OF_RANGE),
        (&[(2, 0, 11)], Status::OVERLAPPING_RANGE),
    ] {
        pair.put_copy(5, (2, 10), ranges);
        assert_eq!(pair.answer(), (5, status));
    }
    pair.settle();
}

#[test]
fn an_abort_or_a_lost_connection_ends_a_copy_before_it_writes() {
    for is_cut in [false, true] {
        let mut pair = Pair::new(64 << 20);
        pair.knobs[0].freeze(true);
        pair.put_copy(7, (2, 0), &[(1, 0, 8192)]);
        pair.until(|knobs| knobs[0].held() == 1);
        if is_cut {
            pair.io.hang_up();
            pair.scene.world.run_for(Duration::from_secs(1));
        } else {
            let mut abort = Sqe::new(AdminOpcode::ABORT.0, Nsid(0));
            abort.set_dword(10, 1 | 7 << 16);
            pair.admin.put(&wire::capsule(&abort, 2, &[]));
            let cqe = pair.admin.within(&mut pair.scene).pdu().unwrap().cqe();
            assert_eq!((cqe.status, cqe.result), (Status::SUCCESS, 1), "the device has it");
        }
        pair.knobs[0].freeze(false);
        if !is_cut {
            assert_eq!(pair.answer(), (7, Status::ABORT_REQUESTED));
        }
        pair.until(|knobs| knobs[0].held() == 0);
        pair.scene.world.run_for(Duration::from_secs(1));
        assert_eq!(pair.knobs[1].writes(), 0);
        pair.settle();
    }
}

#[test]
fn copies_take_turns_where_there_is_little_memory() {
    let mut pair = Pair::new(3 << 20);
    for cid in 0..31 {
        let (from, to) = (u64::from(cid) * 64, u64::from(cid % 4) * 4096);
        pair.put_copy(100 + cid, (2, to), &[(1, from, 4096), (1, from, 100)]);
    }
    let mut answered: Vec<_> = (0..31).map(|_| pair.answer()).collect();
    answered.sort_unstable_by_key(|(cid, _)| *cid);
    assert!((100..).zip(answered).all(|(cid, answer)| answer == (cid, Status::SUCCESS)));
    pair.settle();
}
