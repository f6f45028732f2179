//! NVMe/TCP with TLS and pre-shared keys, both ends ours: who is let in, and what a peer that
//! breaks the rules gets.

mod intruders;
pub mod peer;

use crate::served::{self, Served};
use crate::wire::{self, Who};
use peer::Secure;
use std::net::SocketAddr;
use weft_block::{ErrorKind, OpenOptions};
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig, Exports};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::source::nvme::discover;
use weft_endpoint::url::{HostPort, NvmeTransport};
use weft_endpoint::{ConnectOptions, Disk, PathOptions, TlsFiles, TlsPsk, open};
use weft_io::RemoteLoop;
use weft_proto::nvme::auth::{Hash, InterchangeKey, PskKeys};
use weft_proto::nvme::log_page::SecureChannelNeed;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Id128, Nqn};

const NQN: &str = "nqn.2026-01.example.weft:tls";

fn nqn() -> Nqn {
    Nqn::new(NQN).unwrap()
}

fn host(name: &str) -> HostIdentity {
    HostIdentity {
        nqn: Nqn::new(&format!("nqn.2026-01.example.host:{name}")).unwrap(),
        id: Id128([3; 16]),
    }
}

fn key(byte: u8, hash: Hash) -> String {
    InterchangeKey::of_key(&vec![byte; hash.bytes()], Some(hash)).unwrap().text().to_string()
}

fn keys(lines: &str) -> PskKeys {
    PskKeys::parse(lines).unwrap()
}

fn psk(lines: &str) -> TlsFiles {
    TlsFiles { psk: Some(TlsPsk::new(keys(lines)).unwrap()), ..TlsFiles::default() }
}

/// Whether this machine has no TLS.
fn is_skipped() -> bool {
    weft_tls::available().map_err(weft_testing::skip).is_err()
}

fn serve(tls: TlsFiles) -> Served<Exports> {
    let ram = weft_block::open("ram:16MiB", &OpenOptions::default()).unwrap();
    let inventory = LiveInventory::of_devices(SubsystemConfig::new(nqn()), vec![ram]).unwrap();
    let config = ExportConfig {
        inventory,
        iscsi: Settings::default(),
        tls,
        late_writers: Default::default(),
    };
    let start = |loops: &[RemoteLoop]| {
        export::start(&config, &["nvme+tcp://127.0.0.1:0".to_owned()], loops).unwrap()
    };
    Served::start(&served::loops(2), start)
}

fn address(served: &Exports) -> SocketAddr {
    let url = &served.urls()[0];
    url.trim_start_matches("nvme+tcp://").split('/').next().unwrap().parse().unwrap()
}

fn options(name: &str, tls: TlsFiles) -> ConnectOptions {
    ConnectOptions {
        host: Some(host(name)),
        nr_io_queues: 2,
        tls,
        paths: PathOptions::once(),
        ..ConnectOptions::default()
    }
}

/// Opens the served namespace; the error otherwise.
fn connect(served: &Exports, options: &ConnectOptions) -> Result<Disk, (ErrorKind, String)> {
    let device =
        open(&format!("{}/1", served.urls()[0]), options).map_err(|e| (e.kind(), e.to_string()))?;
    Ok(Disk::on(device).unwrap())
}

fn verify(disk: &Disk) {
    for (at, bytes) in [(0, 4096), (8, 65_536), (2048, 1 << 20)] {
        let data: Vec<u8> = (0..bytes).map(|n| (n * 31 + n / 4096) as u8).collect();
        disk.write(at, &data).unwrap();
        let mut back = vec![0; bytes];
        disk.read(at, &mut back).unwrap();
        assert!(data == back, "{bytes} bytes at block {at}");
    }
}

#[test]
fn data_comes_back_with_both_hashes_and_all_kinds_of_keys() {
    if is_skipped() {
        return;
    }
    for hash in [Hash::Sha256, Hash::Sha384] {
        let key = key(7, hash);
        let of_host = format!("{} {key}", host("good").nqn);
        let served = serve(psk(&of_host));
        for line in
            [key.clone(), of_host.clone(), format!("identity=0 {key}"), format!("compat {key}")]
        {
            verify(
                &connect(&served, &options("good", psk(&line)))
                    .unwrap_or_else(|e| panic!("{line}: {e:?}")),
            );
        }
    }
}

#[test]
fn two_keys_of_one_host_are_accepted_for_a_while() {
    if is_skipped() {
        return;
    }
    let (old, new) = (key(1, Hash::Sha256), key(2, Hash::Sha256));
    let served = serve(psk(&format!("{old}\n{new}\n")));
    for line in [old, new] {
        verify(&connect(&served, &options("good", psk(&line))).unwrap());
    }
}

