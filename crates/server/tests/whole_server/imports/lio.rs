//! Rules of targetcli's `/etc/target/saveconfig.json`.

use super::{Case, Right, check, initiator};

const LUN_0: &str =
    "iscsi://127.0.0.1:PORT1/iqn.2003-01.org.linux-iscsi.example.x8664:sn.0123456789ab/0";
const LUN_1: &str =
    "iscsi://127.0.0.1:PORT1/iqn.2003-01.org.linux-iscsi.example.x8664:sn.0123456789ab/1";
const OTHER: &str =
    "iscsi://127.0.0.1:PORT1/iqn.2003-01.org.linux-iscsi.example.x8664:sn.ba9876543210/0";

/// A storage object on a file.
fn file(disk: u8, more: &str) -> String {
    format!(
        r#"{{"aio": false, "alua_tpgs": [{{"alua_access_state": 0, "name": "default_tg_pt_gp", "tg_pt_gp_id": 0}}],
        "attributes": {{"block_size": 512, "emulate_3pc": 1, "emulate_model_alias": 1, "emulate_pr": 1}}, "dev": "DISK{disk}",
        "name": "disk{disk}", "plugin": "fileio", "size": 1048576, "write_back": true,
        "wwn": "2f1a1f2e-6d0c-4c3b-9a57-0d6f7f0f5e0{disk}"{more}}}"#
    )
}

/// A portal group with two disks.
fn group(attributes: &str, acls: &str, more: &str) -> String {
    format!(
        r#"{{"attributes": {{{attributes}"default_cmdsn_depth": 64, "login_timeout": 15, "t10_pi": 0}}, "enable": true,
        "luns": [{{"alias": "0a1b2c3d4e", "alua_tg_pt_gp_name": "default_tg_pt_gp", "index": 0, "storage_object": "/backstores/fileio/disk1"}},
        {{"alias": "1a1b2c3d4e", "alua_tg_pt_gp_name": "default_tg_pt_gp", "index": 1, "storage_object": "/backstores/fileio/disk2"}}],
        "node_acls": [{acls}], "parameters": {{"AuthMethod": "CHAP,None", "MaxBurstLength": "262144"}},
        "portals": [{{"ip_address": "127.0.0.1", "iser": false, "offload": false, "port": PORT1}}], "tag": 1{more}}}"#
    )
}

fn target(serial: &str, groups: &str) -> String {
    format!(
        r#"{{"fabric": "iscsi", "tpgs": [{groups}], "wwn": "iqn.2003-01.org.linux-iscsi.example.x8664:sn.{serial}"}}"#
    )
}

fn config(objects: &[String], targets: &str, fabrics: &str) -> String {
    format!(
        r#"{{"fabric_modules": [{fabrics}], "storage_objects": [{}], "targets": [{targets}]}}"#,
        objects.join(", ")
    )
}

/// A target with one portal group and two disks.
fn usual(attributes: &str, acls: &str, more: &str) -> String {
    let target = target("0123456789ab", &group(attributes, acls, more));
    config(&[file(1, ""), file(2, "")], &target, "")
}

/// The ACL of an initiator; `luns` are the numbers with their write protection.
fn acl(name: &str, luns: &[(u8, bool)], more: &str) -> String {
    let mapped: Vec<String> = luns
        .iter()
        .map(|(lun, is_protected)| {
            format!(
                r#"{{"alias": "4a1b{lun}", "index": {lun}, "tpg_lun": {lun}, "write_protect": {is_protected}}}"#
            )
        })
        .collect();
    format!(
        r#"{{"attributes": {{"authentication": -1, "dataout_timeout": 3}}, "mapped_luns": [{}],
        "node_wwn": "iqn.1994-05.org.example.host:{name}"{more}}}"#,
        mapped.join(", ")
    )
}

