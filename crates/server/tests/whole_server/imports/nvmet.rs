//! Rules of nvmetcli's `/etc/nvmet/config.json`.

use super::{Case, Right, TLS_KEYS, check, dhchap, host, tls_key};
use weft_proto::nvme::auth::Hash;

const A: &str = "nvme+tcp://127.0.0.1:PORT1/nqn.2019-08.org.example:a/1";
const B: &str = "nvme+tcp://127.0.0.1:PORT1/nqn.2019-08.org.example:b/1";
const A_AT_2: &str = "nvme+tcp://127.0.0.1:PORT2/nqn.2019-08.org.example:a/1";
const B_AT_2: &str = "nvme+tcp://127.0.0.1:PORT2/nqn.2019-08.org.example:b/1";

fn config(hosts: &str, ports: &str, subsystems: &str) -> String {
    format!(r#"{{"hosts": [{hosts}], "ports": [{ports}], "subsystems": [{subsystems}]}}"#)
}

/// A port that serves subsystems, such as `"a", "b"`.
fn port(id: u8, subsystems: &[&str], ana_groups: &str) -> String {
    let served: Vec<String> =
        subsystems.iter().map(|name| format!("\"nqn.2019-08.org.example:{name}\"")).collect();
    format!(
        r#"{{"addr": {{"adrfam": "ipv4", "traddr": "127.0.0.1", "treq": "not specified", "trsvcid": "PORT{id}", "trtype": "tcp",
        "tsas": "none"}}, "ana_groups": [{{"ana": {{"state": "optimized"}}, "grpid": 1}}{ana_groups}], "param": {{"inline_data_size":
        "16384", "pi_enable": "0"}}, "portid": {id}, "referrals": [], "subsystems": [{}]}}"#,
        served.join(", ")
    )
}

/// A subsystem; `allowed` are the hosts.
fn subsystem(name: &str, attributes: &str, allowed: &[&str], namespaces: &str) -> String {
    let allowed: Vec<String> =
        allowed.iter().map(|name| format!("\"nqn.2014-08.org.example.host:{name}\"")).collect();
    format!(
        r#"{{"allowed_hosts": [{}], "attr": {{{attributes}"cntlid_max": "65519", "cntlid_min": "1", "model": "Linux", "pi_enable": "0",
        "serial": "2b1dc6c0e2e47d5a8a4{name}", "version": "1.3"}}, "namespaces": [{namespaces}], "nqn": "nqn.2019-08.org.example:{name}"}}"#,
        allowed.join(", ")
    )
}

/// A namespace on a disk.
fn namespace(nsid: u8, disk: u8, more: &str) -> String {
    format!(
        r#"{{"ana": {{"grpid": "1"}}, "device": {{"nguid": "00000000-0000-0000-0000-000000000000", "path": "DISK{disk}",
        "uuid": "43c4260a-826b-475d-9b42-883b4258f5{disk:02}"}}, "nsid": {nsid}{more}}}"#
    )
}

