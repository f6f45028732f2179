//! The inventory changes while others read and write, by each protocol over real sockets, and in
//! this process.

use crate::devices::Testing;
use crate::served::{self, Served};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{Scope, ScopedJoinHandle};
use weft_block::{BlockDevice, OpenOptions};
use weft_endpoint::export::in_process::InProcess;
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig, Exports};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::inventory::{
    Access, InventoryBuilder, InventoryError, LiveInventory, Namespace, NamespaceConfig,
    SubsystemConfig,
};
use weft_endpoint::source::iscsi::IscsiOptions;
use weft_endpoint::{ConnectOptions, Disk, PathOptions, TlsFiles, open};
use weft_io::RemoteLoop;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Id128, Nqn, Nsid};
use weft_testing::wait::until;

const IQN: &str = "iqn.2026-01.example.weft:changing";
const BLOCK: usize = 512;
/// Blocks that the load uses; what is done to the namespace leaves them alone.
const LOADED: u64 = 1000;

fn nqn() -> Nqn {
    Nqn::new("nqn.2026-01.example.weft:changing").unwrap()
}

fn host() -> HostIdentity {
    HostIdentity { nqn: Nqn::new("nqn.2026-01.example.host:changing").unwrap(), id: Id128([9; 16]) }
}

fn initiator() -> Name {
    Name::new("iqn.2026-01.example.host:changing").unwrap()
}

fn ram() -> Arc<dyn BlockDevice> {
    weft_block::open("ram:16MiB", &OpenOptions::default()).unwrap()
}

/// Namespace 1 of 4,096 blocks, served by one protocol.
struct Changing {
    inventory: Arc<LiveInventory>,
    served: Served<Exports>,
}

impl Changing {
    fn start(listen: &str) -> Self {
        let mut builder = InventoryBuilder::default();
        builder.add_subsystem(SubsystemConfig::new(nqn())).unwrap();
        let first =
            NamespaceConfig { blocks: Some(4096), ..NamespaceConfig::named(ram(), "first") };
        builder.add_namespace(&nqn(), Nsid(1), first).unwrap();
        let inventory = LiveInventory::new(builder.build().unwrap());
        let iscsi = Settings { name: Some(Name::new(IQN).unwrap()), ..Settings::default() };
        let config = ExportConfig {
            inventory: Arc::clone(&inventory),
            iscsi,
            tls: TlsFiles::default(),
            late_writers: Default::default(),
        };
        let start =
            |loops: &[RemoteLoop]| export::start(&config, &[listen.to_owned()], loops).unwrap();
        Self { inventory, served: Served::start(&served::loops(2), start) }
    }

    fn urls(&self) -> Vec<String> {
        self.served.urls()
    }

    fn first(&self) -> Arc<Namespace> {
        Arc::clone(self.inventory.now().namespace(&nqn(), Nsid(1)).unwrap())
    }

    fn change(
        &self,
        edit: impl FnOnce(&mut InventoryBuilder) -> Result<&mut InventoryBuilder, InventoryError>,
    ) {
        self.inventory.change(|builder| edit(builder).map(drop)).unwrap();
    }

    fn add(&self, nsid: u32, name: &str) {
        self.change(|builder| {
            builder.add_namespace(&nqn(), Nsid(nsid), NamespaceConfig::named(ram(), name))
        });
    }

    fn remove(&self, nsid: u32) {
        self.change(|builder| builder.remove_namespace(&nqn(), Nsid(nsid)));
    }

    fn resize(&self, blocks: u64) {
        self.change(|builder| builder.resize_namespace(&nqn(), Nsid(1), Some(blocks)));
    }

    /// Lets nobody in any more.
    fn deny(&self) {
        self.change(|builder| {
            let subsystem = builder.subsystem_mut(&nqn())?;
            (subsystem.hosts, subsystem.initiators) =
                (Access::Only([].into()), Access::Only([].into()));
            Ok(builder)
        });
    }
}

fn options() -> ConnectOptions {
    let iscsi = IscsiOptions { initiator_name: Some(initiator()), ..IscsiOptions::default() };
    ConnectOptions {
        host: Some(host()),
        iscsi,
        paths: PathOptions::once(),
        ..ConnectOptions::default()
    }
}

/// Writes and reads back, for as long as it is wanted and works.
#[derive(Default)]
struct Load {
    rounds: AtomicU64,
    stop: AtomicBool,
}

