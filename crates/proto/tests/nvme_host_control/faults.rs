//! Every fault at every step: the association is ready or over, once, in bounded time, and the host
//! never panics.

use std::time::Duration;

use proptest::prelude::*;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::{AdminData, HostAction, HostConfig};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Qid};

use super::fake::{Fake, Reply};
use super::world::{World, config, discovery_config};

#[derive(Clone, Copy, Debug)]
enum Fault {
    Refuse(Status),
    Silence,
    Data(u8),
    Short,
    Result(u64),
}

const FAULTS: [Fault; 12] = [
    Fault::Refuse(Status::INVALID_FIELD),
    Fault::Refuse(Status::INVALID_OPCODE),
    Fault::Refuse(Status::INVALID_NAMESPACE),
    Fault::Refuse(Status(0x7ff)),
    Fault::Silence,
    Fault::Data(0),
    Fault::Data(1),
    Fault::Data(0xff),
    Fault::Short,
    Fault::Result(0),
    Fault::Result(u32::MAX as u64),
    Fault::Result(u64::MAX),
];

impl Fault {
    fn reply(self, data: &AdminData) -> Reply {
        let len = if let AdminData::In { len } = data { *len as usize } else { 0 };
        match self {
            Self::Refuse(status) => Reply::status(status),
            Self::Silence => Reply::Silence,
            Self::Data(byte) => Reply::data(vec![byte; len]),
            Self::Short => Reply::data(vec![0; len / 2]),
            Self::Result(result) => {
                Reply::Done(Cqe { result, ..Cqe::new(Cid(0), Status::SUCCESS) }, vec![0; len])
            }
        }
    }
}

fn ended(action: &HostAction) -> bool {
    matches!(action, HostAction::Failed { .. } | HostAction::Closed { .. })
}

/// Runs an association for two minutes; says whether it came to an end, which `World` sees to be
/// the last word.
fn survives(mut world: World) -> bool {
    world.pass(Duration::from_secs(120));
    let ends = world.said.iter().filter(|action| ended(action)).count();
    let good = world
        .said
        .iter()
        .any(|action| matches!(action, HostAction::Ready | HostAction::Discovered(_)));
    assert!(ends == 1 || (ends == 0 && good), "neither ready nor over: {:?}", world.said);
    ends == 0
}

fn each_fault_at_each_step(config: impl Fn() -> HostConfig, fake: impl Fn() -> Fake) {
    let mut world = World::new(config(), fake());
    world.run();
    assert!(!world.said.iter().any(ended));
    for step in 0..world.commands() {
        for fault in FAULTS {
            let script = move |number: usize, _: &_, data: &AdminData, _: &mut Fake| {
                (number == step).then(|| fault.reply(data))
            };
            survives(World::scripted(config(), fake(), script));
        }
        let script = move |number: usize, _: &_, _: &AdminData, _: &mut Fake| {
            (number >= step).then_some(Reply::Silence)
        };
        survives(World::scripted(config(), fake(), script));
    }
}

#[test]
fn each_fault_at_each_step_of_an_io_association() {
    each_fault_at_each_step(config, || Fake { slowness: 2, ..Fake::default() });
}

#[test]
fn each_fault_at_each_step_of_discovery() {
    each_fault_at_each_step(discovery_config, || Fake::discovery(6));
}

#[test]
fn a_connection_lost_at_each_step_ends_the_association() {
    let mut world = World::new(config(), Fake::default());
    world.run();
    for step in 0..world.commands() {
        let mut world = World::scripted(config(), Fake::default(), move |number, _, _, _| {
            (number >= step).then_some(Reply::Silence)
        });
        world.run();
        world.host.connection_lost(world.now, Qid(0));
        world.run();
        assert!(
            matches!(world.said.back(), Some(HostAction::Failed { confirmed: true, .. })),
            "{step}"
        );
        assert_eq!(world.host.deadline(), None);
    }
}

#[test]
fn a_queue_that_cannot_be_opened_ends_the_association() {
    let mut world = World::scripted(config(), Fake::default(), |_, sqe, data, _| {
        (matches!(data, AdminData::Out(_)) && sqe.dword(10) >> 16 == 2).then_some(Reply::Silence)
    });
    world.run();
    world.host.connection_lost(world.now, Qid(2));
    world.run();
    assert!(matches!(world.said.back(), Some(HostAction::Failed { confirmed: true, .. })));
}

proptest! {
    #![proptest_config(weft_testing::properties!(300))]

    /// A controller that answers anything at all: the host neither panics nor loops.
    #[test]
    fn any_answers(seed in any::<u64>(), discovery in any::<bool>(), honesty in 1u64..20) {
        let mut state = seed | 1;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut asked = 0;
        let script = move |_: usize, _: &_, data: &AdminData, _: &mut Fake| {
            asked += 1;
            if asked > 2000 {
                return Some(Reply::Silence);
            }
            if !random().is_multiple_of(honesty) {
                return None;
            }
            let len = if let AdminData::In { len } = data { *len as usize } else { 0 };
            let status = if random().is_multiple_of(4) { Status(random() as u16 & 0x7ff) } else { Status::SUCCESS };
            let cqe = Cqe { result: random(), ..Cqe::new(Cid(0), status) };
            Some(Reply::Done(cqe, (0..len).map(|_| random() as u8).collect()))
        };
        let (config, fake) = if discovery { (discovery_config(), Fake::discovery(3)) } else { (config(), Fake::default()) };
        survives(World::scripted(config, fake, script));
    }
}