fn enabled(disk: u8) -> String {
    namespace(1, disk, r#", "enable": 1"#)
}

const ANY: &str = r#""allow_any_host": "1", "#;
const NAMED: &str = r#""allow_any_host": "0", "#;

/// A host with keys of DH-HMAC-CHAP.
fn keyed(name: &str, key: &str, controller: &str, more: &str) -> String {
    format!(
        r#"{{"dhchap": {{"ctrl_key": "{controller}", "key": "{key}"{more}}}, "nqn": "nqn.2014-08.org.example.host:{name}"}}"#
    )
}

/// The file of the secret of host one.
const ONE: &str = "nqn.2014-08.org.example.host-one.dhchap";

fn hosts() -> Vec<Case> {
    let with = |attributes: &str, allowed: &[&str]| {
        config("", &port(1, &["a"], ""), &subsystem("a", attributes, allowed, &enabled(1)))
    };
    vec![
        Case::new("`allow_any_host` is 1", with(ANY, &[]))
            .may(host("one", A), Right::Write)
            .may(host("two", A), Right::Write),
        Case::new("`allowed_hosts`", with(NAMED, &["one"]))
            .may(host("one", A), Right::Write)
            .may(host("two", A), Right::None),
        Case::new("no `allow_any_host`", with("", &[])).may(host("one", A), Right::None),
    ]
}

fn ports() -> Vec<Case> {
    let a = subsystem("a", ANY, &[], &enabled(1));
    let b = subsystem("b", ANY, &[], &enabled(2));
    let looped = r#", {"addr": {"adrfam": "", "traddr": "", "treq": "not specified", "trsvcid": "", "trtype": "loop"},
        "portid": 2, "referrals": [], "subsystems": ["nqn.2019-08.org.example:b"]}"#;
    let inaccessible = r#", {"ana": {"state": "inaccessible"}, "grpid": 2}"#;
    let optimized = r#", {"ana": {"state": "optimized"}, "grpid": 2}"#;
    let grouped = |first: &str, second: &str| {
        let namespace = enabled(1).replace(r#""grpid": "1""#, r#""grpid": "2""#);
        config(
            "",
            &[port(1, &["a"], first), port(2, &["a"], second)].join(", "),
            &subsystem("a", ANY, &[], &namespace),
        )
    };
    vec![
        Case::new(
            "a subsystem that no port serves",
            config("", &port(1, &["a"], ""), &format!("{a}, {b}")),
        )
        .may(host("one", A), Right::Write)
        .may(host("one", B), Right::None)
        .reports("nobody may connect to it (hosts = [])"),
        Case::new(
            "a subsystem that only a loop port serves",
            config("", &(port(1, &["a"], "") + looped), &format!("{a}, {b}")),
        )
        .may(host("one", A), Right::Write)
        .may(host("one", B), Right::None),
        Case::new(
            "a port that serves some of the subsystems",
            config(
                "",
                &[port(1, &["a"], ""), port(2, &["a", "b"], "")].join(", "),
                &format!("{a}, {b}"),
            ),
        )
        .may(host("one", A_AT_2), Right::Write)
        .may(host("one", B_AT_2), Right::Write)
        .may(host("one", A), Right::None)
        .reports("serves 1 of 2 subsystems"),
        Case::new("an ANA group that is inaccessible at a port", grouped(inaccessible, optimized))
            .may(host("one", A), Right::None)
            .may(host("one", A_AT_2), Right::Write),
        Case::new("an ANA group that a port does not have", grouped("", optimized))
            .may(host("one", A), Right::None)
            .may(host("one", A_AT_2), Right::Write),
    ]
}

fn namespaces() -> Vec<Case> {
    let with =
        |namespaces: &str| config("", &port(1, &["a"], ""), &subsystem("a", ANY, &[], namespaces));
    let second = "nvme+tcp://127.0.0.1:PORT1/nqn.2019-08.org.example:a/2";
    let all = |more: &str| with(&format!("{}, {}", enabled(1), namespace(2, 2, more)));
    vec![
        Case::new("`enable` of a namespace is 0", all(r#", "enable": 0"#))
            .may(host("one", A), Right::Write)
            .may(host("one", second), Right::None),
        Case::new("a namespace without `enable`", all(""))
            .may(host("one", A), Right::Write)
            .may(host("one", second), Right::None),
        Case::new("the block size of a file", with(&enabled(1)))
            .blocks(4096)
            .may(host("one", A), Right::Write),
        Case::new(
            "`attr_qid_max`",
            config(
                "",
                &port(1, &["a"], ""),
                &subsystem("a", &format!(r#"{ANY}"qid_max": "4", "#), &[], &enabled(1)),
            ),
        )
        .may(host("one", A), Right::Write)
        .writes("max_queues = 4"),
    ]
}

fn secrets() -> Vec<Case> {
    let with = |hosts: &str, attributes: &str, allowed: &[&str]| {
        config(hosts, &port(1, &["a"], ""), &subsystem("a", attributes, allowed, &enabled(1)))
    };
    let usual = r#", "dhgroup": "null", "hash": "hmac(sha256)""#;
    let one = |controller: &str, more: &str| keyed("one", &dhchap(1), controller, more);
    let two = r#", {"dhchap": {"ctrl_key": "", "dhgroup": "null", "hash": "hmac(sha256)", "key": ""}, "nqn": "nqn.2014-08.org.example.host:two"}"#;
    let strong = r#", "dhgroup": "ffdhe3072", "hash": "hmac(sha512)""#;
    vec![
        Case::new("`dhchap_key` of a host", with(&one("", usual), NAMED, &["one"]))
            .file(ONE, dhchap(1))
            .may(host("one", A).secret(1), Right::Write)
            .may(host("one", A).secret(2), Right::None)
            .may(host("one", A), Right::None)
            .may(host("two", A).secret(1), Right::None),
        Case::new(
            "a host without a key, where another host has one",
            with(&(one("", usual) + two), NAMED, &["one", "two"]),
        )
        .file(ONE, dhchap(1))
        .may(host("one", A).secret(1), Right::Write)
        .may(host("two", A), Right::None)
        .reports("it is refused until it has a secret"),
        Case::new("`dhchap_key` where any host is allowed", with(&one("", usual), ANY, &[]))
            .may(host("one", A), Right::Write)
            .may(host("two", A), Right::Write),
        Case::new("`dhchap_ctrl_key`", with(&one(&dhchap(3), usual), NAMED, &["one"]))
            .file(ONE, dhchap(1))
            .file("nqn.2019-08.org.example-a.ctrl.dhchap", dhchap(3))
            .may(host("one", A).secret(1).expects(3), Right::Write)
            .may(host("one", A).secret(1).expects(4), Right::None),
        Case::new("`dhchap_hash` and `dhchap_dhgroup`", with(&one("", strong), NAMED, &["one"]))
            .file(ONE, dhchap(1))
            .may(host("one", A).secret(1), Right::Write)
            .may(host("one", A).secret(1).hashes(&[Hash::Sha256]), Right::None),
    ]
}

fn tls() -> Vec<Case> {
    let demanding = port(1, &["a"], "")
        .replace("not specified", "required")
        .replace(r#""tsas": "none""#, r#""tsas": "tls1.3""#);
    vec![
        Case::new(
            "a port with `tsas` tls1.3 or `treq` required",
            config("", &demanding, &subsystem("a", ANY, &[], &enabled(1))),
        )
        .file(TLS_KEYS, tls_key(5))
        .may(host("one", A).tls(5), Right::Write)
        .may(host("one", A).tls(6), Right::None)
        .may(host("one", A), Right::None),
    ]
}

pub fn cases() -> Vec<Case> {
    [hosts(), ports(), namespaces(), secrets(), tls()].into_iter().flatten().collect()
}

#[test]
fn rules_of_nvmet_hold() {
    check("nvmet", cases());
}
