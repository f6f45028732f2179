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
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use weft_endpoint::export::nvme::{Target, TargetConfig};
use weft_endpoint::identity::{HostIdentity, Identities};
use weft_endpoint::inventory::{Authentication, LiveInventory, SubsystemConfig};
use weft_endpoint::source::HostSecrets;
use weft_endpoint::{ConnectOptions, Disk, PathOptions, open};
use weft_proto::nvme::auth::{DhchapSecret, Group, Hash};
use weft_proto::nvme::types::Nqn;

/// A target on two loops, whose subsystem demands something of its hosts.
struct Demanding {
    target: Served<Target>,
    inventory: Arc<LiveInventory>,
}

/// Hosts of a subsystem have to prove this from now on.
fn demand(inventory: &LiveInventory, of: &Nqn, demanded: Option<Authentication>) {
    inventory.change(|to| to.authenticate(of, demanded).map(drop)).unwrap();
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
        demand(&inventory, &subsystem(), Some(demanded));
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
        demand(&self.inventory, &subsystem(), Some(demanded));
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

fn secret(byte: u8) -> DhchapSecret {
    DhchapSecret::of_key(&[byte; 48], Some(Hash::Sha384)).unwrap()
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

/// A relay to a target that ends a connection where it would pass on the host's word that it gives
/// up (AUTH_Failure2), as Linux' target does before it answers.
fn relay_that_hangs_up(to: SocketAddr) -> SocketAddr {
    /// AUTH_Failure2 up to the identifier of the transaction, and behind that the reason.
    const FAILURE_2: [u8; 4] = [0, 0xf0, 0, 0];
    const FAILED: [u8; 2] = [1, 1];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let far = TcpStream::connect(to).unwrap();
            let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
            thread::spawn(move || {
                let (mut far, mut near) = back;
                let _ = std::io::copy(&mut far, &mut near);
                let _ = near.shutdown(Shutdown::Both);
            });
            thread::spawn(move || {
                let (mut near, mut far) = (near, far);
                let mut bytes = [0; 8192];
                while let Ok(len @ 1..) = near.read(&mut bytes) {
                    let gives_up = |it: &[u8]| it[..4] == FAILURE_2 && it[6..] == FAILED;
                    if bytes[..len].windows(8).any(gives_up)
                        || far.write_all(&bytes[..len]).is_err()
                    {
                        break;
                    }
                }
                let _ = far.shutdown(Shutdown::Both);
            });
        }
    });
    address
}
