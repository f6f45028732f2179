//! A device is asked for its size after what is behind it has grown: whatever the source, and
//! whether it is in use or not.

use crate::served::{self, Served};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weft_block::path::PathState;
use weft_block::{Device, OpenOptions, SizeAnswer};
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig, Exports};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::inventory::{InventoryBuilder, LiveInventory, NamespaceConfig, SubsystemConfig};
use weft_endpoint::source::iscsi::IscsiOptions;
use weft_endpoint::{ConnectOptions, Disk, PathOptions, TlsFiles, open};
use weft_io::RemoteLoop;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Id128, Nqn, Nsid};
use weft_testing::wait::until;

const MIB: u64 = 1 << 20;
const IQN: &str = "iqn.2026-01.example.weft:sizes";

fn nqn() -> Nqn {
    Nqn::new("nqn.2026-01.example.weft:sizes").unwrap()
}

/// A file that goes with this value.
struct Growing(PathBuf);

impl Growing {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weft-sizes-{}-{nth}.img", std::process::id());
        let this = Self(std::env::temp_dir().join(name));
        std::fs::write(&this.0, vec![0; MIB as usize]).unwrap();
        this
    }

    fn url(&self) -> String {
        format!("file:{}", self.0.display())
    }

    fn set_len(&self, mib: u64) {
        let file = std::fs::File::options().write(true).open(&self.0).unwrap();
        file.set_len(mib * MIB).unwrap();
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn device(url: &str) -> Device {
    weft_block::open(url, &OpenOptions::default()).unwrap()
}

fn bytes(device: &Device) -> u64 {
    device.geometry().bytes()
}

/// A server of one device by each protocol that tells sizes in a way of its own.
struct Server {
    device: Device,
    inventory: Arc<LiveInventory>,
    served: Served<Exports>,
}

impl Server {
    fn start(url: &str) -> Self {
        let (device, mut builder) = (device(url), InventoryBuilder::default());
        builder.add_subsystem(SubsystemConfig::new(nqn())).unwrap();
        let config = NamespaceConfig::named(Arc::clone(&device), "1");
        builder.add_namespace(&nqn(), Nsid(1), config).unwrap();
        let inventory = LiveInventory::new(builder.build().unwrap());
        let config = ExportConfig {
            inventory: Arc::clone(&inventory),
            iscsi: Settings { name: Some(Name::new(IQN).unwrap()), ..Settings::default() },
            tls: TlsFiles::default(),
            late_writers: Default::default(),
        };
        let listen = ["nvme+tcp", "iscsi", "nbd"].map(|scheme| format!("{scheme}://127.0.0.1:0"));
        let start = |loops: &[RemoteLoop]| export::start(&config, &listen, loops).unwrap();
        Self { device, inventory, served: Served::start(&served::loops(2), start) }
    }

    fn url(&self, scheme: &str) -> String {
        let urls = self.served.urls();
        urls.iter().find(|url| url.starts_with(scheme)).unwrap().clone()
    }

    fn open(&self, scheme: &str) -> Device {
        self.open_over(scheme, Vec::new())
    }

    /// Opens it with these further paths.
    fn open_over(&self, scheme: &str, further: Vec<String>) -> Device {
        let host = Nqn::new("nqn.2026-01.example.host:sizes").unwrap();
        let initiator_name = Some(Name::new("iqn.2026-01.example.host:sizes").unwrap());
        let options = ConnectOptions {
            host: Some(HostIdentity { nqn: host, id: Id128([5; 16]) }),
            iscsi: IscsiOptions { initiator_name, ..IscsiOptions::default() },
            paths: PathOptions { further, ..PathOptions::default() },
            ..ConnectOptions::default()
        };
        open(&self.url(scheme), &options).unwrap()
    }

    /// The server takes over what its file has.
    fn look(&self) {
        assert_eq!(self.device.renew_size().unwrap(), SizeAnswer::Now);
        self.inventory.look_at_devices();
    }
}

/// The last block of each MiB is another one.
fn fill(disk: &Disk, mib: u64) {
    let (lba, data) = (mib * MIB / 512 - 1, [mib as u8; 512]);
    disk.write(lba, &data).unwrap();
    disk.flush().unwrap();
    let mut read = [0; 512];
    disk.read(lba, &mut read).unwrap();
    assert_eq!(read, data);
}

#[test]
fn a_remote_disk_tells_its_size_when_it_is_asked() {
    for scheme in ["nvme+tcp", "iscsi", "nbd"] {
        for is_in_use in [false, true] {
            let file = Growing::new();
            let server = Server::start(&file.url());
            let device = server.open(scheme);
            let disk = is_in_use.then(|| Disk::on(Arc::clone(&device)).unwrap());
            disk.iter().for_each(|disk| fill(disk, 1));
            for mib in [2, 5, 5] {
                file.set_len(mib);
                server.look();
                let asked = device.renew_size().unwrap_or_else(|e| panic!("{scheme}: {e}"));
                let context = format!("{scheme}, in use: {is_in_use}");
                assert_eq!((asked, bytes(&device)), (SizeAnswer::Now, mib * MIB), "{context}");
                disk.iter().for_each(|disk| fill(disk, mib));
            }
            drop(disk);
            let mut disk = None;
            until("the queue of the first disk is free", || {
                disk = Disk::on(Arc::clone(&device)).ok();
                disk.is_some()
            });
            fill(&disk.unwrap(), 5);
        }
    }
}

#[test]
fn a_disk_over_two_paths_has_the_smaller_size_while_they_differ() {
    const UUID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
    for scheme in ["nvme+tcp", "iscsi", "nbd"] {
        let files = [Growing::new(), Growing::new()];
        let servers =
            files.each_ref().map(|file| Server::start(&format!("{},uuid={UUID}", file.url())));
        let device = servers[0].open_over(scheme, vec![servers[1].url(scheme)]);
        until("both paths are used", || {
            device.paths().iter().all(|path| path.state == PathState::Live)
        });
        let set = |which: usize, mib| {
            files[which].set_len(mib);
            servers[which].look();
        };
        let differs = |mib| {
            let said = device.renew_size().unwrap_err().to_string();
            assert!(said.contains("different sizes") && said.contains("4MiB"), "{scheme}: {said}");
            assert_eq!(bytes(&device), mib * MIB, "{scheme}");
        };
        set(0, 4);
        differs(1);
        set(1, 2);
        differs(2);
        set(1, 4);
        assert_eq!(device.renew_size().unwrap(), SizeAnswer::Now, "{scheme}");
        assert_eq!(bytes(&device), 4 * MIB, "{scheme}");
        fill(&Disk::on(device).unwrap(), 4);
    }
}

#[test]
fn an_export_that_has_become_shorter_is_not_taken_over() {
    let server = Server::start("ram:2MiB");
    let device = server.open("nbd");
    let half = |builder: &mut InventoryBuilder| {
        builder.resize_namespace(&nqn(), Nsid(1), Some(MIB / 512)).map(drop)
    };
    server.inventory.change(half).unwrap();
    let said = device.renew_size().unwrap_err().to_string();
    assert!(said.contains("1MiB instead of 2MiB"), "{said}");
    assert_eq!(bytes(&device), 2 * MIB);
}

#[test]
fn a_local_disk_tells_its_size_when_it_is_asked() {
    let files = [Growing::new(), Growing::new()];
    let [one, two] = [&files[0], &files[1]].map(|file| file.url());
    for (of, url, factor) in [
        (&files[..1], one.clone(), 1),
        (&files[..1], format!("stats:{one}"), 1),
        (&files[..1], format!("readonly:{one}"), 1),
        (&files[..], format!("stripe:64KiB,{one},{two}"), 2),
    ] {
        files.iter().for_each(|file| file.set_len(1));
        let device = device(&url);
        for mib in [2, 3, 3] {
            files.iter().for_each(|file| file.set_len(mib));
            assert_eq!(device.renew_size().unwrap(), SizeAnswer::Now, "{url}");
            assert_eq!(bytes(&device), mib * MIB * factor, "{url}");
        }
        // A part of a block cannot be written.
        if device.features().write {
            let file = std::fs::File::options().write(true).open(&of[0].0).unwrap();
            file.set_len(4 * MIB + 1).unwrap();
            let said = device.renew_size().unwrap_err().to_string();
            assert!(said.contains("not a whole number of blocks"), "{said}");
        }
        // What is gone stays missing, even if the file grows again.
        for mib in [1, 4] {
            of[0].set_len(mib);
            let said = device.renew_size().unwrap_err().to_string();
            assert!(said.contains("was cut to 1048576 of its 3145728 bytes"), "{said}");
        }
        assert_eq!(bytes(&device), 3 * MIB * factor, "{url}");
    }
}

#[test]
fn what_was_made_with_a_size_keeps_it() {
    for url in ["ram:1MiB", "null:1MiB", "stripe:64KiB,ram:1MiB,ram:1MiB"] {
        assert_eq!(device(url).renew_size().unwrap(), SizeAnswer::Fixed, "{url}");
    }
}
