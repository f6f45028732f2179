//! Two targets with names of their own as paths of one device: a UUID that both have is not enough.

use crate::served::{self, Served};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use weft_block::path::PathState;
use weft_block::{AccessState, Device, OpenOptions};
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig, Exports};
use weft_endpoint::inventory::{
    InventoryBuilder, LiveInventory, NamespaceConfig, ScsiIdentity, SubsystemConfig,
};
use weft_endpoint::{ConnectOptions, Disk, PathOptions, TlsFiles, open};
use weft_io::RemoteLoop;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_testing::wait::until;

const UUID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

/// The last block of a device of 1 MiB.
const LAST: u64 = 2047;

fn memory(size: &str) -> Device {
    let url = format!("ram:{size},uuid={UUID},volatile=on");
    weft_block::open(&url, &OpenOptions::default()).unwrap()
}

/// The same with something in one block.
fn with_data(lba: u64) -> Device {
    let device = memory("1MiB");
    Disk::on(Arc::clone(&device)).unwrap().write(lba, &[1; 512]).unwrap();
    device
}

/// A target of its own.
fn target(name: &str, listen: &str, config: NamespaceConfig) -> Served<Exports> {
    target_in(AccessState::Optimized, name, listen, config)
}

/// The same, whose namespace is in this access state.
fn target_in(
    state: AccessState,
    name: &str,
    listen: &str,
    config: NamespaceConfig,
) -> Served<Exports> {
    let nqn = Nqn::new(&format!("nqn.2026-01.example.weft:{name}")).unwrap();
    let mut builder = InventoryBuilder::default();
    builder.add_subsystem(SubsystemConfig::new(nqn.clone())).unwrap();
    let config = NamespaceConfig { name: Some("disk".into()), ..config };
    builder.add_namespace(&nqn, Nsid(1), config).unwrap();
    builder.set_access_state(1, None, state).unwrap();
    let name = Some(Name::new(&format!("iqn.2026-01.example.weft:{name}")).unwrap());
    let config = ExportConfig {
        inventory: LiveInventory::new(builder.build().unwrap()),
        iscsi: Settings { name, ..Settings::default() },
        tls: TlsFiles::default(),
        late_writers: Default::default(),
    };
    let start = |loops: &[RemoteLoop]| export::start(&config, &[listen.to_owned()], loops).unwrap();
    Served::start(&served::loops(1), start)
}

fn url(of: &Served<Exports>) -> String {
    let url = of.urls()[0].clone();
    let number = match url.split("://").next() {
        Some("nvme+tcp") => "/1",
        Some("iscsi") => "/0",
        _ => "/disk",
    };
    format!("{}{number}", url.trim_end_matches(number))
}

fn same() -> NamespaceConfig {
    NamespaceConfig::new(memory("1MiB"))
}

fn with_nguid() -> NamespaceConfig {
    NamespaceConfig { nguid: Some([7; 16]), ..same() }
}

fn with_naa() -> NamespaceConfig {
    let naa = Some("5001405000000001".parse().unwrap());
    NamespaceConfig { scsi: ScsiIdentity { naa, ..ScsiIdentity::default() }, ..same() }
}

fn with_serial(serial: &str) -> NamespaceConfig {
    let serial = Some(serial.parse().unwrap());
    NamespaceConfig { scsi: ScsiIdentity { serial, ..ScsiIdentity::default() }, ..same() }
}

/// The same, of which nothing can be read.
fn unreadable() -> NamespaceConfig {
    let url = format!("error:rate=1,ops=read,ram:1MiB,uuid={UUID},volatile=on");
    NamespaceConfig::new(weft_block::open(&url, &OpenOptions::default()).unwrap())
}

/// Opens the first target with a path to the second one. `None`: both are used; otherwise why one
/// of them is not, whichever was open first.
fn why_not(listen: &str, first: NamespaceConfig, second: NamespaceConfig) -> Option<String> {
    why_not_with(listen, (first, second), PathOptions::default())
}

fn why_not_with(
    listen: &str,
    (first, second): (NamespaceConfig, NamespaceConfig),
    options: PathOptions,
) -> Option<String> {
    let (first, second) = (target("a", listen, first), target("b", listen, second));
    let paths = PathOptions { further: vec![url(&second)], ..options };
    let options = ConnectOptions { paths, ..ConnectOptions::default() };
    let device = open(&url(&first), &options).unwrap();
    let settled = || {
        let paths = device.paths();
        let refused = paths.iter().find_map(|path| path.why.clone());
        let are_live = paths.iter().all(|path| path.state == PathState::Live);
        are_live.then_some(None).or_else(|| refused.map(Some))
    };
    until("both paths are used, or one is refused", || settled().is_some());
    settled().flatten()
}

