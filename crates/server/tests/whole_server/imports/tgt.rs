//! Rules of tgt's `/etc/tgt/targets.conf`.

use super::{Case, Right, check, initiator};

const LUN_1: &str = "iscsi://127.0.0.1:PORT1/iqn.2008-09.org.example:store/1";
const LUN_2: &str = "iscsi://127.0.0.1:PORT1/iqn.2008-09.org.example:store/2";
const OTHER: &str = "iscsi://127.0.0.1:PORT1/iqn.2008-09.org.example:tape/1";

/// A target with one disk and more lines, after lines for all targets.
fn config(global: &str, lines: &str) -> String {
    format!(
        "# the store\ndefault-driver iscsi\n{global}\n<target iqn.2008-09.org.example:store>\n    backing-store DISK1\n{lines}\n</target>\n"
    )
}

/// A target whose disk has options.
fn with_disk(options: &str) -> String {
    format!(
        "<target iqn.2008-09.org.example:store>\n    <backing-store DISK1>\n{options}\n    </backing-store>\n    \
         <backing-store DISK2>\n    </backing-store>\n</target>\n"
    )
}

const ONE: &str = "password-of-one";
const TWO: &str = "password-of-two";

fn initiators() -> Vec<Case> {
    let name = "    initiator-name iqn.1994-05.org.example.host:one";
    let address = "    initiator-address 192.0.2.5";
    vec![
        Case::new("no `initiator-address` and no `initiator-name`", config("", ""))
            .may(initiator("one", LUN_1), Right::Write),
        Case::new("`initiator-name`", config("", name))
            .may(initiator("one", LUN_1), Right::Write)
            .may(initiator("two", LUN_1), Right::None),
        Case::new("`initiator-address`", config("", address))
            .may(initiator("one", LUN_1), Right::None)
            .reports("admits only 192.0.2.5, and weft knows initiators by their names"),
        Case::new(
            "`initiator-address` with `initiator-name`",
            config("", &format!("{address}\n{name}")),
        )
        .may(initiator("one", LUN_1), Right::None)
        .reports("name those that may among iqn.1994-05.org.example.host:one"),
        Case::new("`initiator-address` ALL", config("", "    initiator-address ALL # for now"))
            .may(initiator("one", LUN_1), Right::Write),
        Case::new("`initiator-address` 127.0.0.1", config("", "    initiator-address 127.0.0.1"))
            .writes("listen = [\"iscsi://127.0.0.1:3260\"]")
            .may(initiator("one", LUN_1), Right::Write),
        Case::new(
            "`iSNSAccessControl`",
            config("iSNSServerIP 192.0.2.9\niSNSAccessControl On\niSNS On", ""),
        )
        .may(initiator("one", LUN_1), Right::None)
        .reports("asks an iSNS server"),
        Case::new("`include` in a target", config("", "    include /etc/tgt/rules/*.conf"))
            .may(initiator("one", LUN_1), Right::None)
            .reports("includes a file, which may have rules of access"),
        Case::new("`Include` in a target", config("", "    Include acl.conf"))
            .may(initiator("one", LUN_1), Right::None)
            .reports("includes a file, which may have rules of access"),
    ]
}

fn passwords() -> Vec<Case> {
    let one = format!("    incominguser one {ONE}");
    let both = format!("{one}\n    incominguser two {TWO}");
    let name = "    initiator-name iqn.1994-05.org.example.host:one";
    let proving = format!("{one}\n    outgoinguser store password-of-target");
    let twice =
        format!("{}\n<target iqn.2008-09.org.example:store>\n{one}\n</target>\n", config("", ""));
    vec![
        Case::new("`incominguser`", config("", &both))
            .file("one.secret", ONE)
            .file("two.secret", TWO)
            .may(initiator("one", LUN_1).chap("one", ONE), Right::Write)
            .may(initiator("two", LUN_1).chap("two", TWO), Right::Write)
            .may(initiator("three", LUN_1).chap("one", TWO), Right::None)
            .may(initiator("three", LUN_1), Right::None),
        Case::new("`incominguser` with `initiator-name`", config("", &format!("{both}\n{name}")))
            .file("one.secret", ONE)
            .file("two.secret", TWO)
            .may(initiator("one", LUN_1).chap("two", TWO), Right::Write)
            .may(initiator("two", LUN_1).chap("two", TWO), Right::None)
            .may(initiator("one", LUN_1), Right::None),
        Case::new("`outgoinguser`", config("", &proving))
            .file("one.secret", ONE)
            .file("store.target.secret", "password-of-target")
            .may(
                initiator("one", LUN_1).chap("one", ONE).expects_password("password-of-target"),
                Right::Write,
            )
            .may(initiator("one", LUN_1).chap("one", ONE).expects_password(TWO), Right::None),
        Case::new(
            "`incomingdiscoveryuser`",
            config(&format!("incomingdiscoveryuser finder {TWO}"), ""),
        )
        .file("finder.secret", TWO)
        .may(initiator("one", LUN_1).chap("finder", TWO), Right::Write)
        .may(initiator("one", LUN_1), Right::None),
        Case::new("a target in two parts", twice)
            .file("one.secret", ONE)
            .may(initiator("one", LUN_1).chap("one", ONE), Right::Write)
            .may(initiator("one", LUN_1), Right::None),
    ]
}

fn disks() -> Vec<Case> {
    let commented =
        format!("/* not now\n{}*/\n{}", config("", ""), config("", "").replace(":store", ":tape"));
    let iser = config("", "    driver iser") + &config("", "").replace(":store", ":tape");
    vec![
        Case::new("`readonly`", with_disk("        readonly 1"))
            .may(initiator("one", LUN_1), Right::Read)
            .may(initiator("one", LUN_2), Right::Write),
        Case::new("`readonly` of a target", config("", "    readonly 1"))
            .may(initiator("one", LUN_1), Right::Read),
        Case::new("`params`, and `mode_page` 10", {
            with_disk("        mode_page 10:0:10:2:0x10:0:0x08:0:0:0:0:0:0")
        })
        .may(initiator("one", LUN_1), Right::Read)
        .reports("it is read-only"),
        Case::new("`online` is 0", with_disk("        online 0"))
            .may(initiator("one", LUN_1), Right::None)
            .may(initiator("one", LUN_2), Right::Write),
        Case::new("`block-size` 4096", with_disk("        block-size 4096"))
            .writes("disk1,block=4096\"")
            .may(initiator("one", LUN_1), Right::Write),
        Case::new("other `block-size`", with_disk("        block-size 2048"))
            .may(initiator("one", LUN_1), Right::None)
            .may(initiator("one", LUN_2), Right::Write)
            .reports("it has blocks of 2048 bytes"),
        Case::new("a target in a comment", commented)
            .may(initiator("one", LUN_1), Right::None)
            .may(initiator("one", OTHER), Right::Write),
        Case::new("`driver` other than iscsi", iser)
            .may(initiator("one", LUN_1), Right::None)
            .may(initiator("one", OTHER), Right::Write),
    ]
}

pub fn cases() -> Vec<Case> {
    [initiators(), passwords(), disks()].into_iter().flatten().collect()
}

#[test]
fn rules_of_tgt_hold() {
    check("tgt", cases());
}
