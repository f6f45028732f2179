//! Any command at any time, with any data: nothing panics, and each tag gets exactly one answer.

use std::collections::{BTreeMap, VecDeque};

use crate::nvme_controller_support::*;
use proptest::prelude::*;
use weft_proto::nvme::controller::{
    AbortTarget, AbortTicket, ControlEvent, DeviceOutcome, IoNext, IoQueue, IoRequestKind, Next,
    before_connect,
};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::Property;
use weft_proto::nvme::feature::FeatureId;
use weft_proto::nvme::identify::Cns;
use weft_proto::nvme::log_page::LogPageId;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::property::{Configuration, PropertyOffset};
use weft_proto::nvme::sqe::{Fuse, HostMemory, Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Cntlid, Nsid};
use weft_proto::stream::Tag;

/// Commands that are half right, so that they get past the first check as often as not.
fn sqe() -> impl Strategy<Value = Sqe> {
    let opcode = prop_oneof![8 => prop::sample::select(vec![0u8, 1, 2, 5, 6, 8, 9, 0x0a, 0x0c, 0x18, 0x7f]), 1 => any::<u8>()];
    let nsid = prop_oneof![6 => 0u32..6, 1 => Just(u32::MAX), 1 => any::<u32>()];
    let flags =
        prop_oneof![4 => Just(0x40u8), 2 => Just(0x41u8), 2 => Just(0x42u8), 1 => any::<u8>()];
    let lba = prop_oneof![4 => 0u64..4, 1 => 990u64..1010, 1 => any::<u64>()];
    let small = prop_oneof![6 => 0u32..3, 1 => any::<u32>()];
    let sgl = prop_oneof![
        6 => (0u32..4).prop_map(|blocks| Sgl::transport(blocks * 512)),
        2 => (0u32..4).prop_map(|blocks| Sgl::in_capsule(blocks * 512)),
        1 => Just(Sgl::transport(4096)),
        1 => (any::<u64>(), any::<u32>(), any::<u8>())
            .prop_map(|(address, length, identifier)| Sgl { address, length, identifier }),
    ];
    (opcode, nsid, flags, lba, small, sgl, any::<[u32; 4]>()).prop_map(
        |(opcode, nsid, flags, lba, small, sgl, rest)| {
            let mut sqe = Sqe::new(opcode, Nsid(nsid));
            sqe.0[1] = flags;
            sqe.set_qword(10, lba);
            sqe.set_dword(12, small);
            for (n, dword) in rest.into_iter().enumerate().skip(1) {
                sqe.set_dword(12 + n, dword);
            }
            sqe.set_sgl(sgl);
            sqe
        },
    )
}

fn outcome() -> impl Strategy<Value = DeviceOutcome> {
    let status = prop_oneof![
        3 => Just(Status::SUCCESS),
        1 => Just(Status::COMPARE_FAILURE),
        1 => Just(Status::WRITE_FAULT),
        1 => Just(Status::ABORT_REQUESTED),
        1 => any::<u16>().prop_map(|code| Status(code & 0x7ff)),
    ];
    (status, any::<bool>())
        .prop_map(|(status, do_not_retry)| DeviceOutcome { status, do_not_retry })
}

/// I/O commands that are right, some of them halves of fused operations.
fn good_io() -> impl Strategy<Value = Sqe> {
    let opcode = prop::sample::select(vec![
        NvmOpcode::READ,
        NvmOpcode::WRITE,
        NvmOpcode::COMPARE,
        NvmOpcode::WRITE_ZEROES,
    ]);
    let fuse =
        prop_oneof![2 => Just(Fuse::Normal), 1 => Just(Fuse::First), 1 => Just(Fuse::Second)];
    (opcode, fuse, 1u32..3, 0u64..2).prop_map(|(opcode, fuse, nsid, lba)| {
        let opcode = match fuse {
            Fuse::First => NvmOpcode::COMPARE,
            Fuse::Second => NvmOpcode::WRITE,
            _ => opcode,
        };
        let mut sqe = blocks(opcode, nsid, lba, 1);
        sqe.set_fuse(fuse);
        sqe
    })
}

/// Two halves that fit.
fn pair() -> impl Strategy<Value = Step> {
    (0u64..4).prop_map(|lba| {
        let half = |opcode, fuse| {
            let mut sqe = blocks(opcode, 1, lba, 1);
            sqe.set_fuse(fuse);
            sqe
        };
        Step::Pair(half(NvmOpcode::COMPARE, Fuse::First), half(NvmOpcode::WRITE, Fuse::Second))
    })
}

