//! A target in a thread, which does what a test's script says.

use crate::hostile::tcp::{NQN, Tcp};
use crate::wire::{Pdu, Peer};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::{Connect, ConnectResponse, Property};
use weft_proto::nvme::feature::QueueCounts;
use weft_proto::nvme::identify::{
    ControllerType, IdentifyController, IdentifyNamespace, LbaFormat,
};
use weft_proto::nvme::opcode::{AdminOpcode, FabricsType};
use weft_proto::nvme::property::{
    Capabilities, Configuration, ControllerStatus, PropertyOffset, ShutdownStatus, Version,
};
use weft_proto::nvme::sqe::{OPCODE_FABRICS, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Cntlid, Nqn, Qid};
use weft_proto::nvme::wire::NqnField;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::pdu::{
    CAPSULE_CMD_BYTES, CAPSULE_RESP_BYTES, CommonHeader, DataTransfer, Flags, IcResp, PduType,
    TRANSFER_BYTES, decode_capsule_cmd, encode_capsule_resp,
};

pub const CNTLID: Cntlid = Cntlid(5);

/// Blocks of the only namespace, of 512 bytes.
pub const BLOCKS: u64 = 8192;

/// Reply to a command.
pub enum Reply {
    /// What a good target would do.
    Usual,
    /// These bytes, and nothing else.
    Bytes(Vec<u8>),
    /// No answer.
    Silence,
    /// The connection is closed.
    HangUp,
}

/// Asked for every command: the queue it came on, and the command.
pub type Script = Arc<dyn Fn(Qid, &Sqe) -> Reply + Send + Sync>;

/// Reply to ICReq; `None` for that of a good target.
pub type Greeting = Option<Vec<u8>>;

/// A listening fake. Dropping it ends its threads once its connections are closed.
pub struct Fake {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The controller's state, which its connections share.
#[derive(Default)]
struct ControllerState {
    cc: Configuration,
}

impl Fake {
    pub fn new(
        greeting: Greeting,
        script: impl Fn(Qid, &Sqe) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let script: Script = Arc::new(script);
        Self::serving(move |tcp, state| converse(tcp, &greeting, &script, &state))
    }

    /// Does with each connection what `serve` says, in a thread of its own.
    pub fn raw(serve: impl Fn(Tcp) + Send + Sync + 'static) -> Self {
        Self::serving(move |tcp, _| serve(tcp))
    }

