//! Configurations in the shapes that nvmetcli and SPDK save.

use super::import;
use crate::config::Desired;
use crate::config::tests::read;
use std::path::Path;
use weft_endpoint::inventory::Access;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Nqn, Nsid};

const NVMET: &str = include_str!("../data/nvmet.json");
const SPDK: &str = include_str!("../data/spdk.json");
const CEPH_ISCSI: &str = include_str!("../data/ceph-iscsi.json");

fn imported(text: &str) -> (Desired, Vec<String>) {
    let (toml, left) = import(text, "config.json", false).unwrap();
    let desired = read(&toml, "weft.toml", Path::new(""))
        .unwrap_or_else(|e| panic!("{:?}\n{toml}", e.lines()));
    assert!(left.iter().all(|sentence| toml.contains(sentence)));
    (desired, left)
}

fn only(host: &str) -> Access<Nqn> {
    Access::Only([Nqn::new(host).unwrap()].into())
}

#[test]
fn what_nvmetcli_saves() {
    let (desired, left) = imported(NVMET);
    assert_eq!(desired.listen, ["nvme+tcp://192.0.2.1:4420", "nvme+tcp://[2001:db8::1]:4420"]);
    let [open, closed] = &desired.subsystems[..] else { panic!("{desired:?}") };
    assert_eq!((&open.hosts, open.namespaces.len()), (&Access::Any, 1), "one is disabled");
    assert_eq!(open.namespaces[0].source, "/dev/nvme0n1");
    assert_eq!(
        open.namespaces[0].uuid.unwrap().to_string(),
        "91fdba0d-f87b-4c25-b80f-db7be1418b9e"
    );
    assert_eq!(open.namespaces[0].nguid, None, "it was not set");
    assert_eq!(
        closed.hosts,
        only("nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555")
    );
    assert_eq!(
        (closed.namespaces[0].nsid, closed.namespaces[0].nguid.unwrap()[0]),
        (Nsid(7), 0xef)
    );
    let left = left.join("\n");
    for part in
        ["transport rdma", "serves 1 of 2 subsystems", "disabled", "ANA group 2", "DH-HMAC-CHAP"]
    {
        assert!(left.contains(part), "{part}: {left}");
    }
}

#[test]
fn what_spdk_saves() {
    let (desired, left) = imported(SPDK);
    assert_eq!(desired.listen, ["nvme+tcp://192.0.2.10:4420"]);
    let [open, closed] = &desired.subsystems[..] else { panic!("{desired:?}") };
    let sources: Vec<_> =
        open.namespaces.iter().map(|it| (it.nsid.0, it.source.as_str())).collect();
    assert_eq!(sources, [(1, "ram:64MiB"), (2, "/srv/aio.img,block=4096"), (5, "null:1GiB")]);
    assert_eq!(open.namespaces[0].uuid, None, "a RAM disk comes back empty");
    assert_eq!(
        open.namespaces[2].uuid.unwrap().to_string(),
        "7c2cb9d2-0d4c-4c36-8a0d-0e1f67ad1d10"
    );
    assert_eq!(open.namespaces[1].nguid.unwrap()[..2], [0xab, 0xcd]);
    let host = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
    assert_eq!(closed.hosts, only(host));
    assert_eq!(
        closed.namespaces[0].source,
        "nvme+tcp://192.0.2.20:4420/nqn.2026-01.example:upstream/1"
    );
    assert_eq!(closed.namespaces[0].hosts, only(host));
    let left = left.join("\n");
    for part in [
        "Nvme1 is a controller at PCIe",
        "bdev_lvol",
        "keeps no identity",
        "RDMA",
        "serves lvs/vol, which",
        "vhost_blk",
    ] {
        assert!(left.contains(part), "{part}: {left}");
    }
}

#[test]
fn what_the_iscsi_gateway_of_ceph_keeps() {
    let (desired, _) = imported(CEPH_ISCSI);
    assert_eq!(desired.listen, ["iscsi://192.0.2.11:3260"]);
    assert_eq!(desired.iscsi.name.as_ref().unwrap().as_str(), "iqn.2003-01.com.example:store");
    let [store, test] = &desired.subsystems[..] else { panic!("{desired:?}") };
    assert_eq!(
        (store.nqn.as_str(), &store.hosts),
        ("nqn.2003-01.com.example:store", &Access::Only([].into()))
    );
    let name = |name: &&str| Name::new(&format!("iqn.1994-05.com.example:{name}")).unwrap();
    let names = |names: &[&str]| Access::Only(names.iter().map(name).collect());
    assert_eq!((&store.initiators, &test.initiators), (&names(&["one", "two"]), &Access::Any));
    let told: Vec<_> = store
        .namespaces
        .iter()
        .map(|it| (it.nsid.0, it.source.as_str(), it.initiators.clone()))
        .collect();
    assert_eq!(
        told,
        [(1, "rbd:rbd/mail", names(&["one"])), (2, "rbd:vms/web_1", names(&["one", "two"]))]
    );
    assert_eq!(
        test.namespaces.iter().map(|it| it.source.as_str()).collect::<Vec<_>>(),
        ["rbd:vms/spare"]
    );
}