/// Admin commands that are right, for an I/O controller.
fn good_admin() -> impl Strategy<Value = Sqe> {
    let feature = prop::sample::select(vec![0x01u8, 0x04, 0x07, 0x0b, 0x0f]);
    prop_oneof![
        prop::sample::select(vec![1u8, 2, 6, 7]).prop_map(|cns| identify(Cns(cns), 0)),
        (prop::sample::select(vec![0u8, 1, 2, 3, 4, 5, 0x12, 0x70]), 0u64..300)
            .prop_map(|(page, dword)| get_log(LogPageId(page), dword * 4, 512)),
        feature.clone().prop_map(|id| get_feature(FeatureId(id), 0)),
        (feature, 0u32..3).prop_map(|(id, value)| set_feature(FeatureId(id), value)),
        Just(Sqe::new(0x0c, Nsid(0))),
        Just(Sqe::new(0x18, Nsid(0))),
        (0u32..3, 0u32..40).prop_map(|(sqid, cid)| {
            let mut sqe = Sqe::new(0x08, Nsid(0));
            sqe.set_dword(10, sqid | cid << 16);
            sqe
        }),
    ]
}

/// Commands that a host may send to an admin queue.
fn admin() -> impl Strategy<Value = Sqe> {
    let shaped = (sqe(), any::<u8>(), any::<[u32; 6]>())
        .prop_map(|(sqe, fabrics, dwords)| shape(sqe, fabrics, dwords));
    let disabled = any::<u32>().prop_map(|bits| bits & 0xc000 | Configuration::NVM_ENTRY_SIZES);
    let property = prop_oneof![
        (0u32..0x70).prop_map(|offset| Property::get(PropertyOffset(offset))),
        Just(Property::set(PropertyOffset::CC, 0)),
        disabled.prop_map(|cc| Property::set(PropertyOffset::CC, u64::from(cc))),
        any::<u32>().prop_map(|cc| Property::set(PropertyOffset::CC, u64::from(cc))),
    ];
    prop_oneof![8 => good_admin(), 4 => shaped, 1 => property]
}

/// Makes a random command one of the admin queue's: small numbers select something that exists more
/// often than not.
fn shape(mut sqe: Sqe, fabrics_type: u8, dwords: [u32; 6]) -> Sqe {
    sqe.0[4] = if sqe.opcode() == 0x7f { fabrics_type } else { sqe.0[4] };
    for (n, dword) in dwords.into_iter().enumerate() {
        sqe.set_dword(10 + n, if dword & 3 == 0 { dword >> 2 } else { dword >> 2 & 0x1f });
    }
    if fabrics_type & 1 == 0 {
        sqe.0[1] = 0x40;
    }
    sqe
}

#[derive(Clone, Debug)]
enum Step {
    Start(Sqe, u32),
    Pair(Sqe, Sqe),
    /// Data of the n-th command that waits for it.
    Data(usize, Vec<u8>),
    DataFailed(usize),
    Finish(usize, DeviceOutcome),
    Abort(u16),
    ChangeNamespaces(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => good_io().prop_map(|sqe| Step::Start(sqe, 0)),
        2 => pair(),
        3 => (sqe(), prop_oneof![Just(0u32), Just(512), Just(1024), any::<u32>()]).prop_map(|(sqe, n)| Step::Start(sqe, n)),
        4 => (any::<usize>(), prop::collection::vec(0u8..4, 0..64)).prop_map(|(n, data)| Step::Data(n, data)),
        1 => any::<usize>().prop_map(Step::DataFailed),
        4 => (any::<usize>(), outcome()).prop_map(|(n, outcome)| Step::Finish(n, outcome)),
        1 => (0u16..40).prop_map(Step::Abort),
        1 => (1u32..5).prop_map(Step::ChangeNamespaces),
    ]
}

/// State of a tag at the pump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Fetching,
    Waiting,
    Device,
}

/// A pump without bytes: it checks that the queue keeps to the rules.
struct Pump {
    queue: IoQueue,
    tags: BTreeMap<u16, (Where, Cid)>,
    next_cid: u16,
    started: usize,
    answered: usize,
}

impl Pump {
    fn free_tag(&self) -> Option<u16> {
        (0..32).find(|tag| !self.tags.contains_key(tag))
    }

    fn nth(&self, place: Where, n: usize) -> Option<Tag> {
        let there: Vec<u16> =
            self.tags.iter().filter(|(_, (at, _))| *at == place).map(|(tag, _)| *tag).collect();
        (!there.is_empty()).then(|| Tag(there[n % there.len()]))
    }

    fn answer(&mut self, tag: Tag, cqe: Cqe) {
        let (_, cid) = self.tags.remove(&tag.0).expect("an answer for a tag that is free");
        assert_eq!(cqe.cid, cid);
        self.answered += 1;
    }

