//! Several gateways with one inventory: discovery at any of them returns all, by the same numbers.

use crate::served::{self, Served};
use std::sync::Arc;
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig, Exports};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::inventory::{
    ControllerRange, InventoryBuilder, LiveInventory, NamespaceConfig, OtherGateway, Sharing,
    SubsystemConfig,
};
use weft_endpoint::source::{iscsi, nvme};
use weft_endpoint::url::{HostPort, ISCSI_PORT, IscsiUrl, NvmeUrl};
use weft_endpoint::{ConnectOptions, PathOptions, TlsFiles, open};
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::log_page::{SecureChannelNeed, SubsystemType};
use weft_proto::nvme::types::{Cntlid, Id128, Nqn, Nsid};

const IQN: &str = "iqn.2026-01.example.weft:group";

fn nqn() -> Nqn {
    Nqn::new("nqn.2026-01.example.weft:group").unwrap()
}

fn host() -> HostIdentity {
    HostIdentity { nqn: Nqn::new("nqn.2026-01.example.host:group").unwrap(), id: Id128([7; 16]) }
}

fn options() -> ConnectOptions {
    let initiator_name = Some(Name::new("iqn.2026-01.example.host:group").unwrap());
    let iscsi = iscsi::IscsiOptions { initiator_name, ..iscsi::IscsiOptions::default() };
    ConnectOptions {
        host: Some(host()),
        iscsi,
        paths: PathOptions::once(),
        ..ConnectOptions::default()
    }
}

struct Gateway {
    first_cntlid: u16,
    inventory: Arc<LiveInventory>,
    served: Served<Exports>,
}

impl Gateway {
    /// With two listeners of each protocol, in an order that mixes them.
    fn start(first_cntlid: u16) -> Self {
        let listen = ["nvme+tcp", "iscsi", "iscsi", "nvme+tcp"];
        Self::at(first_cntlid, &listen.map(|scheme| format!("{scheme}://127.0.0.1:0")))
    }

    fn at(first_cntlid: u16, listen: &[String]) -> Self {
        let mut builder = InventoryBuilder::default();
        let range = ControllerRange {
            cntlids: (first_cntlid, first_cntlid + 999),
            sharing: Sharing::Group,
        };
        builder.set_range(range).unwrap().add_subsystem(SubsystemConfig::new(nqn())).unwrap();
        let device = served::devices(&["ram:1MiB"]).remove(0);
        builder.add_namespace(&nqn(), Nsid(1), NamespaceConfig::new(device)).unwrap();
        let inventory = LiveInventory::new(builder.build().unwrap());
        let iscsi = Settings { name: Some(Name::new(IQN).unwrap()), ..Settings::default() };
        let config = ExportConfig {
            inventory: Arc::clone(&inventory),
            iscsi,
            tls: TlsFiles::default(),
            late_writers: Default::default(),
        };
        let served = Served::start(&served::loops(1), |loops| {
            export::start(&config, listen, loops).unwrap()
        });
        Self { first_cntlid, inventory, served }
    }

    fn as_other(&self) -> OtherGateway {
        OtherGateway { first_cntlid: self.first_cntlid, urls: self.served.urls() }
    }

    fn url(&self, scheme: &str) -> String {
        self.served.urls().into_iter().find(|url| url.starts_with(scheme)).unwrap()
    }

    /// The generation of the discovery log, and number and address of each port at which it says
    /// the subsystem is reached.
    fn nvme_ports(&self) -> (u64, Vec<(u16, String)>) {
        self.nvme_ports_by(&NvmeUrl::parse(&self.url("nvme+tcp")).unwrap().address)
    }

    /// The same, as a host is told that comes by this address.
    fn nvme_ports_by(&self, place: &HostPort) -> (u64, Vec<(u16, String)>) {
        let log = nvme::tcp::discover(place, &options()).unwrap();
        let entries = log.entries.iter().filter(|entry| entry.subtype == SubsystemType::NVME);
        let port = |entry: &weft_proto::nvme::log_page::DiscoveryEntry| {
            assert_eq!((entry.subnqn.nqn().unwrap(), entry.cntlid), (nqn(), Cntlid::DYNAMIC));
            assert_eq!(
                (entry.secure_channel(), entry.tsas[0]),
                (SecureChannelNeed::NOT_SPECIFIED, 0)
            );
            (entry.portid, format!("{}:{}", entry.traddr.text(), entry.trsvcid.text()))
        };
        let mut ports: Vec<_> = entries.map(port).collect();
        ports.sort_unstable();
        (log.generation, ports)
    }

