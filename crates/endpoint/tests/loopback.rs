//! The initiator on the target, over TCP on the loopback.

use crate::served::{self, Served};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use weft_block::{BlockDevice, ErrorKind};
use weft_endpoint::ConnectOptions;
use weft_endpoint::export::nvme::{Target, TargetConfig};
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::source::nvme::tcp::{Session, discover};
use weft_endpoint::url::NvmeUrl;
use weft_endpoint::{Disk, PathOptions, open};
use weft_proto::nvme::log_page::SubsystemType;
use weft_proto::nvme::types::Nqn;
use weft_testing::wait::until;

fn nqn() -> Nqn {
    Nqn::new("nqn.2026-01.example.weft:test").unwrap()
}

fn serve(sources: &[&str], threads: usize) -> Served<Target> {
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let inventory =
        LiveInventory::of_devices(SubsystemConfig::new(nqn()), served::devices(sources)).unwrap();
    let config = TargetConfig {
        inventory,
        listen,
        identities: weft_endpoint::identity::Identities::default(),
        tls: weft_endpoint::TlsFiles::default(),
    };
    Served::start(&served::loops(threads), |loops| Target::start(config, loops).unwrap())
}

fn url(served: &Served<Target>) -> String {
    format!("nvme+tcp://{}/{}", served.addresses()[0], nqn())
}

fn pattern(lba: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (lba as usize * 7 + n / 3) as u8).collect()
}

fn write_and_read(device: Arc<dyn BlockDevice>) {
    let disk = Disk::on(device).unwrap();
    let block = disk.geometry().block_bytes as usize;
    for (lba, blocks) in [(0, 1), (5, 8), (100, 16), (300, 128), (1000, 1000)] {
        disk.write(lba, &pattern(lba, blocks * block)).unwrap();
    }
    disk.flush().unwrap();
    for (lba, blocks) in [(0, 1), (5, 8), (100, 16), (300, 128), (1000, 1000)] {
        let mut back = vec![0; blocks * block];
        disk.read(lba, &mut back).unwrap();
        assert!(back == pattern(lba, blocks * block), "lba {lba}");
    }
}

#[test]
fn blocks_come_back_with_every_digest_combination() {
    let served = serve(&["ram:16MiB", "ram:16MiB,block=4096"], 2);
    for (hdr_digest, data_digest) in [(false, false), (true, false), (false, true), (true, true)] {
        for nsid in [1, 2] {
            let options = ConnectOptions {
                hdr_digest,
                data_digest,
                nr_io_queues: 2,
                ..ConnectOptions::default()
            };
            write_and_read(open(&format!("{}/{nsid}", url(&served)), &options).unwrap());
        }
    }
}

#[test]
fn discovery_and_identify() {
    let served = serve(&["ram:16MiB", "null:1GiB"], 1);
    let url = NvmeUrl::parse(&url(&served)).unwrap();
    let log = discover(&url.address, &ConnectOptions::default()).unwrap();
    let told: Vec<_> = log.entries.iter().map(|entry| entry.subtype).collect();
    assert_eq!(told, [SubsystemType::NVME, SubsystemType::CURRENT_DISCOVERY]);
    let session = Session::connect(&url, &ConnectOptions::default()).unwrap();
    assert_eq!(session.namespaces().len(), 2);
    assert_eq!(session.namespaces()[1].blocks, (1 << 30) / 512);
}

#[test]
fn what_is_not_there_is_refused_in_one_sentence() {
    let served = serve(&["ram:16MiB"], 1);
    let message = |url: &str| open(url, &ConnectOptions::default()).err().unwrap().to_string();
    assert!(message(&format!("{}/7", url(&served))).contains("no namespace 7"));
    let other = url(&served).replace(":test", ":other");
    assert!(message(&other).contains("there is no subsystem"), "{}", message(&other));
}

