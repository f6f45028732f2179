//! Admin commands: the values of features, and the status of each command that is wrong.

use crate::nvme_controller_support::*;
use weft_proto::nvme::controller::{ControlEvent, Next};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::deviation::Deviation;
use weft_proto::nvme::fabrics::Property;
use weft_proto::nvme::feature::{AsyncEventBits, FeatureId, QueueCounts};
use weft_proto::nvme::identify::Cns;
use weft_proto::nvme::log_page::{ErrorEntry, LogPageId};
use weft_proto::nvme::property::PropertyOffset;
use weft_proto::nvme::sqe::{Fuse, Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Nsid, Qid};
use weft_proto::stream::Tag;

/// Returns the deviations noted since the last call.
fn noted(rig: &mut Rig) -> Vec<Deviation> {
    rig.control.take_deviations().iter().collect()
}

#[test]
fn values_of_features() {
    let mut rig = Rig::io();
    let mut get = |id, selector| {
        let (cqe, _) = rig.run(get_feature(id, selector));
        (cqe.status, cqe.result)
    };
    let queues = QueueCounts { submission: 128, completion: 128 }.encode();
    assert_eq!(get(FeatureId::NUMBER_OF_QUEUES, 0), (Status::SUCCESS, u64::from(queues)));
    assert_eq!(get(FeatureId::VOLATILE_WRITE_CACHE, 0), (Status::SUCCESS, 1));
    assert_eq!(get(FeatureId::TEMPERATURE_THRESHOLD, 0), (Status::SUCCESS, 0x157));
    assert_eq!(get(FeatureId::TEMPERATURE_THRESHOLD, 1 << 20), (Status::SUCCESS, 0));
    assert_eq!(get(FeatureId::TEMPERATURE_THRESHOLD, 1 << 16).0, Status::INVALID_FIELD);
    assert_eq!(get(FeatureId::HOST_IDENTIFIER, 0).0, Status::INVALID_FIELD);
    assert_eq!(rig.data(get_feature(FeatureId::HOST_IDENTIFIER, 1)), HOST_ID.0);

    // THSEL and TMPSEL above the threshold: a reserved one, a sensor that is not there, all
    // sensors.
    for (value, expected) in [
        (0x2f_0150, Status::INVALID_FIELD),
        (0x01_0150, Status::INVALID_FIELD),
        (0x0f_0150, Status::SUCCESS),
    ] {
        assert_eq!(
            rig.status(set_feature(FeatureId::TEMPERATURE_THRESHOLD, value)),
            expected,
            "{value:#x}"
        );
    }
    assert_eq!(rig.run(get_feature(FeatureId::TEMPERATURE_THRESHOLD, 0)).0.result, 0x150);

    let of = |nsid, sqe| with(sqe, |sqe: &mut Sqe| sqe.set_dword(1, nsid));
    assert_eq!(rig.status(of(1, set_feature(FeatureId::ERROR_RECOVERY, 5))), Status::SUCCESS);
    assert_eq!(rig.run(of(1, get_feature(FeatureId::ERROR_RECOVERY, 0))).0.result, 5);
    assert_eq!(rig.run(of(2, get_feature(FeatureId::ERROR_RECOVERY, 0))).0.result, 0);
    assert_eq!(
        rig.status(of(u32::MAX, set_feature(FeatureId::ERROR_RECOVERY, 6))),
        Status::SUCCESS
    );
    assert_eq!(rig.run(of(2, get_feature(FeatureId::ERROR_RECOVERY, 0))).0.result, 6);
}

#[test]
fn number_of_queues_comes_before_the_queues() {
    let mut rig = Rig::io();
    let _queue = rig.connect_io(1).unwrap();
    assert_eq!(
        rig.status(set_feature(FeatureId::NUMBER_OF_QUEUES, 3)),
        Status::COMMAND_SEQUENCE_ERROR
    );
    rig.subsystem.release_io(rig.control.cntlid(), Qid(1));
    assert_eq!(allocate(&mut rig, 3, 4).status, Status::SUCCESS);
}

/// Asks for queues by this dword 11 while `left` are left, and gives the completion.
fn allocate(rig: &mut Rig, value: u32, left: u16) -> Cqe {
    assert_eq!(rig.start(1, set_feature(FeatureId::NUMBER_OF_QUEUES, value)), Next::Hold);
    let Some(ControlEvent::Queues { ticket, wanted }) = rig.poll() else { panic!("no question") };
    rig.control.queues_allocated(ticket, wanted.min(left));
    rig.control.queues_allocated(ticket, 99);
    let (tag, cqe) = rig.poll_reply();
    assert_eq!((tag, cqe.cid, rig.poll()), (Tag(1), rig.last_cid(), None));
    cqe
}