    fn obey(&mut self, tag: Tag, next: IoNext) {
        match next {
            IoNext::Fetch { bytes } => {
                assert!(bytes > 0 && bytes <= TRANSFER);
                self.set(tag, Where::Fetching);
            }
            IoNext::Submit(request) => {
                assert!(request.bytes <= TRANSFER);
                if let IoRequestKind::CompareAndWrite { first } = request.kind {
                    assert!(first == tag || self.tags[&first.0].0 == Where::Waiting);
                    self.set(first, Where::Waiting);
                }
                self.set(request.tag, Where::Device);
                if tag != request.tag {
                    self.set(tag, Where::Waiting);
                }
            }
            IoNext::Reply { cqe, data_bytes } => {
                assert!(data_bytes <= TRANSFER);
                self.answer(tag, cqe);
            }
            IoNext::ReplyPair { first, second } => {
                assert_eq!(second.0, tag);
                self.answer(first.0, first.1);
                self.answer(second.0, second.1);
            }
            IoNext::Reserve { namespace } => {
                let reservations = self
                    .queue
                    .namespaces()
                    .at(namespace)
                    .and_then(|of| of.reservations.clone())
                    .unwrap();
                let outcome = reservations.execute(&self.queue.take_operation().unwrap());
                let next = self.queue.reserved(tag, outcome.map(|_| ()));
                return self.obey(tag, next);
            }
            IoNext::Report { bytes } => {
                let next = self.queue.report(tag, &mut vec![0; bytes as usize]);
                return self.obey(tag, next);
            }
            IoNext::Authenticate => unreachable!("nobody asked for such commands"),
            IoNext::Hold => self.set(tag, Where::Waiting),
        }
        if let Some((tag, cqe)) = self.queue.orphan() {
            self.answer(tag, cqe);
        }
        assert_eq!(self.queue.outstanding(), self.tags.len());
    }

    fn set(&mut self, tag: Tag, place: Where) {
        self.tags.get_mut(&tag.0).expect("a tag in use").0 = place;
    }

    fn run(&mut self, step: Step, namespaces: &mut Rig) {
        match step {
            Step::Start(mut sqe, in_capsule_bytes) => {
                let Some(tag) = self.free_tag() else { return };
                self.next_cid += 1;
                sqe.set_cid(Cid(self.next_cid));
                self.tags.insert(tag, (Where::Waiting, Cid(self.next_cid)));
                self.started += 1;
                let next = self.queue.start(Tag(tag), &sqe, in_capsule_bytes);
                self.obey(Tag(tag), next);
            }
            Step::Pair(first, second) => {
                self.run(Step::Start(first, 0), namespaces);
                self.run(Step::Start(second, 0), namespaces);
            }
            Step::Data(n, data) => {
                let Some(tag) = self.nth(Where::Fetching, n) else { return };
                let next = self.queue.data(tag, &data);
                self.obey(tag, next);
            }
            Step::DataFailed(n) => {
                let Some(tag) = self.nth(Where::Fetching, n) else { return };
                let next = self.queue.data_failed(tag, Status::TRANSIENT_TRANSPORT_ERROR);
                self.obey(tag, next);
            }
            Step::Finish(n, outcome) => {
                let Some(tag) = self.nth(Where::Device, n) else { return };
                let next = self.queue.finished(tag, outcome, &[1; 64]);
                self.obey(tag, next);
            }
            Step::Abort(cid) => {
                let target = self.queue.abort(Cid(cid));
                let known = self.tags.values().any(|(_, known)| *known == Cid(cid));
                assert_eq!(target != AbortTarget::Unknown, known);
                if let Some((tag, cqe)) = self.queue.orphan() {
                    self.answer(tag, cqe);
                }
            }
            Step::ChangeNamespaces(nsid) => {
                let table = match namespaces.subsystem.namespaces().find(Nsid(nsid)) {
                    Some(_) => namespaces.subsystem.remove_namespace(Nsid(nsid)),
                    None => namespaces.subsystem.set_namespace(namespace(nsid)).unwrap(),
                };
                self.queue.set_namespaces(table);
            }
        }
    }

    /// Brings everything to an end.
    fn drain(&mut self, rig: &mut Rig) {
        // A last command, as soon as there is a tag for it, so that no first half waits for its
        // second.
        let mut last = false;
        for _ in 0..100_000 {
            if !last && self.free_tag().is_some() {
                last = true;
                self.run(Step::Start(Sqe::new(0, Nsid(2)), 0), rig);
            }
            if last && self.tags.is_empty() {
                return;
            }
            self.run(Step::Data(0, vec![0; 64]), rig);
            self.run(Step::Finish(0, DeviceOutcome::DONE), rig);
        }
        panic!("{:?} never end", self.tags);
    }
}

