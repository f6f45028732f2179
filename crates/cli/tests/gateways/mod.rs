//! Gateways of a group in front of a Ceph cluster: hosts that reach their disks through several of
//! them lose nothing, whichever of them dies, stands still or is replaced.
#![cfg(target_os = "linux")]

mod host;
mod kernel;
mod network;
mod rig;

use crate::nvme::NvmeHost;
use crate::support::there_and_back;
use host::Host;
use network::Link;
use rig::{NQN, Rig};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::status::Status;
use weft_testing::ceph::CephCluster;
use weft_testing::wait::until;

/// A gateway that is optimized dies. Its hosts go on at the others, which keep it out of the
/// cluster first.
#[test]
fn a_gateway_that_is_killed_is_replaced() {
    let Some(mut rig) = Rig::start("killed", &["a", "b", "c"]) else { return };
    let mut host = Host::start(&rig);
    let dead = rig.optimized(1);
    let client = rig.gateway(&dead).client.unwrap();
    host.works("to begin with");
    rig.kill(&dead);
    until("another gateway has the group", || rig.optimized(1) != dead);
    until("it is out", || rig.gateway(&dead).state == "away");
    assert!(
        rig.blocklist().contains(client.trim_start_matches("v2:")),
        "{client} is kept out: {}",
        rig.blocklist()
    );
    host.works("a gateway was killed");
    rig.launch(&dead);
    until("it has come back", || rig.gateway(&dead).state == "serving");
    host.works("it came back");
    host.end();
    rig.end();
}

/// A gateway stands still for longer than its lease, with writes in its hands, and goes on.
#[test]
fn what_a_gateway_does_after_its_lease_is_of_no_effect() {
    let Some(mut rig) = Rig::start("stopped", &["a", "b", "c"]) else { return };
    let mut host = Host::start(&rig);
    let stopped = rig.optimized(1);
    host.works("to begin with");
    rig.signal(&stopped, "STOP");
    until("another gateway has the group", || rig.optimized(1) != stopped);
    host.works("a gateway stood still");
    rig.signal(&stopped, "CONT");
    let (status, said) = rig.wait(&stopped);
    assert_eq!(status.code(), Some(7), "{said}");
    assert!(said.contains("it has to start again"), "{said}");
    host.works("it went on");
    host.end();
    rig.end();
}

/// All gateways are replaced one by one, as in an upgrade, and what is served changes meanwhile.
#[test]
fn gateways_are_restarted_one_by_one_while_the_configuration_changes() {
    let Some(mut rig) = Rig::start("rolling", &["a", "b", "c"]) else { return };
    let mut host = Host::start(&rig);
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        let other = if name == "a" { "b" } else { "a" };
        host.works(&format!("{name} was not restarted yet"));
        rig.terminate(name);
        // The other one hears of it from the cluster, which may be after the process has ended.
        until("it has left in order", || rig.state_at(other, name) == "away");
        let image = rig.image(&format!("more-{n}"), "16M");
        rig.weft(other, &["namespace", "add", &format!("rbd:{image}")]);
        rig.launch(name);
        until("it serves what was added meanwhile", || rig.namespaces(name) == 3 + n + 1);
        host.works(&format!("{name} was restarted"));
    }
    host.end();
    rig.end();
}

/// Gateways of an earlier program are replaced one by one, and they come back.
#[test]
#[ignore = "long: cargo xtask long upgrade-gateways"]
fn gateways_are_upgraded_one_by_one_and_go_back() {
    const GATEWAYS: [&str; 3] = ["a", "b", "c"];
    let Some([earlier, this, again]) = there_and_back() else { return };
    let Some(mut rig) = Rig::start_by(earlier, "upgrade", &GATEWAYS) else { return };
    let mut host = Host::start(&rig);
    host.works("to begin with");
    for (program, when) in [(this, "was upgraded"), (again, "went back")] {
        rig.program = program;
        for name in GATEWAYS {
            let other = if name == "a" { "b" } else { "a" };
            rig.terminate(name);
            until("it has left in order", || rig.state_at(other, name) == "away");
            rig.launch(name);
            until("it serves again", || rig.gateway(name).state == "serving");
            host.works(&format!("{name} {when}"));
        }
    }
    host.end();
    rig.end();
}

/// A storage daemon dies and comes back: everything waits for it.
#[test]
fn hosts_wait_for_a_storage_daemon() {
    let Some(mut rig) = Rig::start_alone("osd", &["a", "b", "c"]) else { return };
    let mut host = Host::start(&rig);
    host.works("to begin with");
    rig.cluster.signal("osd.0", "KILL");
    rig.cluster.launch("osd.0");
    host.works("a storage daemon was killed and came back");
    host.end();
    rig.end();
}

