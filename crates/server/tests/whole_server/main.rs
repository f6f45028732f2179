//! Whole servers in one process: from a configuration to connected hosts, through changes, to the
//! end, after which nothing is in use.

mod bare;
mod group;
#[cfg(unix)]
mod imports;
mod memory_store;
mod reload;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use weft_endpoint::inventory::Access;
use weft_endpoint::{ConnectOptions, Disk};
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_server::config::desired::DesiredNamespace;
use weft_server::config::{Desired, NoSourceOptions, read};
use weft_server::management::client::ManagementClient;
use weft_server::management::place::ControlSocket;
use weft_server::metrics::MetricsConfig;
use weft_server::served::ChangeMode;
use weft_server::{Environment, ErrorKind, Server, ServerNotice};
use weft_testing::wait::PATIENCE;

/// A place of a server's own: its files, and the names in its configuration.
struct Place {
    name: &'static str,
    directory: PathBuf,
}

impl Place {
    fn new(name: &'static str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("weft-server-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Self { name, directory }
    }

    fn disk(&self) -> String {
        format!("file:{},size=1MiB", self.directory.join("disk").display())
    }

    /// A configuration that listens at these addresses, with these sources as namespaces 1, 2, ….
    fn text(&self, listen: &[SocketAddr], sources: &[&str]) -> String {
        let listen: Vec<String> = listen.iter().map(|at| format!("\"nvme+tcp://{at}\"")).collect();
        let mut text = format!(
            "listen = [{}]\n[server]\nthreads = 2\n[[subsystem]]\nnqn = \"nqn.2026-01.example:{}\"\n",
            listen.join(", "),
            self.name
        );
        for (nsid, source) in (1..).zip(sources) {
            text += &format!("[[subsystem.namespace]]\nnsid = {nsid}\nsource = \"{source}\"\n");
        }
        text
    }

    fn desired(&self, listen: &[SocketAddr], sources: &[&str]) -> Desired {
        let text = self.text(listen, sources);
        read(&text, "test", (&self.directory, &NoSourceOptions)).unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("server.control")
    }

