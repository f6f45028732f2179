//! The peers: let in as any other, then they announce and do not send, or ask and do not take.

use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
};

use anyhow::{Context, Result, ensure};

use super::socket::{self, split_url};

/// Bytes of each of their reads and writes, and blocks of 512 bytes.
const BYTES: u32 = 1 << 20;
const BLOCKS: u16 = (BYTES / 512) as u16;

/// Commands of each; of an NBD client that announces one, as what it announces comes next.
const COMMANDS: u16 = 16;

/// Immediate data of an iSCSI write, announced in its header and held back.
const IMMEDIATE_BYTES: u32 = 64 << 10;

/// I/O queues of one NVMe host.
const QUEUES: u16 = 100;

/// By what protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    NvmeTcp,
    Iscsi,
    Nbd,
}

impl Protocol {
    pub const ALL: [Self; 3] = [Self::NvmeTcp, Self::Iscsi, Self::Nbd];

    pub fn text(self) -> &'static str {
        match self {
            Self::NvmeTcp => "NVMe/TCP",
            Self::Iscsi => "iSCSI",
            Self::Nbd => "NBD",
        }
    }

    /// Returns the target's address to listen on.
    pub fn listen(self) -> &'static str {
        match self {
            Self::NvmeTcp => "nvme+tcp://127.0.0.1:0",
            Self::Iscsi => "iscsi://127.0.0.1:0",
            Self::Nbd => "nbd://127.0.0.1:0",
        }
    }
}

/// Behaviour of the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// They announce writes and send no data.
    Announce,
    /// They read and take no answers.
    AreDeaf,
}

impl Manner {
    pub const ALL: [Self; 2] = [Self::Announce, Self::AreDeaf];

    pub fn text(self) -> &'static str {
        match self {
            Self::Announce => "send no data",
            Self::AreDeaf => "take no answers",
        }
    }
}

/// Peers of a target, for as long as this is held.
pub struct Crowd {
    from: String,
    to: SocketAddr,
    held: Vec<TcpStream>,
}

impl Crowd {
    /// Connects `count` of them from an address of the loopback, and has each do its worst.
    pub fn connect(
        protocol: Protocol,
        manner: Manner,
        url: &str,
        from: &str,
        count: usize,
    ) -> Result<Self> {
        let (authority, path) = split_url(url)?;
        let mut crowd = Self {
            from: from.into(),
            to: authority.parse().context("no address")?,
            held: Vec::new(),
        };
        match protocol {
            Protocol::NvmeTcp => {
                crowd.nvme(path.split('/').next().unwrap_or_default(), manner, count)?
            }
            Protocol::Iscsi => {
                let target = path.split('/').next().unwrap_or_default();
                (0..count).try_for_each(|nth| crowd.iscsi(target, manner, nth))?;
            }
            Protocol::Nbd => (0..count).try_for_each(|_| crowd.nbd(manner))?,
        }
        Ok(crowd)
    }

    /// Connections that were made.
    pub fn connections(&self) -> usize {
        self.held.len()
    }

    /// Those that neither end has closed.
    pub fn standing(&self) -> Result<usize> {
        socket::established(&self.from, self.to.port())
    }

    fn open(&self) -> Result<TcpStream> {
        socket::connect(&self.from, self.to)
    }

    fn nvme(&mut self, subsystem: &str, manner: Manner, count: usize) -> Result<()> {
        let mut cntlid = 0;
        for nth in 0..count {
            let qid = (nth % usize::from(QUEUES)) as u16 + 1;
            if qid == 1 {
                let mut admin = self.open()?;
                cntlid = nvme::admin(&mut admin, subsystem)?;
                self.held.push(admin);
            }
            let mut queue = self.open()?;
            nvme::queue(&mut queue, subsystem, cntlid, qid)?;
            let opcode = if manner == Manner::Announce { nvme::WRITE } else { nvme::READ };
            let commands: Vec<u8> =
                (0..COMMANDS).flat_map(|cid| nvme::transfer(opcode, cid)).collect();
            queue.write_all(&commands)?;
            self.held.push(queue);
        }
        Ok(())
    }