/// What is changed at one gateway, all serve, and two that change at the same moment lose nothing.
#[test]
fn a_change_at_any_gateway_is_one_of_all() {
    let Some(mut rig) = Rig::start("changes", &["a", "b"]) else { return };
    let host = "nqn.2026-01.example:somebody";
    let refused = rig.ran("a", &["namespace", "add", "ram:16MiB"]);
    assert!(refused.message().contains("only images of Ceph"), "{refused:?}");
    rig.weft("b", &["ana", "set", "7", "optimized"]);
    until("group 7 is at b", || rig.optimized(7) == "b");
    rig.weft("a", &["ana", "set", "7", "optimized"]);
    until("group 7 is at a", || rig.optimized(7) == "a");
    rig.weft("a", &["ana", "set", "7", "by-rule"]);
    let images = ["x", "y", "z", "u"].map(|name| rig.image(name, "16M"));
    std::thread::scope(|scope| {
        for (gateway, image) in ["a", "b", "a", "b"].iter().zip(&images) {
            let rig = &rig;
            scope.spawn(move || rig.weft(gateway, &["namespace", "add", &format!("rbd:{image}")]));
        }
    });
    for gateway in ["a", "b"] {
        until("all four are served", || rig.namespaces(gateway) == 7);
    }
    let asked = rig.ran("b", &["namespace", "remove", "7"]);
    assert!(asked.message().contains("hosts of other gateways may use it"), "{asked:?}");
    rig.weft("b", &["namespace", "remove", "7", "--force"]);
    until("it is gone at both", || rig.namespaces("a") == 6);
    let open = rig.ran("a", &["host", "allow", host]);
    assert!(open.out.contains("nothing differs"), "{open:?}");
    let known = rig.discovered("a");
    assert_eq!(known, rig.discovered("b"));
    assert!(rig.ports().iter().all(|port| known.contains(&port.to_string())), "{known:?}");
    rig.end();
}

/// A reservation that is made at one gateway holds at all, before it is answered: also at one that
/// stands still, which is replaced for that.
#[test]
fn reservations_hold_at_all_gateways() {
    let Some(mut rig) = Rig::start("reservations", &["a", "b", "c"]) else { return };
    let host = |rig: &Rig, gateway: &str, id: u8| NvmeHost::new(rig.address(gateway), NQN, id);
    let (mut one_at_a, mut one_at_b) = (host(&rig, "a", 1), host(&rig, "b", 1));
    let (mut two_at_b, mut two_at_a) = (host(&rig, "b", 2), host(&rig, "a", 2));
    assert_eq!(one_at_a.reserve(NvmOpcode::RESERVATION_REGISTER, 0, [0, 1]), Status::SUCCESS);
    assert_eq!(two_at_b.reserve(NvmOpcode::RESERVATION_REGISTER, 0, [0, 2]), Status::SUCCESS);
    // Exclusive access.
    assert_eq!(one_at_a.reserve(NvmOpcode::RESERVATION_ACQUIRE, 2 << 8, [1, 0]), Status::SUCCESS);
    assert_eq!((one_at_b.write(), one_at_a.write()), (Status::SUCCESS, Status::SUCCESS));
    assert_eq!(
        (two_at_b.write(), two_at_a.read()),
        (Status::RESERVATION_CONFLICT, Status::RESERVATION_CONFLICT)
    );

    // A gateway that knows nothing of it stands still, and comes back when it is too late.
    rig.signal("c", "STOP");
    assert_eq!(
        two_at_b.reserve(NvmOpcode::RESERVATION_ACQUIRE, 1 | 2 << 8, [2, 1]),
        Status::SUCCESS
    );
    assert_eq!(rig.state_at("a", "c"), "away", "the preemption waited for that");
    rig.signal("c", "CONT");
    let (status, said) = rig.wait("c");
    assert_eq!(status.code(), Some(7), "{said}");
    assert_eq!(
        (one_at_a.write(), one_at_b.write()),
        (Status::RESERVATION_CONFLICT, Status::RESERVATION_CONFLICT)
    );
    assert_eq!((two_at_a.write(), two_at_b.write()), (Status::SUCCESS, Status::SUCCESS));

    // One that starts knows it.
    rig.launch("c");
    let (mut one, mut two) = (host(&rig, "c", 1), host(&rig, "c", 2));
    assert_eq!((one.write(), two.write()), (Status::RESERVATION_CONFLICT, Status::SUCCESS));
    drop((one, two, one_at_a, one_at_b, two_at_a, two_at_b));
    rig.end();
}

/// A gateway that loses the cluster stops serving and ends, so that its hosts repeat elsewhere what
/// it had, long before they would give that up. One that loses its hosts stays what it is.
#[test]
fn a_gateway_that_is_cut_off_is_replaced() {
    let test = "gateways::a_gateway_that_is_cut_off_is_replaced";
    if !CephCluster::is_installed() || !network::enter(test) {
        return;
    }
    let Some(mut rig) = Rig::start_apart("cut", &["a", "b", "far"]) else { return };
    rig.weft("far", &["ana", "set", "1", "optimized"]);
    until("the far gateway has group 1", || rig.optimized(1) == "far");
    let mut host = Host::start(&rig);
    host.works("to begin with");

    // Hosts use the other paths, though it is optimized.
    rig.far.as_ref().unwrap().cut(Link::Hosts);
    host.works("cut off from its hosts");
    assert_eq!(rig.optimized(1), "far");
    rig.far.as_ref().unwrap().mend(Link::Hosts);
    host.works("together again");

    // It ends with a command in its hands that its host would wait for much longer.
    until("the host has come back to it", || rig.in_flight("far") > 0);
    rig.far.as_ref().unwrap().cut(Link::Cluster);
    until("a command waits there", || rig.in_flight("far") > 0);
    let (status, said) = rig.wait("far");
    assert_eq!(status.code(), Some(7), "{said}");
    assert!(said.contains("the gateway has lost the cluster"), "{said}");
    host.works("cut off from the cluster");
    // Its paths are there before its groups have gone to others.
    until("another gateway has group 1", || rig.optimized(1) != "far");
    rig.far.as_ref().unwrap().mend(Link::Cluster);
    rig.launch("far");
    until("it has come back", || rig.gateway("far").state == "serving");
    host.works("it came back");
    host.end();
    rig.end();
}
