//! Over members that note what they are given, and that change when a test says so.

use super::*;
use crate::device::DeviceChange;
use crate::filter::Filter;
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::status::{Raw, RawScsi, Status, StatusKind};
use crate::queue::queue_owners::QueueOwners;
use crate::testing::{Rig, TestOp, TestPlan};
use crate::{OpenOptions, open};
use std::collections::VecDeque;
use weft_base::lock::Lock;

/// An operation of a member: kind, first block, blocks.
type Given = (OpKind, u64, u32);

/// A RAM disk of 512-byte blocks that is watched.
struct Member {
    inner: Device,
    state: Lock<MemberState>,
    owners: QueueOwners,
}

#[derive(Default)]
struct MemberState {
    given: Vec<Given>,
    /// Blocks, if others than the RAM disk has.
    blocks: Option<u64>,
    changes: Vec<DeviceChange>,
    presence: Presence,
    /// Outcome of every operation, which is not executed.
    outcome: Option<Outcome>,
    /// True if it accepts nothing.
    full: bool,
}

struct MemberQueue {
    inner: Box<dyn BlockQueue>,
    member: Arc<Member>,
    told: usize,
    ended: Vec<Completion>,
}

#[derive(Clone)]
struct Watched(Arc<Member>);

impl Watched {
    fn new(url: &str) -> Self {
        let inner = open(url, &OpenOptions::default()).unwrap();
        Self(Arc::new(Member { inner, state: Lock::default(), owners: QueueOwners::default() }))
    }

    fn set(&self, set: impl FnOnce(&mut MemberState)) {
        set(&mut self.0.state.lock());
        self.0.owners.wake_all();
    }

    fn change(&self, change: DeviceChange) {
        self.set(|state| {
            match change {
                DeviceChange::Resized { blocks } => state.blocks = Some(blocks),
                DeviceChange::Away => state.presence = Presence::Away,
                DeviceChange::Back => state.presence = Presence::Here,
                DeviceChange::Gone => state.presence = Presence::Gone,
                DeviceChange::Access(_) => {}
            }
            state.changes.push(change);
        });
    }

    fn given(&self) -> Vec<Given> {
        core::mem::take(&mut self.0.state.lock().given)
    }
}

impl Filter for Watched {
    fn inner(&self) -> &dyn BlockDevice {
        self.0.inner.as_ref()
    }

    fn geometry(&self) -> Geometry {
        let geometry = self.0.inner.geometry();
        Geometry { blocks: self.0.state.lock().blocks.unwrap_or(geometry.blocks), ..geometry }
    }

    fn presence(&self) -> Presence {
        self.0.state.lock().presence
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        self.0.owners.enter(on.remote(), owner);
        let inner = self.0.inner.open_queue(on, owner)?;
        Ok(Box::new(MemberQueue { inner, member: Arc::clone(&self.0), told: 0, ended: Vec::new() }))
    }
}

impl BlockQueue for MemberQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let mut state = self.member.state.lock();
        if state.full {
            return;
        }
        state.given.extend(ops.iter().map(|op| (op.kind, op.lba, op.blocks)));
        match state.outcome {
            Some(outcome) => self.ended.extend(ops.drain(..).map(|op| op.done(outcome))),
            None => self.inner.submit(ops),
        }
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.ended);
        self.inner.reap(done);
    }

    fn cancel(&mut self, user: u64) {
        self.inner.cancel(user);
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.ended.len()
    }

    fn change(&mut self) -> Option<DeviceChange> {
        let change = self.member.state.lock().changes.get(self.told).copied()?;
        self.told += 1;
        Some(change)
    }
}

const CHUNK: u64 = 4096;

/// A stripe over three members of 1 MiB, in chunks of 8 blocks.
fn stripe() -> (Device, [Watched; 3]) {
    let members = [(); 3].map(|()| Watched::new("ram:1MiB"));
    let devices = members.iter().map(|member| Arc::new(member.clone()) as Device).collect();
    (Arc::new(StripeDevice::of("stripe:".into(), devices, CHUNK, None).unwrap()), members)
}

fn rig() -> (Rig, [Watched; 3]) {
    let (device, members) = stripe();
    (Rig::new(&device, TestPlan::default()), members)
}

fn bare(kind: OpKind, lba: u64, blocks: u32) -> TestOp {
    TestOp { kind, lba, blocks, data: Vec::new(), cuts: Vec::new() }
}

const WRITE: OpKind = OpKind::Write { fua: true };

