//! Answers of a target that arrive damaged on connections with both digests: what the initiator
//! makes of them. `docs/hostile-peers.md` shows this table.

use super::rig::{Rig, S};
use crate::page::{check_page, row};
use crate::sim::protocols::Protocol;
use crate::sim::scene::options;
use weft_block::{OpKind, Outcome};
use weft_endpoint::{ConnectOptions, PathOptions};
use weft_io::sim::{Side, SimConnection};

/// One bit that arrives wrong.
struct Damage {
    protocol: Protocol,
    section: &'static str,
    what: &'static str,
    /// What is answered.
    kind: OpKind,
    /// The byte of the answer.
    at: u64,
    /// What comes of the operation where the device does not reconnect, and where it does.
    answers: [&'static str; 2],
}

const HEADER: [&str; 2] = ["lost with its connection", "a new connection; right"];
const NVME: &str = "NVMe TCP §3.3.1";
const ISCSI: &str = "RFC 7143 §7.8, §13.1";

const TABLE: [Damage; 6] = [
    Damage {
        protocol: Protocol::NvmeTcp,
        section: NVME,
        what: "NVMe/TCP: header of C2HData",
        kind: OpKind::Read,
        at: 8,
        answers: HEADER,
    },
    Damage {
        protocol: Protocol::NvmeTcp,
        section: NVME,
        what: "NVMe/TCP: data of C2HData",
        kind: OpKind::Read,
        at: 28,
        answers: ["fails (Transport); the connection stays", "sent again; right"],
    },
    Damage {
        protocol: Protocol::NvmeTcp,
        section: NVME,
        what: "NVMe/TCP: header of CapsuleResp",
        kind: OpKind::Flush,
        at: 10,
        answers: HEADER,
    },
    Damage {
        protocol: Protocol::Iscsi,
        section: ISCSI,
        what: "iSCSI: header of Data-In",
        kind: OpKind::Read,
        at: 20,
        answers: HEADER,
    },
    Damage {
        protocol: Protocol::Iscsi,
        section: ISCSI,
        what: "iSCSI: data of Data-In",
        kind: OpKind::Read,
        at: 52,
        answers: ["sent again; right"; 2],
    },
    Damage {
        protocol: Protocol::Iscsi,
        section: ISCSI,
        what: "iSCSI: header of SCSI Response",
        kind: OpKind::Flush,
        at: 16,
        answers: HEADER,
    },
];

/// The connections to the target that stand.
fn standing(rig: &Rig) -> Vec<SimConnection> {
    rig.scene.world.connections().into_iter().filter(|connection| connection.open).collect()
}

/// What comes of an operation whose answer is damaged.
fn damaged(damage: &Damage, paths: PathOptions) -> String {
    let options =
        ConnectOptions { hdr_digest: true, data_digest: true, nr_io_queues: 1, paths, ..options() };
    let mut rig = Rig::with(damage.protocol, options, 1);
    let before = standing(&rig);
    let write = rig.write(1, 7);
    rig.succeed(write);
    // The connection that carried the write carries the operation too.
    let used = |before: &[SimConnection], rig: &Rig| {
        let sent = |of: &SimConnection| {
            before.iter().find(|old| old.id == of.id).map_or(0, |old| old.carried[0])
        };
        standing(rig)
            .into_iter()
            .max_by_key(|connection| connection.carried[0] - sent(connection))
            .unwrap()
    };
    let connection = used(&before, &rig);
    rig.scene.world.corrupt(connection.id, Side::Server, connection.carried[1] + damage.at);
    let op = rig.submit(damage.kind, u64::from(damage.kind == OpKind::Read), 0);
    let (outcome, _) = rig.wait(op);
    rig.run_for(S);
    let stays = standing(&rig).iter().any(|now| now.id == connection.id);
    let is_right =
        damage.kind == OpKind::Flush || outcome != Outcome::SUCCESS || rig.value(op) == 7;
    rig.close();
    match outcome {
        Outcome::SUCCESS if !is_right => "the damaged data".to_owned(),
        Outcome::SUCCESS => {
            format!("{}; right", if stays { "sent again" } else { "a new connection" })
        }
        Outcome::Done(status) => format!(
            "fails ({:?}){}",
            status.kind,
            if stays { "; the connection stays" } else { "" }
        ),
        Outcome::NotSent(_) => "not sent".to_owned(),
        Outcome::MayHaveExecuted { .. } if stays => "no answer; the connection stays".to_owned(),
        Outcome::MayHaveExecuted { .. } => "lost with its connection".to_owned(),
    }
}

#[test]
fn no_damaged_answer_is_taken_for_the_truth() {
    let answers = |damage: &Damage| {
        [PathOptions::once(), PathOptions::default()].map(|paths| damaged(damage, paths))
    };
    let wrong: Vec<_> = TABLE
        .iter()
        .map(|damage| (damage.what, answers(damage), damage.answers))
        .filter(|(_, is, of)| is != of)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let rows = TABLE
        .iter()
        .map(|damage| row(&[damage.what, damage.section, damage.answers[0], damage.answers[1]]));
    check_page(
        "hostile-peers.md",
        "answers",
        &["What is damaged", "Section", "Without reconnecting", "Reconnecting"],
        rows,
    );
}
