//! Secure channel concatenation: both ends ours, and hosts that break its rules.

use super::strangers::{keys, simple, who};
use super::{Demanding, demand, host, knows, options, secret, subsystem, with};
use crate::chap::authenticate_for_key;
use crate::hostile::tcp::Tcp;
use crate::served::{self, Served};
use crate::tls::peer::Secure;
use crate::wire::{Peer, Who, admin, connect, greet, io_queue, set_cc};
use std::net::SocketAddr;
use std::sync::Arc;
use weft_block::{Error, ErrorKind};
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig, Exports};
use weft_endpoint::inventory::{Authentication, LiveInventory, OtherGateway, SubsystemConfig};
use weft_endpoint::source::HostSecrets;
use weft_endpoint::source::nvme::tcp::discover;
use weft_endpoint::url::HostPort;
use weft_endpoint::{ConnectOptions, Disk, TlsFiles, open};
use weft_io::RemoteLoop;
use weft_proto::nvme::auth::{
    Concatenation, Derivation, FailureReason, GeneratedPsk, Group, Hash, HostKeys, HostStep,
    IdentityVersion, PskIdentity, PskKeys, SecureChannel,
};
use weft_proto::nvme::fabrics::{ConnectResponse, Property};
use weft_proto::nvme::log_page;
use weft_proto::nvme::property::PropertyOffset;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Nqn};

/// Whether this machine has no TLS.
fn is_skipped() -> bool {
    weft_tls::available().map_err(weft_testing::skip).is_err()
}

/// Authentication of a subsystem that requires a secure channel.
fn demanded() -> Authentication {
    let groups = vec![Group::Ffdhe2048];
    Authentication {
        groups,
        channel: SecureChannel::Required,
        controller: Some(secret(7)),
        ..knows(&[1])
    }
}

struct Concatenating {
    exports: Served<Exports>,
    inventory: Arc<LiveInventory>,
}

impl Concatenating {
    fn new() -> Self {
        let inventory = LiveInventory::of_devices(
            SubsystemConfig::new(subsystem()),
            served::devices(&["ram:16MiB"; 2]),
        )
        .unwrap();
        demand(&inventory, &subsystem(), Some(demanded()));
        let tls = TlsFiles { concat: true, ..TlsFiles::default() };
        let config = ExportConfig {
            inventory: Arc::clone(&inventory),
            iscsi: Settings::default(),
            tls,
            late_writers: Default::default(),
        };
        let start = |loops: &[RemoteLoop]| {
            export::start(&config, &["nvme+tcp://127.0.0.1:0".to_owned()], loops).unwrap()
        };
        Self { exports: Served::start(&served::loops(2), start), inventory }
    }

    fn address(&self) -> SocketAddr {
        let url = &self.exports.urls()[0];
        url.trim_start_matches("nvme+tcp://").split('/').next().unwrap().parse().unwrap()
    }

    fn uses(&self, options: &ConnectOptions) -> Result<(), Error> {
        uses(&format!("nvme+tcp://{}/{}", self.address(), subsystem()), options)
    }

    /// An admin queue in plain text, and the answer to its Connect.
    fn plain(&self) -> (Tcp, ConnectResponse) {
        let mut peer = Tcp::new(self.address());
        greet(&mut peer);
        let cqe = connect(&mut peer, &who(), 0, Cntlid::DYNAMIC, 32);
        assert_eq!(cqe.status, Status::SUCCESS);
        (peer, ConnectResponse::decode(cqe.result as u32))
    }

    /// A connection with a key.
    fn secure(&self, key: &PskKeys) -> Secure {
        let mut peer = Secure::connect(self.address(), key, &host().nqn, &subsystem());
        greet(&mut peer);
        peer
    }

    /// The status of a Connect with a key.
    fn connects(&self, key: &PskKeys, who: &Who, qid: u16, cntlid: Cntlid) -> Status {
        connect(&mut self.secure(key), who, qid, cntlid, 32).status
    }
}

/// Writes and reads through every queue.
fn uses(url: &str, options: &ConnectOptions) -> Result<(), Error> {
    let device = open(url, options)?;
    for lba in 0..2 {
        let disk = Disk::on(Arc::clone(&device))?;
        disk.write(lba, &[lba as u8 + 1; 512]).unwrap();
        let mut back = [0; 512];
        disk.read(lba, &mut back).unwrap();
        assert_eq!(back, [lba as u8 + 1; 512]);
    }
    Ok(())
}

/// A host that wants a secure channel.
fn concat(secrets: HostSecrets) -> ConnectOptions {
    ConnectOptions { tls: TlsFiles { concat: true, ..TlsFiles::default() }, ..options(secrets) }
}

fn asks(concatenation: Concatenation) -> HostKeys {
    HostKeys { concatenation, groups: Group::ALL.to_vec(), ..keys() }
}