#[test]
fn each_member_gets_at_most_one_part() {
    let (rig, members) = rig();
    rig.one(0, rig.request(WRITE, 5, vec![1; 50 * 512]));
    let given = members.each_ref().map(Watched::given);
    assert_eq!(given, [vec![(WRITE, 5, 18)], vec![(WRITE, 0, 16)], vec![(WRITE, 0, 16)]]);
    rig.one(0, rig.request(OpKind::Read, 8, vec![1; 8 * 512]));
    assert_eq!(
        members.each_ref().map(Watched::given),
        [vec![], vec![(OpKind::Read, 0, 8)], vec![]]
    );
    rig.one(0, bare(OpKind::Flush, 0, 0));
    assert!(members.iter().all(|member| member.given() == [(OpKind::Flush, 0, 0)]));
    rig.one(0, bare(OpKind::Discard, 0, 3 * 2048));
    assert!(members.iter().all(|member| member.given() == [(OpKind::Discard, 0, 2048)]));
    let zeroes = OpKind::WriteZeroes { deallocate: true, fua: true };
    rig.one(0, bare(zeroes, 1, 9));
    assert_eq!(
        members.each_ref().map(Watched::given),
        [vec![(zeroes, 1, 7)], vec![(zeroes, 0, 2)], vec![]]
    );
    rig.end();
}

#[test]
fn blocks_are_where_the_layout_has_them() {
    let (rig, members) = rig();
    let data: Vec<u8> = (0..60 * 512u32).map(|n| (n / 7) as u8).collect();
    rig.one(0, TestOp { cuts: vec![100, 5000, 5001], ..rig.request(WRITE, 3, data.clone()) });
    let disks = members.map(|member| Rig::new(&(Arc::new(member) as Device), TestPlan::default()));
    for (nth, block) in data.chunks(512).enumerate() {
        let lba = nth as u64 + 3;
        let (member, at) = ((lba / 8 % 3) as usize, lba / 24 * 8 + lba % 8);
        assert!(disks[member].read(0, at, 1) == block, "block {lba}");
    }
    let read =
        TestOp { cuts: vec![512, 4097], ..rig.request(OpKind::Read, 3, vec![0xee; data.len()]) };
    assert!(rig.one(0, read) == data);
    disks.into_iter().chain([rig]).for_each(Rig::end);
}

#[test]
fn a_comparison_with_a_write_stays_within_a_chunk() {
    let (rig, members) = rig();
    let pair = OpKind::CompareAndWrite { fua: false };
    rig.one(0, rig.request(pair, 8, [vec![0; 4096], vec![7; 4096]].concat()));
    assert_eq!(rig.read(0, 8, 8), [7; 4096]);
    members.iter().for_each(|member| drop(member.given()));
    rig.fails(0, rig.request(pair, 15, vec![0; 2048]), StatusKind::Invalid);
    assert!(members.iter().all(|member| member.given().is_empty()));
    rig.end();
}

#[test]
fn the_whole_tells_what_is_known_of_its_parts() {
    let (rig, members) = rig();
    let path = Status::new(StatusKind::Path);
    let outcome = || rig.run(0, vec![rig.request(WRITE, 0, vec![1; 24 * 512])]).remove(0).outcome;
    let cases = [
        (
            Outcome::Done(Status::new(StatusKind::Media)),
            Outcome::Done(Status::new(StatusKind::Media)),
        ),
        (Outcome::NotSent(path), Outcome::settled(path)),
        (Outcome::unsettled(path), Outcome::unsettled(path)),
    ];
    for (of_one, of_all) in cases {
        members[1].set(|state| state.outcome = Some(of_one));
        assert_eq!(outcome(), of_all);
    }
    members
        .iter()
        .for_each(|member| member.set(|state| state.outcome = Some(Outcome::NotSent(path))));
    assert_eq!(outcome(), Outcome::NotSent(path), "nothing was sent");
    members[0].set(|state| state.outcome = None);
    let one = rig.run(0, vec![rig.request(WRITE, 1, vec![1; 512])]).remove(0);
    assert_eq!(one.outcome, Outcome::SUCCESS, "other members do not matter to it");
    rig.end();
}

#[test]
fn sense_data_tells_of_blocks_of_the_stripe() {
    let (rig, members) = rig();
    let sense = |information| {
        let raw =
            Raw::Scsi(RawScsi { status: 2, sense_key: 3, additional_sense: 0x1100, information });
        Outcome::Done(Status::with_raw(StatusKind::Media, raw))
    };
    for (on_member, of_all) in [(Some(9), Some(33)), (Some(u64::MAX), None), (None, None)] {
        members[1].set(|state| state.outcome = Some(sense(on_member)));
        let answer = rig.run(0, vec![rig.request(OpKind::Read, 8, vec![0; 32 * 512])]).remove(0);
        assert_eq!(answer.outcome, sense(of_all));
    }
    rig.end();
}