proptest! {
    #![proptest_config(weft_testing::properties!())]

    #[test]
    fn every_io_command_is_answered_once(steps in prop::collection::vec(step(), 1..200)) {
        let mut rig = Rig::io();
        let queue = rig.connect_io(1).unwrap();
        let mut pump = Pump { queue, tags: BTreeMap::new(), next_cid: 0, started: 0, answered: 0 };
        for step in steps {
            pump.run(step, &mut rig);
        }
        pump.drain(&mut rig);
        prop_assert_eq!(pump.started, pump.answered);
    }

    #[test]
    fn every_admin_command_is_answered_once(
        kind in any::<bool>(),
        commands in prop::collection::vec((admin(), 0u8..16, any::<[u32; 4]>()), 1..120),
    ) {
        let mut rig = if kind { Rig::io() } else { Rig::discovery() };
        let mut held: BTreeMap<u16, Cid> = BTreeMap::new();
        let mut aborts: VecDeque<AbortTicket> = VecDeque::new();
        let mut quiesces = 0;
        for (sqe, action, dwords) in commands {
            let Some(tag) = (0..32).find(|tag| !held.contains_key(tag)) else { break };
            let mut next = rig.start(tag, sqe);
            let id = rig.last_cid();
            if let Next::Produce { bytes } = next {
                prop_assert!(bytes <= TRANSFER);
                next = rig.control.produce(rig.now, Tag(tag), &mut vec![0; bytes as usize]);
            }
            match next {
                Next::Reply { cqe, .. } => prop_assert_eq!(cqe.cid, id),
                Next::Hold => { held.insert(tag, id); }
                other => panic!("{other:?}"),
            }
            match action {
                0 => if let Some(ticket) = aborts.pop_front() { rig.control.abort_result(ticket, dwords[0] & 1 == 0) },
                1 if quiesces > 0 => { quiesces -= 1; rig.control.quiesced(rig.now) }
                2 => { rig.set_cc(ON); }
                3 => rig.now += seconds(u64::from(dwords[1] % 3)),
                4 => {
                    let table = rig.subsystem.set_namespace(namespace(dwords[2] % 9 + 1)).unwrap();
                    rig.control.namespaces_changed(table);
                }
                5 => { rig.set_cc(dwords[3]); }
                _ => {}
            }
            while let Some(event) = rig.poll() {
                match event {
                    ControlEvent::Reply { tag, cqe } => prop_assert_eq!(held.remove(&tag.0), Some(cqe.cid)),
                    ControlEvent::Abort { ticket, .. } => aborts.push_back(ticket),
                    ControlEvent::Quiesce { .. } => quiesces += 1,
                    ControlEvent::CrossReset(named) => {
                        let found = rig.subsystem.cross_reset(rig.control.cntlid(), named);
                        rig.control.cross_reset(named, found);
                    }
                    ControlEvent::Queues { ticket, wanted } => {
                        let left = u16::from(action % 2) * 3;
                        rig.control.queues_allocated(ticket, wanted.min(left));
                    }
                    ControlEvent::Persist { ticket, .. } => rig.control.persisted(ticket, Ok(())),
                    ControlEvent::KeepAliveExpired => return Ok(()),
                }
            }
        }
        // A reset ends all that wait.
        for _ in 0..quiesces {
            rig.control.quiesced(rig.now);
        }
        rig.set_cc(ON);
        rig.set_cc(0);
        while let Some(event) = rig.poll() {
            if let ControlEvent::Reply { tag, cqe } = event {
                prop_assert_eq!(held.remove(&tag.0), Some(cqe.cid));
            }
        }
        prop_assert!(held.is_empty(), "{:?} were never answered", held);
    }

    #[test]
    fn any_connect_is_admitted_or_refused(
        command in any::<[u8; 32]>(),
        command_end in any::<[u8; 32]>(),
        data in prop::collection::vec(any::<u8>(), 1024),
        in_capsule_bytes in any::<u32>(),
        keep in any::<u8>(),
    ) {
        let mut sqe = Sqe::default();
        sqe.0[..32].copy_from_slice(&command);
        sqe.0[32..].copy_from_slice(&command_end);
        before_connect(&sqe, in_capsule_bytes, HostMemory::Transport);

        let mut subsystem = subsystem();
        let (ask, good) = connect(0, Cntlid::DYNAMIC, &nqn("disk"));
        let mut bytes = data_bytes(&good);
        // Some fields as they should be, others at random.
        for (n, chunk) in bytes.chunks_exact_mut(128).enumerate() {
            if keep >> n & 1 == 0 {
                chunk.copy_from_slice(&data[n * 128..][..128]);
            }
        }
        let mut sqe = ask.encode();
        sqe.0[40..64].copy_from_slice(&command_end[8..]);
        let _ = subsystem.connect(seconds(0), &sqe, &bytes, PORT);
        let _ = subsystem.connect_io(&sqe, &bytes);
    }
}