impl Load {
    /// Tells in the end whether it worked to the end.
    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        disk: Disk,
    ) -> ScopedJoinHandle<'scope, bool> {
        scope.spawn(move || {
            let (mut round, mut back) = (0, vec![0; 8 * BLOCK]);
            while !self.stop.load(SeqCst) {
                let (lba, data) = (round * 8 % LOADED, vec![round as u8; 8 * BLOCK]);
                if disk.write(lba, &data).and_then(|()| disk.read(lba, &mut back)).is_err() {
                    return false;
                }
                assert!(back == data, "round {round}");
                round += 1;
                self.rounds.store(round, SeqCst);
            }
            true
        })
    }

    /// Waits until it has done some more.
    fn goes_on(&self) {
        let before = self.rounds.load(SeqCst);
        until("the load goes on", || self.rounds.load(SeqCst) > before + 20);
    }
}

fn works(disk: &Disk) {
    let (data, mut back) = (vec![0x5a; 16 * BLOCK], vec![0; 16 * BLOCK]);
    disk.write(100, &data).unwrap();
    disk.read(100, &mut back).unwrap();
    assert!(back == data);
}

fn fails(disk: &Disk) {
    until("the disk is gone", || disk.read(0, &mut [0; BLOCK]).is_err());
}

#[test]
fn nvme_namespaces_come_grow_and_go_under_load() {
    let served = Changing::start("nvme+tcp://127.0.0.1:0");
    let url = served.urls().remove(0);
    let device = open(&format!("{url}/1"), &options()).unwrap();
    let load = Load::default();
    std::thread::scope(|scope| {
        let loading = load.start(scope, Disk::on(Arc::clone(&device)).unwrap());
        for round in 0..5 {
            load.goes_on();
            served.add(70_000, "far");
            let far = Disk::open(&format!("{url}/70000"), &options()).unwrap();
            works(&far);
            served.resize(5000 + round);
            until("the new size is seen", || device.geometry().blocks == 5000 + round);
            served.remove(70_000);
            fails(&far);
        }
        // Shrunk behind what the load uses.
        served.resize(2000);
        until("the new size is seen", || device.geometry().blocks == 2000);
        load.goes_on();
        served.deny();
        assert!(!loading.join().unwrap(), "its association has ended");
    });
    let refused = open(&format!("{url}/1"), &options()).err().expect("nobody may connect");
    assert!(refused.to_string().contains("does not allow"), "{refused}");
}

/// Opens what is served, puts other data of the same size under its name, and checks that nothing
/// is written to that.
fn notices_other_data(served: &Changing, open: impl Fn() -> Disk) {
    let disk = open();
    works(&disk);
    let other = ram();
    let replacement = NamespaceConfig {
        blocks: Some(4096),
        ..NamespaceConfig::named(Arc::clone(&other), "first")
    };
    served.change(|builder| builder.replace_namespace(&nqn(), Nsid(1), replacement));
    let full = vec![0xee; BLOCK];
    until("the disk is gone", || disk.write(0, &full).is_err());
    let new = Disk::on(other).unwrap();
    new.write(0, &[0; BLOCK]).unwrap();
    for _ in 0..20 {
        assert!(disk.write(0, &full).is_err(), "a device that has ended takes nothing any more");
    }
    let mut back = [1; BLOCK];
    new.read(0, &mut back).unwrap();
    assert_eq!(back, [0; BLOCK]);
    works(&open());
}

#[test]
fn an_nvme_namespace_that_another_one_has_replaced_is_not_written_to() {
    let served = Changing::start("nvme+tcp://127.0.0.1:0");
    let url = format!("{}/1", served.urls()[0]);
    notices_other_data(&served, || Disk::open(&url, &options()).unwrap());
}

#[test]
fn an_iscsi_logical_unit_that_another_one_has_replaced_is_not_written_to() {
    let served = Changing::start("iscsi://127.0.0.1:0");
    let url = &served.urls()[0];
    notices_other_data(&served, || Disk::open(url, &options()).unwrap());
}

#[test]
fn iscsi_logical_units_come_grow_and_go_under_load() {
    let served = Changing::start("iscsi://127.0.0.1:0");
    let url = served.urls().remove(0);
    let at = |lun: u32| url.replace(&format!("{IQN}/0"), &format!("{IQN}/{lun}"));
    let device = open(&at(0), &options()).unwrap();
    let load = Load::default();
    std::thread::scope(|scope| {
        let loading = load.start(scope, Disk::on(Arc::clone(&device)).unwrap());
        for round in 0..5 {
            load.goes_on();
            served.add(5, "further");
            let other = ConnectOptions {
                iscsi: IscsiOptions {
                    initiator_name: Some(Name::new("iqn.2026-01.example.host:second").unwrap()),
                    ..options().iscsi
                },
                ..options()
            };
            let further = Disk::open(&at(4), &other).unwrap();
            works(&further);
            served.resize(5000 + round);
            until("the new size is seen", || device.geometry().blocks == 5000 + round);
            served.remove(5);
            fails(&further);
        }
        load.goes_on();
        served.deny();
        assert!(!loading.join().unwrap(), "its session has ended");
    });
    assert!(open(&at(0), &options()).is_err(), "nobody may log in");
}

