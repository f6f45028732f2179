//! Rules of what SPDK's `save_config` prints.

use super::{Case, Right, TLS_KEYS, check, dhchap, host, tls_key};
use weft_proto::nvme::auth::Hash;

const A: &str = "nvme+tcp://127.0.0.1:PORT1/nqn.2016-06.io.spdk:a/1";
const A_AT_2: &str = "nvme+tcp://127.0.0.1:PORT2/nqn.2016-06.io.spdk:a/1";
const B: &str = "nvme+tcp://127.0.0.1:PORT1/nqn.2016-06.io.spdk:b/1";

/// A call with its parameters.
fn call(method: &str, params: &str) -> String {
    format!(r#"{{"method": "{method}", "params": {{{params}}}}}"#)
}

/// A file with blocks of this size.
fn aio(disk: u8, block: u32, more: &str) -> String {
    let params = format!(
        r#""name": "Aio{disk}", "filename": "DISK{disk}", "block_size": {block}, "fallocate": false{more}"#
    );
    call("bdev_aio_create", &params)
}

fn create(name: &str, any: bool) -> String {
    let params = format!(
        r#""nqn": "nqn.2016-06.io.spdk:{name}", "allow_any_host": {any}, "serial_number": "SPDK0000000000000{name}",
        "model_number": "SPDK bdev Controller", "max_namespaces": 32, "min_cntlid": 1, "max_cntlid": 65519, "ana_reporting": true"#
    );
    call("nvmf_create_subsystem", &params)
}

fn add_ns(name: &str, disk: u8, more: &str) -> String {
    let params = format!(
        r#""nqn": "nqn.2016-06.io.spdk:{name}", "namespace": {{"nsid": 1, "bdev_name": "Aio{disk}", "anagrpid": 1{more}}}"#
    );
    call("nvmf_subsystem_add_ns", &params)
}

fn add_host(name: &str, host: &str, more: &str) -> String {
    let params = format!(
        r#""nqn": "nqn.2016-06.io.spdk:{name}", "host": "nqn.2014-08.org.example.host:{host}"{more}"#
    );
    call("nvmf_subsystem_add_host", &params)
}

fn listen(name: &str, port: u8, more: &str) -> String {
    let params = format!(
        r#""nqn": "nqn.2016-06.io.spdk:{name}", "listen_address": {{"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1",
        "trsvcid": "PORT{port}"}}{more}"#
    );
    call("nvmf_subsystem_add_listener", &params)
}

/// A configuration with one device and these calls of the part `nvmf`.
fn config(keyring: &str, bdev: &[String], nvmf: &[String]) -> String {
    format!(
        r#"{{"subsystems": [{{"subsystem": "keyring", "config": [{keyring}]}}, {{"subsystem": "bdev", "config": [{}]}},
        {{"subsystem": "nvmf", "config": [{{"method": "nvmf_create_transport", "params": {{"trtype": "TCP"}}}}, {}]}}]}}"#,
        bdev.join(", "),
        nvmf.join(", ")
    )
}