    /// An environment with a control socket and metrics, and the events of the server.
    fn environment(&self) -> (Environment, Receiver<ServerNotice>) {
        let (give, events) = mpsc::channel();
        let place = self.socket().display().to_string();
        let environment = Environment {
            control_socket: Some(ControlSocket { place, is_required: true }),
            metrics: MetricsConfig { listen: Some("127.0.0.1:0".into()), token_file: None },
            on_event: Arc::new(move |event| give.send(event).unwrap_or_default()),
            ..Environment::default()
        };
        (environment, events)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// An address whose port is free.
fn free() -> SocketAddr {
    let ip = [127, 0, 0, 1];
    (ip, weft_testing::port::free(std::net::IpAddr::from(ip))).into()
}

fn open(server: &Server, nsid: u32) -> Disk {
    let url = format!("{}/{nsid}", server.urls()[0]);
    Disk::open(&url, &ConnectOptions::default()).unwrap()
}

/// Writes the first blocks of a namespace, and reads them.
fn use_disk(server: &Server, nsid: u32, byte: u8) {
    let disk = open(server, nsid);
    disk.write(0, &[byte; 8192]).unwrap();
    let mut found = [0; 8192];
    disk.read(0, &mut found).unwrap();
    assert_eq!(found, [byte; 8192]);
}

fn scrape(url: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Adds a namespace, replaces it by applying a text, and removes it again.
fn change(server: &Server, place: &Place, at: SocketAddr) {
    let how = ChangeMode { force: true, dry_run: false };
    let added = server.served().change(how, |state| {
        let second = DesiredNamespace::new(Nsid(2), "ram:1MiB".into());
        state.subsystems[0].namespaces.push(second);
        Ok(())
    });
    assert_eq!(added.unwrap().changes.len(), 1);
    use_disk(server, 2, 7);
    let text = place.text(&[at], &[&place.disk(), "ram:2MiB"]);
    let applied = server.served().apply_text(how, (&text, Path::new("test"))).unwrap();
    assert_eq!(applied.changes[0].kind, "change");
    assert_eq!(open(server, 2).geometry().bytes(), 2 << 20);
    let mut client = ManagementClient::connect(&server.control_socket().unwrap()).unwrap();
    let shown: Value = client.ask("inventory.show", json!({})).unwrap();
    assert_eq!(shown["subsystems"][0]["namespaces"].as_array().unwrap().len(), 2, "{shown}");
    let removed: Value = client.ask("namespace.remove", json!({"nsid": 2, "force": true})).unwrap();
    assert_eq!(removed["changes"][0]["kind"], "remove", "{removed}");
    assert_eq!(server.inventory().namespaces().count(), 1);
}

/// The life of a server that listens at this address. What it leaves on its disk, the next one
/// finds there.
fn live(place: &Place, at: SocketAddr, found: u8, left: u8) {
    let (environment, events) = place.environment();
    let server = Server::start(place.desired(&[at], &[&place.disk()]), environment).unwrap();
    let mut first = [1; 4096];
    open(&server, 1).read(0, &mut first).unwrap();
    assert_eq!(first, [found; 4096]);
    use_disk(&server, 1, left);
    change(&server, place, at);
    let metrics = scrape(&server.metrics_url().unwrap());
    assert!(metrics.starts_with("HTTP/1.1 200 OK") && metrics.contains("weft_build"), "{metrics}");
    assert!(server.counters().recv_calls > 0);
    // Clients that stay do not keep a server.
    let mut staying = ManagementClient::connect(&place.socket()).unwrap();
    let info: Value = staying.ask("server.info", json!({})).unwrap();
    assert_eq!(info["pid"], std::process::id());
    ManagementClient::connect(&place.socket()).unwrap().ask::<()>("server.end", json!({})).unwrap();
    assert_eq!(events.recv_timeout(PATIENCE).unwrap(), ServerNotice::EndRequested);
    let metrics = server.metrics_url().unwrap();
    server.stop().unwrap();
    assert!(staying.ask::<Value>("server.info", json!({})).is_err());
    assert!(!place.socket().exists());
    let metrics = metrics.trim_start_matches("http://").trim_end_matches("/metrics");
    drop(TcpListener::bind(metrics).unwrap());
    is_released(place, at);
}

/// Nobody has the port, or the lock of the disk.
fn is_released(place: &Place, at: SocketAddr) {
    drop(TcpListener::bind(at).unwrap());
    drop(weft_endpoint::open(&place.disk(), &ConnectOptions::default()).unwrap());
}

#[test]
fn servers_live_beside_each_other_and_after_each_other() {
    let lives = |name, byte: u8| {
        let (place, at) = (Place::new(name), free());
        live(&place, at, 0, byte);
        live(&place, at, byte, byte + 1);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| lives("one", 10));
        scope.spawn(|| lives("two", 20));
    });
    lives("one", 30);
}

/// Also if it was made when the server was asked to release everything already.
#[test]
fn no_change_that_a_client_was_told_of_is_lost_where_a_takeover_fails() {
    let (place, at) = (Place::new("resumed"), free());
    let (environment, _events) = place.environment();
    let mut desired = place.desired(&[at], &[&place.disk()]);
    desired.subsystems[0].hosts = Access::Only(BTreeSet::new());
    let server = Server::start(desired, environment).unwrap();
    let mut client = ManagementClient::connect(&place.socket()).unwrap();
    let (give, told) = mpsc::channel();
    let changing = std::thread::spawn(move || {
        for host in (0..).map(|n| format!("nqn.2026-01.example:host-{n}")) {
            if client.ask::<Value>("host.allow", json!({ "host": host })).is_err() {
                break;
            }
            give.send(host).unwrap();
        }
    });
    let mut hosts: Vec<String> = (0..3).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
    let resumed = server.hand_over(|| false).unwrap().expect("nobody has taken over");
    changing.join().unwrap();
    hosts.extend(told);
    let lost: Vec<_> = hosts
        .iter()
        .filter(|host| !resumed.subsystems[0].hosts.allows(&Nqn::new(host).unwrap()))
        .collect();
    assert!(lost.is_empty(), "of {}: {lost:?}", hosts.len());
    drop(resumed);
    is_released(&place, at);
}

#[test]
fn a_server_that_does_not_start_leaves_nothing_in_use() {
    let (place, at) = (Place::new("failing"), free());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_at = taken.local_addr().unwrap();
    let disk = place.disk();
    let failure = |desired, environment| {
        let failed = Server::start(desired, environment).err().expect("it does not start");
        is_released(&place, at);
        assert!(!place.socket().exists());
        failed
    };
    let error = failure(place.desired(&[at, taken_at], &[&disk]), place.environment().0);
    assert_eq!(error.kind(), ErrorKind::InUse, "{error}");
    let missing = format!("file:{}", place.directory.join("missing").display());
    let error = failure(place.desired(&[at], &[&disk, &missing]), place.environment().0);
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains(&missing), "{error}");
    // All but the last part has started.
    let (mut environment, _events) = place.environment();
    environment.metrics.listen = Some(taken_at.to_string());
    let error = failure(place.desired(&[at], &[&disk]), environment);
    assert_eq!(error.kind(), ErrorKind::InUse, "{error}");
    live(&place, at, 0, 1);
}
