//! Listeners come and go while hosts are connected, by each protocol, and the exports report the
//! connected hosts.

use crate::served::{self, Served};
use std::io::{ErrorKind as Io, Read};
use std::net::TcpStream;
use std::sync::Arc;
use weft_block::{AccessState, Error, ErrorKind, OpenOptions};
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ConnectedHost, ExportConfig, Exports, HostProtocol};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::inventory::{InventoryBuilder, LiveInventory, SubsystemConfig};
use weft_endpoint::limits::{CONNECTIONS_CONFIGURED_MIN, CONNECTIONS_MAX};
use weft_endpoint::source::iscsi::IscsiOptions;
use weft_endpoint::{ConnectOptions, Disk, TlsFiles, open};
use weft_io::RemoteLoop;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Id128, Nqn, Nsid};
use weft_testing::wait::{PATIENCE, until};

const HOST: &str = "nqn.2026-01.example.host:listeners";
const INITIATOR: &str = "iqn.2026-01.example.host:listeners";
const FIRST: &str = "nvme+tcp://127.0.0.1:0";
const LATER: [&str; 3] = ["nvme+tcp://127.0.0.2:0", "iscsi://127.0.0.1:0", "nbd://127.0.0.1:0"];

fn nqn() -> Nqn {
    Nqn::new("nqn.2026-01.example.weft:listeners").unwrap()
}

fn serve() -> Served<Exports> {
    serve_limited(CONNECTIONS_MAX).0
}

/// With at most so many connections of each protocol.
fn serve_limited(connections: usize) -> (Served<Exports>, Arc<LiveInventory>) {
    let ram = weft_block::open("ram:16MiB", &OpenOptions::default()).unwrap();
    let inventory = LiveInventory::of_devices(SubsystemConfig::new(nqn()), vec![ram]).unwrap();
    inventory.change(|builder| Ok(_ = builder.listen_at([FIRST]))).unwrap();
    inventory.limit_connections(connections);
    let iscsi = Settings {
        name: Some(Name::new("iqn.2026-01.example.weft:listeners").unwrap()),
        ..Settings::default()
    };
    let config = ExportConfig {
        inventory: Arc::clone(&inventory),
        iscsi,
        tls: TlsFiles::default(),
        late_writers: Default::default(),
    };
    let start = |loops: &[RemoteLoop]| export::start(&config, &[FIRST.to_owned()], loops).unwrap();
    (Served::start(&served::loops(2), start), inventory)
}

fn connect(url: &str) -> Disk {
    let host = HostIdentity { nqn: Nqn::new(HOST).unwrap(), id: Id128([9; 16]) };
    let iscsi = IscsiOptions {
        initiator_name: Some(Name::new(INITIATOR).unwrap()),
        ..IscsiOptions::default()
    };
    let options = ConnectOptions { host: Some(host), iscsi, ..ConnectOptions::default() };
    let mut url = url.to_owned();
    if url.starts_with("nvme") {
        url.push_str("/1");
    }
    Disk::on(open(&url, &options).unwrap()).unwrap()
}

fn known(exports: &Exports) -> Vec<(HostProtocol, bool, Vec<Nsid>)> {
    let is_named = |host: &ConnectedHost| {
        [HOST, INITIATOR].contains(&host.name.as_str()) && host.subsystem == nqn()
    };
    exports
        .hosts()
        .into_iter()
        .map(|host| (host.protocol, is_named(&host), host.namespaces))
        .collect()
}

#[test]
fn listeners_come_and_go_and_hosts_stay() {
    let served = serve();
    assert_eq!(known(&served), []);
    served.change(|builder| Ok(_ = builder.listen_at([&[FIRST], &LATER[..]].concat()))).unwrap();
    let urls = served.urls();
    assert_eq!(urls.len(), 4, "{urls:?}");
    let disks: Vec<Disk> = urls[1..].iter().map(|url| connect(url)).collect();
    let all = [(HostProtocol::Nvme, true), (HostProtocol::Iscsi, true), (HostProtocol::Nbd, false)];
    assert_eq!(known(&served), all.map(|(protocol, named)| (protocol, named, vec![Nsid(1)])));

    served.change(|builder| Ok(_ = builder.listen_at([FIRST]))).unwrap();
    assert_eq!(served.urls(), urls[..1]);
    let is_closed = |url: &String| {
        let at = url.split(['/', '?']).nth(2).unwrap().to_owned();
        move || TcpStream::connect(&at).is_err()
    };
    urls[1..].iter().for_each(|url| until("a port is closed", is_closed(url)));
    let mut block = [0; 512];
    for disk in disks {
        disk.write(0, &[7; 512]).unwrap();
        disk.read(0, &mut block).unwrap();
        assert_eq!(block, [7; 512]);
    }
    until("all are gone", || served.hosts().is_empty());
}

#[test]
fn a_port_that_is_in_use_changes_nothing() {
    let served = serve();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nvme+tcp://{}", taken.local_addr().unwrap());
    let changed = served
        .change(|builder| builder.listen_at([LATER[1], &url]).remove_subsystem(&nqn()).map(drop));
    assert_eq!(changed.unwrap_err().kind(), ErrorKind::InUse);
    let urls = served.urls();
    assert_eq!(urls.len(), 1, "{urls:?}");
    drop(connect(&urls[0]));
}

#[test]
fn what_changes_while_a_change_is_prepared_stays_changed() {
    let (served, inventory) = serve_limited(CONNECTIONS_MAX);
    let mut asked = 0;
    let agree = || {
        asked += 1;
        inventory.set_access_state(1, None, AccessState::NonOptimized)?;
        Ok::<_, Error>(())
    };
    let listen = |builder: &mut InventoryBuilder| Ok(_ = builder.listen_at([FIRST, LATER[0]]));
    let changed = served.change_if(listen, agree).unwrap();
    assert_eq!((asked, changed.listeners().len(), served.urls().len()), (1, 2, 2));
    assert_eq!(changed.access().of(None, 1), AccessState::NonOptimized);
    assert!(Arc::ptr_eq(&changed, &inventory.now()));
    // Nobody has seen what is refused at the end.
    let refuse = || Err(Error::new(ErrorKind::Refused, "not agreed"));
    let add = |builder: &mut InventoryBuilder| Ok(_ = builder.listen_at([FIRST, LATER[1]]));
    assert_eq!(served.change_if(add, refuse).unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(served.urls().len(), 2);
    assert!(Arc::ptr_eq(&changed, &inventory.now()));
}

#[test]
fn each_protocol_accepts_as_many_connections_as_are_configured() {
    let (served, _) = serve_limited(CONNECTIONS_CONFIGURED_MIN);
    let urls = [&[FIRST], &LATER[1..]].concat();
    served.change(|builder| Ok(_ = builder.listen_at(urls.iter().copied()))).unwrap();
    let urls = served.urls();
    assert_eq!(urls.len(), 3, "{urls:?}");
    for url in urls {
        let at = url.split(['/', '?']).nth(2).unwrap();
        let kept: Vec<_> =
            (0..CONNECTIONS_CONFIGURED_MIN).map(|_| TcpStream::connect(at).unwrap()).collect();
        until("all are accepted", || served.connections() == CONNECTIONS_CONFIGURED_MIN);
        let mut more = TcpStream::connect(at).unwrap();
        more.set_read_timeout(Some(PATIENCE)).unwrap();
        let ended = match more.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(e) => !matches!(e.kind(), Io::WouldBlock | Io::TimedOut),
        };
        assert!(ended, "{url}: one more is accepted");
        drop(kept);
        until("all are gone", || served.connections() == 0);
    }
}
