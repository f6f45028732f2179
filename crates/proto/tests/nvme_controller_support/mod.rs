//! A subsystem, its controllers and queues, driven by hand. Each test file uses its own part of
//! this.
#![allow(dead_code)]

use std::time::Duration;

use weft_proto::nvme::controller::{
    ConnectRefusal, ControlEvent, ControllerCore, ControllerKind, IoNext, IoQueue, IoRequest,
    Namespace, Next, Port, Subsystem, SubsystemConfig, Support, before_connect,
};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::{Connect, ConnectData, Property};
use weft_proto::nvme::feature::FeatureId;
use weft_proto::nvme::identify::Cns;
use weft_proto::nvme::log_page::LogPageId;
use weft_proto::nvme::opcode::{AdminOpcode, NvmOpcode};
use weft_proto::nvme::property::{Configuration, PropertyOffset};
use weft_proto::nvme::sqe::{HostMemory, Sgl, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Cntlid, Id128, Nqn, Nsid, Qid};
use weft_proto::nvme::wire::NqnField;
use weft_proto::stream::Tag;

pub const PORT: Port = Port {
    id: 1,
    host_memory: HostMemory::Transport,
    listener: None,
    in_capsule_bytes: 8192,
    came_by: None,
};
pub const HOST_ID: Id128 = Id128([7; 16]);
pub const TRANSFER: u32 = 1 << 20;
/// CC that enables a controller of the NVM command set.
pub const ON: u32 = Configuration::ENABLE | Configuration::NVM_ENTRY_SIZES;

pub fn nqn(name: &str) -> Nqn {
    Nqn::new(&format!("nqn.2014-08.org.example:{name}")).unwrap()
}

pub fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Everything that a namespace can do, 1000 blocks of 512 bytes.
pub fn namespace(nsid: u32) -> Namespace {
    Namespace {
        nguid: Id128([nsid as u8 | 0x80; 16]),
        support: Support {
            discard: true,
            write_zeroes: true,
            compare: true,
            volatile_cache: true,
            discarded_reads_zero: true,
        },
        compare_write_blocks: 8,
        ..Namespace::new(Nsid(nsid), 512, 1000, Id128([nsid as u8; 16]))
    }
}

/// Namespace 1 as above, 2 the same without a cache, 4 of 4 KiB blocks and read-only.
pub fn subsystem() -> Subsystem {
    let mut subsystem = Subsystem::new(
        Duration::ZERO,
        SubsystemConfig {
            serial: "S1".to_owned(),
            ..SubsystemConfig::new(ControllerKind::Io, nqn("disk"))
        },
    );
    let mut cacheless = namespace(2);
    cacheless.support.volatile_cache = false;
    let read_only = Namespace { read_only: true, block_bytes: 4096, ..namespace(4) };
    for namespace in [namespace(1), cacheless, read_only] {
        subsystem.set_namespace(namespace).unwrap();
    }
    subsystem
}

pub fn discovery_subsystem() -> Subsystem {
    Subsystem::new(
        Duration::ZERO,
        SubsystemConfig::new(ControllerKind::Discovery, Nqn::discovery()),
    )
}

/// Connect of queue `qid` with 32 entries and its data.
pub fn connect(qid: u16, cntlid: Cntlid, subsystem: &Nqn) -> (Connect, ConnectData) {
    let connect =
        Connect { record_format: 0, qid: Qid(qid), sq_size: 31, attributes: 0, keep_alive_ms: 0 };
    let data = ConnectData {
        host_id: HOST_ID,
        cntlid,
        subnqn: NqnField::from(subsystem),
        hostnqn: NqnField::from(&nqn("host")),
    };
    (connect, data)
}

pub fn data_bytes(data: &ConnectData) -> [u8; 1024] {
    data.encode().try_into().unwrap()
}

