//! The initiator on the target, over TCP on the loopback.

use std::sync::Arc;
use weft_block::{BlockDevice, OpenOptions};
use weft_endpoint::export::nvme_tcp::{Target, TargetConfig};
use weft_endpoint::loops::{Loops, LoopsConfig};
use weft_endpoint::source::nvme_tcp::{ConnectOptions, Session, discover};
use weft_endpoint::url::{HostPort, NvmeTcpUrl};
use weft_endpoint::{Disk, open};
use weft_proto::nvme::types::Nqn;

struct Served {
    target: Option<Target>,
    loops: Option<Loops>,
    nqn: Nqn,
}

impl Served {
    fn start(sources: &[&str], threads: usize) -> Self {
        let nqn = Nqn::new("nqn.2026-01.example.weft:test").unwrap();
        let loops = Loops::start(&LoopsConfig { threads: Some(threads), ..LoopsConfig::default() }).unwrap();
        let devices = sources.iter().map(|url| weft_block::open(url, &OpenOptions::default()).unwrap()).collect();
        let config =
            TargetConfig { subsystem: nqn.clone(), allow_hosts: None, devices, listen: vec!["127.0.0.1:0".parse().unwrap()] };
        let target = Target::start(config, loops.remotes()).unwrap();
        Self { target: Some(target), loops: Some(loops), nqn }
    }

    fn url(&self) -> String {
        format!("nvme+tcp://{}/{}", self.target.as_ref().unwrap().addresses()[0], self.nqn)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.target.take().unwrap().stop().unwrap();
        self.loops.take().unwrap().stop().unwrap();
    }
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
    let served = Served::start(&["ram:16MiB", "ram:16MiB,block=4096"], 2);
    for (hdr_digest, data_digest) in [(false, false), (true, false), (false, true), (true, true)] {
        for nsid in [1, 2] {
            let options = ConnectOptions { hdr_digest, data_digest, nr_io_queues: 2, ..ConnectOptions::default() };
            write_and_read(open(&format!("{}/{nsid}", served.url()), &options).unwrap());
        }
    }
}

#[test]
fn discovery_and_identify() {
    let served = Served::start(&["ram:16MiB", "null:1GiB"], 1);
    let url = NvmeTcpUrl::parse(&served.url(), 4420).unwrap();
    let address = HostPort { host: url.address.host.clone(), port: url.address.port };
    let log = discover(&address, &ConnectOptions::default()).unwrap();
    assert_eq!(log.entries.len(), 1);
    let session = Session::connect(&url, &ConnectOptions::default()).unwrap();
    assert_eq!(session.namespaces().len(), 2);
    assert_eq!(session.namespaces()[1].blocks, (1 << 30) / 512);
}

#[test]
fn what_is_not_there_is_refused_in_one_sentence() {
    let served = Served::start(&["ram:16MiB"], 1);
    let message = |url: &str| open(url, &ConnectOptions::default()).err().unwrap().to_string();
    assert!(message(&format!("{}/7", served.url())).contains("no namespace 7"));
    let other = served.url().replace(":test", ":other");
    assert!(message(&other).contains("there is no subsystem"), "{}", message(&other));
}

#[test]
fn queues_of_one_controller_live_on_different_loops() {
    let served = Served::start(&["ram:16MiB"], 2);
    let options = ConnectOptions { nr_io_queues: 4, ..ConnectOptions::default() };
    let device = open(&served.url(), &options).unwrap();
    let loops = served.loops.as_ref().unwrap();
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
    let served = Served::start(&["ram:16MiB"], 2);
    let disk = Disk::on(open(&served.url(), &ConnectOptions::default()).unwrap()).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..).take_while(|round| disk.write(round % 1000, &pattern(*round, 512)).is_ok()).count());
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(served);
        assert!(writer.join().unwrap() > 0);
    });
    assert!(disk.flush().is_err());
}