fn of(psk: &GeneratedPsk) -> PskKeys {
    let names = (host().nqn, subsystem());
    let names = (names.0.as_str(), names.1.as_str());
    PskKeys::of_identity(
        PskIdentity::new(
            &psk.key,
            psk.hash,
            true,
            IdentityVersion::V1,
            names,
            Derivation::Standard,
        )
        .unwrap(),
    )
}

/// Authenticates for a key.
fn key(peer: &mut impl Peer, concatenation: Concatenation) -> PskKeys {
    let psk = authenticate_for_key(peer, asks(concatenation), true, |_| ()).ok().flatten();
    of(&psk.expect("a key"))
}

/// Why an authentication is refused.
fn refusal(peer: &mut impl Peer, keys: HostKeys) -> FailureReason {
    match authenticate_for_key(peer, keys, true, |_| ()) {
        Err(HostStep::Failed(reason, true)) => reason,
        _ => panic!("it is not refused"),
    }
}

#[test]
fn hosts_that_authenticate_get_a_secure_channel() {
    if is_skipped() {
        return;
    }
    let target = Concatenating::new();
    target.uses(&concat(with(1))).unwrap();
    target
        .uses(&concat(HostSecrets {
            controller: Some(secret(7)),
            hashes: vec![Hash::Sha384],
            ..with(1)
        }))
        .unwrap();
    let refused = |options: &ConnectOptions| {
        let error = target.uses(options).expect_err("it is refused");
        (error.kind(), error.to_string())
    };
    let (kind, text) = refused(&options(with(1)));
    assert!(kind == ErrorKind::Unsupported && text.contains("--concat"), "{text}");
    let (kind, text) = refused(&concat(with(2)));
    assert!(kind == ErrorKind::PermissionDenied && text.contains("--dhchap-secret-file"), "{text}");
    let (_, text) = refused(&concat(HostSecrets { groups: vec![Group::Null], ..with(1) }));
    assert!(text.contains("--dhchap-dhgroup"), "{text}");
    let (_, text) = refused(&concat(HostSecrets { hashes: vec![Hash::Sha512], ..with(1) }));
    assert!(text.contains("--dhchap-hash"), "{text}");
    let wrong = concat(HostSecrets { controller: Some(secret(8)), ..with(1) });
    let (_, text) = refused(&wrong);
    assert!(text.contains("does not know the secret of --dhchap-ctrl-secret-file"), "{text}");
    let relay = super::relay_that_hangs_up(target.address());
    let text = uses(&format!("nvme+tcp://{relay}/{}", subsystem()), &wrong)
        .expect_err("it is refused")
        .to_string();
    assert!(text.contains("does not know the secret of --dhchap-ctrl-secret-file"), "{text}");
}

#[test]
fn discovery_tells_of_it_and_may_be_secure_itself() {
    if is_skipped() {
        return;
    }
    let target = Concatenating::new();
    let at = HostPort::from(target.address());
    // Also of another gateway, which is set up alike.
    let urls = vec!["nvme+tcp://192.0.2.1:4420".to_owned()];
    let others = [OtherGateway { first_cntlid: 1001, urls }];
    target.inventory.change(|to| Ok(_ = to.set_others(&others))).unwrap();
    for options in [options(HostSecrets::default()), concat(with(1))] {
        let entries = discover(&at, &options).unwrap().entries;
        assert_eq!(entries.len(), 3);
        for entry in &entries {
            assert_eq!(
                (entry.secure_channel(), entry.tsas[0]),
                (log_page::SecureChannelNeed::NOT_REQUIRED, 2)
            );
        }
    }
    let allowed = Authentication { channel: SecureChannel::Allowed, ..demanded() };
    demand(&target.inventory, &Nqn::discovery(), Some(allowed));
    discover(&at, &concat(with(1))).unwrap();
    discover(&at, &options(with(1))).unwrap();
    assert!(discover(&at, &concat(with(2))).is_err());
}

#[test]
fn a_host_that_wants_a_secure_channel_never_goes_on_without() {
    let target = Demanding::new(Authentication { groups: vec![Group::Ffdhe2048], ..knows(&[1]) });
    let refused = || uses(&target.url(), &concat(with(1))).expect_err("it goes on").to_string();
    assert!(refused().contains("leave --concat out"), "{}", refused());
    demand(&target.inventory, &subsystem(), None);
    assert!(refused().contains("leave --concat out"), "{}", refused());
    if is_skipped() {
        return;
    }
    // Keys are made, but the port does not speak TLS.
    target.demand(demanded());
    assert!(refused().contains("TLS"), "{}", refused());
}