#[test]
fn as_many_queues_are_allocated_as_are_asked_for_and_left() {
    let mut rig = Rig::io();
    let counts =
        |queues: u32| u64::from(QueueCounts { submission: queues, completion: queues }.encode());
    for (value, left, allocated) in [
        (0x0003_0003, 128, 4),
        (0x0003_0007, 128, 8),
        (0x0007_0003, 128, 8),
        (0xfffe_fffe, 1000, 128),
        (0x003f_003f, 5, 5),
        (0, 1, 1),
    ] {
        let cqe = allocate(&mut rig, value, left);
        assert_eq!((cqe.status, cqe.result), (Status::SUCCESS, counts(allocated)), "{value:#x}");
        let (cqe, _) = rig.run(get_feature(FeatureId::NUMBER_OF_QUEUES, 0));
        assert_eq!(cqe.result, counts(allocated), "{value:#x}");
    }
    let cqe = allocate(&mut rig, 3, 0);
    assert_eq!((cqe.status, cqe.do_not_retry), (Status::INTERNAL_ERROR, false), "none is left");
    rig.set_cc(0);
    rig.poll();
    rig.control.quiesced(rig.now);
    rig.set_cc(ON);
    let (cqe, _) = rig.run(get_feature(FeatureId::NUMBER_OF_QUEUES, 0));
    assert_eq!(cqe.result, counts(128), "a reset gives them back");
}

/// Neither nvmet nor SPDK looks at the Select field.
#[test]
fn get_features_gives_the_current_value_whatever_is_selected() {
    let mut rig = Rig::io();
    assert_eq!(rig.status(set_feature(FeatureId::ARBITRATION, 3)), Status::SUCCESS);
    for select in [1, 2, 3] {
        let sqe =
            with(get_feature(FeatureId::ARBITRATION, 0), |sqe| sqe.set_dword(10, 1 | select << 8));
        assert_eq!(rig.run(sqe).0.result, 3, "{select}");
        assert_eq!(noted(&mut rig), [Deviation::FeatureSelect]);
    }
    assert_eq!(rig.status(get_feature(FeatureId::ARBITRATION, 0)), Status::SUCCESS);
    assert_eq!(noted(&mut rig), []);
}

/// nvmet and SPDK give a namespace's, or the controller's, whatever OAES and LPA say; smartctl can
/// ask so.
#[test]
fn smart_information_is_given_by_namespace_too() {
    let mut rig = Rig::io();
    let of = |page, nsid, bytes| with(get_log(page, 0, bytes), |sqe| sqe.set_dword(1, nsid));
    let whole = rig.data(of(LogPageId::SMART, u32::MAX, 512));
    assert_eq!(noted(&mut rig), []);
    assert_eq!(rig.data(of(LogPageId::SMART, 4, 512)), whole);
    assert_eq!(noted(&mut rig), [Deviation::LogPageOfNamespace]);

    let mut rig = Rig::discovery();
    let whole = rig.data(of(LogPageId::DISCOVERY, 0, 1024));
    assert_eq!(noted(&mut rig), []);
    assert_eq!(rig.data(of(LogPageId::DISCOVERY, 1, 1024)), whole);
    assert_eq!(noted(&mut rig), [Deviation::LogPageOfNamespace]);
}

/// SPDK takes every notice that there is.
#[test]
fn events_that_never_occur_can_be_enabled() {
    let mut rig = Rig::io();
    let all = AsyncEventBits::NAMESPACE_ATTRIBUTE | 0x1f;
    assert_eq!(rig.status(set_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, all)), Status::SUCCESS);
    assert_eq!(noted(&mut rig), []);
    let more = all | AsyncEventBits::ANA_CHANGE | AsyncEventBits::SUBSYSTEM_SHUTDOWN;
    assert_eq!(
        rig.status(set_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, more)),
        Status::SUCCESS
    );
    assert_eq!(noted(&mut rig), [Deviation::EventsNotOffered]);
    assert_eq!(
        rig.run(get_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, 0)).0.result,
        u64::from(more)
    );

    let mut rig = Rig::discovery();
    let ana = set_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, AsyncEventBits::ANA_CHANGE);
    assert_eq!(rig.status(ana), Status::INVALID_FIELD, "nvmet has it for namespaces only");
}