#[test]
fn nbd_exports_come_and_go_and_clients_keep_the_size_that_they_were_told() {
    let served = Changing::start("nbd://127.0.0.1:0");
    let url = served.urls().remove(0);
    let at = |name: &str| url.replace("first", name);
    let device = open(&url, &options()).unwrap();
    let load = Load::default();
    std::thread::scope(|scope| {
        let loading = load.start(scope, Disk::on(Arc::clone(&device)).unwrap());
        load.goes_on();
        served.add(2, "further");
        let further = Disk::open(&at("further"), &options()).unwrap();
        works(&further);
        served.resize(5000);
        load.goes_on();
        assert_eq!(device.geometry().blocks, 4096);
        assert_eq!(open(&url, &options()).unwrap().geometry().blocks, 5000);
        served.remove(2);
        fails(&further);
        assert!(open(&at("further"), &options()).is_err());
        load.goes_on();
        // Smaller than this client was told.
        served.resize(4000);
        assert!(!loading.join().unwrap(), "its connection has ended");
    });
    assert_eq!(open(&url, &options()).unwrap().geometry().blocks, 4000);
    // Other data under the same name.
    let disk = Disk::open(&url, &options()).unwrap();
    works(&disk);
    served.change(|builder| {
        builder.replace_namespace(&nqn(), Nsid(1), NamespaceConfig::named(ram(), "first"))
    });
    fails(&disk);
    works(&Disk::open(&url, &options()).unwrap());
}

#[test]
fn namespaces_of_hosts_in_this_process_come_grow_and_go_under_load() {
    let served = Changing::start("nbd://127.0.0.1:0");
    let export = InProcess::start(&served.inventory);
    let open = |nsid| export.open(host(), &nqn(), Nsid(nsid));
    let device = open(1).unwrap();
    let load = Load::default();
    std::thread::scope(|scope| {
        let loading = load.start(scope, Disk::on(Arc::clone(&device)).unwrap());
        for round in 0..5 {
            load.goes_on();
            served.add(70_000, "far");
            let far = Disk::on(open(70_000).unwrap()).unwrap();
            works(&far);
            served.resize(5000 + round);
            assert_eq!(device.geometry().blocks, 5000 + round);
            served.remove(70_000);
            fails(&far);
            assert!(open(70_000).is_err());
        }
        served.resize(2000);
        assert_eq!(device.geometry().blocks, 2000);
        load.goes_on();
        // Another device with the same data: nobody notices.
        let (uuid, was) = (device.identity().uuid, Arc::clone(&served.first().device));
        served.change(|builder| {
            let over = NamespaceConfig::named(Testing::over(was), "first");
            builder.replace_namespace(&nqn(), Nsid(1), NamespaceConfig { uuid, ..over })
        });
        load.goes_on();
        served.deny();
        assert!(!loading.join().unwrap(), "it sees the namespace no more");
    });
    let refused = open(1).err().expect("nobody may open it");
    assert!(refused.to_string().contains("no access"), "{refused}");
    export::stop_all(&[&export], &[]).unwrap();
}

#[test]
fn a_namespace_of_a_host_in_this_process_that_another_one_has_replaced_is_not_written_to() {
    let served = Changing::start("nbd://127.0.0.1:0");
    let export = InProcess::start(&served.inventory);
    let open = || Disk::on(export.open(host(), &nqn(), Nsid(1)).unwrap()).unwrap();
    notices_other_data(&served, open);
    export::stop_all(&[&export], &[]).unwrap();
}

#[test]
fn several_subsystems_are_discovered_and_served() {
    let served = Changing::start("nvme+tcp://127.0.0.1:0");
    let other = Nqn::new("nqn.2026-01.example.weft:second").unwrap();
    let hidden = Nqn::new("nqn.2026-01.example.weft:hidden").unwrap();
    served.change(|builder| {
        builder.add_subsystem(SubsystemConfig::new(other.clone()))?;
        builder.add_subsystem(SubsystemConfig {
            hosts: Access::Only([].into()),
            ..SubsystemConfig::new(hidden.clone())
        })?;
        builder.add_namespace(&other, Nsid(3), NamespaceConfig::new(ram()))
    });
    let urls = served.urls();
    assert_eq!(urls.len(), 3);
    works(&Disk::open(&format!("{}/3", urls[1]), &options()).unwrap());
    assert!(open(&urls[2], &options()).is_err());
    let place = weft_endpoint::url::NvmeUrl::parse(&urls[0]).unwrap().address;
    let log = weft_endpoint::source::nvme::tcp::discover(&place, &options()).unwrap();
    let names: Vec<Nqn> = log.entries.iter().map(|entry| entry.subnqn.nqn().unwrap()).collect();
    assert_eq!(names, [nqn(), other, Nqn::discovery()]);
}
