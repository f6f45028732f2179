//! What `--shared` takes back: what is atomic or remembered within one process only is neither told of nor executed, by NVMe and by iSCSI.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use support::{Scratch, Server, run, weft};
use weft_proto::iscsi::pdu::{
    CommandFlags, DataIn, Isid, LoginFlags, LoginRequest, LoginResponse, LoginStatus, Opcode, ScsiCommand, ScsiResponse, Stage,
    TaskTag, padding,
};
use weft_proto::iscsi::serial::Serial;

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

/// An initiator of one command after the other.
struct Initiator {
    stream: TcpStream,
    next: u32,
}

impl Initiator {
    fn new(url: &str) -> Self {
        let address = url.trim_start_matches("iscsi://").split('/').next().unwrap();
        let mut this = Self { stream: TcpStream::connect(address).unwrap(), next: 1 };
        let text = format!("InitiatorName=iqn.2026-01.example.host:shared\0TargetName={IQN}\0");
        let request = LoginRequest {
            immediate: true,
            flags: LoginFlags::new(Stage::OPERATIONAL, Some(Stage::FULL_FEATURE)),
            isid: Isid::random([1, 2, 3], 4),
            task: TaskTag(1),
            cid: 1,
            cmd_sn: Serial(1),
            ..LoginRequest::default()
        };
        this.send(&request.encode(text.len() as u32), text.as_bytes());
        let (bhs, _) = this.receive();
        assert_eq!(LoginResponse::decode(&bhs).status, LoginStatus::SUCCESS);
        // The first command is told of the power on.
        assert_ne!(this.ask(&[0; 6]).0, 0);
        assert_eq!(this.ask(&[0; 6]).0, 0);
        this
    }

    fn send(&mut self, bhs: &[u8; 48], data: &[u8]) {
        let bytes = [&bhs[..], data, &[0; 3][..padding(data.len() as u32)]].concat();
        self.stream.write_all(&bytes).unwrap();
    }

    fn receive(&mut self) -> ([u8; 48], Vec<u8>) {
        let mut bhs = [0; 48];
        self.stream.read_exact(&mut bhs).unwrap();
        let bytes = u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]);
        let mut data = vec![0; bytes as usize + padding(bytes)];
        self.stream.read_exact(&mut data).unwrap();
        data.truncate(bytes as usize);
        (bhs, data)
    }

    /// The status of a command, and its data.
    fn ask(&mut self, cdb: &[u8]) -> (u8, Vec<u8>) {
        let mut padded = [0; 16];
        padded[..cdb.len()].copy_from_slice(cdb);
        let (flags, expected_bytes) = (CommandFlags(0xc1), 512);
        let (task, cmd_sn) = (TaskTag(self.next), Serial(self.next));
        self.next += 1;
        let command = ScsiCommand { flags, task, expected_bytes, cmd_sn, cdb: padded, ..ScsiCommand::default() };
        self.send(&command.encode(0), &[]);
        let mut all = Vec::new();
        loop {
            let (bhs, data) = self.receive();
            match Opcode::of(bhs[0]) {
                Opcode::SCSI_RESPONSE => return (ScsiResponse::decode(&bhs).status, all),
                Opcode::DATA_IN => {
                    all.extend(data);
                    let of = DataIn::decode(&bhs);
                    // S: the status comes with the last data.
                    if bhs[1] & 1 != 0 {
                        return (of.status, all);
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether REPORT SUPPORTED OPERATION CODES tells of a command, asked for with its service action where it has one.
    fn tells_of(&mut self, opcode: u8, service_action: Option<u8>) -> bool {
        let by = if service_action.is_some() { 2 } else { 1 };
        let (status, data) = self.ask(&[0xa3, 0x0c, by, opcode, 0, service_action.unwrap_or(0), 0, 0, 2, 0, 0, 0]);
        assert_eq!(status, 0);
        match data[1] & 7 {
            1 => false,
            3 => true,
            other => panic!("support {other} of operation code {opcode:#x}"),
        }
    }
}

const COMPARE_AND_WRITE: u8 = 0x89;
const RESERVE_IN: u8 = 0x5e;
const RESERVE_OUT: u8 = 0x5f;

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

        let mut initiator = Initiator::new(server.urls.iter().find(|url| url.starts_with("iscsi")).unwrap());
        let (status, limits) = initiator.ask(&[0x12, 1, 0xb0, 2, 0, 0]);
        assert_eq!((status, limits[5] == 0), (0, shared), "MAXIMUM COMPARE AND WRITE LENGTH {}", limits[5]);
        assert_eq!(initiator.tells_of(COMPARE_AND_WRITE, None), !shared);
        for (opcode, actions) in [(RESERVE_IN, 0..4), (RESERVE_OUT, 0..4)] {
            for action in actions {
                assert_eq!(initiator.tells_of(opcode, Some(action)), !shared, "{opcode:#x}/{action}");
            }
        }
        // And neither is it executed.
        assert_eq!(initiator.ask(&[RESERVE_IN, 0, 0, 0, 0, 0, 0, 2, 0, 0]).0 == 0, !shared);
    }
}
