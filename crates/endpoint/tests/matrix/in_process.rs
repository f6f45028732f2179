//! The export without a network: the same devices, to callers in this process.

use crate::common;
use crate::devices::Testing;
use crate::local;
use std::sync::Arc;
use weft_block::limit::Limit;
use weft_block::testing::{Rig, TestPlan, conformance};
use weft_block::{BlockDevice, DeviceChange, OpKind, Presence, StatusKind};
use weft_endpoint::Disk;
use weft_endpoint::export::in_process::InProcess;
use weft_endpoint::export::{Export, HostProtocol, stop_all};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_proto::nvme::types::{Id128, Nqn, Nsid};
use weft_testing::wait::until;

fn nqn() -> Nqn {
    Nqn::new("nqn.2026-01.example.weft:matrix").unwrap()
}

fn host(number: u8) -> HostIdentity {
    let nqn = Nqn::new(&format!("nqn.2026-01.example.host:{number}")).unwrap();
    HostIdentity { nqn, id: Id128([number; 16]) }
}

/// Devices as the namespaces 1, 2, …, and the export that serves them.
struct Served {
    inventory: Arc<LiveInventory>,
    export: InProcess,
}

impl Served {
    fn start(devices: Vec<Arc<dyn BlockDevice>>) -> Self {
        let inventory = LiveInventory::of_devices(SubsystemConfig::new(nqn()), devices).unwrap();
        Self { export: InProcess::start(&inventory), inventory }
    }

    fn open(&self, by: u8) -> Arc<dyn BlockDevice> {
        self.export.open(host(by), &nqn(), Nsid(1)).unwrap()
    }

    fn stop(&self) {
        stop_all(&[&self.export], &[]).unwrap();
    }
}

fn conforms(url: &str, plan: TestPlan) {
    let served = Served::start(vec![local(url)]);
    conformance(&served.open(1), plan);
    until("all queues have ended", || served.export.connections() == 0);
    served.stop();
}

#[test]
fn memory() {
    for url in ["ram:16MiB", "ram:16MiB,block=4096"] {
        conforms(url, TestPlan { loops: 2, rounds: 200, ..TestPlan::default() });
    }
    conforms("null:16MiB", TestPlan { keeps_data: false, ..TestPlan::default() });
    conforms("readonly:ram:16MiB", TestPlan::default());
}

