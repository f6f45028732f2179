//! Every protocol in a scene: its export on the target's loops, and the URL by which the client
//! opens it.

use crate::sim::scene::{NQN, Scene, Setup, port};
use std::net::SocketAddr;
use std::sync::Arc;
use weft_endpoint::export::nbd::{NbdLimits, NbdServer};
use weft_endpoint::export::nvme::TargetLimits;
use weft_endpoint::export::{Export, iscsi, nvme};
use weft_endpoint::identity::Identities;
use weft_endpoint::inventory::LiveInventory;
use weft_io::{Handle, RemoteLoop};
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::Nqn;

pub const IQN: &str = "iqn.2026-01.example.weft:sim";

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    NvmeTcp,
    Iscsi,
    Nbd,
}

pub const PROTOCOLS: [Protocol; 3] = [Protocol::NvmeTcp, Protocol::Iscsi, Protocol::Nbd];

/// A scene of any protocol.
pub type AnyScene = Scene<Box<dyn Export>>;

impl Protocol {
    /// A scene with this protocol between its two hosts.
    pub fn scene(self, setup: Setup) -> AnyScene {
        let (limits, has_second_port) = (setup.limits, setup.has_second_port);
        Scene::with(setup, |on, inventory, _, loops| match self {
            Self::Iscsi if has_second_port => {
                iscsi(on, inventory, &loops, vec![port(), second_port()])
            }
            _ => self.start(on, inventory, limits, loops, port()),
        })
    }

    /// Starts an export.
    pub fn start(
        self,
        on: &Handle,
        inventory: Arc<LiveInventory>,
        limits: TargetLimits,
        loops: Vec<RemoteLoop>,
        address: SocketAddr,
    ) -> Box<dyn Export> {
        match self {
            Self::NvmeTcp => {
                let config = nvme::TargetConfig {
                    inventory,
                    listen: vec![address],
                    identities: Identities::seeded(1),
                    tls: weft_endpoint::TlsFiles::default(),
                };
                Box::new(nvme::Target::start_on(on, config, limits, loops).unwrap())
            }
            Self::Iscsi => iscsi(on, inventory, &loops, vec![address]),
            Self::Nbd => {
                let url = format!("nbd://{address}");
                Box::new(
                    NbdServer::start_on(on, inventory, &[&url], NbdLimits::default(), &loops)
                        .unwrap(),
                )
            }
        }
    }

    /// The URL of a listener on a free port.
    pub fn listen(self) -> String {
        let scheme = match self {
            Self::NvmeTcp => "nvme+tcp",
            Self::Iscsi => "iscsi",
            Self::Nbd => "nbd",
        };
        format!("{scheme}://127.0.0.1:0")
    }

    /// The URL of the first device at the target, which the client knows by name.
    pub fn url(self) -> String {
        self.url_at("target", port().port())
    }

    /// The URL of the first device at a target.
    pub fn url_at(self, host: &str, port: u16) -> String {
        match self {
            Self::NvmeTcp => format!("nvme+tcp://{host}:{port}/{NQN}"),
            Self::Iscsi => format!("iscsi://{host}:{port}/{IQN}/0"),
            Self::Nbd => format!("nbd://{host}:{port}/1"),
        }
    }
}

/// The other port of an iSCSI target that has one.
pub fn second_port() -> SocketAddr {
    SocketAddr::new(port().ip(), port().port() + 1)
}

fn iscsi(
    on: &Handle,
    inventory: Arc<LiveInventory>,
    loops: &[RemoteLoop],
    listen: Vec<SocketAddr>,
) -> Box<dyn Export> {
    let settings = iscsi::Settings {
        name: Some(Name::new(IQN).unwrap()),
        identities: Identities::seeded(1),
        ..iscsi::Settings::default()
    };
    let config =
        iscsi::TargetConfig { settings, subsystem: Nqn::new(NQN).unwrap(), inventory, listen };
    Box::new(iscsi::Target::start_on(on, config, iscsi::TargetLimits::default(), loops).unwrap())
}