    /// The portals with their groups, as iSCSI's discovery tells them.
    fn portals(&self) -> Vec<String> {
        let url = IscsiUrl::parse(&self.url("iscsi"), ISCSI_PORT).unwrap();
        let targets =
            iscsi::discover(&IscsiUrl { target: None, lun: None, ..url }, &options()).unwrap();
        assert_eq!(targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>(), [IQN]);
        let mut portals = targets[0].addresses.clone();
        portals.sort_unstable();
        portals
    }

    fn set_others(&self, others: &[&Self]) {
        self.tell_of(&others.iter().map(|other| other.as_other()).collect::<Vec<_>>());
    }

    fn tell_of(&self, others: &[OtherGateway]) {
        self.inventory.change(|to| Ok(_ = to.set_others(others))).unwrap();
    }
}

#[test]
fn discovery_at_any_gateway_tells_of_all() {
    let gateways = [1, 1001, 64_001].map(Gateway::start);
    let [a, b, c] = &gateways;
    let alone: Vec<_> =
        gateways.iter().map(|gateway| (gateway.nvme_ports(), gateway.portals())).collect();
    assert_eq!(alone[1].0.1.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1001, 1002]);
    a.set_others(&[b, c]);
    b.set_others(&[a, c]);
    c.set_others(&[b, a]);
    let all: Vec<_> = alone.iter().flat_map(|((_, ports), _)| ports.clone()).collect();
    let mut all_portals: Vec<_> = alone.iter().flat_map(|(_, portals)| portals.clone()).collect();
    all_portals.sort_unstable();
    assert_eq!((all.len(), all_portals.len()), (6, 6));
    for (gateway, ((generation, _), _)) in gateways.iter().zip(&alone) {
        let (after, ports) = gateway.nvme_ports();
        assert_eq!(ports, all, "each says of the others what they say of themselves");
        assert!(after > *generation);
        assert_eq!(gateway.portals(), all_portals);
        // What is known already, and again in another order, is no news for hosts.
        gateway.set_others(
            &gateways
                .iter()
                .filter(|it| it.first_cntlid != gateway.first_cntlid)
                .collect::<Vec<_>>(),
        );
        open(&gateway.url("iscsi"), &options()).unwrap_or_else(|e| panic!("{e}"));
    }
    let (generation, _) = a.nvme_ports();
    a.set_others(&[b, c]);
    assert_eq!(a.nvme_ports().0, generation);
    a.set_others(&[b]);
    assert_eq!((a.nvme_ports().1.len(), a.portals().len()), (4, 4));
    // One that took over this one's place is not listed beside it.
    a.tell_of(&[OtherGateway { first_cntlid: 9000, ..a.as_other() }]);
    assert_eq!((a.nvme_ports().1, a.portals()), (alone[0].0.1.clone(), alone[0].1.clone()));
}

/// However many addresses of this machine hosts have used before, and whoever else uses one.
#[test]
fn a_host_is_told_the_address_by_which_it_came() {
    let gateway = Gateway::at(1, &["nvme+tcp://0.0.0.0:0".to_owned()]);
    let port = NvmeUrl::parse(&gateway.url("nvme+tcp")).unwrap().address.port();
    let by = |last: u8| HostPort::new(&format!("127.0.0.{last}"), port).unwrap();
    let of = |last: u8| vec![(1, by(last).to_string())];
    let (generation, first) = gateway.nvme_ports_by(&by(1));
    assert_eq!(first, of(1));
    for last in 2..=100 {
        assert_eq!(gateway.nvme_ports_by(&by(last)), (generation, of(last)));
    }
    assert_eq!(gateway.nvme_ports_by(&by(1)), (generation, of(1)), "addresses leave no trace");
    // Another gateway, at an address that this one turns out to have.
    let other = OtherGateway { first_cntlid: 1001, urls: vec![format!("nvme+tcp://{}", by(200))] };
    gateway.tell_of(&[other]);
    let both = [of(1), vec![(1001, by(200).to_string())]].concat();
    assert_eq!(
        (gateway.nvme_ports_by(&by(1)).1, gateway.nvme_ports_by(&by(200)).1),
        (both, of(200))
    );
}

#[test]
fn hosts_are_told_of_other_gateways_only_what_they_may_use() {
    let [a, b] = [1, 1001].map(Gateway::start);
    a.set_others(&[&b]);
    let nobody = |builder: &mut InventoryBuilder| {
        builder.subsystem_mut(&nqn()).map(|it| it.hosts = Some(Vec::new()).into())
    };
    a.inventory.change(nobody).unwrap();
    assert_eq!(a.nvme_ports().1, []);
}
