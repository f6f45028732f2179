//! Names of disks that move: what hosts knew them by is what they know them by here.

use super::import;
use super::tests;
use crate::config::Desired;
use std::num::NonZeroU16;
use weft_endpoint::inventory::{Access, ScsiIdentity, SubsystemNumbers};
use weft_proto::iscsi::text::Name;

const NVMET: &str = include_str!("../data/nvmet.json");
const SPDK: &str = include_str!("../data/spdk.json");
const CEPH_ISCSI: &str = include_str!("../data/ceph-iscsi.json");
const TARGETCLI: &str = include_str!("../data/targetcli.json");

fn imported(text: &str) -> (Desired, String) {
    let (desired, left) = tests::imported(text);
    (desired, left.join("\n"))
}

fn numbers(serial: &str, model: &str, queues: u16) -> SubsystemNumbers {
    let (serial, model) = (serial.parse().unwrap(), model.parse().unwrap());
    SubsystemNumbers { serial: Some(serial), model: Some(model), queues: NonZeroU16::new(queues) }
}

/// Serial number, vendor, product, NAA identifier and T10 designator.
fn scsi([serial, vendor, product, naa, t10_id]: [&str; 5]) -> ScsiIdentity {
    ScsiIdentity {
        serial: Some(serial.parse().unwrap()),
        vendor: Some(vendor.parse().unwrap()),
        product: Some(product.parse().unwrap()),
        naa: Some(naa.parse().unwrap()),
        t10_id: Some(t10_id.parse().unwrap()),
    }
}

#[test]
fn subsystems_of_nvmet_keep_serial_and_model() {
    let (desired, left) = imported(NVMET);
    let found: Vec<_> = desired.subsystems.iter().map(|of| of.numbers.clone()).collect();
    let wanted = [("2b1dc6c0e2e47d5a8a40", 0), ("3c2dc6c0e2e47d5a8a41", 16)]
        .map(|(serial, queues)| numbers(serial, "Linux", queues));
    assert_eq!(found, wanted);
    assert!(!left.contains("serial number"), "{left}");
    let other = NVMET.replace("2b1dc6c0e2e47d5a8a40", "2b1dc6c0e2e47d5a8a40-too-long");
    let (desired, left) = imported(&other);
    assert_eq!(desired.subsystems[0].numbers.serial, None);
    assert!(left.contains("nqn.2026-01.example:open has the serial number \"2b1d"), "{left}");
}

#[test]
fn subsystems_of_spdk_keep_serial_and_model() {
    let (desired, left) = imported(SPDK);
    let [open, closed] = &desired.subsystems[..] else { panic!("{desired:?}") };
    assert_eq!(open.numbers, numbers("SPDK00000000000001", "SPDK bdev Controller", 32));
    // What SPDK reports where none is said.
    assert_eq!(closed.numbers, numbers("SPDK00000000000002", "SPDK bdev Controller", 32));
    assert_eq!(open.namespaces[1].eui64, Some([0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89]));
    assert!(!left.contains("serial number"), "{left}");
}

fn raid(params: &str) -> (String, String) {
    let text = format!(
        r#"{{"subsystems": [{{"subsystem": "bdev", "config": [
            {{"method": "bdev_raid_create", "params": {{"name": "Raid", "base_bdevs": ["A", "B"], {params}}}}},
            {{"method": "bdev_aio_create", "params": {{"name": "A", "filename": "/srv/a.img", "block_size": 512}}}},
            {{"method": "bdev_aio_create", "params": {{"name": "B", "filename": "/srv/b.img", "block_size": 512}}}}]}},
          {{"subsystem": "nvmf", "config": [
            {{"method": "nvmf_create_subsystem", "params": {{"nqn": "nqn.2026-01.example:a", "allow_any_host": true}}}},
            {{"method": "nvmf_subsystem_add_ns", "params": {{"nqn": "nqn.2026-01.example:a", "namespace": {{"bdev_name": "Raid"}}}}}},
            {{"method": "nvmf_subsystem_add_listener", "params": {{"nqn": "nqn.2026-01.example:a",
              "listen_address": {{"trtype": "TCP", "adrfam": "IPv4", "traddr": "192.0.2.10", "trsvcid": "4420"}}}}}}]}}]}}"#
    );
    let (desired, left) = imported(&text);
    let namespaces = &desired.subsystems[0].namespaces;
    (namespaces.first().map(|of| of.source.clone()).unwrap_or_default(), left)
}

