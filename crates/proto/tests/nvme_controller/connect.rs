//! Connect: every rule, with the status and the field in the answer.

use std::time::Duration;

use crate::nvme_controller_support::*;
use weft_proto::nvme::controller::{
    ConnectRefusal, Connected, ControllerCore, ControllerKind, ControllerModel, IoNext, Namespace,
    Next, Subsystem, SubsystemConfig, before_connect, connect_names, subsystem_name,
};
use weft_proto::nvme::deviation::{Deviation, Deviations};
use weft_proto::nvme::fabrics::{Connect, ConnectData, InvalidParameter, Property};
use weft_proto::nvme::feature::FeatureId;
use weft_proto::nvme::identify::{Cns, NamespaceList};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::property::{Configuration, PropertyOffset};
use weft_proto::nvme::sqe::{Fuse, HostMemory, Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Cntlid, Id128, Nqn, Nsid, Qid};
use weft_proto::nvme::wire::NqnField;

fn admin(
    subsystem: &mut Subsystem,
    cntlid: Cntlid,
) -> Result<Connected<ControllerCore>, ConnectRefusal> {
    let (ask, data) = connect(0, cntlid, &subsystem.config().nqn.clone());
    subsystem.connect(Duration::ZERO, &connect_sqe(&ask), &data_bytes(&data), PORT)
}

/// A status and the field that is blamed.
type Blame = (Status, Option<InvalidParameter>);

/// Change of a Connect that would be admitted.
type Change = dyn Fn(&mut Connect, &mut ConnectData);

fn blame(refusal: &ConnectRefusal) -> Blame {
    let invalid = refusal.cqe.status == Status::CONNECT_INVALID_PARAMETERS;
    assert_eq!(refusal.cqe.cid, Cid(0x77));
    assert!(!refusal.to_string().is_empty());
    (refusal.cqe.status, invalid.then(|| InvalidParameter::decode(refusal.cqe.result as u32)))
}

fn invalid(parameter: InvalidParameter) -> Blame {
    (Status::CONNECT_INVALID_PARAMETERS, Some(parameter))
}

fn noted(mut control: ControllerCore) -> Vec<Deviation> {
    control.take_deviations().iter().collect()
}

