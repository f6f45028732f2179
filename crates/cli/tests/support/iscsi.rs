//! An iSCSI initiator, byte by byte.

use std::io::{Read, Write};
use std::net::TcpStream;
use weft_proto::iscsi::pdu::{
    CommandFlags, DataIn, Isid, LoginFlags, LoginRequest, LoginResponse, LoginStage, LoginStatus,
    Opcode, ScsiCommand, ScsiResponse, TaskTag, padding,
};
use weft_proto::iscsi::serial::Serial;

/// An initiator of one command after the other.
pub struct Initiator {
    pub stream: TcpStream,
    next: u32,
}

impl Initiator {
    pub fn new(url: &str, target: &str) -> Self {
        let address = url.trim_start_matches("iscsi://").split('/').next().unwrap();
        let mut this = Self { stream: TcpStream::connect(address).unwrap(), next: 1 };
        let text = format!("InitiatorName=iqn.2026-01.example.host:shared\0TargetName={target}\0");
        let request = LoginRequest {
            immediate: true,
            flags: LoginFlags::new(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE)),
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

    pub fn send(&mut self, bhs: &[u8; 48], data: &[u8]) {
        let bytes = [&bhs[..], data, &[0; 3][..padding(data.len() as u32)]].concat();
        self.stream.write_all(&bytes).unwrap();
    }

    pub fn receive(&mut self) -> ([u8; 48], Vec<u8>) {
        let mut bhs = [0; 48];
        self.stream.read_exact(&mut bhs).unwrap();
        let bytes = u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]);
        let mut data = vec![0; bytes as usize + padding(bytes)];
        self.stream.read_exact(&mut data).unwrap();
        data.truncate(bytes as usize);
        (bhs, data)
    }

    /// Sends a command, with data if it has some; what it asks for is 512 bytes at most.
    pub fn begin(&mut self, cdb: &[u8], data: &[u8]) {
        let mut padded = [0; 16];
        padded[..cdb.len()].copy_from_slice(cdb);
        // Final, and read or write, and a simple task.
        let flags = CommandFlags(if data.is_empty() { 0xc1 } else { 0xa1 });
        let (task, cmd_sn) = (TaskTag(self.next), Serial(self.next));
        self.next += 1;
        let command = ScsiCommand {
            flags,
            task,
            expected_bytes: 512,
            cmd_sn,
            cdb: padded,
            ..ScsiCommand::default()
        };
        self.send(&command.encode(data.len() as u32), data);
    }

    /// The status of a command, and its data.
    pub fn ask(&mut self, cdb: &[u8]) -> (u8, Vec<u8>) {
        self.begin(cdb, &[]);
        self.answer()
    }

    /// The next status, and the data before it.
    pub fn answer(&mut self) -> (u8, Vec<u8>) {
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
}
