//! A controller that answers as the specification says, except where a test has it answer
//! otherwise.

use std::collections::BTreeMap;

use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::{Connect, ConnectData, ConnectResponse, Property};
use weft_proto::nvme::feature::{FeatureId, QueueCounts};
use weft_proto::nvme::host::AdminData;
use weft_proto::nvme::identify::{
    Cns, ControllerType, IdentifyController, IdentifyNamespace, IdentifyNvmController, LbaFormat,
    NamespaceDescriptors, NamespaceList,
};
use weft_proto::nvme::log_page::{DiscoveryEntry, DiscoveryHeader, LogPageId};
use weft_proto::nvme::opcode::{AdminOpcode, FabricsType};
use weft_proto::nvme::property::{
    Capabilities, Configuration, ControllerStatus, PropertyOffset, ShutdownStatus, Version,
};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Cntlid, Id128, Nqn, Nsid, Qid};
use weft_proto::nvme::wire::{Ascii, NqnField};

pub const SUBSYSTEM: &str = "nqn.2014-08.org.example:disk";
pub const HOST: &str = "nqn.2014-08.org.example:host";
pub const CNTLID: Cntlid = Cntlid(7);

/// Answer to a command.
pub enum Reply {
    /// Completion and data.
    Done(Cqe, Vec<u8>),
    /// None for now.
    Silence,
}

impl Reply {
    pub fn status(status: Status) -> Self {
        Self::Done(Cqe::refuse(Cid(0), status), Vec::new())
    }

    pub fn result(result: u64) -> Self {
        Self::Done(Cqe { result, ..Cqe::new(Cid(0), Status::SUCCESS) }, Vec::new())
    }

    pub fn data(data: Vec<u8>) -> Self {
        Self::Done(Cqe::new(Cid(0), Status::SUCCESS), data)
    }
}

pub struct Fake {
    pub cap: Capabilities,
    pub version: Version,
    pub identify: IdentifyController,
    pub limits: Option<IdentifyNvmController>,
    pub namespaces: BTreeMap<u32, (IdentifyNamespace, NamespaceDescriptors)>,
    pub granted: QueueCounts,
    /// CSTS reads until the status follows CC.
    pub slowness: u32,
    pub discovery: Vec<DiscoveryEntry>,
    pub generation: u64,
    pub cc: Configuration,
    pub reads: u32,
    /// Short names of the commands that have arrived.
    pub seen: Vec<String>,
}

/// A namespace of `blocks` blocks of 512 bytes with a UUID made of its number.
pub fn namespace(nsid: u32, blocks: u64) -> (IdentifyNamespace, NamespaceDescriptors) {
    let mut id = IdentifyNamespace {
        nsze: blocks,
        ncap: blocks,
        nuse: blocks,
        dlfeat: 9,
        nmic: 1,
        ..Default::default()
    };
    id.lbaf[0] = LbaFormat { ms: 0, ds: 9, rp: 0 };
    (id, NamespaceDescriptors { uuid: Some(Id128([nsid as u8; 16])), ..Default::default() })
}

pub fn entry(number: u16) -> DiscoveryEntry {
    DiscoveryEntry {
        portid: number,
        subnqn: NqnField::from(&Nqn::new(SUBSYSTEM).unwrap()),
        traddr: Ascii::new("127.0.0.1"),
        ..Default::default()
    }
}

impl Default for Fake {
    fn default() -> Self {
        let identify = IdentifyController {
            mdts: 5,
            cntlid: CNTLID,
            cntrltype: ControllerType::IO,
            oaes: 0x100,
            acl: 1,
            kas: 10,
            sqes: 0x66,
            cqes: 0x44,
            maxcmd: 64,
            nn: 2,
            oncs: 0x0d,
            fuses: 1,
            vwc: 1,
            awupf: 7,
            acwu: 3,
            sgls: 0x0010_0001,
            ioccsz: 0x204,
            iorcsz: 1,
            subnqn: NqnField::from(&Nqn::new(SUBSYSTEM).unwrap()),
            ..Default::default()
        };
        Self {
            cap: Capabilities(Capabilities::new(128, 2000).0 | Capabilities::NVM_COMMAND_SET),
            version: Version::V2_0,
            identify,
            limits: Some(IdentifyNvmController { wzsl: 6, dmrl: 8, ..Default::default() }),
            namespaces: [(1, namespace(1, 1000)), (2, namespace(2, 2000))].into(),
            granted: QueueCounts { submission: 4, completion: 4 },
            slowness: 0,
            discovery: Vec::new(),
            generation: 1,
            cc: Configuration::default(),
            reads: 0,
            seen: Vec::new(),
        }
    }
}

impl Fake {
    pub fn discovery(entries: u16) -> Self {
        let mut fake = Self { discovery: (0..entries).map(entry).collect(), ..Self::default() };
        fake.identify = IdentifyController {
            cntlid: CNTLID,
            cntrltype: ControllerType::DISCOVERY,
            oaes: 1 << 31,
            subnqn: NqnField::from(&Nqn::discovery()),
            ..Default::default()
        };
        fake
    }

    pub fn stopped(&self) -> bool {
        !self.cc.enabled()
    }

