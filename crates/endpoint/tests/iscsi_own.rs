//! weft's iSCSI source on its own target: the contract of block devices, secrets, discovery, and
//! the end.

use crate::served::{self, Served};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use weft_block::testing::{TestPlan, conformance};
use weft_block::{Error, ErrorKind, Presence};
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig, Exports};
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::source::iscsi::{IscsiOptions, discover};
use weft_endpoint::url::{ISCSI_PORT, IscsiUrl};
use weft_endpoint::{ConnectOptions, Disk, PathOptions, TlsFiles, open};
use weft_proto::iscsi::chap::Credentials;
use weft_proto::iscsi::pdu::BHS_BYTES;
use weft_proto::iscsi::target::ChapUser;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::Nqn;
use weft_testing::wait::{PATIENCE, until};

const IQN: &str = "iqn.2026-01.example.weft:disk";

fn serve(sources: &[&str], settings: Settings) -> Served<Exports> {
    let subsystem = SubsystemConfig::new(Nqn::new("nqn.2026-01.example.weft:disk").unwrap());
    let config = ExportConfig {
        inventory: LiveInventory::of_devices(subsystem, served::devices(sources)).unwrap(),
        iscsi: Settings { name: Some(Name::new(IQN).unwrap()), ..settings },
        tls: TlsFiles::default(),
        late_writers: Default::default(),
    };
    Served::start(&served::loops(2), |loops| {
        export::start(&config, &["iscsi://127.0.0.1:0".to_owned()], loops).unwrap()
    })
}

fn options() -> ConnectOptions {
    let initiator_name = Some(Name::new("iqn.2026-01.example.weft:test").unwrap());
    ConnectOptions {
        connect_timeout: PATIENCE,
        iscsi: IscsiOptions { initiator_name, ..IscsiOptions::default() },
        paths: PathOptions::once(),
        ..ConnectOptions::default()
    }
}

#[test]
fn it_keeps_the_contract() {
    let served = serve(&["ram:16MiB", "ram:16MiB,block=4096"], Settings::default());
    for (n, loops, digests) in [(0, 1, true), (0, 2, false), (1, 2, true)] {
        let options = ConnectOptions {
            nr_io_queues: 8,
            hdr_digest: digests,
            data_digest: digests,
            ..options()
        };
        let device = open(&served.urls()[n], &options).unwrap_or_else(|e| panic!("{e}"));
        assert!(
            device.features().compare
                && device.features().write_zeroes
                && device.features().discard
        );
        conformance(&device, TestPlan { loops, rounds: 100, ..TestPlan::default() });
    }
}

#[test]
fn secrets_and_discovery() {
    let credentials =
        |name: &str, secret: &str| Credentials { name: name.into(), secret: secret.into() };
    let settings = Settings {
        chap: vec![ChapUser {
            credentials: credentials("me", "a secret of mine"),
            initiators: Vec::new(),
        }],
        chap_target: Some(credentials("it", "a secret of its own")),
        ..Settings::default()
    };
    let served = serve(&["ram:16MiB"], settings);
    let with = |secret: &str, target_secret: &str| {
        let bytes = |text: &str| Some(text).filter(|text| !text.is_empty()).map(Into::into);
        let user = Some("me".to_owned()).filter(|_| !secret.is_empty());
        let iscsi = IscsiOptions {
            user,
            secret: bytes(secret),
            target_secret: bytes(target_secret),
            ..options().iscsi
        };
        ConnectOptions { iscsi, ..options() }
    };
    for target_secret in ["", "a secret of its own"] {
        let options = with("a secret of mine", target_secret);
        let disk =
            Disk::on(open(&served.urls()[0], &options).unwrap_or_else(|e| panic!("{e}"))).unwrap();
        disk.write(0, &[1; 512]).unwrap();
        let url = IscsiUrl::parse(&served.urls()[0], ISCSI_PORT).unwrap();
        let targets = discover(&IscsiUrl { target: None, lun: None, ..url }, &options).unwrap();
        assert_eq!(targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>(), [IQN]);
    }
    for options in
        [with("", ""), with("another secret", ""), with("a secret of mine", "another secret")]
    {
        let error = open(&served.urls()[0], &options).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    }
}

#[test]
fn a_session_that_nobody_uses_lives_on() {
    let served = serve(&["ram:16MiB"], Settings::default());
    // A loaded machine may leave a ping unanswered for so short a time: then another session does.
    until("a session lives on", || lives_on(&served).is_ok());
}

/// Tests that a session answers its pings, without a queue and with one that has no operations. An
/// error is of a session that was lost.
fn lives_on(served: &Served<Exports>) -> Result<(), Error> {
    let options = ConnectOptions { keep_alive_ms: 500, ..options() };
    let device = open(&served.urls()[0], &options)?;
    // An initiator that does nothing sends nothing else. Its second ping follows the answer to the
    // first one.
    let received = || served.loops().counters().iter().map(|on| on.recv_bytes).sum::<u64>();
    let pings_twice = || {
        let enough = received() + 2 * BHS_BYTES as u64;
        until("the target is pinged twice, or the session is lost", || {
            received() >= enough || device.presence() == Presence::Gone
        });
    };
    pings_twice();
    let disk = Disk::on(Arc::clone(&device))?;
    disk.write(9, &[7; 4096])?;
    pings_twice();
    let mut back = [0; 4096];
    disk.read(9, &mut back)?;
    assert_eq!(back, [7; 4096]);
    Ok(())
}

#[test]
fn a_target_that_stops_leaves_truthful_answers() {
    let served = serve(&["ram:16MiB"], Settings::default());
    let disk = Disk::on(open(&served.urls()[0], &options()).unwrap()).unwrap();
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| while disk.write(written.fetch_add(1, SeqCst) % 1000, &[1; 512]).is_ok() {});
        until("something is written", || written.load(SeqCst) > 10);
        drop(served);
    });
    assert!(disk.flush().is_err());
}