/// The command with its data pointer, as Linux sends it.
pub fn connect_sqe(connect: &Connect) -> Sqe {
    let mut sqe = connect.encode();
    sqe.set_cid(Cid(0x77));
    sqe.set_sgl(Sgl::in_capsule(1024));
    assert_eq!(before_connect(&sqe, 1024, HostMemory::Transport), Next::Fetch { bytes: 1024 });
    sqe
}

/// A controller with its subsystem.
pub struct Rig {
    pub subsystem: Subsystem,
    pub control: ControllerCore,
    pub now: Duration,
    cid: u16,
}

impl Rig {
    /// A controller that is connected but not enabled.
    pub fn connected(mut subsystem: Subsystem, keep_alive_ms: u32) -> Self {
        let (mut ask, data) = connect(0, Cntlid::DYNAMIC, &subsystem.config().nqn.clone());
        ask.keep_alive_ms = keep_alive_ms;
        let connected = subsystem
            .connect(Duration::ZERO, &connect_sqe(&ask), &data_bytes(&data), PORT)
            .unwrap();
        Self::of(subsystem, connected.queue)
    }

    /// A controller that is connected already.
    pub fn of(subsystem: Subsystem, control: ControllerCore) -> Self {
        Self { subsystem, control, now: Duration::ZERO, cid: 0 }
    }

    /// A controller that is enabled.
    pub fn enabled(subsystem: Subsystem) -> Self {
        let mut rig = Self::connected(subsystem, 0);
        assert_eq!(
            rig.set_cc(Configuration::ENABLE | Configuration::NVM_ENTRY_SIZES),
            Status::SUCCESS
        );
        rig
    }

    pub fn io() -> Self {
        Self::enabled(subsystem())
    }

    pub fn discovery() -> Self {
        Self::enabled(discovery_subsystem())
    }

    /// Sends a command with a fresh identifier under a tag.
    pub fn start(&mut self, tag: u16, mut sqe: Sqe) -> Next {
        self.cid += 1;
        sqe.set_cid(Cid(self.cid));
        self.control.start(self.now, Tag(tag), &sqe)
    }

    /// The identifier of the last command.
    pub fn last_cid(&self) -> Cid {
        Cid(self.cid)
    }

    /// Runs a command that is answered at once, under tag 0: completion and data.
    pub fn run(&mut self, sqe: Sqe) -> (Cqe, Vec<u8>) {
        let mut data = Vec::new();
        let mut next = self.start(0, sqe);
        if let Next::Produce { bytes } = next {
            data = vec![0xee; bytes as usize];
            next = self.control.produce(self.now, Tag(0), &mut data);
        }
        if next == Next::Hold {
            next = allocated(&mut self.control, self.now, Tag(0));
        }
        let Next::Reply { cqe, data_bytes } = next else { panic!("{sqe:?} gives {next:?}") };
        assert_eq!((cqe.cid, data_bytes as usize), (Cid(self.cid), data.len()));
        (cqe, data)
    }

    /// Runs a command and gives its status.
    pub fn status(&mut self, sqe: Sqe) -> Status {
        self.run(sqe).0.status
    }

    /// Runs a command that succeeds and gives its data.
    pub fn data(&mut self, sqe: Sqe) -> Vec<u8> {
        let (cqe, data) = self.run(sqe);
        assert_eq!(cqe.status, Status::SUCCESS, "{sqe:?}");
        data
    }

    pub fn set_cc(&mut self, value: u32) -> Status {
        self.status(Property::set(PropertyOffset::CC, u64::from(value)))
    }

    pub fn property(&mut self, offset: PropertyOffset) -> u64 {
        let (cqe, _) = self.run(Property::get(offset));
        assert_eq!(cqe.status, Status::SUCCESS);
        cqe.result
    }

    pub fn poll(&mut self) -> Option<ControlEvent> {
        self.control.poll(self.now)
    }

    /// The next event, which answers a command.
    pub fn poll_reply(&mut self) -> (Tag, Cqe) {
        match self.poll() {
            Some(ControlEvent::Reply { tag, cqe }) => (tag, cqe),
            other => panic!("{other:?}"),
        }
    }

