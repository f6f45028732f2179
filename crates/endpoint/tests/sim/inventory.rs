//! An inventory that changes while hosts use it: the notices to hosts, and the outcomes of commands
//! under way.

use crate::devices::{Knobs, Testing};
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{NQN, Scene, Setup, host};
use crate::wire::{self, Peer, Who};
use std::sync::{Arc, Weak};
use std::time::Duration;
use weft_block::{AccessState, BlockDevice, DeviceChange, Presence};
use weft_endpoint::inventory::{
    Access, InventoryBuilder, InventoryError, NamespaceConfig, OtherGateway, SubsystemConfig,
};
use weft_proto::nvme::host::command;
use weft_proto::nvme::identify::{Cns, NamespaceList};
use weft_proto::nvme::log_page::{DiscoveryEntry, DiscoveryHeader, LogPageId, SubsystemType};
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Lba, Nqn, Nsid};
use weft_proto::nvme_tcp::pdu::{PduType, TRANSFER_BYTES};

const LIMIT: Duration = Duration::from_secs(60);
const FAR: Nsid = Nsid(70_000);
/// The command identifier of Asynchronous Event Requests.
const EVENT: u16 = 90;
/// What the controllers answer these with: notice, what has changed, the log page.
const NAMESPACES_CHANGED: u64 = 0x04_00_02;
const ANA_CHANGED: u64 = 0x0c_03_02;
const DISCOVERY_CHANGED: u64 = 0x70_f0_02;

fn nqn() -> Nqn {
    Nqn::new(NQN).unwrap()
}

fn other_nqn() -> Nqn {
    Nqn::new("nqn.2026-01.example.weft:other").unwrap()
}

/// A host with one I/O queue, brought up by hand.
struct Testbed {
    scene: Scene,
    knobs: Arc<Knobs>,
    admin: Puppet,
    io: Puppet,
}

impl Testbed {
    fn new() -> Self {
        let device = Testing::new("ram:16MiB");
        let knobs = Arc::clone(&device.knobs);
        let mut setup = Setup::new(1, device);
        setup.target_loops = 2;
        let mut scene = Scene::new(setup);
        let (admin, io) = connect(&mut scene, &who());
        Self { scene, knobs, admin, io }
    }

    fn change(
        &self,
        edit: impl FnOnce(&mut InventoryBuilder) -> Result<&mut InventoryBuilder, InventoryError>,
    ) {
        self.scene.inventory.change(|builder| edit(builder).map(drop)).unwrap();
    }

    /// Adds another device as a namespace.
    fn add(&self, nsid: Nsid) -> (Weak<Testing>, Arc<Knobs>) {
        let device = Testing::new("ram:16MiB");
        let made = (Arc::downgrade(&device), Arc::clone(&device.knobs));
        self.change(|builder| builder.add_namespace(&nqn(), nsid, NamespaceConfig::new(device)));
        made
    }

    fn settle(mut self) {
        self.admin.hang_up();
        self.io.hang_up();
        self.scene.settle(LIMIT);
    }

    fn listen(&mut self) {
        self.admin.put(&wire::capsule(
            &Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, Nsid(0)),
            EVENT,
            &[],
        ));
    }

    /// The event that the host is told of.
    fn heard(&mut self) -> u64 {
        let cqe = wire::response(&mut self.admin.within(&mut self.scene));
        assert_eq!((cqe.cid.0, cqe.status), (EVENT, Status::SUCCESS));
        cqe.result
    }

    fn changed(&mut self) -> Vec<Nsid> {
        let page = log(&self.admin, &mut self.scene, LogPageId::CHANGED_NAMESPACES, 4096);
        NamespaceList::decode(&page).unwrap().0
    }

    fn namespaces(&mut self) -> Vec<Nsid> {
        let mut sqe = Sqe::new(AdminOpcode::IDENTIFY.0, Nsid(0));
        sqe.set_dword(10, u32::from(Cns::ACTIVE_NAMESPACES.0));
        NamespaceList::decode(&data(&self.admin, &mut self.scene, &sqe, 4096)).unwrap().0
    }

    /// Sends a write of one block.
    fn begin_write(&self, nsid: Nsid, lba: u64, cid: u16) {
        self.io.put(&wire::capsule(&command::write(nsid, Lba(lba), 1, false), cid, &[7; 512]));
    }

    fn write(&mut self, nsid: Nsid, lba: u64) -> Status {
        self.begin_write(nsid, lba, 5);
        wire::response(&mut self.io.within(&mut self.scene)).status
    }

    fn until(&mut self, what: &str, mut reached: impl FnMut() -> bool) {
        assert!(self.scene.world.run_until(|_| reached(), LIMIT), "{what}");
    }
}

