//! Everything that the reported version, 2.0, makes mandatory for I/O controllers and discovery
//! controllers of a fabric, asked of the engine item by item; and that a controller's description
//! of itself is exactly its behaviour.
//!
//! The lists are those of Base §3.1.2 (commands, log pages, features and properties by controller
//! type), of the table of CNS values in Base §5.17, and of NVM §2.2, written down here apart from
//! the engine's own tables.

use crate::nvme_controller_support::*;
use weft_proto::nvme::controller::{IoNext, Next};
use weft_proto::nvme::deviation::{Deviation, Deviations};
use weft_proto::nvme::feature::FeatureId;
use weft_proto::nvme::identify::{
    Cns, CommandSetCombinations, ControllerType, Csi, IdentifyController,
    IdentifyIndependentNamespace, IdentifyNamespace, NamespaceDescriptors, NamespaceList,
};
use weft_proto::nvme::log_page::{
    EffectsLog, FeatureEffectsLog, FirmwareSlotLog, LogPageId, SmartLog, SupportedLogPages,
};
use weft_proto::nvme::opcode::{AdminOpcode, NvmOpcode};
use weft_proto::nvme::property::{Configuration, PropertyOffset};
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Id128, Nqn, Nsid};
use weft_proto::stream::Tag;

/// I/O controllers: mandatory log pages and their bytes.
const IO_LOG_PAGES: [(u8, u32); 7] = [
    (0x00, 1024),
    (0x01, 4096),
    (0x02, 512),
    (0x03, 512),
    (0x05, 4096),
    (0x12, 1024),
    (0x13, 4096),
];
const DISCOVERY_LOG_PAGES: [(u8, u32); 4] =
    [(0x00, 1024), (0x05, 4096), (0x12, 1024), (0x70, 1024)];
/// Base: 01h 02h 04h 07h 0Bh 0Fh; NVM: 05h 0Ah.
const IO_FEATURES: [u8; 8] = [0x01, 0x02, 0x04, 0x05, 0x07, 0x0a, 0x0b, 0x0f];
const DISCOVERY_FEATURES: [u8; 2] = [0x0b, 0x0f];
/// Get Log Page, Identify, Abort, Set Features, Get Features, Asynchronous Event Request, Keep
/// Alive; Fabrics.
const IO_ADMIN_COMMANDS: [u8; 8] = [0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18, 0x7f];
const DISCOVERY_ADMIN_COMMANDS: [u8; 7] = [0x02, 0x06, 0x09, 0x0a, 0x0c, 0x18, 0x7f];
const PROPERTIES: [u32; 5] = [0x00, 0x08, 0x14, 0x1c, 0x68];
/// 1Ch goes with CAP.CSS bit 6.
const IO_CNS: [u8; 9] = [0x00, 0x01, 0x02, 0x03, 0x05, 0x06, 0x07, 0x08, 0x1c];