#[test]
fn plain_text_is_for_the_authentication() {
    if is_skipped() {
        return;
    }
    let target = Concatenating::new();
    let (mut peer, connected) = target.plain();
    assert_eq!(connected.authentication, ConnectResponse::SECURE_CHANNEL_REQUIRED);
    let read = Property::get(PropertyOffset::CAP);
    assert_eq!(simple(&mut peer, &read), Status::AUTHENTICATION_REQUIRED);
    assert_eq!(
        refusal(&mut peer, asks(Concatenation::None)),
        FailureReason::CONCATENATION_MISMATCH
    );
    peer.wait_for_end();
    let (mut peer, _) = target.plain();
    assert_eq!(
        refusal(&mut peer, asks(Concatenation::Replace)),
        FailureReason::CONCATENATION_MISMATCH
    );
    let (mut peer, _) = target.plain();
    let no_group = HostKeys { groups: vec![Group::Null], ..asks(Concatenation::None) };
    assert_eq!(refusal(&mut peer, no_group), FailureReason::CONCATENATION_MISMATCH);
    // The admin queue answers, but there are no queues for data.
    let (mut peer, connected) = target.plain();
    let _ = key(&mut peer, Concatenation::New);
    assert_eq!(simple(&mut peer, &read), Status::SUCCESS);
    assert_eq!(set_cc(&mut peer, crate::wire::ON).status, Status::SUCCESS);
    let mut io = Tcp::new(target.address());
    greet(&mut io);
    assert_eq!(
        connect(&mut io, &who(), 1, connected.cntlid, 32).status,
        Status::CONNECT_INVALID_HOST
    );
}

#[test]
fn a_key_is_that_of_one_association() {
    if is_skipped() {
        return;
    }
    let target = Concatenating::new();
    let (mut plain, first) = target.plain();
    let replaced = key(&mut plain, Concatenation::New);
    let key = key(&mut plain, Concatenation::New);
    assert_eq!(set_cc(&mut plain, crate::wire::ON).status, Status::SUCCESS);
    Secure::connect(target.address(), &replaced, &host().nqn, &subsystem()).wait_for_end();
    let stranger = Who { host: crate::hostile::tcp::identity("stranger"), ..who() };
    assert_eq!(target.connects(&key, &stranger, 0, Cntlid::DYNAMIC), Status::CONNECT_INVALID_HOST);
    assert_eq!(
        target.connects(&key, &who(), 1, first.cntlid),
        Status::CONNECT_INVALID_HOST,
        "a queue of another association"
    );
    let discovery = Who { subsystem: Nqn::discovery(), ..who() };
    assert_eq!(target.connects(&key, &discovery, 0, Cntlid::DYNAMIC), Status::CONNECT_INVALID_HOST);
    let mut secure = Secure::connect(target.address(), &key, &host().nqn, &subsystem());
    let cntlid = admin(&mut secure, &who());
    drop(plain);
    io_queue(
        &mut Secure::connect(target.address(), &key, &host().nqn, &subsystem()),
        &who(),
        cntlid,
        1,
        32,
    );
    // It is in use: no other association has it.
    assert_eq!(target.connects(&key, &who(), 0, Cntlid::DYNAMIC), Status::CONNECT_INVALID_HOST);
    // Nor does anybody get at the association with another key, or without.
    let (mut plain, _) = target.plain();
    let other = self::key(&mut plain, Concatenation::New);
    assert_eq!(target.connects(&other, &who(), 2, cntlid), Status::CONNECT_INVALID_HOST);
    let mut io = Tcp::new(target.address());
    greet(&mut io);
    assert_eq!(connect(&mut io, &who(), 2, cntlid, 32).status, Status::CONNECT_INVALID_HOST);
    // It goes with the association.
    drop((secure, plain));
    weft_testing::wait::until("the end of the associations", || target.exports.hosts().is_empty());
    Secure::connect(target.address(), &key, &host().nqn, &subsystem()).wait_for_end();
    target.uses(&concat(with(1))).unwrap();
}

#[test]
fn a_key_is_replaced_over_tls() {
    if is_skipped() {
        return;
    }
    let target = Concatenating::new();
    let (mut plain, _) = target.plain();
    let first = key(&mut plain, Concatenation::New);
    let mut secure = Secure::connect(target.address(), &first, &host().nqn, &subsystem());
    let cntlid = admin(&mut secure, &who());
    let second = key(&mut secure, Concatenation::Replace);
    io_queue(
        &mut Secure::connect(target.address(), &second, &host().nqn, &subsystem()),
        &who(),
        cntlid,
        1,
        32,
    );
    Secure::connect(target.address(), &first, &host().nqn, &subsystem()).wait_for_end();
    assert!(
        authenticate_for_key(&mut secure, asks(Concatenation::None), true, |_| ())
            .is_ok_and(|psk| psk.is_none())
    );
    assert_eq!(
        refusal(&mut secure, asks(Concatenation::New)),
        FailureReason::CONCATENATION_MISMATCH
    );
    secure.wait_for_end();
}

#[test]
fn rdma_is_not_listened_at() {
    let tls = TlsFiles { concat: true, ..TlsFiles::default() };
    let refused = export::listen_address("nvme+rdma://127.0.0.1:4420", &tls).unwrap_err();
    assert!(
        refused.kind() == ErrorKind::Usage && refused.to_string().contains("--concat"),
        "{refused}"
    );
}