fn connect(scene: &mut Scene, who: &Who) -> (Puppet, Puppet) {
    let (admin, io) = (Puppet::new(scene), Puppet::new(scene));
    let cntlid = wire::admin(&mut admin.within(scene), who);
    wire::io_queue(&mut io.within(scene), who, cntlid, 1, 32);
    (admin, io)
}

/// The data of an admin command.
fn data(admin: &Puppet, scene: &mut Scene, sqe: &Sqe, bytes: u32) -> Vec<u8> {
    admin.put(&wire::capsule_moving(sqe, 3, bytes));
    let mut data = Vec::new();
    loop {
        let pdu = admin.within(scene).pdu().expect("data and a response");
        match pdu.kind() {
            PduType::C2H_DATA => data.extend_from_slice(&pdu.0[TRANSFER_BYTES..]),
            _ => {
                assert_eq!(pdu.cqe().status, Status::SUCCESS);
                return data;
            }
        }
    }
}

fn log(admin: &Puppet, scene: &mut Scene, page: LogPageId, bytes: u32) -> Vec<u8> {
    let mut sqe = Sqe::new(AdminOpcode::GET_LOG_PAGE.0, Nsid::ALL);
    sqe.set_dword(10, u32::from(page.0) | (bytes / 4 - 1) << 16);
    data(admin, scene, &sqe, bytes)
}

#[test]
fn a_host_is_told_of_namespaces_that_come_grow_and_go() {
    let mut stage = Testbed::new();
    stage.listen();
    assert_eq!(stage.write(FAR, 0), Status::INVALID_NAMESPACE);
    let (_, far) = stage.add(FAR);
    assert_eq!(stage.heard(), NAMESPACES_CHANGED);
    assert_eq!((stage.changed(), stage.namespaces()), (vec![FAR], vec![Nsid(1), FAR]));
    assert_eq!((stage.write(FAR, 0), far.writes(), stage.knobs.writes()), (Status::SUCCESS, 1, 0));

    stage.listen();
    assert_eq!(stage.write(Nsid(1), 40_000), Status::LBA_OUT_OF_RANGE);
    stage.knobs.change(DeviceChange::Resized { blocks: 50_000 });
    assert_eq!((stage.heard(), stage.changed()), (NAMESPACES_CHANGED, vec![Nsid(1)]));
    // The table is at the queue as soon as at the controller, or a little later.
    stage.scene.world.run_for(Duration::from_millis(1));
    stage.change(|builder| builder.resize_namespace(&nqn(), Nsid(1), Some(100)));
    stage.listen();
    assert_eq!((stage.heard(), stage.changed()), (NAMESPACES_CHANGED, vec![Nsid(1)]));
    assert_eq!(
        (stage.write(Nsid(1), 100), stage.write(Nsid(1), 99)),
        (Status::LBA_OUT_OF_RANGE, Status::SUCCESS)
    );

    stage.listen();
    stage.change(|builder| builder.remove_namespace(&nqn(), Nsid(1)));
    assert_eq!((stage.heard(), stage.changed()), (NAMESPACES_CHANGED, vec![Nsid(1)]));
    assert_eq!(stage.namespaces(), [FAR]);
    assert_eq!(
        (stage.write(Nsid(1), 0), stage.write(FAR, 1)),
        (Status::INVALID_NAMESPACE, Status::SUCCESS)
    );
    stage.settle();
}

#[test]
fn a_device_is_let_go_when_its_last_operation_is_back() {
    let mut stage = Testbed::new();
    let (device, knobs) = stage.add(Nsid(2));
    stage.scene.world.run_for(Duration::from_millis(1));
    knobs.freeze(true);
    (0..5).for_each(|n| stage.begin_write(Nsid(2), n, 10 + n as u16));
    stage.until("the device has them", || knobs.held() == 5);
    stage.change(|builder| builder.remove_namespace(&nqn(), Nsid(2)));
    assert_eq!(stage.write(Nsid(2), 9), Status::INVALID_NAMESPACE);
    stage.scene.world.run_for(Duration::from_secs(5));
    assert!(device.strong_count() > 0, "it holds operations");
    // Another one in the same place has nothing to do with it.
    let (_, second) = stage.add(Nsid(2));
    stage.scene.world.run_for(Duration::from_millis(1));
    assert_eq!((stage.write(Nsid(2), 1), second.writes(), knobs.writes()), (Status::SUCCESS, 1, 0));
    knobs.freeze(false);
    for _ in 0..5 {
        assert_eq!(wire::response(&mut stage.io.within(&mut stage.scene)).status, Status::SUCCESS);
    }
    assert_eq!((knobs.writes(), second.writes()), (5, 1));
    stage.until("the device is let go", || device.strong_count() == 0);
    stage.settle();
}

