//! A host's end of a connection in bytes, and the target behind it.

use std::time::Duration;

use weft_proto::nvme::controller::{
    CONNECT_BYTES, ControllerCore, DeviceOutcome, IoNext, IoQueue, IoRequest, IoRequestKind, Next,
    Subsystem, before_connect,
};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::deviation::Deviation;
use weft_proto::nvme::sqe::{HostMemory, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme_tcp::{TcpTargetConfig, TcpTargetConnection, TcpTargetEvent};
use weft_proto::stream::Tag;

use crate::nvme_controller_support::{PORT, allocated};
use crate::support::{ConnectionEnd, Next as Pumped};

/// In-capsule data that the target announces, bytes.
pub const IN_CAPSULE: u32 = PORT.in_capsule_bytes;

/// A command with PSDT 01b and an SGL of `bytes` bytes that the transport moves.
pub fn command(opcode: u8, cid: u16, nsid: u32, bytes: u32, dwords: [u32; 3]) -> Sqe {
    let mut sqe = Sqe([0; 64]);
    (sqe.0[0], sqe.0[1], sqe.0[39]) = (opcode, 0x40, 0x5a);
    sqe.0[2..4].copy_from_slice(&cid.to_le_bytes());
    sqe.set_dword(1, nsid);
    sqe.set_dword(8, bytes);
    (10..).zip(dwords).for_each(|(n, dword)| sqe.set_dword(n, dword));
    sqe
}

/// The data of Connect.
pub fn connect_data(host_id: u8, cntlid: u16, subsystem: &str, host: &str) -> [u8; CONNECT_BYTES] {
    let mut data = [0; CONNECT_BYTES];
    data[..16].fill(host_id);
    data[16..18].copy_from_slice(&cntlid.to_le_bytes());
    data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
    data[512..512 + host.len()].copy_from_slice(host.as_bytes());
    data
}

/// A command capsule, with data in it or without.
pub fn capsule(sqe: &Sqe, data: &[u8]) -> Vec<u8> {
    let mut sqe = *sqe;
    let mut header = [4, 0, 72, 0, 0, 0, 0, 0];
    if !data.is_empty() {
        header[3] = 72;
        sqe.set_dword(8, data.len() as u32);
        sqe.0[39] = 0x01;
    }
    header[4..].copy_from_slice(&(72 + data.len() as u32).to_le_bytes());
    [&header[..], &sqe.0, data].concat()
}

/// Answer to a command.
#[derive(Debug)]
pub struct Answer {
    pub status: Status,
    pub result: u64,
    pub data: Vec<u8>,
}

/// The bytes of one connection.
pub struct Wire {
    end: ConnectionEnd<TcpTargetConnection>,
}

impl Wire {
    /// A connection that both ends have initialized; neither Linux nor SPDK asks for an alignment
    /// or for more than one R2T.
    pub fn open() -> Self {
        let mut end = ConnectionEnd::new(TcpTargetConnection::new(TcpTargetConfig {
            in_capsule_bytes: IN_CAPSULE,
            ..TcpTargetConfig::default()
        }));
        let mut ic_req = [0; 128];
        (ic_req[2], ic_req[4]) = (128, 128);
        end.stage(&ic_req);
        let next = end.next();
        assert!(matches!(next, Pumped::Event(TcpTargetEvent::Ready(n)) if n.max_r2t == 1));
        end.flush();
        let ic_resp = end.take_wire();
        assert_eq!(
            (ic_resp.len(), &ic_resp[..12]),
            (128, &[1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 0][..]),
            "Linux wants CPDA 0"
        );
        let max_data = u32::from_le_bytes(ic_resp[12..16].try_into().unwrap());
        assert!(max_data >= 4096 && max_data.is_multiple_of(4));
        Self { end }
    }

    /// Sends a capsule; gives its tag, its command, and the bytes of data in it.
    fn command(&mut self, capsule: &[u8]) -> (Tag, Sqe, u32) {
        self.end.stage(capsule);
        match self.end.next() {
            Pumped::Event(TcpTargetEvent::Command { tag, in_capsule_bytes }) => {
                (tag, *self.end.engine.sqe(), in_capsule_bytes)
            }
            other => panic!("{other:?}, {:?}", self.end.engine.violation()),
        }
    }

    /// Fetches the data of a command, whether it is in the capsule or `data` answers the R2T.
    fn fetch(&mut self, tag: Tag, bytes: u32, data: &[u8]) {
        self.end.memory(tag, bytes as usize);
        assert_eq!(self.end.engine.fetch(tag, bytes), Ok(()));
        if !data.is_empty() {
            self.end.flush();
            let r2t = self.end.take_wire();
            assert_eq!((r2t.len(), r2t[0], r2t[2]), (24, 9, 24));
            assert_eq!(
                (&r2t[12..16], &r2t[16..20]),
                (&[0; 4][..], &bytes.to_le_bytes()[..]),
                "one R2T for all of it"
            );
            let mut header = r2t;
            (header[0], header[1], header[3]) = (6, 4, 24);
            header[4..8].copy_from_slice(&(24 + bytes).to_le_bytes());
            self.end.stage(&[&header, data].concat());
        }
        assert_eq!(self.end.next(), Pumped::Event(TcpTargetEvent::DataArrived { tag }));
    }

    /// Answers a command, and reads the answer as Linux does.
    fn answer(&mut self, tag: Tag, cqe: Cqe, data_bytes: u32) -> Answer {
        self.end.engine.complete(tag, cqe, data_bytes);
        self.end.flush();
        let bytes = self.end.take_wire();
        let mut answer = Answer { status: Status::SUCCESS, result: 0, data: Vec::new() };
        let mut at = 0;
        loop {
            let header = &bytes[at..];
            let plen = u32::from_le_bytes(header[4..8].try_into().unwrap()) as usize;
            assert_eq!(header[2], 24, "HLEN, which Linux insists on");
            at += plen;
            if header[0] == 5 {
                assert_eq!((plen, at), (24, bytes.len()));
                let read = Cqe::decode(header[8..24].try_into().unwrap());
                assert_eq!(read.cid, cqe.cid);
                return Answer { status: read.status, result: read.result, ..answer };
            }
            assert_eq!(
                (header[0], header[3], &header[8..10]),
                (7, 24, &cqe.cid.0.to_le_bytes()[..])
            );
            let datal = u32::from_le_bytes(header[16..20].try_into().unwrap()) as usize;
            assert_eq!(datal, plen - 24);
            answer.data.extend_from_slice(&header[24..plen]);
            if header[1] & 8 != 0 {
                assert_eq!((header[1] & 4, at), (4, bytes.len()), "SUCCESS in the last one");
                return answer;
            }
        }
    }

    /// Returns the deviations noted for the transport.
    fn noted(&mut self) -> Vec<Deviation> {
        self.end.engine.take_deviations().iter().collect()
    }
}

/// An admin queue.
pub struct Admin {
    wire: Wire,
    pub control: ControllerCore,
    now: Duration,
    cid: u16,
}

impl Admin {
    /// Connects with this command, whose data is in the capsule.
    pub fn connect(subsystem: &mut Subsystem, sqe: &Sqe, data: &[u8; CONNECT_BYTES]) -> Self {
        let mut wire = Wire::open();
        let (tag, sqe) = arrive(&mut wire, sqe, data);
        let connected = subsystem.connect(Duration::ZERO, &sqe, data, PORT).unwrap();
        wire.end.engine.set_queue_entries(connected.queue.entries() as u16);
        let answer = wire.answer(tag, connected.cqe, 0);
        assert_eq!(
            (answer.status, answer.result),
            (Status::SUCCESS, u64::from(connected.queue.cntlid().0))
        );
        Self { wire, control: connected.queue, now: Duration::ZERO, cid: 0 }
    }

    fn send(&mut self, mut sqe: Sqe) -> (Tag, Next) {
        self.cid += 1;
        sqe.0[2..4].copy_from_slice(&self.cid.to_le_bytes());
        let (tag, sqe, _) = self.wire.command(&capsule(&sqe, &[]));
        (tag, self.control.start(self.now, tag, &sqe))
    }

    /// Sends a command that is answered at once.
    pub fn run(&mut self, sqe: Sqe) -> Answer {
        let (tag, mut next) = self.send(sqe);
        if let Next::Produce { bytes } = next {
            let memory = self.wire.end.memory(tag, bytes as usize);
            next = self.control.produce(self.now, tag, memory);
        }
        if next == Next::Hold {
            next = allocated(&mut self.control, self.now, tag);
        }
        let Next::Reply { cqe, data_bytes } = next else { panic!("{sqe:?}: {next:?}") };
        self.wire.answer(tag, cqe, data_bytes)
    }

    /// Sends a command that succeeds; gives its result and data.
    pub fn ok(&mut self, sqe: Sqe) -> (u64, Vec<u8>) {
        let answer = self.run(sqe);
        assert_eq!(answer.status, Status::SUCCESS, "{sqe:?}");
        (answer.result, answer.data)
    }

    /// Sends a command that is answered later, maybe never.
    pub fn hold(&mut self, sqe: Sqe) {
        let (_, next) = self.send(sqe);
        assert_eq!(next, Next::Hold, "{sqe:?}");
    }

    /// Property Get of a property of 4 bytes, or of 8.
    pub fn property(&mut self, offset: u32, eight: bool) -> u64 {
        self.ok(command(0x7f, 0, 4, 0, [eight.into(), offset, 0])).0
    }

    /// Property Set of CC.
    pub fn set_cc(&mut self, cc: u32) {
        self.ok(command(0x7f, 0, 0, 0, [0, 0x14, cc]));
    }

    /// All I/O has stopped, as the controller wanted it to.
    pub fn quiesce(&mut self) {
        assert!(self.control.poll(self.now).is_some());
        self.control.quiesced(self.now);
    }

    /// Returns the deviations noted for this queue.
    pub fn noted(&mut self) -> Vec<Deviation> {
        let mut all: Vec<_> = self.control.take_deviations().iter().collect();
        all.extend(self.wire.noted());
        all
    }
}

/// An I/O queue.
pub struct Io {
    wire: Wire,
    pub queue: IoQueue,
}

impl Io {
    /// Connects with this command, whose data is in the capsule.
    pub fn connect(subsystem: &mut Subsystem, sqe: &Sqe, data: &[u8; CONNECT_BYTES]) -> Self {
        let mut wire = Wire::open();
        let (tag, sqe) = arrive(&mut wire, sqe, data);
        let connected = subsystem.connect_io(&sqe, data).unwrap();
        wire.end.engine.set_queue_entries(connected.queue.entries() as u16);
        wire.end.engine.set_success_flag(!connected.queue.has_flow_control());
        assert_eq!(wire.answer(tag, connected.cqe, 0).status, Status::SUCCESS);
        Self { wire, queue: connected.queue }
    }

    /// Sends a command, its data in the capsule where that is so; gives what the device is asked to
    /// do, and then its answer.
    pub fn run(&mut self, sqe: &Sqe, in_capsule: bool, data: &[u8]) -> (Option<IoRequest>, Answer) {
        let (tag, sqe, bytes) =
            self.wire.command(&capsule(sqe, if in_capsule { data } else { &[] }));
        let mut next = self.queue.start(tag, &sqe, bytes);
        if let IoNext::Fetch { bytes } = next {
            self.wire.fetch(tag, bytes, if in_capsule { &[] } else { data });
            let there = self.wire.end.memory[tag.index()].clone();
            assert_eq!(there, data, "the data is what was sent");
            next = self.queue.data(tag, &there);
        }
        let mut asked = None;
        if let IoNext::Submit(request) = next {
            asked = Some(request);
            if request.kind == IoRequestKind::Read {
                self.wire.end.memory(tag, request.bytes as usize).fill(0x5a);
            }
            next = self.queue.finished(tag, DeviceOutcome::DONE, data);
        }
        let IoNext::Reply { cqe, data_bytes } = next else { panic!("{sqe:?}: {next:?}") };
        (asked, self.wire.answer(tag, cqe, data_bytes))
    }

    /// Returns the deviations noted for this queue.
    pub fn noted(&mut self) -> Vec<Deviation> {
        let mut all: Vec<_> = self.queue.take_deviations().iter().collect();
        all.extend(self.wire.noted());
        all
    }
}

/// Connect arrives with its data in the capsule.
fn arrive(wire: &mut Wire, sqe: &Sqe, data: &[u8; CONNECT_BYTES]) -> (Tag, Sqe) {
    let (tag, sqe, bytes) = wire.command(&capsule(sqe, data));
    assert_eq!(before_connect(&sqe, bytes, HostMemory::Transport), Next::Fetch { bytes: 1024 });
    wire.fetch(tag, 1024, &[]);
    assert_eq!(wire.end.memory[tag.index()], data);
    (tag, sqe)
}
