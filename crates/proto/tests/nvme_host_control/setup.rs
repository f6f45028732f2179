//! From Connect to Ready, and to the discovery log.

use std::time::Duration;

use weft_proto::nvme::host::{
    AdminData, Difference, FaultSide, HostAction, HostConfig, HostError, Incompatibility,
    NamespaceProblem, Violation,
};
use weft_proto::nvme::identify::{
    ControllerType, Csi, IdentifyController, LbaFormat, NamespaceDescriptors,
};
use weft_proto::nvme::property::{Capabilities, Version};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Id128, Nqn, Nsid, Qid};
use weft_proto::nvme::wire::NqnField;

use super::fake::{CNTLID, Fake, Reply, namespace};
use super::world::{World, config};

pub const MINUTE: Duration = Duration::from_secs(60);

pub fn error_of(action: Option<HostAction>) -> HostError {
    match action {
        Some(HostAction::Failed { error, confirmed: true }) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_steps_in_order() {
    let world = World::ready();
    let expected = [
        "connect 0",
        "get Controller Capabilities",
        "get Version",
        "set CC 0x460001",
        "get Controller Status",
        "Identify",
        "Identify",
        "Set Features",
        "Set Features",
        "Asynchronous Event Request",
        "Identify",
        "Identify",
        "Identify",
        "Identify",
        "Identify",
        "Get Log Page",
        "connect 1",
        "connect 2",
    ];
    assert_eq!(world.fake.seen, expected);
    assert!(world.said.is_empty());
    assert_eq!(world.host.queues(), [Qid(1), Qid(2)]);
    assert_eq!(world.host.controller().cntlid, CNTLID);
    assert_eq!(world.host.controller().in_capsule_bytes(), 8192);
}

#[test]
fn what_a_namespace_is_like() {
    let world = World::ready();
    let [first, second] = world.host.namespaces() else { panic!() };
    assert_eq!((first.nsid, first.blocks, first.block_bytes), (Nsid(1), 1000, 512));
    assert_eq!((first.uuid, first.nguid, first.eui64), (Some(Id128([1; 16])), None, None));
    assert!(
        first.shared
            && first.volatile_cache
            && first.deallocated_reads_zero
            && !first.write_protected
    );
    assert_eq!(
        (first.transfer_blocks_max, first.atomic_power_fail_blocks, first.atomic_write_blocks),
        (256, 8, 1)
    );
    assert_eq!((first.compare, first.compare_and_write_blocks_max), (true, 4));
    let zeroes = first.write_zeroes.unwrap();
    assert_eq!((zeroes.blocks_max, zeroes.deallocate), (512, true));
    let deallocate = first.deallocate.unwrap();
    assert_eq!(
        (deallocate.ranges_max, deallocate.range_blocks_max, deallocate.blocks_max),
        (8, u32::MAX, u64::MAX)
    );
    assert_eq!((first.difference(first), first.difference(second)), (None, Some(Difference::Uuid)));
}

#[test]
fn a_controller_with_nothing_optional() {
    let mut fake = Fake { version: Version(0x0001_0201), limits: None, ..Fake::default() };
    fake.identify = IdentifyController {
        cntlid: CNTLID,
        sqes: 0x66,
        cqes: 0x44,
        sgls: 1,
        ioccsz: 4,
        iorcsz: 1,
        ..Default::default()
    };
    let mut world = World::new(config(), fake);
    world.run();
    assert_eq!(world.said.pop_back(), Some(HostAction::Ready));
    let namespace = &world.host.namespaces()[0];
    assert_eq!((namespace.transfer_blocks_max, namespace.uuid), (65536, None));
    assert_eq!(
        (namespace.write_zeroes, namespace.deallocate, namespace.compare),
        (None, None, false)
    );
    assert_eq!(world.host.controller().in_capsule_bytes(), 0);
    assert!(world.fake.seen.iter().filter(|name| *name == "Set Features").count() == 1);
}

#[test]
fn queues_are_as_many_and_as_long_as_both_ends_want() {
    for (wanted, entries, maxcmd, expected_queues, expected_entries) in [
        (1, 128, 64, 1, 64),
        (9, 32, 64, 4, 32),
        (0, 0, 64, 1, 2),
        (2, 2000, 0, 2, 128),
        (2, 8, 1, 2, 2),
    ] {
        let config = HostConfig { io_queues: wanted, queue_entries: entries, ..config() };
        let mut fake = Fake::default();
        fake.identify.maxcmd = maxcmd;
        let mut world = World::new(config, fake);
        world.run();
        assert_eq!(world.said.pop_back(), Some(HostAction::Ready));
        assert_eq!(world.host.queues().len(), expected_queues);
        let (sqe, _) = world.host.io_connect(Qid(1));
        assert_eq!((sqe.dword(11) & 0xffff) + 1, expected_entries);
    }
}

#[test]
fn fewer_queues_than_granted_are_borne_but_not_none() {
    let script = |refused: u32| {
        move |_: usize, sqe: &weft_proto::nvme::sqe::Sqe, data: &AdminData, _: &mut Fake| {
            let qid = sqe.dword(10) >> 16;
            (matches!(data, AdminData::Out(_)) && qid >= refused)
                .then(|| Reply::status(Status::CONNECT_INVALID_PARAMETERS))
        }
    };
    let mut world = World::scripted(config(), Fake::default(), script(2));
    world.run();
    assert_eq!(world.said.pop_back(), Some(HostAction::Ready));
    assert_eq!(world.host.queues(), [Qid(1)]);
    let mut world = World::scripted(config(), Fake::default(), script(1));
    let error = error_of(world.last_word(MINUTE));
    assert_eq!(
        error.to_string(),
        "Connect of I/O queue 2 was refused: Connect Invalid Parameters (0x182)"
    );
}

#[test]
fn readiness_is_waited_for_as_long_as_cap_allows() {
    let mut world = World::new(config(), Fake { slowness: 10, ..Fake::default() });
    world.pass(Duration::from_secs(2));
    assert_eq!(world.said.pop_back(), Some(HostAction::Ready));
    let mut world = World::new(config(), Fake { slowness: u32::MAX, ..Fake::default() });
    let start = world.now;
    let error = error_of(world.last_word(MINUTE));
    assert_eq!(error.to_string(), "no answer to the controller becoming ready within 12000 ms");
    assert_eq!(error.fault(), FaultSide::TimedOut);
    assert_eq!(world.now - start, Duration::from_secs(12));
    assert!(world.fake.seen.len() < 100, "CSTS is not read without pause");
}

/// Runs a setup with a controller that differs from the usual one.
pub fn with(change: impl FnOnce(&mut Fake)) -> World {
    let mut fake = Fake::default();
    change(&mut fake);
    let mut world = World::new(config(), fake);
    world.run();
    world
}

#[test]
fn controllers_that_do_not_fit() {
    type Change = fn(&mut Fake);
    let cases: [(Change, Incompatibility); 8] = [
        (|fake| fake.cap = Capabilities(Capabilities::ADMIN_ONLY), Incompatibility::CommandSet),
        (|fake| fake.identify.sgls = 0, Incompatibility::Sgl),
        (|fake| fake.identify.ioccsz = 3, Incompatibility::CapsuleSize { ioccsz: 3, iorcsz: 1 }),
        (
            |fake| fake.identify.iorcsz = 0,
            Incompatibility::CapsuleSize { ioccsz: 0x204, iorcsz: 0 },
        ),
        (|fake| fake.identify.sqes = 0x55, Incompatibility::EntrySize { sqes: 0x55, cqes: 0x44 }),
        (|fake| fake.identify.cqes = 0x65, Incompatibility::EntrySize { sqes: 0x66, cqes: 0x65 }),
        (
            |fake| fake.identify.cntrltype = ControllerType::DISCOVERY,
            Incompatibility::DiscoveryController,
        ),
        (
            |fake| fake.identify.cntrltype = ControllerType::ADMINISTRATIVE,
            Incompatibility::AdministrativeController,
        ),
    ];
    for (change, incompatibility) in cases {
        let error = error_of(with(change).said.pop_back());
        assert_eq!(error, HostError::Incompatible(incompatibility));
        assert_eq!(error.fault(), FaultSide::Incompatible);
    }
}

#[test]
fn a_discovery_controller_that_hides_its_type() {
    let mut fake = Fake::discovery(1);
    fake.identify.cntrltype = ControllerType::NOT_REPORTED;
    let config = HostConfig { subsystem: Nqn::discovery(), keep_alive_ms: 0, ..config() };
    let error = error_of(World::new(config, fake).last_word(MINUTE));
    assert_eq!(error, HostError::Incompatible(Incompatibility::DiscoveryController));
}

#[test]
fn controllers_that_contradict_themselves() {
    let other = Nqn::new("nqn.2014-08.org.example:other").unwrap();
    let error =
        error_of(with(|fake| fake.identify.subnqn = NqnField::from(&other)).said.pop_back());
    assert_eq!(error, HostError::Violation(Violation::Subsystem));
    let error = error_of(with(|fake| fake.identify.cntlid = Cntlid(8)).said.pop_back());
    assert_eq!(
        error,
        HostError::Violation(Violation::ControllerIdChanged {
            connect: CNTLID,
            identify: Cntlid(8)
        })
    );
    for cntlid in [0xfff0, 0xffff, 6] {
        let config = HostConfig { cntlid: Cntlid(5), ..config() };
        let mut world =
            World::scripted(config, Fake::default(), move |_, _, _, _| Some(Reply::result(cntlid)));
        let error = error_of(world.last_word(MINUTE));
        assert_eq!(error, HostError::Violation(Violation::ControllerId(Cntlid(cntlid as u16))));
    }
    let mut world =
        World::scripted(config(), Fake::default(), |_, _, _, _| Some(Reply::result(0x2_0001)));
    assert_eq!(
        error_of(world.last_word(MINUTE)),
        HostError::Incompatible(Incompatibility::Authentication)
    );
}

#[test]
fn a_controller_with_other_command_sets_only_is_asked_for_all() {
    let world = with(|fake| {
        fake.cap = Capabilities(Capabilities::new(128, 2000).0 | Capabilities::COMMAND_SETS);
        fake.namespaces.get_mut(&1).unwrap().1.csi = Some(Csi::ZONED);
    });
    assert!(world.fake.seen.contains(&"set CC 0x460061".to_owned()));
    assert_eq!(world.host.namespaces()[0].nsid, Nsid(2));
    assert_eq!(
        world.host.unusable_namespaces(),
        [(Nsid(1), NamespaceProblem::CommandSet(Csi::ZONED))]
    );
}

#[test]
fn namespaces_that_cannot_be_used() {
    type Change = fn(&mut weft_proto::nvme::identify::IdentifyNamespace);
    let cases: [(Change, NamespaceProblem); 6] = [
        (|id| id.flbas = 3, NamespaceProblem::Format),
        (|id| id.lbaf[0] = LbaFormat { ms: 8, ds: 12, rp: 0 }, NamespaceProblem::Metadata(8)),
        (|id| id.dps = 9, NamespaceProblem::Protection(1)),
        (|id| id.lbaf[0].ds = 8, NamespaceProblem::BlockSize(8)),
        (|id| id.lbaf[0].ds = 255, NamespaceProblem::BlockSize(255)),
        (|id| id.nsze = u64::MAX, NamespaceProblem::Size { blocks: u64::MAX, block_bytes: 512 }),
    ];
    for (change, problem) in cases {
        let world = with(|fake| change(&mut fake.namespaces.get_mut(&1).unwrap().0));
        assert_eq!(world.host.unusable_namespaces(), [(Nsid(1), problem)]);
        assert_eq!(world.host.namespaces().len(), 1);
        assert!(!problem.to_string().is_empty());
    }
    let world = with(|fake| fake.namespaces.get_mut(&1).unwrap().0.nsze = 0);
    assert_eq!((world.host.namespaces().len(), world.host.unusable_namespaces().len()), (1, 0));
}

#[test]
fn many_namespaces_come_in_several_lists() {
    let world = with(|fake| {
        fake.namespaces = (1..=2500).map(|nsid| (nsid * 2, namespace(nsid, 8))).collect()
    });
    assert_eq!(world.host.namespaces().len(), 2500);
    assert_eq!(world.host.namespaces()[2499].nsid, Nsid(5000));
    assert!(!world.host.namespaces_cut_off());
    let world =
        with(|fake| fake.namespaces = (1..=4096).map(|nsid| (nsid, namespace(nsid, 8))).collect());
    assert_eq!(world.host.namespaces().len(), 4096);
    let world =
        with(|fake| fake.namespaces = (1..=4097).map(|nsid| (nsid, namespace(nsid, 8))).collect());
    assert_eq!((world.host.namespaces().len(), world.host.namespaces_cut_off()), (4096, true));
}

#[test]
fn one_namespace_alone() {
    for (nsid, found) in [(2, 1), (9, 0)] {
        let config = HostConfig { namespace: Some(Nsid(nsid)), ..config() };
        let mut world = World::new(config, Fake::default());
        world.run();
        assert_eq!(world.said.pop_back(), Some(HostAction::Ready));
        assert_eq!(world.host.namespaces().len(), found);
    }
}

#[test]
fn broken_descriptors_leave_the_names_of_identify() {
    let mut fake = Fake::default();
    fake.namespaces.get_mut(&1).unwrap().0.nguid = Id128([0xab; 16]);
    let mut world = World::scripted(config(), fake, |_, sqe, _, _| {
        (sqe.opcode() == 6 && sqe.dword(10) == 3).then(|| Reply::data(vec![3; 4096]))
    });
    world.run();
    let first = &world.host.namespaces()[0];
    assert_eq!((first.uuid, first.nguid), (None, Some(Id128([0xab; 16]))));
}

#[test]
fn names_of_zeroes_are_none() {
    let world = with(|fake| {
        fake.namespaces.get_mut(&1).unwrap().1 = NamespaceDescriptors {
            uuid: Some(Id128([0; 16])),
            eui64: Some([0; 8]),
            ..Default::default()
        };
    });
    let first = &world.host.namespaces()[0];
    assert_eq!((first.uuid, first.nguid, first.eui64), (None, None, None));
}

#[test]
fn atomic_units_are_those_of_the_namespace_where_it_has_some() {
    let units = |nsfeat: u8, fuses: u16| {
        let world = World::ready_with(|fake| {
            fake.identify.fuses = fuses;
            let id = &mut fake.namespaces.get_mut(&1).unwrap().0;
            (id.nsfeat, id.nawun, id.nawupf, id.nacwu) = (nsfeat, 31, 15, 1);
        });
        let first = world.host.namespaces()[0].clone();
        (
            first.atomic_write_blocks,
            first.atomic_power_fail_blocks,
            first.compare_and_write_blocks_max,
        )
    };
    assert_eq!(units(2, 1), (32, 16, 2));
    assert_eq!(units(0, 1), (1, 8, 4), "the controller's");
    assert_eq!(units(2, 0), (32, 16, 0), "no compare-and-write");
}