    fn iscsi(&mut self, target: &str, manner: Manner, nth: usize) -> Result<()> {
        let mut stream = self.open()?;
        let text = format!(
            "InitiatorName=iqn.2026-01.example.weft:crowd{nth}\0TargetName={target}\0InitialR2T=No\0ImmediateData=Yes\0FirstBurstLength=262144\0"
        );
        stream.write_all(&iscsi::login(text.as_bytes(), nth as u16))?;
        let response = socket::receive(&mut stream, 48)?;
        ensure!(
            response[36] == 0,
            "the target refuses the login with {:02x}{:02x}h",
            response[36],
            response[37]
        );
        let commands = (1..COMMANDS).flat_map(|sn| match manner {
            Manner::AreDeaf => iscsi::command(0x28, 0xc1, sn, 0),
            // The last one's data comes with it, as its header says.
            Manner::Announce if sn == COMMANDS - 1 => {
                iscsi::command(0x2a, 0xa1, sn, IMMEDIATE_BYTES)
            }
            Manner::Announce => iscsi::command(0x2a, 0xa1, sn, 0),
        });
        let login_text =
            u32::from_be_bytes([0, response[5], response[6], response[7]]).next_multiple_of(4);
        socket::receive(&mut stream, login_text as usize)?;
        stream.write_all(&commands.collect::<Vec<u8>>())?;
        self.held.push(stream);
        Ok(())
    }

    fn nbd(&mut self, manner: Manner) -> Result<()> {
        let mut stream = self.open()?;
        socket::receive(&mut stream, 18)?;
        // Fixed newstyle without zeroes; EXPORT_NAME, of the default export.
        stream.write_all(&[&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1], &[0; 4]].concat())?;
        socket::receive(&mut stream, 10)?;
        let request = |command: u16, cookie: u16| {
            let fields = [
                &0x2560_9513_u32.to_be_bytes()[..],
                &[0; 2],
                &command.to_be_bytes(),
                &[0; 6],
                &cookie.to_be_bytes(),
                &[0; 8],
            ];
            [&fields.concat()[..], &BYTES.to_be_bytes()].concat()
        };
        let requests: Vec<u8> = match manner {
            Manner::Announce => request(1, 1),
            Manner::AreDeaf => (0..COMMANDS).flat_map(|cookie| request(0, cookie)).collect(),
        };
        stream.write_all(&requests)?;
        self.held.push(stream);
        Ok(())
    }
}

/// NVMe/TCP 1.0 and NVMe-oF 1.1, as far as a peer needs them.
mod nvme {
    use super::{BLOCKS, BYTES, TcpStream, socket};
    use anyhow::{Result, ensure};
    use std::io::Write;

    pub const WRITE: u8 = 1;
    pub const READ: u8 = 2;

    const FABRICS: u8 = 0x7f;

    /// A submission queue entry with an SGL descriptor of this type over so many bytes.
    fn sqe(opcode: u8, cid: u16, sgl: u8, bytes: u32) -> [u8; 64] {
        let mut sqe = [0; 64];
        (sqe[0], sqe[1]) = (opcode, 0x40);
        sqe[2..4].copy_from_slice(&cid.to_le_bytes());
        sqe[32..36].copy_from_slice(&bytes.to_le_bytes());
        sqe[39] = sgl;
        sqe
    }

    fn capsule(sqe: &[u8; 64], data: &[u8]) -> Vec<u8> {
        let offset = if data.is_empty() { 0 } else { 72 };
        let header = [&[4, 0, 72, offset][..], &(72 + data.len() as u32).to_le_bytes()].concat();
        [&header, &sqe[..], data].concat()
    }

    /// A read or write of which no data comes with the command.
    pub fn transfer(opcode: u8, cid: u16) -> Vec<u8> {
        let mut sqe = sqe(opcode, cid, 0x5a, BYTES);
        sqe[4] = 1;
        sqe[48..50].copy_from_slice(&(BLOCKS - 1).to_le_bytes());
        capsule(&sqe, &[])
    }