    fn serving(serve: impl Fn(Tcp, Arc<Mutex<ControllerState>>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, serve) = (Arc::new(AtomicBool::new(false)), Arc::new(serve));
        let (told, state) = (Arc::clone(&stop), Arc::<Mutex<ControllerState>>::default());
        let thread = std::thread::spawn(move || {
            let mut threads = Vec::new();
            while let Ok((stream, _)) = listener.accept() {
                if told.load(SeqCst) {
                    break;
                }
                let (serve, state) = (Arc::clone(&serve), Arc::clone(&state));
                threads.push(std::thread::spawn(move || serve(Tcp::of(stream), state)));
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        Self { address, stop, thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        format!("nvme+tcp://{}/{NQN}", self.address)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        drop(std::net::TcpStream::connect(self.address));
        let result = self.thread.take().unwrap().join();
        assert!(std::thread::panicking() || result.is_ok(), "the fake panicked");
    }
}

pub fn ic_resp() -> IcResp {
    IcResp { pfv: 0, cpda: 0, digests: Digests::NONE, max_h2c_data_bytes: 65536 }
}

fn plain(kind: PduType, bytes: usize, data_bytes: usize, flags: Flags) -> CommonHeader {
    let pdo = if data_bytes > 0 { bytes as u8 } else { 0 };
    CommonHeader {
        pdu_type: kind,
        flags,
        hlen: bytes as u8,
        pdo,
        plen: (bytes + data_bytes) as u32,
    }
}

pub fn response(cqe: &Cqe) -> Vec<u8> {
    encode_capsule_resp(plain(PduType::CAPSULE_RESP, CAPSULE_RESP_BYTES, 0, Flags(0)), cqe).to_vec()
}

pub fn success(cid: Cid, result: u64) -> Vec<u8> {
    response(&Cqe { result, ..Cqe::new(cid, Status::SUCCESS) })
}

pub fn c2h_data(cid: Cid, offset: u32, data: &[u8], flags: Flags) -> Vec<u8> {
    let transfer = DataTransfer { cid, ttag: 0, offset, bytes: data.len() as u32 };
    [&transfer.encode(plain(PduType::C2H_DATA, TRANSFER_BYTES, data.len(), flags))[..], data]
        .concat()
}

pub fn r2t(cid: Cid, offset: u32, bytes: u32) -> Vec<u8> {
    DataTransfer { cid, ttag: 1, offset, bytes }
        .encode(plain(PduType::R2T, TRANSFER_BYTES, 0, Flags(0)))
        .to_vec()
}

/// Data, and the answer behind it.
fn answer(cid: Cid, data: &[u8]) -> Vec<u8> {
    [c2h_data(cid, 0, data, Flags::LAST), success(cid, 0)].concat()
}

fn converse(mut tcp: Tcp, greeting: &Greeting, script: &Script, state: &Mutex<ControllerState>) {
    let Some(_) = tcp.pdu() else { return };
    tcp.try_put(&greeting.clone().unwrap_or_else(|| ic_resp().encode().to_vec()));
    let mut qid = Qid(0);
    let mut writes = Vec::new();
    while let Some(pdu) = tcp.pdu() {
        if pdu.kind() == PduType::H2C_DATA {
            let cid = pdu.transfer().cid;
            if pdu.header().flags.has(Flags::LAST) && writes.contains(&cid) {
                writes.retain(|write| *write != cid);
                tcp.try_put(&success(cid, 0));
            }
        }
        if pdu.kind() != PduType::CAPSULE_CMD {
            continue;
        }
        let sqe = decode_capsule_cmd(pdu.0.first_chunk().unwrap());
        if sqe.opcode() == OPCODE_FABRICS && sqe.fabrics_type() == FabricsType::CONNECT.0 {
            qid = Connect::decode(&sqe).qid;
        }
        match script(qid, &sqe) {
            Reply::Usual
                if is_io(qid, &sqe)
                    && [0x01, 0x05].contains(&sqe.opcode())
                    && pdu.0.len() == CAPSULE_CMD_BYTES =>
            {
                writes.push(sqe.cid());
                tcp.try_put(&r2t(sqe.cid(), 0, sqe.sgl().length));
            }
            Reply::Usual => tcp.try_put(&usual(qid, &sqe, state)),
            Reply::Bytes(bytes) => tcp.try_put(&bytes),
            Reply::Silence => {}
            Reply::HangUp => return,
        }
    }
}

/// What a good target of one namespace says. Its blocks are zeroes.
fn usual(qid: Qid, sqe: &Sqe, state: &Mutex<ControllerState>) -> Vec<u8> {
    let cid = sqe.cid();
    match (sqe.opcode(), qid) {
        (OPCODE_FABRICS, _) => fabrics(sqe, state),
        (_, Qid(0)) => admin(sqe),
        (0x02, _) => {
            let zeroes = vec![0; sqe.sgl().length as usize];
            answer(cid, &zeroes)
        }
        _ => success(cid, 0),
    }
}

fn fabrics(sqe: &Sqe, state: &Mutex<ControllerState>) -> Vec<u8> {
    let cid = sqe.cid();
    let state = &mut *state.lock().unwrap();
    match FabricsType(sqe.fabrics_type()) {
        FabricsType::CONNECT => {
            success(cid, ConnectResponse { cntlid: CNTLID, authentication: 0 }.encode().into())
        }
        FabricsType::PROPERTY_SET => {
            state.cc = Configuration(Property::decode(sqe).value as u32);
            success(cid, 0)
        }
        _ => {
            let shutdown = if state.cc.shutdown() == 0 {
                ShutdownStatus::NONE
            } else {
                ShutdownStatus::COMPLETE
            };
            let value = match Property::decode(sqe).offset {
                PropertyOffset::CAP => {
                    Capabilities::new(128, 500).0 | Capabilities::NVM_COMMAND_SET
                }
                PropertyOffset::VS => Version::V2_0.0.into(),
                _ => ControllerStatus::new(state.cc.enabled(), false, shutdown).0.into(),
            };
            success(cid, value)
        }
    }
}

fn admin(sqe: &Sqe) -> Vec<u8> {
    let cid = sqe.cid();
    match AdminOpcode(sqe.opcode()) {
        AdminOpcode::IDENTIFY => answer(cid, &identify(sqe.dword(10) as u8)),
        AdminOpcode::SET_FEATURES => {
            success(cid, QueueCounts { submission: 2, completion: 2 }.encode().into())
        }
        AdminOpcode::ASYNC_EVENT_REQUEST => Vec::new(),
        _ => success(cid, 0),
    }
}

fn identify(cns: u8) -> Vec<u8> {
    let mut data = vec![0; 4096];
    match cns {
        0 => {
            let mut id = IdentifyNamespace {
                nsze: BLOCKS,
                ncap: BLOCKS,
                nuse: BLOCKS,
                ..Default::default()
            };
            id.lbaf[0] = LbaFormat { ms: 0, ds: 9, rp: 0 };
            id.put(&mut data);
        }
        1 => controller().put(&mut data),
        2 => data[0] = 1,
        _ => {}
    }
    data
}

pub fn controller() -> IdentifyController {
    IdentifyController {
        mdts: 8,
        cntlid: CNTLID,
        cntrltype: ControllerType::IO,
        acl: 3,
        kas: 10,
        sqes: 0x66,
        cqes: 0x44,
        maxcmd: 128,
        nn: 1,
        oncs: 0x0d,
        sgls: 0x0010_0001,
        ioccsz: 4,
        iorcsz: 1,
        subnqn: NqnField::from(&Nqn::new(NQN).unwrap()),
        ..Default::default()
    }
}

/// The name of a command, for scripts.
pub fn is_admin(qid: Qid, sqe: &Sqe, opcode: AdminOpcode) -> bool {
    qid == Qid(0) && sqe.opcode() == opcode.0
}

pub fn is_connect(sqe: &Sqe) -> bool {
    sqe.opcode() == OPCODE_FABRICS && sqe.fabrics_type() == FabricsType::CONNECT.0
}

/// A command of an I/O queue that is not Connect.
pub fn is_io(qid: Qid, sqe: &Sqe) -> bool {
    qid != Qid(0) && sqe.opcode() != OPCODE_FABRICS
}

impl Pdu {
    /// A PDU with other bytes from `at` on.
    pub fn with(mut self, at: usize, bytes: &[u8]) -> Vec<u8> {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self.0
    }
}
