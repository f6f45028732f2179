//! A server without anything around it.

use super::{Place, free, is_released};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use weft_endpoint::{ConnectOptions, Disk};
use weft_server::server::BareServer;
use weft_server::{Environment, ErrorKind};

#[test]
fn a_bare_server_serves_through_the_filter_of_its_process() {
    let (place, at) = (Place::new("bare"), free());
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&opened);
    let environment = Environment {
        front: Some(Arc::new(move |device| {
            counted.fetch_add(1, Relaxed);
            device
        })),
        ..Environment::default()
    };
    let desired = place.desired(&[at], &[&place.disk(), "ram:1MiB"]);
    let server = BareServer::start(&desired, &environment).unwrap();
    assert_eq!(opened.load(Relaxed), 2, "one filter for each source");
    let url = format!("{}/1", server.urls()[0]);
    let disk = Disk::open(&url, &ConnectOptions::default()).unwrap();
    disk.write(0, &[7; 4096]).unwrap();
    let mut found = [0; 4096];
    disk.read(0, &mut found).unwrap();
    assert_eq!(found, [7; 4096]);
    let report = server.report();
    assert!(report.open_connections > 0 && report.listeners == server.urls());
    assert_eq!(server.inventory().namespaces().count(), 2);
    drop(disk);
    server.stop().unwrap();
    is_released(&place, at);
}

#[test]
fn a_bare_server_leaves_its_hosts_and_comes_back() {
    let place = Place::new("bare-leaving");
    let mut desired = place.desired(&[free()], &["ram:1MiB"]);
    desired.listen = vec!["nvme+tcp://127.0.0.1:0".into()];
    let server = BareServer::start(&desired, &Environment::default()).unwrap();
    let urls = server.urls();
    let url = format!("{}/1", urls[0]);
    let connect = || {
        let mut options = ConnectOptions::default();
        options.paths.ctrl_loss_timeout = Some(std::time::Duration::ZERO);
        options
    };
    let disk = Disk::open(&url, &connect()).unwrap();
    disk.write(0, &[7; 4096]).unwrap();
    server.leave().unwrap();
    server.leave().unwrap();
    assert_eq!((server.connections(), server.urls().len()), (0, 0));
    assert!(disk.read(0, &mut [0; 4096]).is_err());
    assert!(Disk::open(&url, &connect()).is_err());
    // It can be changed, and stays away.
    desired.subsystems[0].namespaces[0].bytes = Some(65536);
    server.apply(&mut desired).unwrap();
    assert_eq!(server.urls().len(), 0);
    server.come_back().unwrap();
    server.come_back().unwrap();
    assert_eq!(server.urls(), urls);
    let disk = Disk::open(&url, &connect()).unwrap();
    let mut found = [0; 4096];
    disk.read(0, &mut found).unwrap();
    assert_eq!((found, disk.geometry().bytes()), ([7; 4096], 65536));
    server.disconnect();
    desired.listen = vec!["nvme+tcp://127.0.0.1:1".into()];
    let refused = server.apply(&mut desired).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Usage, "{refused}");
    server.stop().unwrap();
}

#[test]
fn a_bare_server_that_does_not_start_leaves_nothing_in_use() {
    let (place, at) = (Place::new("bare-failing"), free());
    let missing = format!("file:{}", place.directory.join("missing").display());
    let desired = place.desired(&[at], &[&place.disk(), &missing]);
    let failed = BareServer::start(&desired, &Environment::default()).err().unwrap();
    assert_eq!(failed.kind(), ErrorKind::NotFound, "{failed}");
    is_released(&place, at);
}
