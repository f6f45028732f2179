//! A running server serves something else: all of it, or nothing; and hosts stay.

use super::{Place, free, is_released, open};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use weft_block::limit::Limit;
use weft_endpoint::inventory::{Access, Authentication, Inventory};
use weft_proto::nvme::auth::DhchapSecret;
use weft_proto::nvme::types::{Id128, Nqn, Nsid};
use weft_server::config::Desired;
use weft_server::config::desired::{DesiredLimit, DesiredNamespace};
use weft_server::management::protocol::{FaultCode, RequestFault};
use weft_server::served::{ChangeMode, Changed, Served};
use weft_server::{Environment, Server};
use weft_testing::wait::until;

const FORCE: ChangeMode = ChangeMode { force: true, dry_run: false };

fn nqn(name: &str) -> Nqn {
    Nqn::new(&format!("nqn.2026-01.example:{name}")).unwrap()
}

/// Changes every part that a reload can change.
fn all_else(desired: &mut Desired) {
    let secret = DhchapSecret::of_key(&[7; 32], None).unwrap();
    let demanded = Authentication { others: vec![secret], ..Authentication::default() };
    desired.subsystems[0].authentication = Some(demanded.clone());
    desired.subsystems[0].hosts = Access::Only([nqn("host")].into());
    desired.discovery = Some(demanded);
    let limit = Limit { operations: 5, bytes: 0 };
    desired.limits = vec![DesiredLimit { host: nqn("host").to_string(), limit }];
    desired.identifiers = BTreeMap::from([(nqn("host"), Id128([1; 16]))]);
}

/// A server whose discovery has a name.
fn start(place: &Place, desired: Desired) -> Server {
    let mut environment = place.environment().0;
    environment.discovery_nqn = Some(nqn("discovery"));
    Server::start(desired, environment).unwrap()
}

/// The change is refused, and what is served is the same value as before.
fn changes_nothing(server: &Server, desired: &Desired) -> RequestFault {
    let (before, urls) = (server.inventory(), server.urls());
    let fault = server.served().apply(FORCE, desired).unwrap_err();
    assert!(Arc::ptr_eq(&before, &server.inventory()), "{fault}");
    assert_eq!(server.urls(), urls);
    fault
}

/// All that was asked for is there.
fn has_all(inventory: &Inventory) {
    let of = &inventory.subsystems()[0];
    assert!(of.authentication.is_some() && of.hosts.allows(&nqn("host")));
    assert!(inventory.authentication(&Nqn::discovery()).is_some());
}

#[test]
fn a_reload_in_which_a_source_cannot_be_opened_changes_nothing() {
    let (place, at) = (Place::new("reload-source"), free());
    let server = start(&place, place.desired(&[at], &[&place.disk()]));
    let new = place.directory.join("new");
    let created = format!("file:{},size=1MiB", new.display());
    let missing = format!("file:{}", place.directory.join("missing").display());
    let mut desired = place.desired(&[at, free()], &[&place.disk(), &created, &missing]);
    all_else(&mut desired);
    let fault = changes_nothing(&server, &desired);
    assert!(fault.message.contains("missing"), "{fault}");
    assert!(!new.exists(), "it was created for nothing");
    drop(TcpListener::bind(desired.listen[1].trim_start_matches("nvme+tcp://")).unwrap());
    // A subsystem has the name of discovery.
    let mut desired = place.desired(&[at], &[&place.disk()]);
    desired.subsystems[0].nqn = nqn("discovery");
    assert!(changes_nothing(&server, &desired).message.contains("give discovery another one"));

    let mut desired = place.desired(&[at], &[&place.disk(), &created]);
    all_else(&mut desired);
    server.served().apply(FORCE, &desired).unwrap();
    has_all(&server.inventory());
    assert!(new.exists());
    server.stop().unwrap();
    is_released(&place, at);
}

#[test]
fn a_reload_that_cannot_listen_changes_nothing() {
    let (place, at) = (Place::new("reload-listen"), free());
    let server = start(&place, place.desired(&[at], &[&place.disk()]));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (second, busy) = (free(), taken.local_addr().unwrap());
    let mut desired = place.desired(&[second, busy], &["ram:1MiB"]);
    all_else(&mut desired);
    let fault = changes_nothing(&server, &desired);
    assert_eq!(fault.code, FaultCode::InUse, "{fault}");
    until("the port that was opened first is closed", || TcpListener::bind(second).is_ok());
    drop(taken);
    server.served().apply(FORCE, &desired).unwrap();
    has_all(&server.inventory());
    server.stop().unwrap();
    is_released(&place, at);
}

