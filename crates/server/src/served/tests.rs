//! The differences between two states.

use super::difference::between;
use super::reopened;
use super::state::ServedState;
use crate::config::tests::read;
use std::path::Path;
use weft_endpoint::inventory::Inventory;

const LISTEN: &str = "listen = [\"127.0.0.1:4420\"]\n";
const A: &str = "[[subsystem]]\nnqn = \"nqn.2026-01.example:a\"\n";
const ONE: &str = "[[subsystem.namespace]]\nnsid = 1\nsource = \"ram:1MiB\"\n";
const TWO: &str = "[[subsystem.namespace]]\nnsid = 2\nsource = \"ram:2MiB\"\n";

fn state(parts: &[&str]) -> ServedState {
    let text = parts.concat();
    ServedState::of(
        &read(&text, "weft.toml", Path::new(""))
            .unwrap_or_else(|e| panic!("{:?}\n{text}", e.lines())),
    )
}

/// The differences from one state to another one, as text.
fn told(before: &[&str], after: &[&str]) -> Vec<String> {
    let found = between(&state(before), &state(after), (&Inventory::default(), &[]));
    found.iter().map(|one| format!("{}: {}", one.kind, one.text)).collect()
}

#[test]
fn what_is_the_same_does_not_differ() {
    assert_eq!(told(&[LISTEN, A, ONE, TWO], &[LISTEN, A, TWO, ONE]), [""; 0]);
}

#[test]
fn what_goes_goes_first() {
    let b = A.replace(":a", ":b");
    let all = told(&[LISTEN, A, ONE], &["listen = [\"127.0.0.1:4421\"]\n", &b, TWO]);
    let wanted = [
        "remove: stop listening at nvme+tcp://127.0.0.1:4420",
        "remove: remove subsystem nqn.2026-01.example:a",
        "add: add subsystem nqn.2026-01.example:b",
        "add: add namespace 2 to nqn.2026-01.example:b (ram:2MiB)",
        "add: listen at nvme+tcp://127.0.0.1:4421",
    ];
    assert_eq!(all, wanted);
}

#[test]
fn only_what_differs_changes() {
    let of = |more: &str| told(&[LISTEN, A, ONE], &[LISTEN, A, ONE, more]);
    let namespace = "namespace 1 of nqn.2026-01.example:a";
    assert_eq!(of("size = \"512KiB\"\n"), [format!("change: resize {namespace} to 512KiB")]);
    assert_eq!(of("name = \"x\"\n"), [format!("change: name {namespace} \"x\"")]);
    assert_eq!(of("ana_group = 3\n"), [format!("change: move {namespace} to ANA group 3")]);
    let shown = format!("change: show {namespace} to no NVMe host, and to any iSCSI initiator");
    assert_eq!(of("hosts = []\n"), [shown]);
    let read_only = format!("change: replace {namespace} (ram:1MiB by readonly:ram:1MiB)");
    assert_eq!(of("read_only = true\n"), [read_only]);
    let null = ONE.replace("ram:", "null:");
    let uuid = "uuid = \"6ba7b810-9dad-11d1-80b4-00c04fd430c8\"\n";
    let told_of = told(&[LISTEN, A, &null], &[LISTEN, A, &null, uuid]);
    assert_eq!(told_of, [format!("change: change the identity of {namespace}")]);
    let admitted = told(&[LISTEN, A], &[LISTEN, A, "hosts = [\"nqn.2026-01.example.host:h\"]\n"]);
    let wanted = "change: admit to nqn.2026-01.example:a nqn.2026-01.example.host:h, and to any iSCSI initiator";
    assert_eq!(admitted, [wanted]);
}

#[test]
fn a_file_that_is_served_is_not_opened_again() {
    let of = |source: &str| state(&[LISTEN, A, &ONE.replace("ram:1MiB", source)]);
    let refused = |before: &str, after: &str| {
        reopened::check(&of(before), &of(after), false).err().map(|fault| fault.message)
    };
    let text = refused("file:/srv/a", "error:rate=1,kind=media,file:/srv/a").unwrap();
    assert!(
        text.contains("namespace 1 of nqn.2026-01.example:a has /srv/a open")
            && text.contains("also with --force; apply a configuration without that namespace"),
        "{text}"
    );
    for (before, after) in [
        ("/srv/a", "file:/srv/a,direct=off"),
        ("delay:/srv/a", "/srv/a"),
        ("readonly:/srv/a", "/srv/a"),
        ("stripe:/srv/a,/srv/b", "/srv/b"),
    ] {
        assert!(refused(before, after).is_some(), "{before}, {after}");
    }
    for (before, after) in [
        ("/srv/a", "/srv/a"),
        ("/srv/a", "/srv/b"),
        ("readonly:/srv/a", "delay:readonly:/srv/a"),
        ("/srv/a,lock=off", "delay:/srv/a,lock=off"),
        ("ram:1MiB", "delay:ram:1MiB"),
        ("nbd://h/x", "delay:nbd://h/x"),
    ] {
        assert_eq!(refused(before, after), None, "{before}, {after}");
    }
}

#[test]
fn addresses_of_nbd_without_exports_are_named() {
    let nbd = "listen = [\"nbd://127.0.0.1:0\", \"127.0.0.1:4420\"]\n";
    let text = state(&[nbd, A, ONE, TWO]).nameless().unwrap();
    assert!(text.starts_with("nbd://127.0.0.1:0 has no export, because"), "{text}");
    for fine in [&[nbd, A, ONE, "name = \"disk\"\n", TWO][..], &[nbd, A], &[LISTEN, A, ONE]] {
        assert_eq!(state(fine).nameless(), None, "{fine:?}");
    }
}

#[test]
fn states_of_which_nothing_is_said_stay() {
    let ana = "[[ana]]\ngroup = 2\nstate = \"inaccessible\"\n";
    assert_eq!(told(&[LISTEN, A], &[LISTEN, ana, A]), ["change: make ANA group 2 inaccessible"]);
    assert_eq!(told(&[LISTEN, ana, A], &[LISTEN, A]), [""; 0]);
}

#[test]
fn limits_of_hosts_come_change_and_go() {
    let limit = |rest: &str| format!("[[host_limit]]\nhost = \"h\"\n{rest}");
    let (one, two) = (limit("iops = \"10k\"\n"), limit("iops = \"500\"\nbw = \"64MiB\"\n"));
    assert_eq!(
        told(&[LISTEN, A], &[LISTEN, &one, A]),
        ["change: limit host h to 10000 operations per second"]
    );
    assert_eq!(told(&[LISTEN, &one, A], &[LISTEN, &one, A]), [""; 0]);
    let both = "change: limit host h to 500 operations and 64MiB per second";
    assert_eq!(told(&[LISTEN, &one, A], &[LISTEN, &two, A]), [both]);
    assert_eq!(told(&[LISTEN, &two, A], &[LISTEN, A]), ["change: take the limit of host h"]);
}

#[test]
fn identifiers_of_hosts_come_and_go() {
    let given = "[[host_identifier]]\nhost = \"nqn.2026-01.example:h\"\nid = \"11111111-2222-3333-4444-555555555555\"\n";
    assert_eq!(
        told(&[LISTEN, A], &[LISTEN, given, A]),
        ["change: change the identifiers of hosts (1 are given now)"]
    );
    assert_eq!(told(&[LISTEN, given, A], &[LISTEN, given, A]), [""; 0]);
    assert_eq!(
        told(&[LISTEN, given, A], &[LISTEN, A]),
        ["change: change the identifiers of hosts (0 are given now)"]
    );
}
