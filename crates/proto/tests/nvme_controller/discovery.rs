//! Discovery controllers: the log, its changes, and what they do not have.

use crate::nvme_controller_support::*;
use std::net::SocketAddr;

use weft_proto::nvme::controller::{
    Audience, DiscoveryRecord, Next, Port, Subsystem, SubsystemConfig,
};
use weft_proto::nvme::feature::{AsyncEvent, AsyncNotice, FeatureId};
use weft_proto::nvme::identify::Cns;
use weft_proto::nvme::log_page::{DiscoveryEntry, DiscoveryHeader, LogPageId, SubsystemType};
use weft_proto::nvme::sqe::HostMemory;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Cntlid, Nqn};
use weft_proto::nvme_tcp::transport_address;
use weft_proto::stream::Tag;

fn record(name: &str, port: u16) -> DiscoveryRecord {
    let address = SocketAddr::from(([192, 0, 2, 7], 4420));
    DiscoveryRecord::new(
        &nqn(name),
        SubsystemType::NVME,
        &transport_address(address),
        port,
        128,
        Cntlid::DYNAMIC,
    )
}

#[test]
fn the_discovery_log_is_read_as_hosts_do_it() {
    let mut rig = Rig::discovery();
    let log = rig.subsystem.set_discovery((0..5).map(|n| record(&format!("disk{n}"), 1)).collect());
    rig.control.discovery_changed(log);
    let header =
        DiscoveryHeader::decode(&rig.data(get_log(LogPageId::DISCOVERY, 0, 1024))).unwrap();
    assert_eq!((header.genctr, header.numrec, header.recfmt), (1, 5, 0));
    let mut page = Vec::new();
    for offset in (0..6 * 1024).step_by(4096) {
        page.extend(rig.data(get_log(LogPageId::DISCOVERY, offset, 4096)));
    }
    for n in 0..5usize {
        let entry = DiscoveryEntry::decode(&page[(n + 1) * 1024..]).unwrap();
        assert_eq!(
            (entry.subnqn.nqn(), entry.trsvcid.text()),
            (Ok(nqn(&format!("disk{n}"))), "4420".to_owned())
        );
        assert_eq!((entry.cntlid, entry.asqsz, entry.portid), (Cntlid::DYNAMIC, 128, 1));
    }
    assert_eq!(rig.status(get_log(LogPageId::DISCOVERY, 6 * 1024, 4)), Status::SUCCESS);
    assert_eq!(rig.status(get_log(LogPageId::DISCOVERY, 6 * 1024 + 4, 4)), Status::INVALID_FIELD);
}

#[test]
fn a_change_of_the_discovery_log_is_told_to_those_whom_it_concerns() {
    let mut rig = Rig::discovery();
    assert_eq!(rig.start(1, aer()), Next::Hold);
    let hidden = DiscoveryRecord { hosts: Some([nqn("stranger")].into()), ..record("private", 1) };
    let audience = Audience { through: Some((9, None)), ..Audience::default() };
    let far = DiscoveryRecord { audience, ..record("far", 9) };
    let log = rig.subsystem.set_discovery(vec![hidden.clone(), far.clone()]);
    rig.control.discovery_changed(log);
    assert_eq!(rig.poll(), None, "this host sees none of it");
    let header =
        DiscoveryHeader::decode(&rig.data(get_log(LogPageId::DISCOVERY, 0, 1024))).unwrap();
    assert_eq!((header.genctr, header.numrec), (1, 0));

    let log = rig.subsystem.set_discovery(vec![hidden, far, record("open", 1)]);
    rig.control.discovery_changed(log);
    let (tag, cqe) = rig.poll_reply();
    let event = AsyncEvent::decode(cqe.result as u32);
    assert_eq!(
        (tag, event.notice(), event.log_page),
        (Tag(1), Some(AsyncNotice::DISCOVERY_LOG_CHANGE), LogPageId::DISCOVERY)
    );
    assert_eq!(rig.start(1, aer()), Next::Hold);
    rig.data(get_log(LogPageId::DISCOVERY, 0, 2048));
    let log = rig.subsystem.set_discovery(Vec::new());
    rig.control.discovery_changed(log);
    assert_eq!(rig.poll_reply().0, Tag(1), "told again after the log was read");
}

#[test]
fn discovery_controllers_refuse_what_they_do_not_have() {
    let mut rig = Rig::discovery();
    let cases = [
        (abort(1, Cid(1)), Status::INVALID_OPCODE),
        (get_log(LogPageId::SMART, 0, 512), Status::INVALID_LOG_PAGE),
        (identify(Cns::ACTIVE_NAMESPACES, 0), Status::INVALID_FIELD),
        (get_feature(FeatureId::NUMBER_OF_QUEUES, 0), Status::INVALID_FIELD),
        (set_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, 1 << 8), Status::INVALID_FIELD),
    ];
    for (sqe, expected) in cases {
        assert_eq!(rig.status(sqe), expected, "{sqe:?}");
    }
    assert_eq!(
        rig.status(set_feature(FeatureId::ASYNC_EVENT_CONFIGURATION, 1 << 31)),
        Status::SUCCESS
    );
    assert_eq!(rig.status(keep_alive()), Status::SUCCESS);
}

#[test]
fn a_discovery_subsystem_has_its_own_name_and_the_well_known_one() {
    let name = nqn("discovery");
    let config = SubsystemConfig { nqn: name.clone(), ..discovery_subsystem().config().clone() };
    let mut subsystem = Subsystem::new(seconds(0), config);
    let port = Port {
        id: 2,
        host_memory: HostMemory::Transport,
        listener: None,
        in_capsule_bytes: 0,
        came_by: None,
    };
    let mut ids = Vec::new();
    for name in [name, Nqn::discovery()] {
        let (ask, data) = connect(0, Cntlid::DYNAMIC, &name);
        ids.push(
            subsystem
                .connect(seconds(0), &connect_sqe(&ask), &data_bytes(&data), port)
                .unwrap()
                .queue
                .cntlid(),
        );
    }
    assert_ne!(ids[0], ids[1]);
    let (ask, data) = connect(0, Cntlid::DYNAMIC, &nqn("disk"));
    assert!(subsystem.connect(seconds(0), &connect_sqe(&ask), &data_bytes(&data), port).is_err());
}

#[test]
fn a_discovery_controller_without_keep_alive_ends_after_two_idle_minutes() {
    let mut rig = Rig::discovery();
    rig.now = seconds(100);
    rig.status(identify(Cns::CONTROLLER, 0));
    assert_eq!(rig.control.deadline(), Some(seconds(220)));
}