/// A source that moves stays open: its file is locked.
#[test]
fn a_source_moves_to_another_namespace() {
    let (place, at) = (Place::new("reload-move"), free());
    let server = start(&place, place.desired(&[at], &[&place.disk(), "ram:1MiB", "ram:1MiB"]));
    let device = |nsid| {
        let inventory = server.inventory();
        let found = inventory.namespaces().find(|of| of.nsid == Nsid(nsid)).unwrap().clone();
        Arc::clone(found.given())
    };
    let [disk, second, third] = [1, 2, 3].map(device);
    let mut desired = place.desired(&[at], &[&place.disk(), "ram:1MiB", "ram:1MiB"]);
    let namespaces = &mut desired.subsystems[0].namespaces;
    namespaces[0].nsid = Nsid(9);
    namespaces.remove(1);
    namespaces[1].uuid = Some("6ba7b810-9dad-11d1-80b4-00c04fd430c8".parse().unwrap());
    server.served().apply(FORCE, &desired).unwrap();
    assert!(Arc::ptr_eq(&device(9), &disk));
    assert!(Arc::ptr_eq(&device(3), &third) && !Arc::ptr_eq(&device(3), &second), "its own");
    drop((disk, second, third));
    server.stop().unwrap();
    is_released(&place, at);
}

/// Adds a RAM disk, once it may go on.
fn add(served: &Served, nsid: u32, waits: impl Fn()) -> Result<Changed, RequestFault> {
    served.change(FORCE, |state| {
        waits();
        let namespace = DesiredNamespace::new(Nsid(nsid), "ram:1MiB".into());
        state.subsystems[0].namespaces.push(namespace);
        Ok(())
    })
}

#[test]
fn a_change_waits_for_the_one_before() {
    let (place, at) = (Place::new("reload-twice"), free());
    let server = start(&place, place.desired(&[at], &["ram:1MiB"]));
    let (begun, served) = (Barrier::new(2), server.served());
    let (go, may_go) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let go = go;
        let first = scope.spawn(|| {
            let may_go = may_go;
            add(served, 2, || {
                begun.wait();
                may_go.recv().unwrap();
            })
        });
        begun.wait();
        let second = scope.spawn(|| add(served, 3, || ()));
        assert_eq!(server.inventory().namespaces().count(), 1);
        go.send(()).unwrap();
        let generations = [first, second].map(|one| one.join().unwrap().unwrap().generation);
        assert_eq!(generations[1], generations[0] + 1);
    });
    assert_eq!(server.inventory().namespaces().count(), 3);
    server.stop().unwrap();
}

#[test]
fn a_server_that_ends_makes_no_change_that_waits() {
    let (place, at) = (Place::new("reload-end"), free());
    let server = start(&place, place.desired(&[at], &[&place.disk()]));
    let served = [0; 2].map(|_| Arc::clone(server.served()));
    let (begin, begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    let [first, second] = served;
    let first = std::thread::spawn(move || {
        first.change(FORCE, |_| {
            begin.send(()).unwrap();
            may_go.recv().unwrap();
            Err(RequestFault::new(FaultCode::Invalid, "given up"))
        })
    });
    begun.recv().unwrap();
    let second = std::thread::spawn(move || add(&second, 2, || ()));
    server.stop().unwrap();
    let fault = second.join().unwrap().unwrap_err();
    assert_eq!(fault.code, FaultCode::Refused);
    assert_eq!(fault.message, "the server ends: nothing was changed");
    go.send(()).unwrap();
    assert_eq!(first.join().unwrap().unwrap_err().message, "given up");
}

#[test]
fn hosts_under_load_do_not_notice_a_reload() {
    let (place, at) = (Place::new("reload-load"), free());
    let server =
        Server::start(place.desired(&[at], &["ram:16MiB"]), Environment::default()).unwrap();
    let disk = open(&server, 1);
    let load = Arc::new((AtomicBool::new(false), AtomicU64::new(0)));
    let loading = std::thread::spawn({
        let load = Arc::clone(&load);
        move || {
            let (ends, count) = &*load;
            while !ends.load(Relaxed) {
                let byte = count.fetch_add(1, Relaxed) as u8;
                let (lba, mut found) = (u64::from(byte) * 8, [0; 4096]);
                disk.write(lba, &[byte; 4096]).unwrap();
                disk.read(lba, &mut found).unwrap();
                assert_eq!(found, [byte; 4096]);
            }
        }
    });
    let (ends, count) = &*load;
    for round in 0..20 {
        let before = count.load(Relaxed);
        until("the load goes on", || loading.is_finished() || count.load(Relaxed) > before);
        let more = ["ram:16MiB", "ram:1MiB", "null:1GiB"];
        let mut text = place.text(&[at, free()][..1 + round % 2], &more[..1 + round % 3]);
        if round % 2 > 0 {
            text += "[[host_limit]]\nhost = \"h\"\niops = \"500\"\n";
        }
        server.served().apply_text(FORCE, (&text, Path::new("test"))).unwrap();
        // What cannot be done disturbs nobody, either.
        let wrong = place.text(&[at], &["ram:16MiB", "file:/nonexistent/weft"]);
        server.served().apply_text(FORCE, (&wrong, Path::new("test"))).unwrap_err();
    }
    ends.store(true, Relaxed);
    loading.join().unwrap();
    server.stop().unwrap();
}