#[test]
fn what_the_iscsi_gateway_of_ceph_loses_is_told() {
    let left = imported(CEPH_ISCSI).1.join("\n");
    for part in [
        "gateway gw2.example listens at iscsi://[2001:db8::12]:3260",
        "iqn.2003-01.com.example:test is another target",
        "as LUN 5: in weft it is LUN 1 for all",
        "it must log in as \"one-user\"",
        "proves itself as \"store-user\"",
        "discovery demands",
        "settings of LIO: max_data_area_mb",
        "serves vms/gone, whose",
    ] {
        assert!(left.contains(part), "{part}: {left}");
    }
}

#[test]
fn a_group_gets_no_passwords_and_no_addresses_from_the_iscsi_gateway_of_ceph() {
    let (toml, _) = import(CEPH_ISCSI, "gateway.json", false).unwrap();
    assert!(
        !toml.contains("never-shown") && !toml.contains("bmV2ZXI"),
        "no password is carried over"
    );
    let (toml, left) = import(CEPH_ISCSI, "gateway.json", true).unwrap();
    assert!(
        toml.contains("rbd:rbd/mail") && !toml.contains("\nlisten") && !toml.contains("\n[iscsi]"),
        "{toml}"
    );
    assert!(
        left.iter().any(|it| it.ends_with("give all gateways --iqn iqn.2003-01.com.example:store")),
        "{left:?}"
    );
}

#[test]
fn an_old_configuration_of_the_iscsi_gateway_of_ceph_is_refused() {
    let old =
        import(&CEPH_ISCSI.replace("\"version\": 11", "\"version\": 9"), "gateway.json", false)
            .unwrap_err()
            .to_string();
    assert!(old.contains("version 9") && old.contains("converts it"), "{old}");
}

#[test]
fn what_is_left_out_is_told() {
    let calls = |bdev: &str, nvmf: &str| {
        let text = format!(
            r#"{{"subsystems": [{{"subsystem": "bdev", "config": [{bdev}]}}, {{"subsystem": "nvmf", "config": [
            {{"method": "nvmf_create_subsystem", "params": {{"nqn": "nqn.2026-01.example:a", "allow_any_host": true}}}}, {nvmf}]}}]}}"#
        );
        import(&text, "config.json", false).unwrap()
    };
    let serve = |options: &str| {
        format!(
            r#"{{"method": "nvmf_subsystem_add_ns", "params": {{"nqn": "nqn.2026-01.example:a", "namespace": {{"bdev_name": "A"{options}}}}}}}"#
        )
    };
    let aio = r#"{"method": "bdev_aio_create", "params": {"name": "A", "filename": "/a", "block_size": 512, "readonly": true}}"#;
    let (toml, left) = calls(aio, &serve(r#", "ptpl_file": "/p""#));
    assert!(toml.contains("read_only = true"), "{toml}");
    let left = left.join("\n");
    assert!(
        left.contains("keeps reservations in /p") && left.contains("no TCP listener"),
        "{left}"
    );
    let remote = r#"{"method": "bdev_nvme_attach_controller", "params": {"name": "A", "trtype": "TCP", "traddr": "192.0.2.1",
        "trsvcid": "4420", "subnqn": "nqn.2026-01.example:b", "psk": "hidden", "hostnqn": "nqn.2026-01.example:h"}}"#;
    let (toml, left) = calls(remote, &serve(""));
    let left = left.join("\n");
    assert!(
        left.contains("A has the psk: ")
            && left.contains("A has the hostnqn nqn.2026-01.example:h"),
        "{left}"
    );
    assert!(!toml.contains("hidden"));
    let huge = r#"{"method": "bdev_null_create", "params": {"name": "A", "num_blocks": 18446744073709551615, "block_size": 4096}}"#;
    assert!(
        calls(huge, &serve("")).1.join("\n").contains("bdev_null_create A is not carried over")
    );
    let text = r#"{"subsystems": [{"nqn": "nqn.2026-01.example:a", "namespaces": [{"nsid": {}, "device": {"path": "/a"}}]}]}"#;
    assert!(import(text, "config.json", false).unwrap().1.join("\n").contains("not a number"));
}

#[test]
fn other_files_are_refused() {
    for text in ["", "[]", "{}", r#"{"subsystems": [{"name": "x"}]}"#, r#"{"subsystems": []}"#] {
        assert!(
            import(text, "other.json", false).unwrap_err().to_string().starts_with("other.json: "),
            "{text}"
        );
    }
}