    pub fn admin(&mut self, sqe: &Sqe, data: &AdminData) -> Reply {
        if sqe.opcode() == AdminOpcode::FABRICS.0 {
            return self.fabrics(sqe, data);
        }
        self.seen.push(AdminOpcode(sqe.opcode()).to_string());
        if !self.cc.enabled() {
            return Reply::status(Status::COMMAND_SEQUENCE_ERROR);
        }
        match AdminOpcode(sqe.opcode()) {
            AdminOpcode::IDENTIFY => self.identify(sqe),
            AdminOpcode::GET_LOG_PAGE => self.log_page(sqe, data),
            AdminOpcode::SET_FEATURES => match FeatureId(sqe.dword(10) as u8) {
                FeatureId::NUMBER_OF_QUEUES => Reply::result(self.granted.encode().into()),
                FeatureId::ASYNC_EVENT_CONFIGURATION => Reply::result(0),
                _ => Reply::status(Status::INVALID_FIELD),
            },
            AdminOpcode::ASYNC_EVENT_REQUEST => Reply::Silence,
            AdminOpcode::KEEP_ALIVE => Reply::result(0),
            AdminOpcode::ABORT => Reply::result(0),
            _ => Reply::status(Status::INVALID_OPCODE),
        }
    }

    fn fabrics(&mut self, sqe: &Sqe, data: &AdminData) -> Reply {
        match FabricsType(sqe.fabrics_type()) {
            FabricsType::CONNECT => {
                let AdminData::Out(data) = data else { panic!("Connect without data") };
                self.connect(sqe, &data[..])
            }
            FabricsType::PROPERTY_GET => {
                let property = Property::decode(sqe);
                self.seen.push(format!("get {}", property.offset));
                Reply::result(self.property(property.offset))
            }
            FabricsType::PROPERTY_SET => {
                let property = Property::decode(sqe);
                assert_eq!(property.offset, PropertyOffset::CC);
                self.seen.push(format!("set CC {:#x}", property.value));
                self.cc = Configuration(property.value as u32);
                self.reads = 0;
                Reply::result(0)
            }
            other => panic!("unexpected {other}"),
        }
    }

    /// Connect, of any queue.
    pub fn connect(&mut self, sqe: &Sqe, data: &[u8]) -> Reply {
        let connect = Connect::decode(sqe);
        let data = ConnectData::decode(data).unwrap();
        self.seen.push(format!("connect {}", connect.qid));
        assert_eq!(data.host_id, Id128([5; 16]));
        assert_eq!(data.hostnqn.nqn().unwrap().as_str(), HOST);
        let expected = if connect.qid == Qid(0) { Cntlid::DYNAMIC } else { CNTLID };
        assert_eq!(data.cntlid, expected);
        assert_eq!(connect.keep_alive_ms != 0, connect.qid == Qid(0) && self.discovery.is_empty());
        Reply::result(ConnectResponse { cntlid: CNTLID, authentication: 0 }.encode().into())
    }

    fn property(&mut self, offset: PropertyOffset) -> u64 {
        match offset {
            PropertyOffset::CAP => self.cap.0,
            PropertyOffset::VS => self.version.0.into(),
            PropertyOffset::CSTS => {
                self.reads += 1;
                let followed = self.reads > self.slowness;
                let shutdown = match (self.cc.shutdown() != 0, followed) {
                    (true, true) => ShutdownStatus::COMPLETE,
                    (true, false) => ShutdownStatus::IN_PROGRESS,
                    _ => ShutdownStatus::NONE,
                };
                ControllerStatus::new(self.cc.enabled() == followed, false, shutdown).0.into()
            }
            other => panic!("unexpected property {other}"),
        }
    }

    fn identify(&mut self, sqe: &Sqe) -> Reply {
        let nsid = sqe.nsid();
        let known = self.namespaces.get(&nsid.0);
        match Cns(sqe.dword(10) as u8) {
            Cns::CONTROLLER => Reply::data(self.identify.encode()),
            Cns::COMMAND_SET_CONTROLLER => match &self.limits {
                Some(limits) => Reply::data(limits.encode()),
                None => Reply::status(Status::INVALID_FIELD),
            },
            Cns::ACTIVE_NAMESPACES => {
                let active = self.namespaces.keys().copied().map(Nsid);
                Reply::data(NamespaceList::above(active, nsid).encode())
            }
            Cns::NAMESPACE_DESCRIPTORS => match known {
                Some((_, names)) => Reply::data(names.encode()),
                None => Reply::status(Status::INVALID_NAMESPACE),
            },
            Cns::NAMESPACE => match known {
                Some((id, _)) => Reply::data(id.encode()),
                None => Reply::data(vec![0; 4096]),
            },
            _ => Reply::status(Status::INVALID_FIELD),
        }
    }

    fn log_page(&mut self, sqe: &Sqe, data: &AdminData) -> Reply {
        let AdminData::In { len } = *data else { panic!("Get Log Page without data") };
        let dwords = sqe.dword(10) >> 16 | (sqe.dword(11) & 0xffff) << 16;
        assert_eq!((dwords + 1) * 4, len);
        match LogPageId(sqe.dword(10) as u8) {
            LogPageId::CHANGED_NAMESPACES => Reply::data(NamespaceList::default().encode()),
            LogPageId::DISCOVERY => {
                let numrec = self.discovery.len() as u64;
                let mut log =
                    DiscoveryHeader { genctr: self.generation, numrec, recfmt: 0 }.encode();
                self.discovery.iter().for_each(|entry| log.extend(entry.encode()));
                let from = sqe.qword(12) as usize;
                assert!(from + len as usize <= log.len(), "the log is read beyond its end");
                Reply::data(log[from..from + len as usize].to_vec())
            }
            _ => Reply::status(Status::INVALID_LOG_PAGE),
        }
    }
}