#[test]
fn who_has_no_key_is_not_let_in_and_told_why() {
    if is_skipped() {
        return;
    }
    let good = key(7, Hash::Sha256);
    let served = serve(psk(&format!("{} {good}", host("good").nqn)));
    let refused = |name: &str, tls: TlsFiles| {
        connect(&served, &options(name, tls)).err().expect("it is let in")
    };
    let (kind, text) = refused("good", psk(&key(8, Hash::Sha256)));
    assert!(
        kind == ErrorKind::PermissionDenied && text.contains("no key for this PSK identity"),
        "{text}"
    );
    let (kind, text) = refused("good", psk(&format!("identity=0 {}", key(8, Hash::Sha256))));
    assert!(kind == ErrorKind::PermissionDenied && text.contains("another key"), "{text}");
    let (kind, text) = refused("bad", psk(&good));
    assert!(
        kind == ErrorKind::PermissionDenied && text.contains("no key for this PSK identity"),
        "{text}"
    );
    let (_, text) = refused("good", TlsFiles::default());
    assert!(text.contains("--tls"), "{text}");
    let (kind, text) = refused("good", psk(&format!("nqn.other {good}")));
    assert!(
        kind == ErrorKind::NotFound && text.contains("--tls-key-file has no key of host"),
        "{text}"
    );
}

#[test]
fn a_host_with_tls_never_speaks_in_plain_text() {
    if is_skipped() {
        return;
    }
    let served = serve(TlsFiles::default());
    let (kind, text) =
        connect(&served, &options("good", psk(&key(7, Hash::Sha256)))).err().expect("it is let in");
    assert!(
        matches!(kind, ErrorKind::Refused | ErrorKind::PermissionDenied | ErrorKind::Io),
        "{kind:?}"
    );
    assert!(text.contains("TLS"), "{text}");
}

#[test]
fn discovery_tells_that_tls_is_required() {
    if is_skipped() {
        return;
    }
    let line = key(7, Hash::Sha384);
    let served = serve(psk(&line));
    let at = HostPort::from(address(&served));
    let log = discover(NvmeTransport::Tcp, &at, &options("good", psk(&line))).unwrap();
    assert!(!log.entries.is_empty());
    for entry in &log.entries {
        assert_eq!((entry.secure_channel(), entry.tsas[0]), (SecureChannelNeed::REQUIRED, 2));
    }
    assert!(discover(NvmeTransport::Tcp, &at, &options("good", TlsFiles::default())).is_err());
}

fn who(name: &str, subsystem: &str) -> Who {
    Who { host: host(name), subsystem: Nqn::new(subsystem).unwrap(), keep_alive_ms: 0 }
}

#[test]
fn the_names_of_a_connect_are_those_of_the_identity() {
    if is_skipped() {
        return;
    }
    let line = key(7, Hash::Sha256);
    let served = serve(psk(&line));
    let good = || Secure::connect(address(&served), &keys(&line), &host("good").nqn, &nqn());
    for other in [who("bad", NQN), who("good", Nqn::DISCOVERY)] {
        let mut peer = good();
        wire::greet(&mut peer);
        let cqe = wire::connect(&mut peer, &other, 0, Cntlid::DYNAMIC, 32);
        assert_eq!((cqe.status, cqe.do_not_retry), (Status::CONNECT_INVALID_HOST, true));
    }
    // An I/O queue, by a host that has a key of its own, of another host's controller.
    let mut admin = good();
    let cntlid = wire::admin(&mut admin, &who("good", NQN));
    let mut thief = Secure::connect(address(&served), &keys(&line), &host("bad").nqn, &nqn());
    wire::greet(&mut thief);
    assert_eq!(
        wire::connect(&mut thief, &who("good", NQN), 1, cntlid, 32).status,
        Status::CONNECT_INVALID_HOST
    );
    assert_ne!(wire::connect(&mut thief, &who("bad", NQN), 1, cntlid, 32).status, Status::SUCCESS);
    let mut own = good();
    wire::io_queue(&mut own, &who("good", NQN), cntlid, 1, 32);
}

#[test]
fn rdma_is_not_listened_at_with_tls() {
    if is_skipped() {
        return;
    }
    let refused = export::listen_address("nvme+rdma://127.0.0.1:4420", &psk(&key(7, Hash::Sha256)))
        .unwrap_err();
    assert!(
        refused.kind() == ErrorKind::Usage && refused.to_string().contains("--tls"),
        "{refused}"
    );
}