    /// A response's first dword.
    fn response(stream: &mut TcpStream) -> Result<u32> {
        let pdu = socket::receive(stream, 24)?;
        let status = u16::from_le_bytes([pdu[22], pdu[23]]) >> 1;
        ensure!(
            pdu[0] == 5 && status == 0,
            "the target refuses a peer's command with {status:03x}h"
        );
        Ok(u32::from_le_bytes([pdu[8], pdu[9], pdu[10], pdu[11]]))
    }

    fn connect(stream: &mut TcpStream, subsystem: &str, cntlid: u16, qid: u16) -> Result<u32> {
        let mut request = [0; 128];
        (request[2], request[4]) = (128, 128);
        stream.write_all(&request)?;
        socket::receive(stream, 128)?;
        let mut sqe = sqe(FABRICS, 0, 0x01, 1024);
        sqe[4] = 1;
        sqe[42..44].copy_from_slice(&qid.to_le_bytes());
        sqe[44..46].copy_from_slice(&31_u16.to_le_bytes());
        let mut data = [0; 1024];
        data[..16].fill(7);
        data[16..18].copy_from_slice(&cntlid.to_le_bytes());
        for (at, name) in [(256, subsystem), (512, "nqn.2026-01.example.weft:crowd")] {
            data[at..at + name.len()].copy_from_slice(name.as_bytes());
        }
        stream.write_all(&capsule(&sqe, &data))?;
        response(stream)
    }

    /// Brings up an admin queue and enables the controller; its identifier.
    pub fn admin(stream: &mut TcpStream, subsystem: &str) -> Result<u16> {
        let cntlid = connect(stream, subsystem, 0xffff, 0)? as u16;
        let property = |set: bool, offset: u32, value: u32| {
            let mut sqe = sqe(FABRICS, 1, 0, 0);
            sqe[4] = if set { 0 } else { 4 };
            sqe[44..48].copy_from_slice(&offset.to_le_bytes());
            sqe[48..52].copy_from_slice(&value.to_le_bytes());
            capsule(&sqe, &[])
        };
        // CC: enabled, entries of 64 and 16 bytes.
        stream.write_all(&property(true, 0x14, 0x0046_0001))?;
        response(stream)?;
        loop {
            // CSTS.RDY.
            stream.write_all(&property(false, 0x1c, 0))?;
            if response(stream)? & 1 == 1 {
                return Ok(cntlid);
            }
        }
    }

    /// Brings up an I/O queue of that controller.
    pub fn queue(stream: &mut TcpStream, subsystem: &str, cntlid: u16, qid: u16) -> Result<()> {
        connect(stream, subsystem, cntlid, qid).map(drop)
    }
}

/// RFC 7143, as far as a peer needs it.
mod iscsi {
    use super::{BLOCKS, BYTES};

    fn header(opcode: u8, flags: u8, data_bytes: u32, task: u16, cmd_sn: u16) -> [u8; 48] {
        let mut header = [0; 48];
        (header[0], header[1]) = (opcode, flags);
        header[5..8].copy_from_slice(&data_bytes.to_be_bytes()[1..]);
        header[18..20].copy_from_slice(&task.to_be_bytes());
        header[26..28].copy_from_slice(&cmd_sn.to_be_bytes());
        header
    }

    /// From the operational stage to the full feature phase.
    pub fn login(text: &[u8], nth: u16) -> Vec<u8> {
        let mut header = header(0x43, 0x87, text.len() as u32, 1, 1);
        header[8..12].copy_from_slice(&[0x80, 1, 2, 3]);
        header[12..14].copy_from_slice(&nth.to_be_bytes());
        header[21] = 1;
        let padding = text.len().next_multiple_of(4) - text.len();
        [&header[..], text, &[0; 3][..padding]].concat()
    }

    /// A READ(10) or WRITE(10), with this many bytes of immediate data.
    pub fn command(operation: u8, flags: u8, sn: u16, immediate_bytes: u32) -> Vec<u8> {
        let mut header = header(0x01, flags, immediate_bytes, sn, sn);
        header[20..24].copy_from_slice(&BYTES.to_be_bytes());
        header[32] = operation;
        header[39..41].copy_from_slice(&BLOCKS.to_be_bytes());
        header.to_vec()
    }
}