/// A subsystem with one disk and one listener, and more calls.
fn usual(any: bool, more: &[String]) -> String {
    let own =
        [create("a", any), add_ns("a", 1, ""), listen("a", 1, r#", "secure_channel": false"#)];
    config("", &[aio(1, 512, "")], &[&own[..], more].concat())
}

fn hosts() -> Vec<Case> {
    let disable =
        call("nvmf_subsystem_allow_any_host", r#""nqn": "nqn.2016-06.io.spdk:a", "disable": true"#);
    let hidden = [
        create("a", true),
        add_ns("a", 1, r#", "no_auto_visible": true"#),
        listen("a", 1, ""),
        call(
            "nvmf_ns_add_host",
            r#""nqn": "nqn.2016-06.io.spdk:a", "nsid": 1, "host": "nqn.2014-08.org.example.host:one""#,
        ),
    ];
    let unknown = call("nvmf_subsystem_set_quorum", r#""nqn": "nqn.2016-06.io.spdk:a""#);
    let batch = format!("[{}]", add_host("a", "one", ""));
    vec![
        Case::new("`allow_any_host` is true", usual(true, &[]))
            .may(host("one", A), Right::Write)
            .may(host("two", A), Right::Write),
        Case::new("`nvmf_subsystem_add_host`", usual(false, &[batch]))
            .may(host("one", A), Right::Write)
            .may(host("two", A), Right::None),
        Case::new("`nvmf_subsystem_allow_any_host` with `disable`", usual(true, &[disable]))
            .may(host("one", A), Right::None),
        Case::new(
            "`no_auto_visible` and `nvmf_ns_add_host`",
            config("", &[aio(1, 512, "")], &hidden),
        )
        .may(host("one", A), Right::Write)
        .may(host("two", A), Right::None),
        Case::new("a call about a subsystem that is not known", usual(true, &[unknown]))
            .may(host("one", A), Right::None)
            .reports("nvmf_subsystem_set_quorum is not carried over: nobody may connect"),
    ]
}

fn listeners() -> Vec<Case> {
    let disks = [aio(1, 512, ""), aio(2, 512, "")];
    let both = |more: &[String]| {
        let own = [create("a", true), add_ns("a", 1, ""), create("b", true), add_ns("b", 2, "")];
        config("", &disks, &[&own[..], more].concat())
    };
    let vfio = r#""nqn": "nqn.2016-06.io.spdk:b", "listen_address": {"trtype": "VFIOUSER", "traddr": "/var/run/vfio", "trsvcid": ""}"#;
    let states = call(
        "nvmf_subsystem_listener_set_ana_state",
        r#""nqn": "nqn.2016-06.io.spdk:a", "listen_address": {"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1",
        "trsvcid": "PORT1"}, "ana_state": "inaccessible""#,
    );
    let transport =
        call("nvmf_create_transport", r#""trtype": "TCP", "max_io_qpairs_per_ctrlr": 4"#);
    vec![
        Case::new("a subsystem without a listener of TCP or RDMA", {
            both(&[listen("a", 1, ""), call("nvmf_subsystem_add_listener", vfio)])
        })
        .may(host("one", A), Right::Write)
        .may(host("one", B), Right::None)
        .reports("nobody may connect to it (hosts = [])"),
        Case::new("subsystems with listeners of their own", {
            both(&[listen("a", 1, ""), listen("a", 2, ""), listen("b", 2, "")])
        })
        .may(host("one", A_AT_2), Right::Write)
        .may(host("one", A), Right::None)
        .reports("serves 1 of 2 subsystems"),
        Case::new("the ANA state of a listener", {
            config(
                "",
                &disks,
                &[
                    create("a", true),
                    add_ns("a", 1, ""),
                    listen("a", 1, ""),
                    listen("a", 2, ""),
                    states,
                ],
            )
        })
        .may(host("one", A), Right::None)
        .may(host("one", A_AT_2), Right::Write),
        Case::new("`max_io_qpairs_per_ctrlr`", usual(true, &[transport]))
            .may(host("one", A), Right::Write)
            .writes("max_queues = 4"),
    ]
}

fn secrets() -> Vec<Case> {
    let key = |name: &str| {
        call("keyring_file_add_key", &format!(r#""name": "{name}", "path": "FILES/{name}.key""#))
    };
    let keyring = [key("key0"), key("ckey0")].join(", ");
    let with = |any: bool, more: &[String]| {
        let own = [create("a", any), add_ns("a", 1, ""), listen("a", 1, "")];
        config(&keyring, &[aio(1, 512, "")], &[&own[..], more].concat())
    };
    let one = r#", "dhchap_key": "key0""#;
    let both = r#", "dhchap_key": "key0", "dhchap_ctrlr_key": "ckey0""#;
    let digests = call(
        "nvmf_set_config",
        r#""dhchap_digests": ["sha512"], "dhchap_dhgroups": ["ffdhe3072"]"#,
    );
    let secure =
        [create("a", true), add_ns("a", 1, ""), listen("a", 1, r#", "secure_channel": true"#)];
    vec![
        Case::new("`dhchap_key` of a host", {
            with(false, &[add_host("a", "one", one), add_host("a", "two", "")])
        })
        .file("key0.key", dhchap(1))
        .may(host("one", A).secret(1), Right::Write)
        .may(host("one", A).secret(2), Right::None)
        .may(host("one", A), Right::None)
        .may(host("two", A), Right::None)
        .reports("host:two proves nothing"),
        Case::new("`dhchap_key` where any host is allowed", {
            with(true, &[add_host("a", "one", one)])
        })
        .file("key0.key", dhchap(1))
        .may(host("one", A).secret(1), Right::Write)
        .may(host("one", A), Right::None)
        .may(host("two", A), Right::None),
        Case::new("`dhchap_ctrlr_key`", with(false, &[add_host("a", "one", both)]))
            .file("key0.key", dhchap(1))
            .file("ckey0.key", dhchap(3))
            .may(host("one", A).secret(1).expects(3), Right::Write)
            .may(host("one", A).secret(1).expects(4), Right::None),
        Case::new("`dhchap_digests` and `dhchap_dhgroups`", {
            with(false, &[digests, add_host("a", "one", one)])
        })
        .file("key0.key", dhchap(1))
        .may(host("one", A).secret(1), Right::Write)
        .may(host("one", A).secret(1).hashes(&[Hash::Sha256]), Right::None),
        Case::new("`secure_channel` of a listener", config("", &[aio(1, 512, "")], &secure))
            .file(TLS_KEYS, tls_key(5))
            .may(host("one", A).tls(5), Right::Write)
            .may(host("one", A).tls(6), Right::None)
            .may(host("one", A), Right::None),
    ]
}

fn devices() -> Vec<Case> {
    let with = |bdev: &[String]| {
        config("", bdev, &[create("a", true), add_ns("a", 1, ""), listen("a", 1, "")])
    };
    let limits = call(
        "bdev_set_qos_limit",
        r#""name": "Aio1", "rw_ios_per_sec": 20000, "rw_mbytes_per_sec": 100, "r_mbytes_per_sec": 50"#,
    );
    vec![
        Case::new("`readonly` of a device", with(&[aio(1, 512, r#", "readonly": true"#)]))
            .may(host("one", A), Right::Read),
        Case::new("`bdev_set_qos_limit`", with(&[aio(1, 512, ""), limits]))
            .writes("limit:iops=20000,bw=100MiB,read-bw=50MiB,")
            .may(host("one", A), Right::Write),
        Case::new("blocks of 4096 bytes", with(&[aio(1, 4096, "")]))
            .blocks(4096)
            .may(host("one", A), Right::Write),
        Case::new("blocks of other sizes", with(&[aio(1, 2048, "")]))
            .may(host("one", A), Right::None)
            .reports("it has blocks of 2048 bytes"),
    ]
}

pub fn cases() -> Vec<Case> {
    [hosts(), listeners(), secrets(), devices()].into_iter().flatten().collect()
}

#[test]
fn rules_of_spdk_hold() {
    check("SPDK", cases());
}
