//! Rules of the `gateway.conf` of Ceph's iSCSI gateway. Files take the places of images.

use super::{Case, Right, check, initiator};

const LUN_0: &str = "iscsi://127.0.0.1:PORT1/iqn.2003-01.com.redhat.iscsi-gw:iscsi-igw/0";
const LUN_1: &str = "iscsi://127.0.0.1:PORT1/iqn.2003-01.com.redhat.iscsi-gw:iscsi-igw/1";

/// Users and passwords, for initiators and for the target.
fn auth(user: &str, password: &str, mutual: &str, mutual_password: &str) -> String {
    format!(
        r#"{{"mutual_password": "{mutual_password}", "mutual_password_encryption_enabled": false, "mutual_username": "{mutual}",
        "password": "{password}", "password_encryption_enabled": false, "username": "{user}"}}"#
    )
}

fn no_auth() -> String {
    auth("", "", "", "")
}

fn client(name: &str, auth: &str, disks: &[u8]) -> String {
    let luns: Vec<String> = disks
        .iter()
        .map(|disk| format!(r#""rbd/disk{disk}": {{"lun_id": {}}}"#, disk - 1))
        .collect();
    format!(
        r#""iqn.1994-05.org.example.host:{name}": {{"auth": {auth}, "group_name": "", "luns": {{{}}}}}"#,
        luns.join(", ")
    )
}

fn config(is_closed: &str, own: &str, clients: &str, discovery: &str) -> String {
    let disk = |n: u8| {
        format!(
            r#""rbd/disk{n}": {{"backstore": "user:rbd", "backstore_object_name": "rbd.disk{n}", "controls": {{}}, "image": "disk{n}",
            "pool": "rbd", "pool_id": 2, "wwn": "2f1a1f2e-6d0c-4c3b-9a57-0d6f7f0f5e{n:02}"}}"#
        )
    };
    format!(
        r#"{{"created": "2024/03/01 10:00:00", "discovery_auth": {discovery}, "disks": {{{}, {}}}, "epoch": 7, "gateways":
        {{"gw1": {{"active_luns": 2}}}}, "targets": {{"iqn.2003-01.com.redhat.iscsi-gw:iscsi-igw": {{{is_closed}"auth": {own},
        "clients": {{{clients}}}, "controls": {{}}, "disks": {{"rbd/disk1": {{"lun_id": 0}}, "rbd/disk2": {{"lun_id": 1}}}}, "groups":
        {{}}, "ip_list": ["127.0.0.1"], "portals": {{"gw1": {{"gateway_ip_list": ["127.0.0.1"], "portal_ip_addresses": ["127.0.0.1"],
        "tpgs": 1}}}}}}}}, "updated": "2024/03/02 08:00:00", "version": 11}}"#,
        disk(1),
        disk(2)
    )
}

const CLOSED: &str = r#""acl_enabled": true, "#;
const OPEN: &str = r#""acl_enabled": false, "#;
const ONE: &str = "password-of-one";
const TWO: &str = "password-of-two";

pub fn cases() -> Vec<Case> {
    let free = |is_closed: &str, clients: &str| config(is_closed, &no_auth(), clients, &no_auth());
    let one = client("one", &no_auth(), &[1, 2]);
    let masked = format!("{one}, {}", client("two", &no_auth(), &[2]));
    let named = client("one", &auth("user1", ONE, "", ""), &[1, 2]);
    let mixed = format!("{named}, {}", client("two", &no_auth(), &[1, 2]));
    let proving = client("one", &auth("user1", ONE, "store", "password-of-target"), &[1]);
    vec![
        Case::new("`clients`", free(CLOSED, &one))
            .may(initiator("one", LUN_0), Right::Write)
            .may(initiator("two", LUN_0), Right::None),
        Case::new("no `acl_enabled`", free("", &one))
            .may(initiator("one", LUN_0), Right::Write)
            .may(initiator("two", LUN_0), Right::None),
        Case::new("`luns` of a client", free(CLOSED, &masked))
            .may(initiator("one", LUN_0), Right::Write)
            .may(initiator("two", LUN_0), Right::None)
            .may(initiator("two", LUN_1), Right::Write),
        Case::new("`acl_enabled` is false", free(OPEN, ""))
            .may(initiator("two", LUN_0), Right::Write),
        Case::new("`auth` of a client", config(CLOSED, &no_auth(), &mixed, &no_auth()))
            .file("user1.secret", ONE)
            .may(initiator("one", LUN_0).chap("user1", ONE), Right::Write)
            .may(initiator("one", LUN_0).chap("user1", TWO), Right::None)
            .may(initiator("one", LUN_0), Right::None)
            .may(initiator("two", LUN_0), Right::None)
            .may(initiator("two", LUN_0).chap("user1", ONE), Right::None)
            .reports("host:two is not admitted"),
        Case::new("`auth` of a target", config(OPEN, &auth("all", ONE, "", ""), "", &no_auth()))
            .file("all.secret", ONE)
            .may(initiator("two", LUN_0).chap("all", ONE), Right::Write)
            .may(initiator("two", LUN_0), Right::None),
        Case::new("`mutual_username`", config(CLOSED, &no_auth(), &proving, &no_auth()))
            .file("user1.secret", ONE)
            .file("store.target.secret", "password-of-target")
            .may(
                initiator("one", LUN_0).chap("user1", ONE).expects_password("password-of-target"),
                Right::Write,
            )
            .may(initiator("one", LUN_0).chap("user1", ONE).expects_password(TWO), Right::None),
        Case::new("`discovery_auth`", {
            config(CLOSED, &no_auth(), &one, &auth("finder", TWO, "", ""))
        })
        .file("finder.secret", TWO)
        .may(initiator("one", LUN_0).chap("finder", TWO), Right::Write)
        .may(initiator("one", LUN_0), Right::None),
    ]
}

#[test]
fn rules_of_ceph_iscsi_hold() {
    check("ceph-iscsi", cases());
}
