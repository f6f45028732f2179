//! Gateways of a group in one process.

use super::memory_store::MemoryStore;
use super::{Place, free};
use serde_json::{Value, json};
use std::cell::Cell;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use weft_endpoint::ConnectOptions;
use weft_endpoint::inventory::Access;
use weft_endpoint::source::nvme::discover;
use weft_endpoint::url::{HostPort, NvmeTransport};
use weft_group::{Ending, GatewayName};
use weft_proto::nvme::types::Nqn;
use weft_server::group::Joining;
use weft_server::group::verbs::{ShownGateway, ShownGroup};
use weft_server::management::client::ManagementClient;
use weft_server::management::protocol::FaultCode;
use weft_server::served::{ChangeMode, ServedState};
use weft_server::{Server, ServerNotice};
use weft_testing::wait::{PATIENCE, until};

const ANA_GROUPS: usize = weft_group::limits::ANA_GROUPS as usize;

/// Starts a gateway of the group "hall".
fn start(place: &Place, at: SocketAddr, store: &MemoryStore) -> (Server, Receiver<ServerNotice>) {
    let (mut environment, events) = place.environment();
    environment.group = Some(Joining {
        group: GatewayName::new("hall").unwrap(),
        gateway: GatewayName::new(place.name).unwrap(),
        store: Arc::new(store.clone()),
        access: weft_ceph::CephAccess::default(),
        advertise: Vec::new(),
    });
    // What is served is a matter of the group.
    let mut desired = place.desired(&[at], &[]);
    desired.subsystems.clear();
    (Server::start(desired, environment).unwrap(), events)
}

fn shown(server: &Server) -> ShownGroup {
    let mut client = ManagementClient::connect(&server.control_socket().unwrap()).unwrap();
    client.ask("gateway.list", json!({})).unwrap()
}

/// What a gateway knows of another one.
fn gateway(server: &Server, name: &str) -> ShownGateway {
    shown(server).gateways.into_iter().find(|gateway| gateway.name == name).unwrap()
}

/// How many ANA groups a gateway is optimized for, as another one sees it.
fn owned(server: &Server, name: &str) -> usize {
    gateway(server, name).ana_groups.len()
}

fn subsystems(server: &Server) -> usize {
    server.inventory().subsystems().len()
}

/// The names and addresses of which hosts are told there.
fn discovered(at: SocketAddr) -> Vec<(String, String)> {
    let address = HostPort::parse(&at.to_string(), 0).unwrap();
    let log = discover(NvmeTransport::Tcp, &address, &ConnectOptions::default()).unwrap();
    log.entries
        .into_iter()
        .map(|entry| (entry.subnqn.nqn().unwrap().to_string(), entry.trsvcid.text()))
        .collect()
}

const TEXT: &str = "[[subsystem]]\nnqn = \"nqn.2026-01.example:first\"\n";
const MORE: &str = "[[subsystem]]\nnqn = \"nqn.2026-01.example:second\"\n";

#[test]
fn gateways_in_one_process_serve_the_same_and_take_over_from_each_other() {
    let store = MemoryStore::default();
    let (one, two) = (Place::new("gw-one"), Place::new("gw-two"));
    let (one_at, two_at) = (free(), free());
    let (first, _events) = start(&one, one_at, &store);
    let (second, _two_events) = start(&two, two_at, &store);
    until("both share the ANA groups", || {
        [one.name, two.name].iter().all(|name| owned(&first, name) == ANA_GROUPS / 2)
    });
    let (a, b) = (gateway(&second, one.name).cntlids, gateway(&second, two.name).cntlids);
    assert!(a.1 < b.0 || b.1 < a.0, "controllers of both have the same identifiers: {a:?} {b:?}");

    // What is changed at one is served by both, whichever it is.
    let how = ChangeMode { force: false, dry_run: false };
    first.served().apply_text(how, (TEXT, Path::new("test"))).unwrap();
    until("the second one follows", || subsystems(&second) == 1);
    let text = format!("{TEXT}{MORE}");
    let mut client = ManagementClient::connect(&second.control_socket().unwrap()).unwrap();
    let params = json!({"text": text, "file": "test"});
    let applied: Value = client.ask("config.apply", params).unwrap();
    assert_eq!(applied["changes"].as_array().unwrap().len(), 1, "{applied}");
    until("the first one follows", || subsystems(&first) == 2);
    assert_eq!(shown(&first).configuration, 2);
    let told = discovered(one_at);
    for (name, at) in [(":first", two_at), (":second", one_at)] {
        let port = at.port().to_string();
        assert!(told.iter().any(|(nqn, to)| nqn.ends_with(name) && *to == port), "{told:?}");
    }

    // Who leaves gives everything away, and finds it when it comes back.
    second.stop().unwrap();
    until("the first one has everything", || owned(&first, one.name) == ANA_GROUPS);
    until("it has left", || gateway(&first, two.name).state == "away");
    let (second, events) = start(&two, two_at, &store);
    assert_eq!(subsystems(&second), 2);
    until("it has its part again", || owned(&first, two.name) == ANA_GROUPS / 2);

    // One that is kept out of the store ends.
    store.keep_out(&gateway(&first, two.name).client.unwrap());
    assert_eq!(
        events.recv_timeout(PATIENCE).unwrap(),
        ServerNotice::GroupLost(Ending::Blocklisted)
    );
    drop(second);
    first.stop().unwrap();
    until("nothing of them is left", || store.is_released());
}

#[test]
fn a_change_is_refused_where_another_gateway_is_always_faster() {
    let store = MemoryStore::default();
    let (one, two) = (Place::new("gw-slow"), Place::new("gw-fast"));
    let (first, _events) = start(&one, free(), &store);
    let (second, _two_events) = start(&two, free(), &store);
    let how = ChangeMode { force: true, dry_run: false };
    first.served().apply_text(how, (TEXT, Path::new("test"))).unwrap();
    until("the second one follows", || subsystems(&second) == 1);
    let name = |host: &str, n: u32| Nqn::new(&format!("nqn.2026-01.example:{host}-{n}")).unwrap();
    let allow = |state: &mut ServedState, name: Nqn| {
        let hosts = &mut state.subsystems[0].hosts;
        match hosts {
            Access::Any => *hosts = Access::Only([name].into()),
            Access::Only(_) => hosts.allow(name),
        }
    };
    let tries = Cell::new(0);
    let fault = first.served().change(how, |state| {
        tries.set(tries.get() + 1);
        let faster = |state: &mut ServedState| {
            allow(state, name("fast", tries.get()));
            Ok(())
        };
        second.served().change(how, faster).unwrap();
        allow(state, name("slow", 0));
        Ok(())
    });
    let fault = fault.unwrap_err();
    let said =
        "another gateway has changed the group's configuration at the same moment: try again";
    assert_eq!((fault.code, fault.message.as_str()), (FaultCode::Conflict, said));
    let allows =
        |server: &Server, name: &Nqn| server.inventory().subsystems()[0].hosts.allows(name);
    until("the first one follows", || allows(&first, &name("fast", tries.get())));
    assert!(tries.get() > 1 && !allows(&second, &name("slow", 0)));
    let last = first.served().change(how, |state| {
        allow(state, name("slow", 0));
        Ok(())
    });
    assert_eq!(last.unwrap().changes.len(), 1);
    until("the second one follows", || allows(&second, &name("slow", 0)));
    second.stop().unwrap();
    first.stop().unwrap();
    until("nothing of them is left", || store.is_released());
}