#[test]
fn a_path_to_another_target_is_used_if_all_that_can_be_compared_is_equal() {
    type Case = (fn() -> NamespaceConfig, &'static str);
    let of_nvme: &[Case] = &[(with_nguid, "its NGUID is")];
    let of_iscsi: &[Case] = &[(with_naa, "its NAA is"), (with_nguid, "its EUI-64 is")];
    let of_nbd: &[Case] = &[];
    for (protocol, cases) in [("nvme+tcp", of_nvme), ("iscsi", of_iscsi), ("nbd", of_nbd)] {
        let listen = format!("{protocol}://127.0.0.1:0");
        let refused = |second: NamespaceConfig, text: &str| {
            let why = why_not(&listen, same(), second).unwrap_or_default();
            assert!(why.contains("another device") && why.contains(text), "{protocol}: {why}");
        };
        assert_eq!(why_not(&listen, same(), same()), None, "{protocol}");
        let [one, other] = [9, 9].map(|lba| NamespaceConfig::new(with_data(lba)));
        assert_eq!(why_not(&listen, one, other), None, "{protocol}");
        cases.iter().for_each(|(second, text)| refused(second(), text));
        refused(NamespaceConfig::new(memory("2MiB")), "blocks instead of");
        for lba in [0, 9, LAST] {
            refused(NamespaceConfig::new(with_data(lba)), "its data differs at block");
        }
    }
}

#[test]
fn a_path_that_cannot_be_compared_is_used_only_if_it_is_said_to_lead_to_the_same_data() {
    for protocol in ["nvme+tcp", "iscsi", "nbd"] {
        let listen = format!("{protocol}://127.0.0.1:0");
        let with = |same_data, second| {
            let options = PathOptions { same_data, ..PathOptions::default() };
            why_not_with(&listen, (unreadable(), second), options)
        };
        let why = with(false, same()).unwrap_or_default();
        assert!(why.contains("could not be compared") && why.contains("--same-data"), "{why}");
        assert_eq!(with(true, same()), None, "{protocol}");
        // What can be compared has to be the same.
        let why = with(true, NamespaceConfig::new(memory("2MiB"))).unwrap_or_default();
        assert!(why.contains("another device"), "{protocol}: {why}");
    }
}

#[test]
fn a_serial_number_counts_where_it_is_that_of_the_data() {
    let differ = |listen: &str| why_not(listen, with_serial("1"), with_serial("2"));
    let why = differ("iscsi://127.0.0.1:0").unwrap_or_default();
    assert!(why.contains("its serial number is"), "{why}");
    // Of NVMe it is that of the subsystem, and each target is one of its own.
    assert_eq!(differ("nvme+tcp://127.0.0.1:0"), None);
}

/// The path that was open first is down, and the new one leads to the target of a path that was
/// compared with it.
#[test]
fn a_path_to_the_target_of_a_path_in_use_needs_no_other_one() {
    let ports = [(); 2].map(|()| weft_testing::port::free(Ipv4Addr::LOCALHOST));
    let at = ports.map(|port| format!("iscsi://127.0.0.1:{port}"));
    let first = target("a", "iscsi://127.0.0.1:0", same());
    let further = at.iter().map(|at| format!("{at}/iqn.2026-01.example.weft:b/0")).collect();
    let reconnect_delay = Duration::from_millis(100);
    let paths = PathOptions { further, reconnect_delay, ..PathOptions::default() };
    let options = ConnectOptions { paths, ..ConnectOptions::default() };
    let device = open(&url(&first), &options).unwrap();
    let is_live = |path: usize| device.paths()[path].state == PathState::Live;
    let compared = target("b", &at[0], same());
    until("the second path is used", || is_live(1));
    drop(first);
    until("the first path is lost", || !is_live(0));
    let same_target = target("b", &at[1], same());
    until("the third path is used", || is_live(2));
    drop((device, compared, same_target));
}

/// Others are compared with the path that was open first.
#[test]
fn a_path_that_reaches_the_data_is_used_whatever_another_target_refuses() {
    let listen = "nvme+tcp://127.0.0.1:0";
    let refuses = target_in(AccessState::Inaccessible, "a", listen, same());
    let serves = target("b", listen, same());
    let paths = PathOptions { further: vec![url(&serves)], ..PathOptions::default() };
    let options = ConnectOptions { paths, ..ConnectOptions::default() };
    let device = open(&url(&refuses), &options).unwrap();
    until("the second path is used", || device.paths()[1].state == PathState::Live);
    let disk = Disk::on(Arc::clone(&device)).unwrap();
    disk.read(0, &mut [0; 512]).unwrap();
    assert_ne!(device.paths()[0].state, PathState::Live, "it cannot be compared");
    drop((disk, device));
}