/// User and password of an ACL or a portal group.
fn user(name: &str, password: &str) -> String {
    format!(r#", "chap_password": "{password}", "chap_userid": "{name}""#)
}

const FREE: &str =
    r#""authentication": 0, "generate_node_acls": 0, "demo_mode_write_protect": 1, "#;
const CHAP: &str =
    r#""authentication": 1, "generate_node_acls": 0, "demo_mode_write_protect": 1, "#;
const DEMO: &str =
    r#""authentication": 0, "generate_node_acls": 1, "demo_mode_write_protect": 0, "#;
const DEMO_READ: &str =
    r#""authentication": 0, "generate_node_acls": 1, "demo_mode_write_protect": 1, "#;
const DEMO_CHAP: &str =
    r#""authentication": 1, "generate_node_acls": 1, "demo_mode_write_protect": 0, "#;

const BOTH: &[(u8, bool)] = &[(0, false), (1, false)];

fn names() -> Vec<Case> {
    let [one, two] = ["one", "two"].map(|name| acl(name, BOTH, ""));
    let absent = r#""authentication": 0, "generate_node_acls": 1, "#;
    let reads = acl("two", &[(0, true), (1, false)], "");
    vec![
        Case::new("`generate_node_acls` is 1", usual(DEMO, "", ""))
            .may(initiator("one", LUN_0), Right::Write),
        Case::new("`demo_mode_write_protect` is 1", usual(DEMO_READ, "", ""))
            .may(initiator("one", LUN_0), Right::Read),
        Case::new("no `demo_mode_write_protect`", usual(absent, "", ""))
            .may(initiator("one", LUN_0), Right::Read),
        Case::new("`node_acls`", usual(FREE, &one, ""))
            .may(initiator("one", LUN_0), Right::Write)
            .may(initiator("two", LUN_0), Right::None),
        Case::new(
            "`mapped_luns`",
            usual(FREE, &format!("{one}, {}", acl("two", &[(0, false)], "")), ""),
        )
        .may(initiator("one", LUN_1), Right::Write)
        .may(initiator("two", LUN_0), Right::Write)
        .may(initiator("two", LUN_1), Right::None),
        Case::new("`write_protect` of all initiators", usual(FREE, &reads, ""))
            .may(initiator("two", LUN_0), Right::Read)
            .may(initiator("two", LUN_1), Right::Write),
        Case::new(
            "`write_protect` of some initiators",
            usual(FREE, &format!("{one}, {reads}"), ""),
        )
        .may(initiator("one", LUN_0), Right::Write)
        .may(initiator("two", LUN_0), Right::None)
        .may(initiator("two", LUN_1), Right::Write)
        .reports("host:two may only read LUN 0"),
        Case::new("`node_acls` together with `generate_node_acls`", {
            usual(DEMO_READ, &format!("{one}, {two}"), "")
        })
        .may(initiator("one", LUN_0), Right::Write)
        .may(initiator("two", LUN_0), Right::Write)
        .may(initiator("three", LUN_0), Right::None)
        .reports("initiators that the target does not name may only read LUN 0"),
    ]
}

const ONE: &str = "password-of-one";
const TWO: &str = "password-of-two";

fn passwords() -> Vec<Case> {
    let [one, two] =
        [("one", ONE), ("two", TWO)].map(|(name, password)| acl(name, BOTH, &user(name, password)));
    let free = acl("three", BOTH, "");
    let method = |text: String| text.replace("CHAP,None", "CHAP");
    vec![
        Case::new("`authentication` is 1", usual(CHAP, &format!("{one}, {two}, {free}"), ""))
            .file("one.secret", ONE)
            .file("two.secret", TWO)
            .may(initiator("one", LUN_0).chap("one", ONE), Right::Write)
            .may(initiator("one", LUN_0).chap("two", TWO), Right::None)
            .may(initiator("one", LUN_0), Right::None)
            .may(initiator("three", LUN_0), Right::None)
            .may(initiator("three", LUN_0).chap("one", ONE), Right::None)
            .reports("host:three is not admitted"),
        Case::new("no `authentication`", usual("", &one, ""))
            .file("one.secret", ONE)
            .may(initiator("one", LUN_0).chap("one", ONE), Right::Write)
            .may(initiator("one", LUN_0), Right::None),
        Case::new("`AuthMethod` without None", method(usual(FREE, &one, "")))
            .file("one.secret", ONE)
            .may(initiator("one", LUN_0).chap("one", ONE), Right::Write)
            .may(initiator("one", LUN_0), Right::None),
        Case::new("`authentication` of an ACL is 1", {
            usual(FREE, &one.replace(r#""authentication": -1"#, r#""authentication": 1"#), "")
        })
        .file("one.secret", ONE)
        .may(initiator("one", LUN_0).chap("one", ONE), Right::Write)
        .may(initiator("one", LUN_0), Right::None),
        Case::new("`chap_userid` where `authentication` is 0", usual(FREE, &one, ""))
            .may(initiator("one", LUN_0), Right::Write)
            .may(initiator("two", LUN_0), Right::None),
    ]
}

fn users() -> Vec<Case> {
    let one = acl("one", BOTH, &user("one", ONE));
    let same = acl("two", BOTH, &user("one", TWO));
    let mutual = r#", "chap_mutual_password": "password-of-target", "chap_mutual_userid": "store""#;
    let proving = acl("one", BOTH, &(user("one", ONE) + mutual));
    let discovery = r#"{"discovery_enable_auth": true, "discovery_password": "password-of-two", "discovery_userid": "finder", "name": "iscsi"}"#;
    let found = {
        let target = target("0123456789ab", &group(FREE, &acl("one", BOTH, ""), ""));
        config(&[file(1, ""), file(2, "")], &target, discovery)
    };
    vec![
        Case::new("`chap_userid` of a portal group", usual(DEMO_CHAP, "", &user("all", ONE)))
            .file("all.secret", ONE)
            .may(initiator("one", LUN_0).chap("all", ONE), Right::Write)
            .may(initiator("one", LUN_0).chap("all", TWO), Right::None)
            .may(initiator("one", LUN_0), Right::None),
        Case::new("one user with two passwords", usual(CHAP, &format!("{one}, {same}"), ""))
            .file("one.secret", ONE)
            .may(initiator("one", LUN_0).chap("one", ONE), Right::Write)
            .may(initiator("two", LUN_0).chap("one", ONE), Right::None)
            .may(initiator("two", LUN_0).chap("one", TWO), Right::None)
            .reports("host:two is not admitted"),
        Case::new("`chap_mutual_userid`", usual(CHAP, &proving, ""))
            .file("one.secret", ONE)
            .file("store.target.secret", "password-of-target")
            .may(
                initiator("one", LUN_0).chap("one", ONE).expects_password("password-of-target"),
                Right::Write,
            )
            .may(initiator("one", LUN_0).chap("one", ONE).expects_password(TWO), Right::None),
        Case::new("`discovery_enable_auth`", found)
            .file("finder.secret", TWO)
            .may(initiator("one", LUN_0).chap("finder", TWO), Right::Write)
            .may(initiator("one", LUN_0), Right::None),
    ]
}

fn disks() -> Vec<Case> {
    let acl = acl("one", BOTH, "");
    let with = |first: String| {
        config(&[first, file(2, "")], &target("0123456789ab", &group(FREE, &acl, "")), "")
    };
    let replaced = |from: &str, to: &str| with(file(1, "").replace(from, to));
    let disabled = group(DEMO, "", "").replace(r#""enable": true"#, r#""enable": false"#);
    let groups = format!("{disabled}, {}", group(FREE, &acl, ""));
    // One disk for each of two targets.
    let first = group(FREE, &acl, "").replace("fileio/disk2", "fileio/none");
    let second = group(DEMO, "", "").replace("fileio/disk2", "fileio/none");
    let second = second.replace("fileio/disk1", "fileio/disk2");
    let others = format!("{}, {}", target("0123456789ab", &first), target("ba9876543210", &second));
    let both = [file(1, ""), file(2, "")];
    vec![
        Case::new("`readonly` of a storage object", with(file(1, r#", "readonly": true"#)))
            .may(initiator("one", LUN_0), Right::Read)
            .may(initiator("one", LUN_1), Right::Write),
        Case::new("`size` of a file", replaced("1048576", "524288"))
            .writes("size = \"524288\"")
            .may(initiator("one", LUN_0), Right::Write),
        Case::new(
            "`block_size` is 4096",
            replaced(r#""block_size": 512"#, r#""block_size": 4096"#),
        )
        .writes("disk1,block=4096\"")
        .may(initiator("one", LUN_0), Right::Write),
        Case::new("other `block_size`", replaced(r#""block_size": 512"#, r#""block_size": 1024"#))
            .may(initiator("one", LUN_0), Right::None)
            .may(initiator("one", LUN_1), Right::Write)
            .reports("it has blocks of 1024 bytes"),
        Case::new("`alua_access_state`", {
            replaced(r#""alua_access_state": 0"#, r#""alua_access_state": 2"#)
        })
        .may(initiator("one", LUN_0), Right::None)
        .may(initiator("one", LUN_1), Right::Write),
        Case::new("`enable` of a portal group is false", {
            config(&both, &target("0123456789ab", &groups), "")
        })
        .may(initiator("one", LUN_0), Right::Write)
        .may(initiator("two", LUN_0), Right::None),
        Case::new("further targets", config(&both, &others, ""))
            .may(initiator("one", LUN_0), Right::Write)
            .may(initiator("one", OTHER), Right::None),
    ]
}

pub fn cases() -> Vec<Case> {
    [names(), passwords(), users(), disks()].into_iter().flatten().collect()
}

#[test]
fn rules_of_lio_hold() {
    check("LIO", cases());
}
