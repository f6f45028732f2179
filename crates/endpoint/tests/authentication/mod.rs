//! DH-HMAC-CHAP between weft's host and weft's target over TCP, and hosts that have not proved who
//! they are.

mod concatenation;
mod identifiers;
mod intruders;
mod pair;
mod strangers;

use crate::hostile::tcp;
use crate::served::{self, Served};
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_endpoint::export::nvme::{Target, TargetConfig};
use weft_endpoint::identity::{HostIdentity, Identities};
use weft_endpoint::inventory::{Authentication, LiveInventory, SubsystemConfig};
use weft_endpoint::source::HostSecrets;
use weft_endpoint::{ConnectOptions, Disk, PathOptions, open};
use weft_proto::nvme::auth::{Group, Hash, Secret};
use weft_proto::nvme::types::Nqn;

/// A target on two loops, whose subsystem demands something of its hosts.
struct Demanding {
    target: Served<Target>,
    inventory: Arc<LiveInventory>,
}

impl Demanding {
    fn new(demanded: Authentication) -> Self {
        let devices = served::devices(&["ram:16MiB"; 2]);
        Self::serving(
            LiveInventory::of_devices(SubsystemConfig::new(subsystem()), devices).unwrap(),
            demanded,
        )
    }

    fn serving(inventory: Arc<LiveInventory>, demanded: Authentication) -> Self {
        inventory.authentications().set(&subsystem(), Some(demanded));
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let config = TargetConfig {
            inventory: Arc::clone(&inventory),
            listen,
            identities: Identities::default(),
            tls: weft_endpoint::TlsFiles::default(),
        };
        let target =
            Served::start(&served::loops(2), |loops| Target::start(config, loops).unwrap());
        Self { target, inventory }
    }

    fn url(&self) -> String {
        format!("nvme+tcp://{}/{}", self.target.addresses()[0], subsystem())
    }

    /// Demands something else from now on.
    fn demand(&self, demanded: Authentication) {
        self.inventory.authentications().set(&subsystem(), Some(demanded));
    }

    /// Writes and reads through every queue of a host with these secrets.
    fn uses(&self, secrets: HostSecrets) -> Result<(), weft_block::Error> {
        let device = open(&self.url(), &options(secrets))?;
        let disks: Vec<Disk> =
            (0..2).map(|_| Disk::on(Arc::clone(&device))).collect::<Result<_, _>>()?;
        for (lba, disk) in (0..).zip(&disks) {
            disk.write(lba, &[lba as u8 + 1; 512]).unwrap();
            let mut back = [0; 512];
            disk.read(lba, &mut back).unwrap();
            assert_eq!(back, [lba as u8 + 1; 512]);
        }
        Ok(())
    }

    /// Why a host with these secrets is refused.
    fn refusal(&self, secrets: HostSecrets) -> String {
        let error = self.uses(secrets).expect_err("it is refused");
        assert_eq!(error.kind(), weft_block::ErrorKind::PermissionDenied, "{error}");
        error.to_string()
    }
}

fn subsystem() -> Nqn {
    Nqn::new(tcp::NQN).unwrap()
}

fn host() -> HostIdentity {
    tcp::identity("authentic")
}

fn options(secrets: HostSecrets) -> ConnectOptions {
    ConnectOptions {
        host: Some(host()),
        secrets,
        nr_io_queues: 2,
        paths: PathOptions::once(),
        ..ConnectOptions::default()
    }
}

fn secret(byte: u8) -> Secret {
    Secret::of_key(&[byte; 48], Some(Hash::Sha384)).unwrap()
}

/// Of a host with this secret.
fn with(byte: u8) -> HostSecrets {
    HostSecrets { host: Some(secret(byte)), ..HostSecrets::default() }
}

/// What a subsystem demands that knows these secrets of the host. Without a group, as tests are
/// slow.
fn knows(bytes: &[u8]) -> Authentication {
    let secrets = bytes.iter().copied().map(secret).collect();
    Authentication {
        hosts: BTreeMap::from([(host().nqn, secrets)]),
        groups: vec![Group::Null],
        ..Authentication::default()
    }
}