    pub fn connect_io(&mut self, qid: u16) -> Result<IoQueue, ConnectRefusal> {
        let (ask, data) = connect(qid, self.control.cntlid(), &self.subsystem.config().nqn.clone());
        Ok(self.subsystem.connect_io(&connect_sqe(&ask), &data_bytes(&data))?.queue)
    }
}

pub fn identify(cns: Cns, nsid: u32) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::IDENTIFY.0, Nsid(nsid));
    sqe.set_dword(10, u32::from(cns.0));
    sqe.set_sgl(Sgl::transport(4096));
    sqe
}

pub fn get_log(page: LogPageId, offset: u64, bytes: u32) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::GET_LOG_PAGE.0, Nsid::ALL);
    let dwords = bytes / 4 - 1;
    sqe.set_dword(10, u32::from(page.0) | dwords << 16);
    sqe.set_dword(11, dwords >> 16);
    sqe.set_qword(12, offset);
    sqe.set_sgl(Sgl::transport(bytes));
    sqe
}

pub fn get_feature(id: FeatureId, value: u32) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::GET_FEATURES.0, Nsid(0));
    sqe.set_dword(10, u32::from(id.0));
    sqe.set_dword(11, value);
    sqe.set_sgl(Sgl::transport(match id {
        FeatureId::HOST_IDENTIFIER => 16,
        FeatureId::HOST_BEHAVIOR_SUPPORT => 512,
        _ => 0,
    }));
    sqe
}

pub fn set_feature(id: FeatureId, value: u32) -> Sqe {
    let mut sqe = get_feature(id, value);
    sqe.0[0] = AdminOpcode::SET_FEATURES.0;
    sqe
}

/// Read, Write, Compare or Write Zeroes of 512-byte blocks, with data through the transport.
pub fn blocks(opcode: NvmOpcode, nsid: u32, lba: u64, blocks: u32) -> Sqe {
    let mut sqe = Sqe::new(opcode.0, Nsid(nsid));
    sqe.set_qword(10, lba);
    sqe.set_dword(12, blocks - 1);
    sqe.set_sgl(Sgl::transport(if opcode == NvmOpcode::WRITE_ZEROES { 0 } else { blocks * 512 }));
    sqe
}

pub fn cid(mut sqe: Sqe, cid: u16) -> Sqe {
    sqe.set_cid(Cid(cid));
    sqe
}

/// The completion of a command that was answered at once.
pub fn replied(next: IoNext) -> Cqe {
    match next {
        IoNext::Reply { cqe, .. } => cqe,
        other => panic!("{other:?}"),
    }
}

pub fn submitted(next: IoNext) -> IoRequest {
    match next {
        IoNext::Submit(request) => request,
        other => panic!("{other:?}"),
    }
}

pub fn aer() -> Sqe {
    Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, Nsid(0))
}

pub fn keep_alive() -> Sqe {
    Sqe::new(AdminOpcode::KEEP_ALIVE.0, Nsid(0))
}

pub fn abort(sqid: u16, target: Cid) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::ABORT.0, Nsid(0));
    sqe.set_dword(10, u32::from(sqid) | u32::from(target.0) << 16);
    sqe
}

/// The same command with a change.
pub fn with(mut sqe: Sqe, change: impl Fn(&mut Sqe)) -> Sqe {
    change(&mut sqe);
    sqe
}

/// Allocates the queues that the last command, under this tag, asks for.
pub fn allocated(control: &mut ControllerCore, now: Duration, tag: Tag) -> Next {
    let Some(ControlEvent::Queues { ticket, wanted }) = control.poll(now) else {
        panic!("the command is not answered at once");
    };
    control.queues_allocated(ticket, wanted);
    match control.poll(now) {
        Some(ControlEvent::Reply { tag: of, cqe }) if of == tag => {
            Next::Reply { cqe, data_bytes: 0 }
        }
        other => panic!("{other:?}"),
    }
}