#[test]
fn what_a_full_member_has_not_taken_can_be_cancelled() {
    let (rig, members) = rig();
    members[2].set(|state| state.full = true);
    let names = rig.start(
        0,
        vec![rig.request(WRITE, 16, vec![1; 512]), rig.request(WRITE, 0, vec![1; 24 * 512])],
    );
    while members[0].given().is_empty() {
        std::thread::yield_now();
    }
    names.iter().for_each(|&name| rig.cancel(0, name));
    let answers = rig.wait(0, &names);
    let aborted = Status::new(StatusKind::Aborted);
    assert_eq!(
        [answers[0].outcome, answers[1].outcome],
        [Outcome::NotSent(aborted), Outcome::settled(aborted)]
    );
    rig.end();
}

#[test]
fn changes_of_members_are_told() {
    let (device, members) = stripe();
    let rig = Rig::new(&device, TestPlan::default());
    assert_eq!((device.geometry().blocks, device.presence()), (3 * 2048, Presence::Here));
    members[0].change(DeviceChange::Resized { blocks: 4096 });
    members[1].change(DeviceChange::Resized { blocks: 1023 });
    assert_eq!(
        rig.change(0),
        DeviceChange::Resized { blocks: 3 * 1016 },
        "the smallest counts, and whole chunks of it"
    );
    members[0].change(DeviceChange::Away);
    assert_eq!((rig.change(0), device.presence()), (DeviceChange::Away, Presence::Away));
    members[2].change(DeviceChange::Away);
    members[0].change(DeviceChange::Back);
    assert_eq!(device.presence(), Presence::Away, "the other one is still away");
    members[2].change(DeviceChange::Back);
    assert_eq!((rig.change(0), device.presence()), (DeviceChange::Back, Presence::Here));
    members[1].change(DeviceChange::Gone);
    assert_eq!((rig.change(0), device.presence()), (DeviceChange::Gone, Presence::Gone));
    rig.end();
}

#[test]
fn identities_follow_from_those_of_the_members() {
    let with = |chunk: &str, uuids: [u128; 2]| {
        let members =
            uuids.map(|uuid| format!("ram:1MiB,volatile=on,uuid={}", Uuid::from_u128(uuid)));
        let url = format!("stripe:{chunk}{}", members.join(","));
        open(&url, &OpenOptions::default()).map(|device| device.identity().uuid.unwrap())
    };
    let one = with("", [1, 2]).unwrap();
    assert_eq!(one, with("64KiB,", [1, 2]).unwrap());
    assert!(
        [with("", [2, 1]), with("4KiB,", [1, 2])].into_iter().all(|other| other.unwrap() != one)
    );
    assert_eq!(with(&format!("uuid={},", Uuid::from_u128(7)), [1, 2]).unwrap(), Uuid::from_u128(7));
    assert!(with("", [1, 1]).unwrap_err().to_string().contains("a member already"));
}

#[test]
fn mistakes_are_told() {
    let refusal =
        |url: &str| open(url, &OpenOptions::default()).err().unwrap().refusal().cloned().unwrap();
    assert_eq!(refusal("stripe:64KiB"), Refusal::NoSources);
    assert_eq!(refusal("stripe:3000,ram:1MiB"), Refusal::Chunk { bytes: 3000, multiple: 512 });
    assert_eq!(
        refusal("stripe:4608,ram:1MiB,block=4096"),
        Refusal::Chunk { bytes: 4608, multiple: 4096 }
    );
    assert!(
        matches!(refusal("stripe:64KiB,speed=1,ram:1MiB"), Refusal::UnknownOption { name, .. } if name == "speed")
    );
    assert!(matches!(refusal("stripe:fast,ram:1MiB"), Refusal::NotASize(_)));
    let (small, odd) =
        (refusal("stripe:2MiB,ram:2MiB,ram:1MiB"), refusal("stripe:ram:1MiB,null:1MiB,block=4096"));
    assert!(
        matches!(small, Refusal::Member { url, why } if url == "ram:1MiB" && why.contains("less than a chunk"))
    );
    assert!(
        matches!(odd, Refusal::Member { url, why } if url == "null:1MiB,block=4096" && why.contains("4096"))
    );
    assert_eq!(refusal("stripe:ram:1MiB,stripe:ram:1MiB"), Refusal::ListInList);
}
