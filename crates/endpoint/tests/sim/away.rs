//! A namespace behind a gateway that is disabled upstream, and enabled again, replaced, or lost
//! with its target: what hosts of the gateway hear, what their commands end with, and that nothing
//! reaches the blocks of another namespace.

use crate::devices::{Knobs, Testing};
use crate::sim::protocols::Protocol;
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{NQN, Scene, Setup, Watcher, options};
use crate::wire::{self, Peer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use weft_block::{Device, DeviceChange, Presence};
use weft_endpoint::ConnectOptions;
use weft_endpoint::export::nvme::{Target, TargetConfig, TargetLimits};
use weft_endpoint::inventory::{LiveInventory, NamespaceConfig, SubsystemConfig};
use weft_io::sim::Cut;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::command;
use weft_proto::nvme::identify::{Cns, IdentifyIndependentNamespace, IdentifyNamespace};
use weft_proto::nvme::log_page::LogPageId;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::property::Configuration;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Lba, Nqn, Nsid};
use weft_proto::nvme_tcp::pdu::{PduType, TRANSFER_BYTES};

const GATEWAY: &str = "10.0.1.1:4420";
const EVENT: u16 = 90;
const PATHING_ERROR: Status = Status(0x360);
const UUID: Uuid = Uuid::from_u128(7);

fn nqn() -> Nqn {
    Nqn::new(NQN).unwrap()
}

/// A target, a gateway in front of it, and a host of the gateway.
struct Testbed {
    scene: Scene,
    knobs: Arc<Knobs>,
    upstream: Arc<Testing>,
    gateway: Arc<LiveInventory>,
    _target: Target,
    admin: Puppet,
    io: Puppet,
}

impl Testbed {
    fn new() -> Self {
        Self::with(&options())
    }

    fn with(options: &ConnectOptions) -> Self {
        let upstream = Testing::new("ram:16MiB");
        let knobs = Arc::clone(&upstream.knobs);
        let mut scene = Scene::new(Setup::new(1, Arc::clone(&upstream) as _));
        let device = scene.open(options).unwrap();
        let gateway =
            LiveInventory::of_devices(SubsystemConfig::new(nqn()), vec![device as Device]).unwrap();
        let on = scene.io_loop(0);
        let address: SocketAddr = GATEWAY.parse().unwrap();
        let config = TargetConfig {
            inventory: Arc::clone(&gateway),
            listen: vec![address],
            identities: weft_endpoint::identity::Identities::seeded(1),
            tls: weft_endpoint::TlsFiles::default(),
        };
        let target = Target::start_on(
            &on,
            config,
            TargetLimits { quiesce: Duration::ZERO, ..TargetLimits::default() },
            vec![on.remote()],
        )
        .unwrap();
        let (admin, io) = (Puppet::to(&scene, address), Puppet::to(&scene, address));
        let cntlid = wire::admin(&mut admin.within(&mut scene), &who());
        wire::io_queue(&mut io.within(&mut scene), &who(), cntlid, 1, 32);
        let mut stage = Self { scene, knobs, upstream, gateway, _target: target, admin, io };
        stage.listen();
        assert_eq!(stage.write(1).status, Status::SUCCESS);
        stage
    }

    fn disable(&self) {
        self.scene
            .inventory
            .change(|builder| builder.remove_namespace(&nqn(), Nsid(1)).map(drop))
            .unwrap();
    }

    fn enable(&self, config: NamespaceConfig) {
        self.scene
            .inventory
            .change(|builder| builder.add_namespace(&nqn(), Nsid(1), config).map(drop))
            .unwrap();
    }

    fn config(&self) -> NamespaceConfig {
        NamespaceConfig::new(Arc::clone(&self.upstream) as _)
    }