#[test]
fn queues_of_one_controller_live_on_different_loops() {
    let served = serve(&["ram:16MiB"], 2);
    let options = ConnectOptions { nr_io_queues: 4, ..ConnectOptions::default() };
    let device = open(&url(&served), &options).unwrap();
    let loops = served.loops();
    let before = loops.counters();
    let disks: Vec<_> = (0..4).map(|_| Disk::on(Arc::clone(&device)).unwrap()).collect();
    assert!(Disk::on(Arc::clone(&device)).err().unwrap().to_string().contains("--nr-io-queues"));
    std::thread::scope(|scope| {
        for (n, disk) in (0..).zip(&disks) {
            scope.spawn(move || {
                for round in 0..50 {
                    let lba = n * 1000 + round * 16;
                    disk.write(lba, &pattern(lba, 8192)).unwrap();
                    let mut back = vec![0; 8192];
                    disk.read(lba, &mut back).unwrap();
                    assert!(back == pattern(lba, 8192), "lba {lba}");
                }
            });
        }
    });
    // Two queues on each: what a loop received is about half of everything.
    for (after, before) in loops.counters().iter().zip(&before) {
        assert!(after.since(before).recv_bytes > 2 * 50 * 8192, "{after:?}");
    }
    // A queue that is given back can be had again.
    drop(disks);
    Disk::on(device).unwrap().flush().unwrap();
}

#[test]
fn a_target_stops_under_load_and_leaves_truthful_answers() {
    let served = serve(&["ram:16MiB"], 2);
    let disk = Disk::on(
        open(
            &url(&served),
            &ConnectOptions { paths: PathOptions::once(), ..ConnectOptions::default() },
        )
        .unwrap(),
    )
    .unwrap();
    let written = AtomicU64::new(0);
    let write =
        || disk.write(written.load(SeqCst) % 1000, &pattern(written.fetch_add(1, SeqCst), 512));
    std::thread::scope(|scope| {
        scope.spawn(|| while write().is_ok() {});
        until("something is written", || written.load(SeqCst) > 10);
        drop(served);
    });
    assert!(disk.flush().is_err());
}

#[test]
fn the_only_queue_is_there_again_when_a_disk_is_dropped() {
    let served = serve(&["ram:1MiB"], 1);
    let options = ConnectOptions { nr_io_queues: 1, ..ConnectOptions::default() };
    let device = open(&url(&served), &options).unwrap();
    for round in 0..100 {
        let disk = Disk::on(Arc::clone(&device)).unwrap_or_else(|e| panic!("round {round}: {e}"));
        disk.read(0, &mut [0; 512]).unwrap();
    }
}

#[test]
fn blocks_are_zeroed_discarded_and_replaced_only_where_they_are_as_expected() {
    let served = serve(&["ram:1MiB"], 1);
    for source in ["ram:1MiB", &url(&served)] {
        let disk = Disk::open(source, &ConnectOptions::default()).unwrap();
        let read = |lba| {
            let mut block = [1; 512];
            disk.read(lba, &mut block).unwrap();
            block
        };
        disk.write(0, &[7; 2048]).unwrap();
        disk.write_zeroes(1, 2, true).unwrap();
        assert_eq!([0, 1, 2, 3].map(|lba| read(lba)[0]), [7, 0, 0, 7], "{source}");
        assert!(!disk.compare_and_write(0, &[6; 512], &[8; 512]).unwrap());
        assert!(disk.compare_and_write(0, &[7; 512], &[8; 512]).unwrap());
        assert_eq!(read(0), [8; 512], "{source}");
        disk.discard(0, 2048).unwrap();
        disk.flush().unwrap();
        assert_eq!(
            [disk.discard(2047, 2), disk.write_zeroes(u64::MAX, 2, false)]
                .map(|end| end.map_err(|e| e.kind())),
            [Err(ErrorKind::Usage); 2]
        );
        assert!(disk.compare_and_write(0, &[], &[]).unwrap());
        let unequal = disk.compare_and_write(0, &[0; 512], &[0; 1024]).unwrap_err();
        assert_eq!(unequal.kind(), ErrorKind::Usage);
    }
}