#[test]
fn data_that_is_under_way_does_not_reach_another_device() {
    let mut stage = Testbed::new();
    let sqe = command::write(Nsid(1), Lba(0), 32, false);
    stage.io.put(&wire::capsule_moving(&sqe, 10, 16384));
    let r2t = stage.io.within(&mut stage.scene).pdu().expect("R2T");
    assert_eq!(r2t.kind(), PduType::R2T);
    let device = Testing::new("ram:16MiB");
    let knobs = Arc::clone(&device.knobs);
    stage
        .change(|builder| builder.replace_namespace(&nqn(), Nsid(1), NamespaceConfig::new(device)));
    stage.scene.world.run_for(Duration::from_millis(1));
    stage.io.put(&wire::h2c_data(&r2t.transfer(), &[7; 16384]));
    assert_eq!(
        wire::response(&mut stage.io.within(&mut stage.scene)).status,
        Status::INVALID_NAMESPACE
    );
    assert_eq!((stage.knobs.writes(), knobs.writes()), (0, 0));
    assert_eq!((stage.write(Nsid(1), 0), knobs.writes()), (Status::SUCCESS, 1));
    stage.settle();
}

#[test]
fn the_namespace_of_a_device_that_is_gone_stays_and_sends_hosts_elsewhere() {
    let mut stage = Testbed::new();
    let _ = stage.add(Nsid(2));
    stage.listen();
    // Of what was added before.
    assert_eq!((stage.heard(), stage.changed()), (NAMESPACES_CHANGED, vec![Nsid(2)]));
    stage.listen();
    stage.knobs.change(DeviceChange::Gone);
    assert_eq!((stage.heard(), stage.changed()), (NAMESPACES_CHANGED, vec![Nsid(1)]));
    assert_eq!(stage.namespaces(), [Nsid(1), Nsid(2)]);
    assert_eq!(
        stage.scene.inventory.now().namespace(&nqn(), Nsid(1)).unwrap().presence,
        Presence::Gone
    );
    let before = stage.knobs.writes();
    assert_eq!((stage.write(Nsid(1), 0), stage.knobs.writes()), (Status(0x360), before));
    assert_eq!(stage.write(Nsid(2), 0), Status::SUCCESS);
    stage.settle();
}

#[test]
fn each_host_sees_what_is_meant_for_it() {
    let mut stage = Testbed::new();
    let private = Testing::new("ram:16MiB") as Arc<dyn BlockDevice>;
    let hosts: Access<Nqn> = Some(vec![host("other").nqn]).into();
    let config = NamespaceConfig { hosts, ..NamespaceConfig::new(private) };
    stage.change(|builder| builder.add_namespace(&nqn(), Nsid(2), config));
    let other = Who { host: host("other"), ..who() };
    let (admin, io) = connect(&mut stage.scene, &other);
    assert_eq!(stage.namespaces(), [Nsid(1)]);
    assert_eq!(stage.write(Nsid(2), 0), Status::INVALID_NAMESPACE);
    io.put(&wire::capsule(&command::write(Nsid(2), Lba(0), 1, false), 5, &[1; 512]));
    assert_eq!(wire::response(&mut io.within(&mut stage.scene)).status, Status::SUCCESS);
    // It is shown to the first one too, which is told.
    stage.listen();
    stage.change(|builder| {
        builder.show_namespace(&nqn(), Nsid(2), |hosts, _| hosts.allow(who().host.nqn))
    });
    assert_eq!((stage.heard(), stage.changed()), (NAMESPACES_CHANGED, vec![Nsid(2)]));
    assert_eq!(stage.write(Nsid(2), 0), Status::SUCCESS);
    admin.hang_up();
    io.hang_up();
    stage.settle();
}