fn rigs() -> [(&'static str, Rig); 2] {
    [("I/O controller", Rig::io()), ("discovery controller", Rig::discovery())]
}

#[test]
fn properties() {
    for (kind, mut rig) in rigs() {
        for offset in PROPERTIES {
            let (cqe, _) =
                rig.run(weft_proto::nvme::fabrics::Property::get(PropertyOffset(offset)));
            assert_eq!(cqe.status, Status::SUCCESS, "{kind}: {offset:#x}");
        }
        assert_eq!(rig.property(PropertyOffset::VS), 0x0002_0000);
        let cap = rig.property(PropertyOffset::CAP);
        assert_eq!(cap >> 59 & 1, 1, "CRWMS");
        assert_eq!(cap >> 37 & 0xff, if kind == "I/O controller" { 0x41 } else { 1 }, "CSS");
        assert_eq!(cap & 0x1_ffff, 0x1_03ff, "CQR and MQES");
        assert_eq!(rig.property(PropertyOffset::CSTS), 1);
    }
}

#[test]
fn log_pages() {
    for ((kind, mut rig), mandatory) in
        rigs().into_iter().zip([&IO_LOG_PAGES[..], &DISCOVERY_LOG_PAGES])
    {
        for &(page, bytes) in mandatory {
            let (cqe, data) = rig.run(get_log(LogPageId(page), 0, bytes));
            assert_eq!(
                (cqe.status, data.len() as u32),
                (Status::SUCCESS, bytes),
                "{kind}: {page:#x}"
            );
            let beyond = rig.status(get_log(LogPageId(page), u64::from(bytes) + 4, 4));
            assert_eq!(beyond, Status::INVALID_FIELD, "{kind}: {page:#x} ends after {bytes} bytes");
            assert_eq!(
                rig.status(get_log(LogPageId(page), u64::from(bytes) - 4, 4)),
                Status::SUCCESS
            );
        }
    }
}

#[test]
fn features() {
    for ((kind, mut rig), mandatory) in
        rigs().into_iter().zip([&IO_FEATURES[..], &DISCOVERY_FEATURES])
    {
        for &id in mandatory {
            let nsid = if id == 0x05 { Nsid(1) } else { Nsid(0) };
            let mut get = get_feature(FeatureId(id), 0);
            get.set_dword(1, nsid.0);
            let mut set = set_feature(FeatureId(id), 0);
            set.set_dword(1, nsid.0);
            assert_eq!(rig.status(set), Status::SUCCESS, "{kind}: set {id:#x}");
            assert_eq!(rig.status(get), Status::SUCCESS, "{kind}: get {id:#x}");
        }
    }
}

#[test]
fn admin_commands() {
    for ((kind, mut rig), mandatory) in
        rigs().into_iter().zip([&IO_ADMIN_COMMANDS[..], &DISCOVERY_ADMIN_COMMANDS])
    {
        for &opcode in mandatory {
            assert!(known(&mut rig, opcode), "{kind}: {opcode:#x}");
        }
    }
}

/// Returns whether an admin command is executed or refused for its fields, but not for its opcode.
fn known(rig: &mut Rig, opcode: u8) -> bool {
    let mut sqe = Sqe::new(opcode, Nsid(0));
    // Of the Fabrics commands, Property Get.
    if opcode == AdminOpcode::FABRICS.0 {
        sqe.0[4] = 4;
    }
    !matches!(rig.start(0, sqe), Next::Reply { cqe, .. } if cqe.status == Status::INVALID_OPCODE)
}

#[test]
fn identify_of_an_io_controller() {
    let mut rig = Rig::io();
    for cns in IO_CNS {
        let nsid = if [0x00, 0x03, 0x05, 0x08].contains(&cns) { 1 } else { 0 };
        assert_eq!(rig.data(identify(Cns(cns), nsid)).len(), 4096, "CNS {cns:#x}");
    }
    let supported: Vec<u8> = (0..=255)
        .filter(|&cns| {
            [0, 1].iter().any(|&nsid| rig.status(identify(Cns(cns), nsid)) == Status::SUCCESS)
        })
        .collect();
    assert_eq!(supported, IO_CNS);

    let id = IdentifyController::decode(&rig.data(identify(Cns::CONTROLLER, 0))).unwrap();
    assert_eq!(
        (id.cntrltype, id.ver, id.cntlid),
        (ControllerType::IO, 0x0002_0000, rig.control.cntlid())
    );
    assert_eq!(
        (id.sqes, id.cqes, id.mdts, id.ioccsz, id.iorcsz, id.msdbd),
        (0x66, 0x44, 8, 516, 1, 1)
    );
    assert_eq!(
        (id.subnqn.nqn(), id.sn.text(), id.mn.text()),
        (Ok(nqn("disk")), "S1".to_owned(), "weft".to_owned())
    );
    assert_eq!((id.acl, id.aerl, id.elpe, id.kas, id.nn, id.oaes), (3, 3, 63, 10, 1024, 0x10_0900));
    assert_eq!((id.oncs, id.fuses, id.vwc & 7), (0x010d, 1, 7), "ESXi wants Compare and FUSES");
    assert_eq!(id.sgls & 0x0030_0003, 0x0030_0001);
    assert_eq!(id.lpa & 0x26, 0x26);
    assert!(id.wctemp > 0 && id.cctemp > 0);
}

/// Linux and SPDK do this if CAP.CSS has bit 6, and some hosts always.
#[test]
fn all_command_sets_are_the_nvm_command_set() {
    let mut rig = Rig::connected(subsystem(), 0);
    assert_eq!(rig.set_cc(ON | Configuration::ALL_COMMAND_SETS), Status::SUCCESS);
    assert!(rig.connect_io(1).is_ok());
    for (cntid, noted) in [(0, true), (1, false), (0xfff0, true), (0xffff, false)] {
        let sqe = with(identify(Cns::COMMAND_SETS, 0), |sqe| sqe.set_dword(10, 0x1c | cntid << 16));
        let mut vectors = [0; 512];
        vectors[0] = 1;
        assert_eq!(CommandSetCombinations::decode(&rig.data(sqe)).unwrap().vectors, vectors);
        let expected = Deviations::from_iter(noted.then_some(Deviation::CommandSetsOfNobody));
        assert_eq!(rig.control.take_deviations(), expected, "{cntid:#x}");
    }
    let descriptors =
        NamespaceDescriptors::decode(&rig.data(identify(Cns::NAMESPACE_DESCRIPTORS, 1))).unwrap();
    assert_eq!(descriptors.csi, Some(Csi::NVM), "Linux takes no namespace without it then");
    assert_eq!(rig.run(get_feature(FeatureId::COMMAND_SET_PROFILE, 0)).0.result, 0);
    assert_eq!(rig.status(set_feature(FeatureId::COMMAND_SET_PROFILE, 0)), Status::SUCCESS);
    let rejected = rig.status(set_feature(FeatureId::COMMAND_SET_PROFILE, 1));
    assert_eq!(rejected, Status::COMMAND_SET_COMBINATION_REJECTED);
}

#[test]
fn identify_of_a_discovery_controller() {
    let mut rig = Rig::discovery();
    let supported: Vec<u8> =
        (0..=255).filter(|&cns| rig.status(identify(Cns(cns), 1)) == Status::SUCCESS).collect();
    assert_eq!(supported, [Cns::CONTROLLER.0]);
    let id = IdentifyController::decode(&rig.data(identify(Cns::CONTROLLER, 0))).unwrap();
    assert_eq!((id.cntrltype, id.ver, id.oaes), (ControllerType::DISCOVERY, 0x0002_0000, 1 << 31));
    assert_eq!((id.subnqn.nqn(), id.nn, id.sqes, id.oncs), (Ok(Nqn::discovery()), 0, 0, 0));
}

#[test]
fn identify_of_namespaces() {
    let mut rig = Rig::io();
    let list = NamespaceList::decode(&rig.data(identify(Cns::ACTIVE_NAMESPACES, 0))).unwrap();
    assert_eq!(list.0, [Nsid(1), Nsid(2), Nsid(4)]);
    let list =
        NamespaceList::decode(&rig.data(identify(Cns::COMMAND_SET_ACTIVE_NAMESPACES, 2))).unwrap();
    assert_eq!(list.0, [Nsid(4)]);

    let id = IdentifyNamespace::decode(&rig.data(identify(Cns::NAMESPACE, 1))).unwrap();
    assert_eq!((id.nsze, id.ncap, id.nuse, id.nvmcap), (1000, 1000, 1000, 512_000));
    assert_eq!(
        (id.format().map(|format| format.ds), id.nacwu, id.nmic, id.dlfeat),
        (Some(9), 7, 1, 9)
    );
    assert_eq!(id.nguid, Id128([0x81; 16]));
    let id = IdentifyNamespace::decode(&rig.data(identify(Cns::NAMESPACE, 4))).unwrap();
    assert_eq!((id.format().map(|format| format.ds), id.nsattr), (Some(12), 1));
    let id =
        IdentifyIndependentNamespace::decode(&rig.data(identify(Cns::INDEPENDENT_NAMESPACE, 4)))
            .unwrap();
    assert_eq!((id.nstat, id.nsattr, id.nmic), (1, 1, 1));

    let known =
        NamespaceDescriptors::decode(&rig.data(identify(Cns::NAMESPACE_DESCRIPTORS, 2))).unwrap();
    assert_eq!(
        (known.uuid, known.nguid, known.csi),
        (Some(Id128([2; 16])), Some(Id128([0x82; 16])), Some(Csi::NVM))
    );
    assert_eq!(known.eui64, None);
    // A namespace that could be but is not: all zero, except that it has no descriptors.
    for cns in [Cns::NAMESPACE, Cns::COMMAND_SET_NAMESPACE, Cns::INDEPENDENT_NAMESPACE] {
        assert!(rig.data(identify(cns, 3)).iter().all(|&byte| byte == 0), "{cns}");
    }
    assert_eq!(rig.status(identify(Cns::NAMESPACE_DESCRIPTORS, 3)), Status::INVALID_NAMESPACE);
}

#[test]
fn mandatory_io_commands() {
    let mut rig = Rig::io();
    let mut queue = rig.connect_io(1).unwrap();
    for opcode in [NvmOpcode::FLUSH, NvmOpcode::WRITE, NvmOpcode::READ] {
        assert!(
            !matches!(
                queue.start(Tag(opcode.0.into()), &blocks(opcode, 1, 0, 1), 0),
                IoNext::Reply { .. }
            ),
            "{opcode}"
        );
    }
}

#[test]
fn supported_log_pages_are_exactly_those_that_can_be_read() {
    for (kind, mut rig) in rigs() {
        let log =
            SupportedLogPages::decode(&rig.data(get_log(LogPageId::SUPPORTED_PAGES, 0, 1024)))
                .unwrap();
        for page in 0..=255 {
            let said = log.pages[usize::from(page)] & SupportedLogPages::SUPPORTED != 0;
            let status = rig.status(get_log(LogPageId(page), 0, 4));
            let expected = if said { Status::SUCCESS } else { Status::INVALID_LOG_PAGE };
            assert_eq!(status, expected, "{kind}: {page:#x}");
        }
    }
}

#[test]
fn command_effects_are_exactly_those_of_the_commands_that_are_known() {
    for (kind, mut rig) in rigs() {
        let log =
            EffectsLog::decode(&rig.data(get_log(LogPageId::COMMAND_EFFECTS, 0, 4096))).unwrap();
        for opcode in 0..=255u8 {
            let said = log.admin[usize::from(opcode)] & EffectsLog::SUPPORTED != 0;
            assert_eq!(known(&mut rig, opcode), said, "{kind}: admin command {opcode:#x}");
        }
        if kind == "discovery controller" {
            assert!(log.io.iter().all(|&effects| effects == 0));
            continue;
        }
        for opcode in 0..=255u8 {
            let mut queue = rig.connect_io(1).unwrap();
            let next = queue.start(Tag(0), &Sqe::new(opcode, Nsid(9)), 0);
            let unknown =
                matches!(next, IoNext::Reply { cqe, .. } if cqe.status == Status::INVALID_OPCODE);
            assert_eq!(
                log.io[usize::from(opcode)] & EffectsLog::SUPPORTED != 0,
                !unknown,
                "I/O command {opcode:#x}"
            );
            rig.subsystem.release_io(rig.control.cntlid(), queue.qid());
        }
    }
}

#[test]
fn feature_effects_are_exactly_those_of_the_features_that_can_be_read() {
    for (kind, mut rig) in rigs() {
        let log =
            FeatureEffectsLog::decode(&rig.data(get_log(LogPageId::FEATURE_EFFECTS, 0, 1024)))
                .unwrap();
        for id in 0..=255u8 {
            let effects = log.features[usize::from(id)];
            let mut get = get_feature(FeatureId(id), 1);
            // EXHID for the host identifier; threshold of the composite temperature.
            get.set_dword(11, u32::from(id == FeatureId::HOST_IDENTIFIER.0));
            if effects & FeatureEffectsLog::SCOPE_NAMESPACE != 0 {
                get.set_dword(1, 1);
            }
            let status = rig.status(get);
            let expected = if effects & FeatureEffectsLog::SUPPORTED != 0 {
                Status::SUCCESS
            } else {
                Status::INVALID_FIELD
            };
            assert_eq!(status, expected, "{kind}: {id:#x}");
        }
    }
}

#[test]
fn optional_commands_follow_the_namespaces() {
    let mut plain = subsystem();
    for nsid in [1, 2, 4] {
        let mut namespace = namespace(nsid);
        namespace.support = Default::default();
        namespace.compare_write_blocks = 0;
        plain.set_namespace(namespace).unwrap();
    }
    let mut rig = Rig::enabled(plain);
    let id = IdentifyController::decode(&rig.data(identify(Cns::CONTROLLER, 0))).unwrap();
    let copy = IdentifyController::ONCS_COPY;
    assert_eq!((id.oncs, id.fuses, id.vwc & 1), (copy, 0, 0));
    assert_eq!(rig.status(get_feature(FeatureId::VOLATILE_WRITE_CACHE, 0)), Status::INVALID_FIELD);
    let mut queue = rig.connect_io(1).unwrap();
    for opcode in [NvmOpcode::COMPARE, NvmOpcode::WRITE_ZEROES, NvmOpcode::DATASET_MANAGEMENT] {
        assert_eq!(
            replied(queue.start(Tag(0), &blocks(opcode, 1, 0, 1), 0)).status,
            Status::INVALID_OPCODE,
            "{opcode}"
        );
    }
    // Nothing is cached: Flush has nothing to do.
    assert_eq!(
        replied(queue.start(Tag(0), &Sqe::new(NvmOpcode::FLUSH.0, Nsid(1)), 0)).status,
        Status::SUCCESS
    );
    assert_eq!(
        replied(queue.start(Tag(0), &Sqe::new(NvmOpcode::FLUSH.0, Nsid::ALL), 0)).status,
        Status::SUCCESS
    );
}

#[test]
fn firmware_and_health() {
    let mut rig = Rig::io();
    rig.now = seconds(7200);
    let slots =
        FirmwareSlotLog::decode(&rig.data(get_log(LogPageId::FIRMWARE_SLOT, 0, 512))).unwrap();
    assert_eq!((slots.afi, slots.frs[0].text()), (1, env!("CARGO_PKG_VERSION").to_owned()));
    let smart = SmartLog::decode(&rig.data(get_log(LogPageId::SMART, 0, 512))).unwrap();
    assert_eq!((smart.critical_warning, smart.available_spare, smart.power_on_hours), (0, 100, 2));
    assert_eq!((smart.host_reads, smart.data_units_written), (0, 0));
}

#[test]
fn parts_of_a_log_page() {
    let mut rig = Rig::io();
    let whole = rig.data(get_log(LogPageId::COMMAND_EFFECTS, 0, 4096));
    let mut pieces = Vec::new();
    for offset in (0..4096).step_by(1000) {
        pieces.extend(rig.data(get_log(LogPageId::COMMAND_EFFECTS, offset, 1000)));
    }
    assert_eq!(pieces[..4096], whole);
    assert!(pieces[4096..].iter().all(|&byte| byte == 0), "behind the end there are zeroes");
    let mut sqe = get_log(LogPageId::SMART, 0, 512);
    sqe.set_sgl(Sgl::transport(516));
    assert_eq!(rig.status(sqe), Status::DATA_SGL_LENGTH_INVALID);
}