/// A command that is wrong, and its status.
type Wrong = (&'static str, Sqe, Status);

fn sized(sqe: Sqe, bytes: u32) -> Sqe {
    with(sqe, |sqe| sqe.set_sgl(Sgl::transport(bytes)))
}

fn of(sqe: Sqe, nsid: u32) -> Sqe {
    with(sqe, |sqe| sqe.set_dword(1, nsid))
}

fn dword(sqe: Sqe, n: usize, value: u32) -> Sqe {
    with(sqe, |sqe| sqe.set_dword(n, value))
}

fn wrong_opcodes_and_properties() -> Vec<Wrong> {
    let id = || identify(Cns::CONTROLLER, 0);
    vec![
        ("Delete I/O Submission Queue", Sqe::new(0x00, Nsid(0)), Status::INVALID_OPCODE),
        ("Create I/O Submission Queue", Sqe::new(0x01, Nsid(0)), Status::INVALID_OPCODE),
        ("Firmware Commit", Sqe::new(0x10, Nsid(0)), Status::INVALID_OPCODE),
        ("Format NVM", Sqe::new(0x80, Nsid(1)), Status::INVALID_OPCODE),
        ("vendor command", Sqe::new(0xc0, Nsid(0)), Status::INVALID_OPCODE),
        ("fused", with(id(), |sqe| sqe.set_fuse(Fuse::First)), Status::INVALID_FIELD),
        ("Authentication Send", Sqe::fabrics(5), Status::INVALID_OPCODE),
        ("Disconnect", Sqe::fabrics(8), Status::INVALID_OPCODE),
        (
            "property of 8 bytes read as 4",
            dword(Property::get(PropertyOffset::CAP), 10, 0),
            Status::INVALID_FIELD,
        ),
        (
            "property of a reserved size",
            dword(Property::get(PropertyOffset::VS), 10, 2),
            Status::INVALID_FIELD,
        ),
        ("property that is not there", Property::get(PropertyOffset(0x24)), Status::INVALID_FIELD),
        ("NSSR", Property::set(PropertyOffset::NSSR, 0x4e56_4d65), Status::INVALID_FIELD),
        ("CAP cannot be written", Property::set(PropertyOffset::CAP, 0), Status::INVALID_FIELD),
        (
            "CC with another page size",
            Property::set(PropertyOffset::CC, u64::from(ON | 1 << 7)),
            Status::INVALID_FIELD,
        ),
    ]
}

fn wrong_identify() -> Vec<Wrong> {
    let id = || identify(Cns::CONTROLLER, 0);
    let of_zoned = |cns, nsid| dword(identify(cns, nsid), 11, 2 << 24);
    vec![
        ("Identify by PRP", with(id(), |sqe| sqe.0[1] = 0), Status::INVALID_FIELD),
        ("Identify of 4095 bytes", sized(id(), 4095), Status::DATA_SGL_LENGTH_INVALID),
        ("Identify of no bytes", sized(id(), 0), Status::DATA_SGL_LENGTH_INVALID),
        (
            "Identify into the capsule",
            with(id(), |sqe| sqe.set_sgl(Sgl::in_capsule(4096))),
            Status::SGL_TYPE_INVALID,
        ),
        ("CNS NVM sets", identify(Cns::NVM_SETS, 0), Status::INVALID_FIELD),
        ("CNS UUID list", identify(Cns::UUID_LIST, 0), Status::INVALID_FIELD),
        ("CNS reserved", identify(Cns(0xff), 0), Status::INVALID_FIELD),
        ("namespace 0", identify(Cns::NAMESPACE, 0), Status::INVALID_NAMESPACE),
        ("namespace beyond NN", identify(Cns::NAMESPACE, 1025), Status::INVALID_NAMESPACE),
        (
            "what namespaces have in common",
            identify(Cns::NAMESPACE, u32::MAX),
            Status::INVALID_NAMESPACE,
        ),
        ("descriptors of none", identify(Cns::NAMESPACE_DESCRIPTORS, 0), Status::INVALID_NAMESPACE),
        (
            "list above FFFFFFFEh",
            identify(Cns::ACTIVE_NAMESPACES, 0xffff_fffe),
            Status::INVALID_NAMESPACE,
        ),
        ("zoned namespace", of_zoned(Cns::COMMAND_SET_NAMESPACE, 1), Status::INVALID_FIELD),
        ("zoned controller", of_zoned(Cns::COMMAND_SET_CONTROLLER, 0), Status::INVALID_FIELD),
        ("zoned list", of_zoned(Cns::COMMAND_SET_ACTIVE_NAMESPACES, 0), Status::INVALID_FIELD),
    ]
}

fn wrong_log_pages() -> Vec<Wrong> {
    let smart = || get_log(LogPageId::SMART, 0, 512);
    vec![
        (
            "log page of a discovery controller",
            get_log(LogPageId::DISCOVERY, 0, 1024),
            Status::INVALID_LOG_PAGE,
        ),
        (
            "log page of a namespace",
            of(get_log(LogPageId::ERROR_INFORMATION, 0, 64), 1),
            Status::INVALID_FIELD,
        ),
        ("log page of a namespace that there is not", of(smart(), 3), Status::INVALID_NAMESPACE),
        ("log offset not of dwords", get_log(LogPageId::SMART, 2, 4), Status::INVALID_FIELD),
        ("log offset behind the end", get_log(LogPageId::SMART, 516, 4), Status::INVALID_FIELD),
        (
            "log offset far behind the end",
            get_log(LogPageId::SMART, u64::MAX - 3, 4),
            Status::INVALID_FIELD,
        ),
        ("log offset as an index", dword(smart(), 14, 1 << 23), Status::INVALID_FIELD),
        (
            "log of more than MDTS",
            get_log(LogPageId::SMART, 0, TRANSFER + 4),
            Status::INVALID_FIELD,
        ),
        (
            "log of 16 GiB",
            with(smart(), |sqe| {
                sqe.set_dword(10, 0xffff_0002);
                sqe.set_dword(11, 0xffff)
            }),
            Status::INVALID_FIELD,
        ),
        ("log shorter than its SGL", sized(smart(), 1024), Status::DATA_SGL_LENGTH_INVALID),
    ]
}

fn wrong_features() -> Vec<Wrong> {
    vec![
        ("feature that is not there", get_feature(FeatureId::TIMESTAMP, 0), Status::INVALID_FIELD),
        (
            "saving",
            dword(set_feature(FeatureId::ARBITRATION, 0), 10, 1 << 31 | 1),
            Status::FEATURE_NOT_SAVEABLE,
        ),
        (
            "of a namespace",
            of(set_feature(FeatureId::ARBITRATION, 0), 1),
            Status::FEATURE_NOT_NAMESPACE_SPECIFIC,
        ),
        (
            "another host identifier",
            set_feature(FeatureId::HOST_IDENTIFIER, 1),
            Status::COMMAND_SEQUENCE_ERROR,
        ),
        (
            "no write cache",
            set_feature(FeatureId::VOLATILE_WRITE_CACHE, 0),
            Status::FEATURE_NOT_CHANGEABLE,
        ),
        ("65536 queues", set_feature(FeatureId::NUMBER_OF_QUEUES, 0xffff), Status::INVALID_FIELD),
        (
            "events that there are not",
            set_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, 1 << 9),
            Status::INVALID_FIELD,
        ),
        ("Keep Alive of a namespace", of(keep_alive(), 1), Status::INVALID_FIELD),
    ]
}