    fn listen(&self) {
        self.admin.put(&wire::capsule(
            &Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, Nsid(0)),
            EVENT,
            &[],
        ));
    }

    /// Waits for an event, reads what has changed, and listens on.
    fn hears(&mut self) {
        let cqe = wire::response(&mut self.admin.within(&mut self.scene));
        assert_eq!(
            (cqe.cid.0, cqe.result),
            (EVENT, 0x04_00_02),
            "namespace attributes have changed"
        );
        let mut sqe = Sqe::new(AdminOpcode::GET_LOG_PAGE.0, Nsid::ALL);
        sqe.set_dword(10, u32::from(LogPageId::CHANGED_NAMESPACES.0) | 1023 << 16);
        assert_eq!(self.data(&sqe)[..4], [1, 0, 0, 0]);
        self.listen();
    }

    fn data(&mut self, sqe: &Sqe) -> Vec<u8> {
        self.admin.put(&wire::capsule_moving(sqe, 3, 4096));
        let mut data = Vec::new();
        loop {
            let pdu = self.admin.within(&mut self.scene).pdu().expect("data and a response");
            match pdu.kind() {
                PduType::C2H_DATA => data.extend_from_slice(&pdu.0[TRANSFER_BYTES..]),
                _ => return data,
            }
        }
    }

    fn identify(&mut self, cns: Cns) -> Vec<u8> {
        let mut sqe = Sqe::new(AdminOpcode::IDENTIFY.0, Nsid(1));
        sqe.set_dword(10, u32::from(cns.0));
        self.data(&sqe)
    }

    fn is_ready(&mut self) -> bool {
        let status =
            IdentifyIndependentNamespace::decode(&self.identify(Cns::INDEPENDENT_NAMESPACE))
                .unwrap()
                .nstat;
        status & IdentifyIndependentNamespace::NSTAT_READY != 0
    }

    fn blocks(&mut self) -> u64 {
        IdentifyNamespace::decode(&self.identify(Cns::NAMESPACE)).unwrap().nsze
    }

    fn write(&mut self, lba: u64) -> Cqe {
        self.io.put(&wire::capsule(&command::write(Nsid(1), Lba(lba), 1, false), 5, &[7; 512]));
        wire::response(&mut self.io.within(&mut self.scene))
    }

    fn read(&mut self) -> Cqe {
        self.io.put(&wire::capsule_moving(&command::read(Nsid(1), Lba(0), 1), 6, 512));
        loop {
            let pdu = self.io.within(&mut self.scene).pdu().expect("data or a response");
            if pdu.kind() != PduType::C2H_DATA {
                return pdu.cqe();
            }
        }
    }

    fn fails_over(&mut self) {
        for cqe in [self.write(2), self.read()] {
            assert_eq!(
                (cqe.status, cqe.do_not_retry),
                (PATHING_ERROR, false),
                "hosts take another path"
            );
        }
    }

    fn presence(&self) -> Presence {
        self.gateway.now().namespace(&nqn(), Nsid(1)).expect("it stays").presence
    }
}

#[test]
fn a_namespace_that_is_disabled_and_enabled_again_comes_back() {
    let mut stage = Testbed::new();
    stage.disable();
    stage.hears();
    assert_eq!((stage.is_ready(), stage.presence()), (false, Presence::Away));
    stage.fails_over();
    let before = stage.knobs.writes();
    stage.enable(NamespaceConfig { blocks: Some(20_000), ..stage.config() });
    stage.hears();
    assert_eq!(
        (stage.is_ready(), stage.presence(), stage.blocks()),
        (true, Presence::Here, 20_000)
    );
    assert_eq!((stage.write(19_999).status, stage.knobs.writes()), (Status::SUCCESS, before + 1));
    assert_eq!(stage.read().status, Status::SUCCESS);
}

#[test]
fn a_host_that_asks_before_the_gateway_has_heard_fails_over_too() {
    let mut stage = Testbed::new();
    stage.disable();
    let cqe = stage.write(1);
    assert_eq!((cqe.status, cqe.do_not_retry), (PATHING_ERROR, false));
    stage.hears();
    stage.enable(stage.config());
    stage.hears();
    assert_eq!(stage.write(1).status, Status::SUCCESS);
}

#[test]
fn a_namespace_that_flickers_is_verified_before_the_next_write() {
    let mut stage = Testbed::new();
    for _ in 0..10 {
        stage.disable();
        stage.enable(stage.config());
        // Whatever of the two the gateway has seen: it answers, and in the end the namespace is
        // there.
        let cqe = stage.write(1);
        assert!(matches!(cqe.status, Status::SUCCESS | PATHING_ERROR), "{}", cqe.status);
    }
    stage.scene.world.run_for(Duration::from_secs(3));
    assert_eq!((stage.presence(), stage.write(1).status), (Presence::Here, Status::SUCCESS));
}

#[test]
fn no_write_reaches_another_namespace_under_the_identifier() {
    let mut stage = Testbed::new();
    let other = Testing::new("ram:16MiB");
    let written = Arc::clone(&other.knobs);
    stage.disable();
    stage.hears();
    stage.enable(NamespaceConfig { uuid: Some(UUID), ..NamespaceConfig::new(other as _) });
    for lba in 0..50 {
        let cqe = stage.write(lba);
        assert_eq!((cqe.status, cqe.do_not_retry), (PATHING_ERROR, false));
        stage.scene.world.run_for(Duration::from_millis(100));
    }
    assert_eq!((written.writes(), stage.presence()), (0, Presence::Gone));
    // The old one comes back too late.
    stage.disable();
    stage.enable(stage.config());
    stage.scene.world.run_for(Duration::from_secs(5));
    assert_eq!((stage.write(1).status, stage.presence()), (PATHING_ERROR, Presence::Gone));
}

#[test]
fn hosts_of_a_gateway_whose_target_died_fail_over_and_hear_of_it() {
    let mut stage = Testbed::new();
    let first = stage.scene.world.connections()[0].id;
    stage.scene.world.cut(first, Cut::Reset);
    stage.hears();
    assert_eq!((stage.is_ready(), stage.presence()), (false, Presence::Gone));
    stage.fails_over();
    // Who comes later finds the same.
    let (admin, io) = (
        Puppet::to(&stage.scene, GATEWAY.parse().unwrap()),
        Puppet::to(&stage.scene, GATEWAY.parse().unwrap()),
    );
    let cntlid = wire::admin(&mut admin.within(&mut stage.scene), &who());
    wire::io_queue(&mut io.within(&mut stage.scene), &who(), cntlid, 1, 32);
    io.put(&wire::capsule_moving(&command::read(Nsid(1), Lba(0), 1), 6, 512));
    let cqe = wire::response(&mut io.within(&mut stage.scene));
    assert_eq!((cqe.status, cqe.do_not_retry), (PATHING_ERROR, false));
}