#[test]
fn a_raid_of_level_0_is_a_stripe() {
    let stripe = "stripe:64KiB,/srv/a.img,block=512,/srv/b.img,block=512";
    for level in ["\"raid0\"", "\"0\"", "0"] {
        let (source, left) = raid(&format!("\"raid_level\": {level}, \"strip_size_kb\": 64"));
        assert_eq!(source, stripe);
        assert!(!left.contains("bdev_raid_create"), "{left}");
    }
    for (params, why) in [
        ("\"raid_level\": \"raid1\"", "need labels in weft"),
        ("\"raid_level\": \"raid5f\", \"strip_size_kb\": 64", "nothing like raid5f"),
        ("\"raid_level\": \"raid0\"", "no strip_size_kb"),
        ("\"raid_level\": \"raid0\", \"strip_size_kb\": 64, \"superblock\": true", "a superblock"),
    ] {
        let (source, left) = raid(params);
        assert_eq!(source, "", "{params}");
        let said = left.lines().find(|line| line.contains("bdev_raid_create Raid of A, B"));
        assert!(said.is_some_and(|line| line.contains(why)), "{params}: {left}");
        assert!(left.contains("serves Raid, which is not carried over"), "{left}");
    }
}

#[test]
fn disks_of_targetcli_keep_their_names() {
    let (desired, left) = imported(TARGETCLI);
    assert_eq!(desired.listen, ["iscsi://192.0.2.11:3260", "iscsi://[2001:db8::11]:3260"]);
    assert_eq!(desired.iscsi.name.as_ref().unwrap().as_str(), "iqn.2003-01.com.example:store");
    let [store] = &desired.subsystems[..] else { panic!("{desired:?}") };
    let names = |names: &[&str]| {
        let name = |name: &&str| Name::new(&format!("iqn.1994-05.com.example:{name}")).unwrap();
        Access::Only(names.iter().map(name).collect())
    };
    let told: Vec<_> = store
        .namespaces
        .iter()
        .map(|it| (it.nsid.0, it.source.as_str(), it.initiators.clone()))
        .collect();
    let wanted = [
        (1, "/dev/vg0/mail,block=512", names(&["one"])),
        (2, "/srv/web.img,block=4096", names(&["two"])),
        (3, "readonly:ram:64MiB", names(&[])),
    ];
    assert_eq!(store.namespaces[1].bytes, Some(1 << 30), "what is behind that is not served");
    assert_eq!((told, &store.initiators), (wanted.to_vec(), &names(&["one", "two"])));
    let mail = "2f1a1f2e-6d0c-4c3b-9a57-0d6f7f0f5e01";
    let naa = "60014052f1a1f2e6d0c4c3b9a570d6f7";
    let t10 = format!("LIO-ORG mail:{mail}");
    assert_eq!(store.namespaces[0].scsi, scsi([mail, "LIO-ORG", "mail", naa, &t10]));
    assert_eq!(store.namespaces[1].scsi.product.as_ref().unwrap().as_str(), "FILEIO");
    assert_eq!(store.namespaces[2].scsi, ScsiIdentity::default(), "a RAM disk comes back empty");
    for part in [
        "naa.5001405000000001 is one of loopback",
        "as LUN 5: in weft it is LUN 1 for all",
        "iqn.1994-05.com.example:one may only read LUN 1",
        "initiators log in as \"one-user\"",
        "serves /backstores/user:rbd/cloud",
        "ramdisk/scratch keeps no identity",
    ] {
        assert!(left.contains(part), "{part}: {left}");
    }
}