#[test]
fn wrong_admin_commands_and_their_status() {
    let cases =
        [wrong_opcodes_and_properties(), wrong_identify(), wrong_log_pages(), wrong_features()]
            .concat();
    assert_eq!(cases.len(), 47);
    let mut rig = Rig::io();
    for (name, sqe, expected) in cases {
        let (cqe, _) = rig.run(sqe);
        assert_eq!((cqe.status, cqe.do_not_retry, cqe.more), (expected, true, true), "{name}");
        let newest =
            ErrorEntry::decode(&rig.data(get_log(LogPageId::ERROR_INFORMATION, 0, 64))).unwrap();
        assert_eq!((newest.cid, newest.status_field >> 1), (cqe.cid.0, cqe.field()), "{name}");
    }
    let more = [
        ("power state 1", set_feature(FeatureId::POWER_MANAGEMENT, 1), Status::INVALID_FIELD),
        ("DULBE", of(set_feature(FeatureId::ERROR_RECOVERY, 1 << 16), 1), Status::INVALID_FIELD),
        (
            "error recovery of no namespace",
            set_feature(FeatureId::ERROR_RECOVERY, 1),
            Status::INVALID_NAMESPACE,
        ),
        (
            "error recovery of all",
            of(get_feature(FeatureId::ERROR_RECOVERY, 0), u32::MAX),
            Status::INVALID_NAMESPACE,
        ),
        ("Abort of a namespace", of(abort(1, Cid(1)), 1), Status::INVALID_FIELD),
        ("Asynchronous Event Request of a namespace", of(aer(), 1), Status::INVALID_FIELD),
    ];
    for (name, sqe, expected) in more {
        assert_eq!(rig.status(sqe), expected, "{name}");
    }
}