#[test]
fn a_host_that_is_denied_loses_its_association() {
    let mut stage = Testbed::new();
    let other = Who { host: host("other"), ..who() };
    let (admin, io) = connect(&mut stage.scene, &other);
    stage.knobs.freeze(true);
    stage.begin_write(Nsid(1), 0, 10);
    let knobs = Arc::clone(&stage.knobs);
    stage.until("the device has it", || knobs.held() == 1);
    stage.change(|builder| {
        builder.subsystem_mut(&nqn())?.hosts = Some(vec![host("other").nqn]).into();
        Ok(builder)
    });
    let (first, queue) = (stage.admin.clone(), stage.io.clone());
    stage.until("its connections end", || first.has_ended() && queue.has_ended());
    assert!(!admin.has_ended() && !io.has_ended());
    stage.knobs.freeze(false);
    let again = Puppet::new(&stage.scene);
    wire::greet(&mut again.within(&mut stage.scene));
    let cqe = wire::connect(&mut again.within(&mut stage.scene), &who(), 0, Cntlid::DYNAMIC, 32);
    assert_eq!(cqe.status, Status::CONNECT_INVALID_HOST);
    io.put(&wire::capsule(&command::write(Nsid(1), Lba(0), 1, false), 5, &[1; 512]));
    assert_eq!(wire::response(&mut io.within(&mut stage.scene)).status, Status::SUCCESS);
    [admin, io, again].iter().for_each(Puppet::hang_up);
    stage.settle();
}

fn discovered(admin: &Puppet, scene: &mut Scene) -> (u64, Vec<Nqn>) {
    let count =
        DiscoveryHeader::decode(&log(admin, scene, LogPageId::DISCOVERY, 1024)).unwrap().numrec;
    let page = log(admin, scene, LogPageId::DISCOVERY, 1024 * (count as u32 + 1));
    let header = DiscoveryHeader::decode(&page).unwrap();
    let mut entries: Vec<_> =
        page[1024..].chunks(1024).map(|entry| DiscoveryEntry::decode(entry).unwrap()).collect();
    let own = entries.pop().unwrap();
    assert_eq!(
        (own.subtype, own.eflags),
        (SubsystemType::CURRENT_DISCOVERY, DiscoveryEntry::EFLAGS_PERSISTENT)
    );
    (header.genctr, entries.iter().map(|entry| entry.subnqn.nqn().unwrap()).collect())
}

#[test]
fn a_connected_discovery_host_hears_of_subsystems() {
    let mut stage = Testbed::new();
    let discovery = Who { subsystem: Nqn::discovery(), ..who() };
    let admin = Puppet::new(&stage.scene);
    wire::admin(&mut admin.within(&mut stage.scene), &discovery);
    let (generation, names) = discovered(&admin, &mut stage.scene);
    assert_eq!(names, [nqn()]);
    let listen = || {
        admin.put(&wire::capsule(
            &Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, Nsid(0)),
            EVENT,
            &[],
        ))
    };
    listen();
    // One that this host must not see is none of its business.
    let hidden = Nqn::new("nqn.2026-01.example.weft:hidden").unwrap();
    stage.change(|builder| {
        let hosts = Some(vec![host("other").nqn]).into();
        builder.add_subsystem(SubsystemConfig { hosts, ..SubsystemConfig::new(hidden.clone()) })
    });
    stage.scene.world.run_for(Duration::from_secs(1));
    assert!(admin.take().is_none());
    stage.change(|builder| builder.add_subsystem(SubsystemConfig::new(other_nqn())));
    assert_eq!(wire::response(&mut admin.within(&mut stage.scene)).result, DISCOVERY_CHANGED);
    let (after, names) = discovered(&admin, &mut stage.scene);
    assert_eq!((after > generation, names), (true, vec![nqn(), other_nqn()]));
    listen();
    stage.change(|builder| builder.remove_subsystem(&other_nqn()));
    assert_eq!(wire::response(&mut admin.within(&mut stage.scene)).result, DISCOVERY_CHANGED);
    assert_eq!(discovered(&admin, &mut stage.scene).1, [nqn()]);
    admin.hang_up();
    stage.settle();
}