#[test]
fn a_file() {
    let path = std::env::temp_dir().join(format!("weft-in-process-{}.img", std::process::id()));
    let url = format!("file:{},size=16MiB", path.display());
    conforms(&url, TestPlan { loops: 2, rounds: 40, ..TestPlan::default() });
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn filters_and_a_stripe() {
    let delay = "delay:read=20us,write=5us,depth=4,spread=lognormal";
    let url = format!("stats:limit:write-iops=200k,bw=2GB,{delay},error:rate=0,ram:16MiB");
    conforms(&url, TestPlan { loops: 2, rounds: 40, ..TestPlan::default() });
    let stripe = "stripe:64KiB,ram:6MiB,ram:6MiB,ram:8MiB";
    conforms(stripe, TestPlan { loops: 2, rounds: 40, ..TestPlan::default() });
}

/// A device that gives memory of its own away has it behind a host's limit no more, and every
/// operation waits for its rate.
#[test]
fn a_host_with_a_limit_conforms_as_well() {
    let served = Served::start(vec![local("ram:16MiB")]);
    let limit = Limit { operations: 200_000, bytes: 0 };
    let limits = [(host(1).nqn.to_string(), limit)];
    served.inventory.change(|to| to.limit_hosts(limits).map(drop)).unwrap();
    conformance(&served.open(1), TestPlan { loops: 2, rounds: 40, ..TestPlan::default() });
    served.stop();
}

/// What `hosts` and the statistics say.
#[test]
fn a_caller_is_a_host_like_any_other() {
    let served = Served::start(vec![local("ram:1MiB")]);
    let disk = Disk::on(served.open(7)).unwrap();
    disk.write(0, &[1; 1024]).unwrap();
    disk.read(0, &mut [0; 512]).unwrap();
    assert!(disk.read(5000, &mut [0; 512]).is_err(), "beyond the end, before it is sent");
    let hosts = served.export.hosts();
    assert_eq!((hosts.len(), hosts[0].protocol), (1, HostProtocol::InProcess));
    assert_eq!(
        (hosts[0].name.as_str(), &hosts[0].namespaces[..]),
        (host(7).nqn.as_str(), &[Nsid(1)][..])
    );
    let statistics = served.inventory.statistics();
    let connections = statistics.connections();
    let of = |n: usize| (connections[n].name.protocol, connections[n].name.host.clone());
    assert_eq!((connections.len(), of(0)), (1, ("in-process", host(7).nqn.to_string())));
    let counts = statistics.namespace(&(nqn(), Nsid(1)));
    assert_eq!((counts.write.operations, counts.write.bytes), (1, 1024));
    assert_eq!((counts.read.operations, counts.read.bytes, counts.in_flight), (1, 512, 0));
    drop(disk);
    until("its queue has ended", || served.export.connections() == 0);
    assert!(served.export.hosts().is_empty() && statistics.connections().is_empty());
    assert_eq!(statistics.hosts()[0].name.as_deref(), Some(host(7).nqn.as_str()));
    served.stop();
}

/// Every operation ends once, with what became of it, and the caller hears of the end.
#[test]
fn an_export_that_stops_under_load_answers_everything() {
    for url in ["ram:8MiB", "delay:write=300us,depth=4,ram:8MiB"] {
        let served = Served::start(vec![local(url)]);
        let rig = Rig::new(&served.open(1), TestPlan::default());
        let write = |n| rig.request(OpKind::Write { fua: false }, n, vec![n as u8; 512]);
        let names = rig.start(0, (0..1000).map(write).collect());
        served.stop();
        assert_eq!(served.export.connections(), 0);
        for answer in rig.wait(0, &names) {
            let kind = answer.outcome.status().kind;
            assert!(answer.outcome.is_success() || kind == StatusKind::Gone, "{answer:?}");
        }
        assert_eq!(rig.change(0), DeviceChange::Gone);
        rig.fails(0, rig.request(OpKind::Read, 0, vec![0; 512]), StatusKind::Gone);
        rig.end();
    }
}

/// A device that answers nothing keeps the export from ending until it does; a drain waits.
#[test]
fn a_drain_waits_for_what_is_under_way() {
    let testing = Testing::new("ram:8MiB");
    let served = Served::start(vec![Arc::clone(&testing) as Arc<dyn BlockDevice>]);
    let rig = Rig::new(&served.open(1), TestPlan::default());
    testing.knobs.freeze(true);
    let names = rig.start(0, vec![rig.request(OpKind::Write { fua: false }, 0, vec![5; 512])]);
    until("the device has it", || testing.knobs.held() == 1);
    served.export.drain();
    assert_eq!(served.export.draining(), 1);
    testing.knobs.freeze(false);
    assert!(rig.wait(0, &names)[0].outcome.is_success(), "it came before");
    until("its connection has ended", || served.export.draining() == 0);
    rig.end();
    served.stop();
}

#[test]
fn changes_of_the_device_are_told() {
    let testing = Testing::new("ram:8MiB");
    let served = Served::start(vec![Arc::clone(&testing) as Arc<dyn BlockDevice>]);
    let device = served.open(1);
    let rig = Rig::new(&device, TestPlan::default());
    for change in [DeviceChange::Resized { blocks: 4096 }, DeviceChange::Gone] {
        testing.knobs.change(change);
        assert_eq!(rig.change(0), change);
    }
    assert_eq!((device.geometry().blocks, device.presence()), (4096, Presence::Gone));
    rig.fails(0, rig.request(OpKind::Read, 0, vec![0; 512]), StatusKind::Gone);
    rig.end();
    served.stop();
}

/// Beside exports with a network, it ends with them.
#[test]
fn it_ends_with_the_exports_that_it_was_added_to() {
    use weft_endpoint::export::{self, ExportConfig};
    let subsystem = SubsystemConfig::new(nqn());
    let inventory = LiveInventory::of_devices(subsystem, vec![local("ram:1MiB")]).unwrap();
    let config = ExportConfig {
        inventory: Arc::clone(&inventory),
        iscsi: Default::default(),
        tls: Default::default(),
        late_writers: Default::default(),
    };
    let listen = ["nbd://127.0.0.1:0".to_owned()];
    let start = |loops: &[weft_io::RemoteLoop]| export::start(&config, &listen, loops).unwrap();
    let exports = common::Served::start(&common::loops(1), start);
    let export = InProcess::start(&inventory);
    exports.add(Arc::new(export.clone()));
    let disk = Disk::on(export.open(host(1), &nqn(), Nsid(1)).unwrap()).unwrap();
    disk.write(0, &[9; 512]).unwrap();
    assert_eq!((exports.hosts().len(), exports.urls().len(), exports.connections()), (1, 1, 1));
    drop(exports);
    assert!(disk.read(0, &mut [0; 512]).is_err());
    assert!(export.open(host(1), &nqn(), Nsid(1)).is_ok_and(|device| Disk::on(device).is_err()));
}
