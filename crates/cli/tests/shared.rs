//! Effects of `--shared`: operations that are atomic or remembered within one process only are
//! neither reported nor executed, by NVMe and by iSCSI.

use crate::support::iscsi::Initiator;
use crate::support::{Scratch, Server, run, weft};

const NQN: &str = "nqn.2026-01.example.weft:shared";
const IQN: &str = "iqn.2026-01.example.weft:shared";

/// ONCS: Compare, and Reservations.
const COMPARE: u64 = 1;
const RESERVATIONS: u64 = 1 << 5;

/// A server of a file by both protocols.
fn serve(dir: &Scratch, shared: bool) -> Server {
    let mut args = vec!["file:disk.img,size=16MiB", "--nqn", NQN, "--iqn", IQN];
    args.extend(["--listen", "nvme+tcp://127.0.0.1:0", "--listen", "iscsi://127.0.0.1:0"]);
    args.extend(if shared { &["--shared", "--cntlid-range", "1-1000"][..] } else { &[] });
    Server::start(dir.path(), &args)
}

/// A number that a structure of NVMe holds.
fn number(dir: &Scratch, command: &str, url: &str, field: &str) -> u64 {
    let ran = run(weft(dir.path(), &[command, url, "-o", "json"]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    json[field].as_u64().unwrap_or_else(|| panic!("{field} is not in {json}"))
}

/// Whether REPORT SUPPORTED OPERATION CODES tells of a command, asked for with its service action
/// where it has one.
fn tells_of(initiator: &mut Initiator, opcode: u8, service_action: Option<u8>) -> bool {
    let by = if service_action.is_some() { 2 } else { 1 };
    let (status, data) =
        initiator.ask(&[0xa3, 0x0c, by, opcode, 0, service_action.unwrap_or(0), 0, 0, 2, 0, 0, 0]);
    assert_eq!(status, 0);
    match data[1] & 7 {
        1 => false,
        3 => true,
        other => panic!("support {other} of operation code {opcode:#x}"),
    }
}

const COMPARE_AND_WRITE: u8 = 0x89;
const RESERVE_IN: u8 = 0x5e;
const RESERVE_OUT: u8 = 0x5f;

/// Errors of commands of all initiators.
fn errors(dir: &Scratch) -> u64 {
    let ran = run(weft(dir.path(), &["status", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let hosts = report["hosts"].as_array().unwrap().iter();
    let initiators = hosts.filter(|host| host["name"].as_str().unwrap().starts_with("iqn."));
    initiators.map(|host| host["counts"]["other"]["errors"].as_u64().unwrap()).sum()
}

#[test]
fn what_other_processes_do_not_know_of_is_not_offered() {
    let dir = Scratch::new("shared");
    for shared in [false, true] {
        let server = serve(&dir, shared);
        let nvme = server.urls.iter().find(|url| url.starts_with("nvme")).unwrap();
        let oncs = number(&dir, "id-ctrl", nvme, "oncs");
        assert_eq!(oncs & COMPARE == 0, shared, "ONCS {oncs:#x}");
        assert_eq!(oncs & RESERVATIONS == 0, shared, "ONCS {oncs:#x}");
        assert_eq!(number(&dir, "id-ctrl", nvme, "fuses") == 0, shared);
        assert_eq!(number(&dir, "id-ns", &format!("{nvme}/1"), "rescap") == 0, shared);

        let mut initiator =
            Initiator::new(server.urls.iter().find(|url| url.starts_with("iscsi")).unwrap(), IQN);
        assert_eq!(errors(&dir), 0, "a unit attention is no error");
        let (status, limits) = initiator.ask(&[0x12, 1, 0xb0, 2, 0, 0]);
        assert_eq!(
            (status, limits[5] == 0),
            (0, shared),
            "MAXIMUM COMPARE AND WRITE LENGTH {}",
            limits[5]
        );
        assert_eq!(tells_of(&mut initiator, COMPARE_AND_WRITE, None), !shared);
        for (opcode, actions) in [(RESERVE_IN, 0..4), (RESERVE_OUT, 0..4)] {
            for action in actions {
                assert_eq!(
                    tells_of(&mut initiator, opcode, Some(action)),
                    !shared,
                    "{opcode:#x}/{action}"
                );
            }
        }
        // And neither is it executed.
        assert_eq!(initiator.ask(&[RESERVE_IN, 0, 0, 0, 0, 0, 0, 2, 0, 0]).0 == 0, !shared);
    }
}