#[test]
fn a_connected_discovery_host_hears_of_other_gateways() {
    let mut stage = Testbed::new();
    let admin = Puppet::new(&stage.scene);
    wire::admin(&mut admin.within(&mut stage.scene), &Who { subsystem: Nqn::discovery(), ..who() });
    let mut known = discovered(&admin, &mut stage.scene);
    let other = |place: &str| OtherGateway {
        first_cntlid: 1001,
        urls: vec![format!("nvme+tcp://{place}:4420")],
    };
    for (others, entries) in [
        (vec![other("192.0.2.1"), other("192.0.2.2")], 3),
        (vec![other("192.0.2.2")], 2),
        (vec![], 1),
    ] {
        admin.put(&wire::capsule(
            &Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, Nsid(0)),
            EVENT,
            &[],
        ));
        stage.change(|to| Ok(to.set_others(&others)));
        assert_eq!(wire::response(&mut admin.within(&mut stage.scene)).result, DISCOVERY_CHANGED);
        let now = discovered(&admin, &mut stage.scene);
        assert_eq!((now.0 > known.0, now.1.len()), (true, entries));
        known = now;
    }
    // The same again is no news.
    admin.put(&wire::capsule(&Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, Nsid(0)), EVENT, &[]));
    stage.change(|to| Ok(to.set_others(&[])));
    stage.scene.world.run_for(Duration::from_secs(1));
    assert!(admin.take().is_none());
    admin.hang_up();
    stage.settle();
}

#[test]
fn subsystems_stand_beside_each_other() {
    let mut stage = Testbed::new();
    let device = Testing::new("ram:16MiB");
    let knobs = Arc::clone(&device.knobs);
    stage.change(|builder| {
        builder.add_subsystem(SubsystemConfig::new(other_nqn()))?;
        builder.add_namespace(&other_nqn(), Nsid(1), NamespaceConfig::new(device))
    });
    let of_other = Who { subsystem: other_nqn(), ..who() };
    let (admin, io) = connect(&mut stage.scene, &of_other);
    io.put(&wire::capsule(&command::write(Nsid(1), Lba(0), 1, false), 5, &[1; 512]));
    assert_eq!(wire::response(&mut io.within(&mut stage.scene)).status, Status::SUCCESS);
    assert_eq!((knobs.writes(), stage.knobs.writes()), (1, 0));
    assert_eq!((stage.write(Nsid(1), 0), stage.knobs.writes()), (Status::SUCCESS, 1));

    stage.change(|builder| builder.remove_subsystem(&other_nqn()));
    stage.until("its associations end", || admin.has_ended() && io.has_ended());
    assert_eq!(stage.write(Nsid(1), 0), Status::SUCCESS);
    let again = Puppet::new(&stage.scene);
    wire::greet(&mut again.within(&mut stage.scene));
    let cqe = wire::connect(&mut again.within(&mut stage.scene), &of_other, 0, Cntlid::DYNAMIC, 32);
    assert_eq!(cqe.status, Status::CONNECT_INVALID_PARAMETERS);
    [admin, io, again].iter().for_each(Puppet::hang_up);
    stage.settle();
}

/// The state of a group changes under a host: it is told, refused with the status of the state, and
/// served again.
#[test]
fn a_host_hears_of_an_access_state_and_is_refused_by_it() {
    let mut stage = Testbed::new();
    assert_eq!(stage.write(Nsid(1), 1), Status::SUCCESS);
    stage.listen();
    stage.scene.inventory.set_access_state(1, None, AccessState::Inaccessible).unwrap();
    assert_eq!(stage.heard(), ANA_CHANGED);
    assert_eq!(log(&stage.admin, &mut stage.scene, LogPageId::ANA, 52)[32], 3);
    assert_eq!(stage.write(Nsid(1), 2), Status::ANA_INACCESSIBLE);
    stage.listen();
    // Of a listener by which this host did not come it hears nothing.
    let elsewhere = Some("192.0.2.9:4420".parse().unwrap());
    stage.scene.inventory.set_access_state(1, elsewhere, AccessState::Optimized).unwrap();
    assert_eq!(stage.write(Nsid(1), 2), Status::ANA_INACCESSIBLE);
    stage.scene.inventory.set_access_state(1, None, AccessState::NonOptimized).unwrap();
    assert_eq!(stage.heard(), ANA_CHANGED);
    assert_eq!(stage.write(Nsid(1), 2), Status::SUCCESS);
    assert_eq!(
        stage.scene.inventory.set_access_state(0, None, AccessState::Optimized),
        Err(InventoryError::Group(0))
    );
    stage.settle();
}
