//! weft's iSCSI source on its own target: the contract of block devices, secrets, discovery, and the end.

use std::sync::Arc;
use std::time::Duration;
use weft_block::testing::{Plan, conformance};
use weft_block::{ErrorKind, OpenOptions};
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig, Exports, Named};
use weft_endpoint::loops::{Loops, LoopsConfig};
use weft_endpoint::source::iscsi::{IscsiOptions, IscsiUrl, discover};
use weft_endpoint::url::ISCSI_PORT;
use weft_endpoint::{ConnectOptions, Disk, TlsFiles, open};
use weft_proto::iscsi::chap::Credentials;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::Nqn;

const IQN: &str = "iqn.2026-01.example.weft:disk";

struct Served {
    exports: Option<Exports>,
    loops: Option<Loops>,
}

impl Served {
    fn start(sources: &[&str], settings: Settings) -> Self {
        let loops = Loops::start(&LoopsConfig { threads: Some(2), ..LoopsConfig::default() }).unwrap();
        let device = |url: &&str| weft_block::open(url, &OpenOptions::default()).unwrap();
        let devices = sources.iter().zip(1..).map(|(url, n)| Named { name: n.to_string(), device: device(url) });
        let config = ExportConfig {
            devices: devices.collect(),
            subsystem: Nqn::new("nqn.2026-01.example.weft:disk").unwrap(),
            allow_hosts: None,
            iscsi: Settings { name: Some(Name::new(IQN).unwrap()), ..settings },
            tls: TlsFiles::default(),
        };
        let exports = export::start(&config, &["iscsi://127.0.0.1:0".to_owned()], loops.remotes()).unwrap();
        Self { exports: Some(exports), loops: Some(loops) }
    }

    fn url(&self, n: usize) -> String {
        self.exports.as_ref().unwrap().urls()[n].clone()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.exports.take().unwrap().stop().unwrap();
        self.loops.take().unwrap().stop().unwrap();
    }
}

fn options() -> ConnectOptions {
    let initiator_name = Some(Name::new("iqn.2026-01.example.weft:test").unwrap());
    ConnectOptions {
        connect_timeout: Duration::from_secs(30),
        iscsi: IscsiOptions { initiator_name, ..IscsiOptions::default() },
        ..ConnectOptions::default()
    }
}

#[test]
fn it_keeps_the_contract() {
    let served = Served::start(&["ram:16MiB", "ram:16MiB,block=4096"], Settings::default());
    for (n, loops, digests) in [(0, 1, true), (0, 2, false), (1, 2, true)] {
        let options = ConnectOptions { nr_io_queues: 8, hdr_digest: digests, data_digest: digests, ..options() };
        let device = open(&served.url(n), &options).unwrap_or_else(|e| panic!("{e}"));
        assert!(device.features().compare && device.features().write_zeroes && device.features().discard);
        conformance(&device, Plan { loops, rounds: 100, ..Plan::default() });
    }
}

#[test]
fn secrets_and_discovery() {
    let credentials = |name: &str, secret: &str| Credentials { name: name.into(), secret: secret.into() };
    let settings = Settings {
        chap: vec![credentials("me", "a secret of mine")],
        chap_target: Some(credentials("it", "a secret of its own")),
        ..Settings::default()
    };
    let served = Served::start(&["ram:16MiB"], settings);
    let with = |secret: &str, target_secret: &str| {
        let bytes = |text: &str| Some(text.as_bytes().to_vec()).filter(|text| !text.is_empty());
        let user = Some("me".to_owned()).filter(|_| !secret.is_empty());
        let iscsi = IscsiOptions { user, secret: bytes(secret), target_secret: bytes(target_secret), ..options().iscsi };
        ConnectOptions { iscsi, ..options() }
    };
    for target_secret in ["", "a secret of its own"] {
        let options = with("a secret of mine", target_secret);
        let disk = Disk::on(open(&served.url(0), &options).unwrap_or_else(|e| panic!("{e}"))).unwrap();
        disk.write(0, &[1; 512]).unwrap();
        let url = IscsiUrl::parse(&served.url(0), ISCSI_PORT).unwrap();
        let targets = discover(&IscsiUrl { target: None, lun: None, ..url }, &options).unwrap();
        assert_eq!(targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>(), [IQN]);
    }
    for options in [with("", ""), with("another secret", ""), with("a secret of mine", "another secret")] {
        let error = open(&served.url(0), &options).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    }
}

#[test]
fn a_session_that_nobody_uses_lives_on() {
    let served = Served::start(&["ram:16MiB"], Settings::default());
    let options = ConnectOptions { keep_alive_ms: 200, ..options() };
    let device = open(&served.url(0), &options).unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    let disk = Disk::on(Arc::clone(&device)).unwrap();
    disk.write(9, &[7; 4096]).unwrap();
    // With a queue, but without operations.
    std::thread::sleep(Duration::from_millis(1500));
    let mut back = [0; 4096];
    disk.read(9, &mut back).unwrap();
    assert_eq!(back, [7; 4096]);
}

#[test]
fn a_target_that_stops_leaves_truthful_answers() {
    let served = Served::start(&["ram:16MiB"], Settings::default());
    let disk = Disk::on(open(&served.url(0), &options()).unwrap()).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..).take_while(|round| disk.write(round % 1000, &[1; 512]).is_ok()).count());
        std::thread::sleep(Duration::from_millis(100));
        drop(served);
        assert!(writer.join().unwrap() > 0);
    });
    assert!(disk.flush().is_err());
}