#[test]
fn the_first_command_of_a_connection() {
    let good = connect_sqe(&connect(0, Cntlid::DYNAMIC, &nqn("disk")).0);
    let mut by_transport = good;
    by_transport.set_sgl(Sgl::transport(1024));
    assert_eq!(
        before_connect(&by_transport, 0, HostMemory::Transport),
        Next::Fetch { bytes: 1024 }
    );
    let data = data_bytes(&connect(0, Cntlid::DYNAMIC, &nqn("disk")).1);
    for (sqe, expected) in [(good, vec![]), (by_transport, vec![Deviation::ConnectDataFetched])] {
        let connected = subsystem().connect(Duration::ZERO, &sqe, &data, PORT).unwrap();
        assert_eq!(noted(connected.queue), expected);
    }

    let with = |change: &dyn Fn(&mut Sqe)| {
        let mut sqe = good;
        change(&mut sqe);
        sqe
    };
    let cases: [(&str, Sqe, u32, Status); 8] = [
        ("a read", with(&|sqe| sqe.0[0] = NvmOpcode::READ.0), 1024, Status::COMMAND_SEQUENCE_ERROR),
        ("Property Get", Property::get(PropertyOffset::CAP), 0, Status::COMMAND_SEQUENCE_ERROR),
        ("fused", with(&|sqe| sqe.set_fuse(Fuse::First)), 1024, Status::COMMAND_SEQUENCE_ERROR),
        ("PRP", with(&|sqe| sqe.0[1] = 0), 1024, Status::INVALID_FIELD),
        (
            "short",
            with(&|sqe| sqe.set_sgl(Sgl::in_capsule(1020))),
            1020,
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        ("not in the capsule", good, 0, Status::SGL_OFFSET_INVALID),
        ("longer than told", good, 2048, Status::DATA_SGL_LENGTH_INVALID),
        ("other SGL", with(&|sqe| sqe.0[39] = 0x40), 1024, Status::SGL_TYPE_INVALID),
    ];
    for (name, sqe, in_capsule, expected) in cases {
        match before_connect(&sqe, in_capsule, HostMemory::Transport) {
            Next::Reply { cqe, data_bytes: 0 } => {
                assert_eq!((cqe.status, cqe.do_not_retry), (expected, true), "{name}")
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_host_connects_and_is_known() {
    let mut subsystem = subsystem();
    let data = data_bytes(&connect(0, Cntlid::DYNAMIC, &nqn("disk")).1);
    assert_eq!(subsystem_name(&data), Some(nqn("disk")));
    let connected = admin(&mut subsystem, Cntlid::DYNAMIC).unwrap();
    assert_eq!(
        (connected.cqe.status, connected.cqe.result, connected.cqe.sq_head),
        (Status::SUCCESS, 1, 1)
    );
    assert_eq!((connected.queue.cntlid(), connected.queue.entries()), (Cntlid(1), 32));
    assert_eq!(connected.queue.host().nqn, Some(nqn("host")));
    assert_eq!(
        subsystem.controllers().map(|(id, host)| (id, host.id)).collect::<Vec<_>>(),
        [(Cntlid(1), HOST_ID)]
    );
}

#[test]
fn flow_control_can_be_switched_off() {
    let mut subsystem = subsystem();
    let (mut ask, data) = connect(0, Cntlid::DYNAMIC, &nqn("disk"));
    ask.attributes = Connect::DISABLE_FLOW_CONTROL;
    let mut connected =
        subsystem.connect(Duration::ZERO, &connect_sqe(&ask), &data_bytes(&data), PORT).unwrap();
    assert_eq!(connected.cqe.sq_head, 0xffff);
    let next = connected.queue.start(
        Duration::ZERO,
        weft_proto::stream::Tag(0),
        &Property::get(PropertyOffset::CAP),
    );
    assert!(matches!(next, Next::Reply { cqe, .. } if cqe.sq_head == 0));
}

/// `spdk_nvme_perf` gives no host NQN unless an option names one.
#[test]
fn a_host_without_a_name_gets_what_every_host_gets() {
    let mut subsystem = subsystem();
    subsystem
        .set_namespace(Namespace { hosts: Some([nqn("host")].into()), ..namespace(3) })
        .unwrap();
    let (ask, data) = connect(0, Cntlid::DYNAMIC, &nqn("disk"));
    let data = ConnectData { hostnqn: NqnField([0; 256]), ..data };
    let connected =
        subsystem.connect(Duration::ZERO, &connect_sqe(&ask), &data_bytes(&data), PORT).unwrap();
    assert_eq!(
        (connected.cqe.status, connected.queue.host().nqn.as_ref()),
        (Status::SUCCESS, None)
    );
    assert_eq!(connected.queue.host().to_string(), "without a name");

    let mut rig = Rig::of(subsystem, connected.queue);
    assert_eq!(rig.control.take_deviations().iter().collect::<Vec<_>>(), [Deviation::NoHostName]);
    assert_eq!(rig.set_cc(ON), Status::SUCCESS);
    let (ask, data) = connect(1, rig.control.cntlid(), &nqn("disk"));
    let data = ConnectData { hostnqn: NqnField([0; 256]), ..data };
    assert!(rig.subsystem.connect_io(&connect_sqe(&ask), &data_bytes(&data)).is_ok());
    let seen = NamespaceList::decode(&rig.data(identify(Cns::ACTIVE_NAMESPACES, 0))).unwrap();
    assert_eq!(seen.0, [1, 2, 4].map(Nsid), "3 is for a host that says who it is");

    rig.subsystem.set_hosts(Some(vec![nqn("host")]));
    assert_eq!(rig.subsystem.denied().collect::<Vec<_>>(), [rig.control.cntlid()]);
}

#[test]
fn names_of_any_form_are_names() {
    for name in
        ["testnqn", "nvmet-test", "blktests-subsystem-1", "two words", "ä/b,c", "\u{1b}[31m"]
    {
        let (named, config) = (
            Nqn::new(name).unwrap(),
            SubsystemConfig::new(ControllerKind::Io, Nqn::new(name).unwrap()),
        );
        assert!(!named.is_qualified(), "{name}");
        let mut subsystem = Subsystem::new(Duration::ZERO, config);
        let (ask, data) = connect(0, Cntlid::DYNAMIC, &named);
        let bytes = data_bytes(&ConnectData { hostnqn: NqnField::from(&named), ..data });
        assert_eq!(subsystem_name(&bytes), Some(named.clone()));
        let connected =
            subsystem.connect(Duration::ZERO, &connect_sqe(&ask), &bytes, PORT).unwrap();
        assert_eq!(connected.queue.host().nqn.as_ref(), Some(&named));
        assert_eq!(noted(connected.queue), [Deviation::HostName]);
    }
    assert!(nqn("host").is_qualified() && Nqn::discovery().is_qualified());
    // Each of year, month and what stands between them.
    for name in
        ["nqn.20x6-01.a:b", "nqn.2026_01.a:b", "nqn.2026-x1.a:b", "nqn.2026-0x.a:b", "nqn.2026-01"]
    {
        assert!(!Nqn::new(name).unwrap().is_qualified(), "{name}");
    }
    let most = "x".repeat(223);
    assert_eq!(Nqn::new(&most).unwrap().as_str(), most);
    for wrong in ["", "a\0b", &"x".repeat(224)] {
        assert!(Nqn::new(wrong).is_err(), "{wrong:?}");
    }
    assert_eq!(Nqn::new("a\nb").unwrap().to_string(), "a\\u{a}b");
    let (_, mut data) = connect(0, Cntlid::DYNAMIC, &Nqn::new("a\nb").unwrap());
    assert_eq!(
        connect_names(&data_bytes(&data)).to_string(),
        "host \"nqn.2014-08.org.example:host\", subsystem \"a\\u{a}b\""
    );
    data.hostnqn = NqnField([b'n'; 256]);
    assert!(
        connect_names(&data_bytes(&data)).to_string().contains(&"n".repeat(256)),
        "what is malformed is shown too"
    );
}

/// Neither nvmet nor SPDK compares the host identifiers of queues; some hosts give each queue its
/// own.
#[test]
fn the_host_identifier_of_the_admin_queue_counts() {
    let mut rig = Rig::io();
    for (qid, host_id) in [(1, Id128([8; 16])), (2, Id128::default()), (3, HOST_ID)] {
        let (ask, data) = connect(qid, rig.control.cntlid(), &nqn("disk"));
        let data = ConnectData { host_id, ..data };
        let mut queue =
            rig.subsystem.connect_io(&connect_sqe(&ask), &data_bytes(&data)).unwrap().queue;
        let expected =
            Deviations::from_iter((host_id != HOST_ID).then_some(Deviation::OtherHostIdentifier));
        assert_eq!(queue.take_deviations(), expected, "queue {qid}");
        assert!(queue.take_deviations().is_empty(), "each is told once");
    }
    let sqe = get_feature(FeatureId::HOST_IDENTIFIER, 1);
    assert_eq!((rig.data(sqe), rig.control.host().id), (HOST_ID.0.to_vec(), HOST_ID));
}

/// Neither nvmet nor SPDK looks at HOSTID in Connect.
#[test]
fn a_host_identifier_may_be_zero() {
    let mut subsystem = subsystem();
    let (ask, data) = connect(0, Cntlid::DYNAMIC, &nqn("disk"));
    let data = ConnectData { host_id: Id128::default(), ..data };
    let connected =
        subsystem.connect(Duration::ZERO, &connect_sqe(&ask), &data_bytes(&data), PORT).unwrap();
    assert_eq!(connected.queue.host().id, Id128::default());
    assert_eq!(noted(connected.queue), [Deviation::NoHostIdentifier]);
}

/// SPDK's host library fills the whole command in for I/O queues as for the admin queue.
#[test]
fn the_keep_alive_timeout_of_the_admin_queue_counts() {
    let mut rig = Rig::io();
    let (mut ask, data) = connect(1, rig.control.cntlid(), &nqn("disk"));
    ask.keep_alive_ms = 10_000;
    let mut queue = rig.subsystem.connect_io(&connect_sqe(&ask), &data_bytes(&data)).unwrap().queue;
    assert_eq!(queue.take_deviations().iter().collect::<Vec<_>>(), [Deviation::IoQueueKeepAlive]);
    assert_eq!(rig.run(get_feature(FeatureId::KEEP_ALIVE_TIMER, 0)).0.result, 0);
}

#[test]
fn admin_queue_rules() {
    let at_subnqn = invalid(InvalidParameter::data(256));
    let at_hostnqn = invalid(InvalidParameter::data(512));
    let at_cntlid = invalid(InvalidParameter::data(16));
    let at_size = invalid(InvalidParameter::command(44));
    let cases: [(&str, &Change, Blame); 13] = [
        ("RECFMT", &|c, _| c.record_format = 1, (Status::CONNECT_INCOMPATIBLE_FORMAT, None)),
        ("QID", &|c, _| c.qid = Qid(1), invalid(InvalidParameter::command(42))),
        ("SQSIZE 0", &|c, _| c.sq_size = 0, at_size),
        ("SQSIZE 128", &|c, _| c.sq_size = 128, at_size),
        ("SQSIZE FFFFh", &|c, _| c.sq_size = 0xffff, at_size),
        ("other SUBNQN", &|_, d| d.subnqn = NqnField::from(&nqn("other")), at_subnqn),
        ("SUBNQN without NUL", &|_, d| d.subnqn = NqnField([b'n'; 256]), at_subnqn),
        ("HOSTNQN without NUL", &|_, d| d.hostnqn = NqnField([b'n'; 256]), at_hostnqn),
        ("HOSTNQN that is not UTF-8", &|_, d| d.hostnqn.0[3] = 0xff, at_hostnqn),
        (
            "HOSTNQN empty",
            &|_, d| d.hostnqn = NqnField([0; 256]),
            (Status::CONNECT_INVALID_HOST, None),
        ),
        ("CNTLID", &|_, d| d.cntlid = Cntlid(1), at_cntlid),
        ("CNTLID of the static model", &|_, d| d.cntlid = Cntlid::STATIC, at_cntlid),
        (
            "host",
            &|_, d| d.hostnqn = NqnField::from(&nqn("stranger")),
            (Status::CONNECT_INVALID_HOST, None),
        ),
    ];
    let mut subsystem = subsystem();
    subsystem.set_hosts(Some(vec![nqn("host")]));
    for (name, change, expected) in cases {
        let (mut ask, mut data) = connect(0, Cntlid::DYNAMIC, &nqn("disk"));
        change(&mut ask, &mut data);
        let refusal = subsystem
            .connect(Duration::ZERO, &connect_sqe(&ask), &data_bytes(&data), PORT)
            .unwrap_err();
        assert_eq!(blame(&refusal), expected, "{name}");
        assert!(refusal.cqe.do_not_retry, "{name}");
    }
    assert_eq!(subsystem.controllers().count(), 0);
    assert!(
        subsystem.allows(Some(&nqn("host")))
            && !subsystem.allows(Some(&nqn("stranger")))
            && !subsystem.allows(None)
    );
    assert!(admin(&mut subsystem, Cntlid::DYNAMIC).is_ok());
}

#[test]
fn dynamic_identifiers_come_up_again_last() {
    let config = SubsystemConfig {
        controllers_max: 2,
        ..SubsystemConfig::new(ControllerKind::Io, nqn("disk"))
    };
    let mut subsystem = Subsystem::new(Duration::ZERO, config);
    let ids = [(); 2].map(|()| admin(&mut subsystem, Cntlid::DYNAMIC).unwrap().queue.cntlid());
    assert_eq!(ids, [Cntlid(1), Cntlid(2)]);
    let refusal = admin(&mut subsystem, Cntlid::DYNAMIC).unwrap_err();
    assert_eq!(blame(&refusal), (Status::CONNECT_CONTROLLER_BUSY, None));
    assert!(!refusal.cqe.do_not_retry, "a controller may become free");
    subsystem.release(Cntlid(1));
    assert_eq!(admin(&mut subsystem, Cntlid::DYNAMIC).unwrap().queue.cntlid(), Cntlid(3));
}

#[test]
fn the_static_model() {
    let controllers = ControllerModel::Static(2);
    let config =
        SubsystemConfig { controllers, ..SubsystemConfig::new(ControllerKind::Io, nqn("disk")) };
    let mut subsystem = Subsystem::new(Duration::ZERO, config);
    let mut ask = |cntlid: u16| match admin(&mut subsystem, Cntlid(cntlid)) {
        Ok(connected) => Ok((connected.cqe.result, connected.queue.cntlid().0)),
        Err(refusal) => Err(blame(&refusal)),
    };
    let at_cntlid = Err(invalid(InvalidParameter::data(16)));
    let busy = Err((Status::CONNECT_CONTROLLER_BUSY, None));
    for wrong in [0, 3, 0xfff0, 0xfffd, 0xffff] {
        assert_eq!(ask(wrong), at_cntlid, "{wrong:#x}");
    }
    assert_eq!(ask(2), Ok((2, 2)));
    assert_eq!(ask(2), busy);
    assert_eq!(ask(0xfffe), Ok((1, 1)));
    assert_eq!(ask(0xfffe), busy);
}

#[test]
fn io_queue_rules() {
    let at_qid = invalid(InvalidParameter::command(42));
    let at_size = invalid(InvalidParameter::command(44));
    let cases: [(&str, &Change, Blame); 11] = [
        ("RECFMT", &|c, _| c.record_format = 1, (Status::CONNECT_INCOMPATIBLE_FORMAT, None)),
        ("QID 0", &|c, _| c.qid = Qid(0), at_qid),
        ("QID too large", &|c, _| c.qid = Qid(129), at_qid),
        ("QID FFFFh", &|c, _| c.qid = Qid(0xffff), at_qid),
        ("SQSIZE 0", &|c, _| c.sq_size = 0, at_size),
        ("SQSIZE beyond MQES", &|c, _| c.sq_size = 1024, at_size),
        (
            "SUBNQN",
            &|_, d| d.subnqn = NqnField::from(&nqn("other")),
            invalid(InvalidParameter::data(256)),
        ),
        (
            "HOSTNQN",
            &|_, d| d.hostnqn = NqnField::from(&nqn("other")),
            invalid(InvalidParameter::data(512)),
        ),
        (
            "HOSTNQN empty",
            &|_, d| d.hostnqn = NqnField([0; 256]),
            invalid(InvalidParameter::data(512)),
        ),
        ("CNTLID", &|_, d| d.cntlid = Cntlid(9), invalid(InvalidParameter::data(16))),
        ("CNTLID", &|_, d| d.cntlid = Cntlid::DYNAMIC, invalid(InvalidParameter::data(16))),
    ];
    let mut rig = Rig::io();
    for (name, change, expected) in cases {
        let (mut ask, mut data) = connect(1, rig.control.cntlid(), &nqn("disk"));
        change(&mut ask, &mut data);
        let refusal = rig.subsystem.connect_io(&connect_sqe(&ask), &data_bytes(&data)).unwrap_err();
        assert_eq!(blame(&refusal), expected, "{name}");
    }
    let (mut ask, mut data) = connect(128, rig.control.cntlid(), &nqn("disk"));
    ask.sq_size = 1023;
    data.host_id = Id128::default();
    let queue = rig.subsystem.connect_io(&connect_sqe(&ask), &data_bytes(&data)).unwrap().queue;
    assert_eq!((queue.qid(), queue.cntlid(), queue.entries()), (Qid(128), Cntlid(1), 1024));
}

#[test]
fn io_queues_exist_once_and_only_while_the_controller_is_enabled() {
    let not_ready = invalid(InvalidParameter::command(42));
    let mut rig = Rig::connected(subsystem(), 0);
    assert_eq!(blame(&rig.connect_io(1).unwrap_err()), not_ready);
    assert_eq!(rig.set_cc(Configuration::ENABLE), Status::SUCCESS);
    assert_eq!(blame(&rig.connect_io(1).unwrap_err()), not_ready, "entry sizes are not set");
    assert_eq!(rig.set_cc(Configuration::ENABLE | Configuration::NVM_ENTRY_SIZES), Status::SUCCESS);

    let _queue = rig.connect_io(1).unwrap();
    assert_eq!(blame(&rig.connect_io(1).unwrap_err()), (Status::INVALID_QUEUE_IDENTIFIER, None));
    assert!(rig.connect_io(2).is_ok());
    assert_eq!(rig.subsystem.io_queues(Cntlid(1)), [Qid(1), Qid(2)]);
    rig.subsystem.release_io(Cntlid(1), Qid(1));
    assert!(rig.connect_io(1).is_ok());

    assert_eq!(rig.set_cc(Configuration::NVM_ENTRY_SIZES), Status::SUCCESS);
    assert_eq!(blame(&rig.connect_io(3).unwrap_err()), not_ready, "a reset is under way");
    rig.subsystem.release(Cntlid(1));
    assert_eq!(blame(&rig.connect_io(3).unwrap_err()), invalid(InvalidParameter::data(16)));
}

#[test]
fn connect_on_a_connected_queue() {
    let mut rig = Rig::io();
    let again = connect_sqe(&connect(0, Cntlid::DYNAMIC, &nqn("disk")).0);
    assert_eq!(rig.status(again), Status::COMMAND_SEQUENCE_ERROR);
    let mut queue = rig.connect_io(1).unwrap();
    let next = queue.start(weft_proto::stream::Tag(0), &again, 1024);
    assert!(
        matches!(next, IoNext::Reply { cqe, .. } if cqe.status == Status::COMMAND_SEQUENCE_ERROR)
    );
}

#[test]
fn discovery_controllers_have_no_io_queues() {
    let mut rig = Rig::discovery();
    let (ask, data) = connect(1, rig.control.cntlid(), &Nqn::discovery());
    let refusal = rig.subsystem.connect_io(&connect_sqe(&ask), &data_bytes(&data)).unwrap_err();
    assert_eq!(blame(&refusal), invalid(InvalidParameter::command(42)));
    assert_eq!(rig.subsystem.namespaces().find(Nsid(1)), None);
}
