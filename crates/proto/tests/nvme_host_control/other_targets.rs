//! Controllers as other targets describe themselves.

use weft_proto::nvme::feature::QueueCounts;
use weft_proto::nvme::host::{AdminData, HostAction, HostConfig};
use weft_proto::nvme::identify::{ControllerType, IdentifyController, IdentifyNvmController};
use weft_proto::nvme::property::{Capabilities, Version};
use weft_proto::nvme::wire::NqnField;

use super::fake::{CNTLID, Fake, Reply, entry};
use super::setup::MINUTE;
use super::world::{World, config, discovery_config};

/// Identify data of nvmet of Linux 6.12 (`nvmet_init_cap`, `nvmet_execute_identify_ctrl`) and of
/// SPDK's target (`nvmf_ctrlr_create`, `spdk_nvmf_ctrlr_identify_ctrlr`).
#[test]
fn controllers_of_nvmet_and_spdk_are_taken() {
    let nvmet = |fake: &mut Fake| {
        fake.version = Version(0x0001_0300);
        fake.cap = Capabilities(1 << 43 | 1 << 37 | 15 << 24 | 127);
        fake.granted = QueueCounts { submission: 128, completion: 128 };
        fake.limits = Some(IdentifyNvmController::default());
        let io = IdentifyController {
            rab: 6,
            cmic: 0x0b,
            oaes: 0x900,
            aerl: 3,
            lpa: 7,
            kas: 10,
            maxcmd: 128,
            ..id(1)
        };
        fake.identify = IdentifyController {
            nn: 1024,
            mnan: 1024,
            oncs: 0x0c,
            vwc: 1,
            ioccsz: 0x404,
            msdbd: 1,
            ..io
        };
    };
    let spdk = |fake: &mut Fake| {
        fake.cap = Capabilities(1 << 59 | 1 << 37 | 30 << 24 | 1 << 16 | 127);
        fake.granted = QueueCounts { submission: 127, completion: 127 };
        let io = IdentifyController {
            mdts: 5,
            cmic: 3,
            oaes: 0x100,
            aerl: 3,
            lpa: 0x26,
            kas: 100,
            maxcmd: 128,
            ..id(1)
        };
        fake.identify = IdentifyController {
            sgls: 0x0010_0005,
            nn: 32,
            oncs: 0x29,
            fuses: 1,
            ioccsz: 0x104,
            msdbd: 1,
            ..io
        };
    };
    for (name, world, in_capsule_bytes) in
        [("nvmet", World::ready_with(nvmet), 16384), ("SPDK", World::ready_with(spdk), 4096)]
    {
        assert_eq!((world.host.namespaces().len(), world.host.queues().len()), (2, 2), "{name}");
        assert_eq!(world.host.controller().in_capsule_bytes(), in_capsule_bytes, "{name}");
        assert_eq!(world.outstanding(0x0c), 1, "{name}: events are asked for");
    }
}

/// Neither says in its discovery controller how exact its keep alive timer is (KAS), and each runs
/// it; older ones do not tell their type.
#[test]
fn discovery_controllers_of_nvmet_and_spdk_are_taken() {
    for (kind, version, lpa) in [(2, 0x0001_0300, 4), (2, 0x0002_0000, 4), (0, 0x0001_0200, 0)] {
        let mut fake = Fake::discovery(2);
        (fake.version, fake.identify.lpa, fake.identify.cntrltype) =
            (Version(version), lpa, ControllerType(kind));
        let mut world =
            World::new(HostConfig { keep_alive_ms: 30_000, ..discovery_config() }, fake);
        world.fake.discovery = vec![entry(0), entry(1)];
        world.script = Box::new(|_, _, data, _| {
            matches!(data, AdminData::Out(_)).then(|| Reply::result(u64::from(CNTLID.0)))
        });
        world.run();
        assert!(
            matches!(world.said.pop_back(), Some(HostAction::Discovered(found)) if found.entries.len() == 2)
        );
        world.pass(MINUTE);
        assert!(
            world.fake.seen.iter().filter(|name| *name == "Keep Alive").count() >= 3,
            "{version:#x}"
        );
        assert!(world.said.is_empty(), "it stays");
    }
}

/// Identify Controller of an I/O controller (or of `cntrltype`) with what every target on a fabric
/// has.
fn id(cntrltype: u8) -> IdentifyController {
    IdentifyController {
        cntlid: CNTLID,
        cntrltype: ControllerType(cntrltype),
        acl: 3,
        sqes: 0x66,
        cqes: 0x44,
        sgls: 0x0010_0001,
        iorcsz: 1,
        subnqn: NqnField::from(&config().subsystem),
        ..Default::default()
    }
}
