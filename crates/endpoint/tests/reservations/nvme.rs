//! An NVMe host with one I/O queue, which reserves namespace 1, byte by byte.

#![allow(dead_code, reason = "each test program uses what it needs")]

use crate::wire::{self, Peer, Who};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use weft_endpoint::identity::HostIdentity;
use weft_proto::nvme::host::command;
use weft_proto::nvme::opcode::{AdminOpcode, NvmOpcode};
use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Id128, Lba, Nqn, Nsid};
use weft_proto::nvme_tcp::pdu::PduType;
use weft_testing::wait::PATIENCE;

/// The queues of one controller.
pub struct NvmeHost {
    admin: Tcp,
    pub io: Tcp,
    cid: u16,
}

impl NvmeHost {
    pub fn new(at: SocketAddr, subsystem: &str, id: u8) -> Self {
        let nqn = Nqn::new(&format!("nqn.2026-01.example.host:{id}")).unwrap();
        let host = HostIdentity { nqn, id: Id128([id; 16]) };
        let who = Who { host, subsystem: Nqn::new(subsystem).unwrap(), keep_alive_ms: 0 };
        let (mut admin, mut io) = (Tcp::new(at), Tcp::new(at));
        let cntlid = wire::admin(&mut admin, &who);
        wire::io_queue(&mut io, &who, cntlid, 1, 32);
        Self { admin, io, cid: 10 }
    }

    pub fn run(&mut self, sqe: &Sqe, data: &[u8]) -> Status {
        self.cid += 1;
        self.io.put(&wire::capsule(sqe, self.cid, data));
        wire::response(&mut self.io).status
    }

    /// A command with its keys.
    pub fn reserve(&mut self, opcode: NvmOpcode, dword10: u32, keys: [u64; 2]) -> Status {
        self.begin_reserve(opcode, dword10, keys);
        wire::response(&mut self.io).status
    }

    /// The same without its answer.
    pub fn begin_reserve(&mut self, opcode: NvmOpcode, dword10: u32, keys: [u64; 2]) {
        let mut sqe = Sqe::new(opcode.0, Nsid(1));
        sqe.set_dword(10, dword10);
        self.cid += 1;
        self.io.put(&wire::capsule(&sqe, self.cid, &keys.map(u64::to_le_bytes).concat()));
    }

    pub fn write(&mut self) -> Status {
        self.run(&command::write(Nsid(1), Lba(0), 1, false), &[7; 512])
    }

    pub fn read(&mut self) -> Status {
        self.cid += 1;
        self.io.put(&wire::capsule_moving(&command::read(Nsid(1), Lba(0), 1), self.cid, 512));
        let pdu = self.io.pdu().expect("an answer");
        if pdu.kind() == PduType::C2H_DATA {
            wire::response(&mut self.io).status
        } else {
            pdu.cqe().status
        }
    }

    /// Sends a write of this to the first block, whose answer nobody waits for here.
    pub fn begin_write(&mut self, data: &[u8; 512]) {
        self.cid += 1;
        self.io.put(&wire::capsule(&command::write(Nsid(1), Lba(0), 1, false), self.cid, data));
    }

    /// Sends reads of the first block, whose answers nobody waits for here.
    pub fn begin_reads(&mut self, count: u16) {
        for _ in 0..count {
            self.cid += 1;
            self.io.put(&wire::capsule_moving(&command::read(Nsid(1), Lba(0), 1), self.cid, 512));
        }
    }

    /// The number of registrants that a report has.
    pub fn registrants(&mut self) -> u8 {
        self.cid += 1;
        let mut sqe = Sqe::new(NvmOpcode::RESERVATION_REPORT.0, Nsid(1));
        sqe.set_dword(10, 64 / 4 - 1);
        sqe.set_dword(11, 1);
        sqe.set_sgl(Sgl::transport(64));
        self.io.put(&wire::capsule_moving(&sqe, self.cid, 64));
        let page = self.io.pdu().expect("the report");
        assert_eq!(wire::response(&mut self.io).status, Status::SUCCESS);
        page.0[page.header().pdo as usize + 5]
    }

    /// Waits for the event of a notification; gives its kind.
    pub fn hear(&mut self) -> u8 {
        self.admin.put(&wire::capsule(
            &Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, Nsid(0)),
            5,
            &[],
        ));
        assert_eq!(wire::response(&mut self.admin).result, 0x0080_0006);
        let mut log = Sqe::new(AdminOpcode::GET_LOG_PAGE.0, Nsid::ALL);
        log.set_dword(10, 0x80 | 15 << 16);
        log.set_sgl(Sgl::transport(64));
        self.admin.put(&wire::capsule_moving(&log, 6, 64));
        let page = self.admin.pdu().expect("the page");
        assert_eq!(wire::response(&mut self.admin).status, Status::SUCCESS);
        page.0[page.header().pdo as usize + 8]
    }
}

/// A connection whose reads end after a while.
pub struct Tcp {
    pub stream: TcpStream,
    received: Vec<u8>,
}

impl Tcp {
    fn new(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, received: Vec::new() }
    }
}

impl Peer for Tcp {
    fn put(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn pdu(&mut self) -> Option<wire::Pdu> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(pdu) = wire::Pdu::split(&mut self.received) {
                return Some(pdu);
            }
            match self.stream.read(&mut bytes) {
                Ok(n) if n > 0 => self.received.extend_from_slice(&bytes[..n]),
                _ => return None,
            }
        }
    }
}