#[test]
fn a_reset_waits_for_writes_that_the_lost_target_may_still_execute() {
    let mut stage = Testbed::new();
    stage.knobs.freeze(true);
    stage.knobs.honour_cancel(false);
    let before = stage.knobs.held();
    stage.io.put(&wire::capsule(&command::write(Nsid(1), Lba(3), 1, false), 7, &[7; 512]));
    let knobs = Arc::clone(&stage.knobs);
    assert!(stage.scene.world.run_until(|_| knobs.held() > before, Duration::from_secs(60)));
    let (first, cut_at) = (stage.scene.world.connections()[0].id, stage.scene.world.now());
    stage.scene.world.cut(first, Cut::Reset);
    stage.hears();
    // What the host disables is the gateway's controller. The write may still be executed: KATO
    // twice, and the quiesce time.
    let off = Configuration::NVM_ENTRY_SIZES;
    assert_eq!(
        wire::set_cc(&mut stage.admin.within(&mut stage.scene), off).status,
        Status::SUCCESS
    );
    assert_eq!(wire::response(&mut stage.admin.within(&mut stage.scene)).cid.0, EVENT, "given up");
    let bound = Duration::from_secs(2 * 5 + 10);
    loop {
        let is_ready = wire::status(&mut stage.admin.within(&mut stage.scene)).ready();
        let waited = stage.scene.world.now().since_epoch() - cut_at.since_epoch();
        assert_eq!(is_ready, waited < bound, "after {waited:?}");
        if !is_ready {
            break;
        }
        stage.scene.world.run_for(Duration::from_millis(50));
    }
    stage.knobs.freeze(false);
}

#[test]
fn a_write_that_a_lost_target_may_have_executed_is_answered_when_it_cannot_be_executed_any_more() {
    let mut stage = Testbed::new();
    stage.knobs.freeze(true);
    stage.knobs.honour_cancel(false);
    stage.io.put(&wire::capsule(&command::write(Nsid(1), Lba(3), 1, false), 7, &[7; 512]));
    let knobs = Arc::clone(&stage.knobs);
    assert!(stage.scene.world.run_until(|_| knobs.held() > 0, Duration::from_secs(60)));
    let (first, cut_at) = (stage.scene.world.connections()[0].id, stage.scene.world.now());
    stage.scene.world.cut(first, Cut::Reset);
    // Others fail at once.
    let cqe = stage.write(9);
    assert_eq!((cqe.cid.0, cqe.status, cqe.do_not_retry), (5, PATHING_ERROR, false));
    let cqe = wire::response(&mut stage.io.within(&mut stage.scene));
    let waited = stage.scene.world.now().since_epoch() - cut_at.since_epoch();
    assert_eq!((cqe.cid.0, cqe.status, cqe.do_not_retry), (7, PATHING_ERROR, false));
    assert!(waited >= Duration::from_secs(2 * 5 + 10), "after {waited:?}");
    stage.knobs.freeze(false);
}

#[test]
fn a_logical_unit_that_goes_and_comes_back_is_told_of() {
    let first = Testing::new("ram:16MiB");
    let again = Arc::clone(&first);
    let mut scene = Protocol::Iscsi.scene(Setup::new(1, first as _));
    let device = scene.open_url(&Protocol::Iscsi.url(), &options()).unwrap();
    let told = Watcher::spawn(&scene.io_loop(0), device.as_ref());
    let inventory = Arc::clone(&scene.inventory);
    let remove =
        || inventory.change(|builder| builder.remove_namespace(&nqn(), Nsid(1)).map(drop)).unwrap();
    let add = |config| {
        inventory
            .change(|builder| builder.add_namespace(&nqn(), Nsid(1), config).map(drop))
            .unwrap()
    };
    let limit = Duration::from_secs(60);
    remove();
    assert!(scene.world.run_until(|_| *told.borrow() == [DeviceChange::Away], limit), "{told:?}");
    assert_eq!(device.presence(), Presence::Away);
    add(NamespaceConfig::new(again));
    assert!(
        scene
            .world
            .run_until(|_| *told.borrow() == [DeviceChange::Away, DeviceChange::Back], limit),
        "{told:?}"
    );
    assert_eq!(device.presence(), Presence::Here);
    remove();
    assert!(scene.world.run_until(|_| told.borrow().len() == 3, limit), "{told:?}");
    let other = Testing::new("ram:16MiB");
    let written = Arc::clone(&other.knobs);
    add(NamespaceConfig { uuid: Some(UUID), ..NamespaceConfig::new(other as _) });
    assert!(
        scene.world.run_until(|_| told.borrow().last() == Some(&DeviceChange::Gone), limit),
        "{told:?}"
    );
    assert_eq!((device.presence(), written.writes()), (Presence::Gone, 0));
}