#[test]
fn disks_of_the_iscsi_gateway_of_ceph_keep_their_names() {
    let (desired, left) = imported(CEPH_ISCSI);
    let wwn = "2f1a1f2e-6d0c-4c3b-9a57-0d6f7f0f5e01";
    let naa = "60014052f1a1f2e6d0c4c3b9a570d6f7";
    let t10 = format!("LIO-ORG {wwn}");
    let wanted = scsi([wwn, "LIO-ORG", "TCMU device", naa, &t10]);
    assert_eq!(desired.subsystems[0].namespaces[0].scsi, wanted);
    assert!(!left.contains("see other disks"), "{left}");
    // The serial numbers of the others differ in their last digit only, which is no part of it.
    assert_eq!(desired.subsystems[0].namespaces[1].scsi.naa, None);
    assert!(left.contains("namespace 2, has the NAA identifier 60014052f1a1f2e"), "{left}");
    let (_, left) = imported(&CEPH_ISCSI.replace("\"wwn\"", "\"other\""));
    assert!(left.contains("have no wwn: initiators see other disks"), "{left}");
}

const TGT: &str = include_str!("../data/targets.conf");

#[test]
fn disks_of_tgt_keep_their_names() {
    let (desired, left) = imported(TGT);
    assert_eq!(desired.listen, ["iscsi://0.0.0.0:3260"]);
    assert_eq!(desired.iscsi.name.as_ref().unwrap().as_str(), "iqn.2003-01.com.example:store");
    let [store, test] = &desired.subsystems[..] else { panic!("{desired:?}") };
    let found: Vec<_> = store.namespaces.iter().map(|of| (of.nsid.0, &*of.source)).collect();
    // The one that is said first, then the lowest numbers that are free, by paths.
    let wanted =
        [(2, "/dev/vg0/a,block=512"), (6, "/dev/vg0/mail,block=512"), (3, "/srv/z.img,block=4096")];
    assert_eq!(found, wanted);
    let own = |lun: u32| {
        let (serial, t10) = (format!("beaf1{lun}"), format!("IET     0001{lun:04x}"));
        let naa = format!("60000000000000000e0000000001{lun:04x}");
        scsi([&serial, "IET", "VIRTUAL-DISK", &naa, &t10])
    };
    assert_eq!((&store.namespaces[0].scsi, &store.namespaces[2].scsi), (&own(1), &own(2)));
    let naa = store.namespaces[1].scsi.naa.as_ref().unwrap().to_string();
    assert_eq!(naa, format!("6{:0>31}", "a000abc1"));
    let mail = scsi(["MAIL-0001", "EXAMPLE", "MAIL", &naa, "mail abc1"]);
    assert_eq!(store.namespaces[1].scsi, mail);
    assert_eq!(test.namespaces[0].scsi.serial.as_ref().unwrap().as_str(), "beaf71");
    for part in [
        "iqn.2003-01.com.example:store is taken for target 1",
        "initiators log in as \"one-user\"",
        "admits only 192.0.2.0/24, and weft knows initiators by their names",
        "name those that may among iqn.1994-05.com.example:one in initiators",
        "iqn.2003-01.com.example:test is another target",
        "include /etc/tgt/conf.d/*.conf is not followed",
    ] {
        assert!(left.contains(part), "{part}: {left}");
    }
}

#[test]
fn a_targets_conf_that_is_damaged_is_refused() {
    for (text, why) in [
        ("<target iqn.a:b>\n", "the part target has no end"),
        ("<target iqn.a:b>\n</backing-store>\n", "line 2 ends backing-store"),
        ("</target>\n<target iqn.a:b>\n", "line 1 ends target"),
        (&"<target a>\n".repeat(20), "line 9 begins a part in too many others"),
    ] {
        let said = import(text, "targets.conf", false).unwrap_err().to_string();
        assert!(said.starts_with("targets.conf: ") && said.contains(why), "{said}");
    }
}
