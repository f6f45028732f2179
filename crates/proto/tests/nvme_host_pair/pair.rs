//! A host and a subsystem, and what connects them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weft_proto::nvme::controller::{
    AbortTarget, ConnectRefusal, ControlEvent, ControllerCore, ControllerKind, IoQueue, Namespace,
    Next, Port, Subsystem, SubsystemConfig, Support,
};
use weft_proto::nvme::host::{
    AdminData, HostAction, HostConfig, HostControl, HostError, RequestId,
};
use weft_proto::nvme::sqe::{HostMemory, Sgl, Sqe};
use weft_proto::nvme::types::{Cid, Id128, Nqn, Nsid, Qid};
use weft_proto::stream::Tag;

const PORT: Port = Port {
    id: 1,
    host_memory: HostMemory::Transport,
    listener: None,
    in_capsule_bytes: 8192,
    came_by: None,
};
pub const SECOND: Duration = Duration::from_secs(1);

pub fn nqn(name: &str) -> Nqn {
    Nqn::new(&format!("nqn.2014-08.org.example:{name}")).unwrap()
}

pub fn namespace(nsid: u32) -> Namespace {
    Namespace {
        nguid: Id128([0x80; 16]),
        support: Support {
            discard: true,
            write_zeroes: true,
            compare: true,
            volatile_cache: true,
            discarded_reads_zero: true,
        },
        compare_write_blocks: 8,
        ..Namespace::new(Nsid(nsid), 4096, 1000, Id128([nsid as u8; 16]))
    }
}

pub fn disk() -> Subsystem {
    let mut subsystem =
        Subsystem::new(Duration::ZERO, SubsystemConfig::new(ControllerKind::Io, nqn("disk")));
    subsystem.set_namespace(namespace(1)).unwrap();
    subsystem.set_namespace(Namespace { read_only: true, ..namespace(3) }).unwrap();
    subsystem
}

pub fn config() -> HostConfig {
    HostConfig { io_queues: 3, ..HostConfig::new(nqn("host"), Id128([5; 16]), nqn("disk")) }
}

/// A host, a subsystem, and what connects them.
pub struct Pair {
    pub host: HostControl,
    pub subsystem: Subsystem,
    pub control: Option<ControllerCore>,
    pub queues: BTreeMap<Qid, IoQueue>,
    /// Admin commands that the controller holds, by tag.
    pub held: Vec<Option<RequestId>>,
    pub now: Duration,
    pub said: VecDeque<HostAction>,
    /// True if the devices are done with what they have when the controller wants them to be.
    pub quiet: bool,
    pub awaits_quiet: bool,
    pub expired: bool,
}

impl Pair {
    pub fn new(config: HostConfig, subsystem: Subsystem) -> Self {
        Self {
            host: HostControl::new(config),
            subsystem,
            control: None,
            queues: BTreeMap::new(),
            held: vec![None; usize::from(HostConfig::ADMIN_ENTRIES)],
            now: Duration::ZERO,
            said: VecDeque::new(),
            quiet: true,
            awaits_quiet: false,
            expired: false,
        }
    }

    pub fn ready() -> Self {
        let mut pair = Self::new(config(), disk());
        pair.run();
        pair.is_ready();
        pair
    }

    /// It has read the access states, and is ready.
    pub fn is_ready(&mut self) {
        assert_eq!(self.said.pop_front(), Some(HostAction::AccessChanged));
        assert_eq!(self.said.pop_front(), Some(HostAction::Ready));
    }

    pub fn run(&mut self) {
        loop {
            while let Some(action) = self.host.poll(self.now) {
                match action {
                    HostAction::Admin { id, sqe, data } => self.admin(id, sqe, data),
                    HostAction::OpenQueue { qid, .. } => self.open(qid),
                    other => self.said.push_back(other),
                }
            }
            if !self.controller_turn() {
                return;
            }
        }
    }

    pub fn admin(&mut self, id: RequestId, mut sqe: Sqe, data: AdminData) {
        let tag = self.held.iter().position(Option::is_none).expect("the admin queue has room");
        let len = match &data {
            AdminData::None => 0,
            AdminData::Out(_) => 1024,
            AdminData::In { len } => *len,
        };
        sqe.set_cid(Cid(tag as u16));
        sqe.set_sgl(Sgl::transport(len));
        if let AdminData::Out(bytes) = &data {
            let cqe = match self.subsystem.connect(self.now, &sqe, bytes, PORT) {
                Ok(connected) => {
                    self.control = Some(connected.queue);
                    connected.cqe
                }
                Err(ConnectRefusal { cqe, .. }) => cqe,
            };
            return self.host.admin_completed(self.now, id, &cqe, &[]);
        }
        let control = self.control.as_mut().expect("Connect comes first");
        let mut bytes = vec![0; len as usize];
        let mut next = control.start(self.now, Tag(tag as u16), &sqe);
        if let Next::Produce { bytes: wanted } = next {
            assert_eq!(wanted, len);
            next = control.produce(self.now, Tag(tag as u16), &mut bytes);
        }
        match next {
            Next::Reply { cqe, data_bytes } => {
                self.host.admin_completed(self.now, id, &cqe, &bytes[..data_bytes as usize]);
            }
            Next::Hold => self.held[tag] = Some(id),
            other => panic!("{other:?}"),
        }
    }

    pub fn open(&mut self, qid: Qid) {
        let (mut sqe, data) = self.host.io_connect(qid);
        sqe.set_sgl(Sgl::in_capsule(1024));
        let cqe = match self.subsystem.connect_io(&sqe, &data) {
            Ok(connected) => {
                self.queues.insert(qid, connected.queue);
                connected.cqe
            }
            Err(ConnectRefusal { cqe, .. }) => cqe,
        };
        self.host.queue_opened(self.now, qid, &cqe);
    }

    /// Does what the controller wants; says whether it wanted anything.
    pub fn controller_turn(&mut self) -> bool {
        let Some(control) = self.control.as_mut() else { return false };
        if self.awaits_quiet && self.quiet {
            self.awaits_quiet = false;
            control.quiesced(self.now);
        }
        let Some(event) = control.poll(self.now) else { return false };
        match event {
            ControlEvent::Reply { tag, cqe } => {
                let id = self.held[tag.index()].take().expect("a command that is held");
                self.host.admin_completed(self.now, id, &cqe, &[]);
            }
            ControlEvent::Quiesce { .. } => {
                self.awaits_quiet = true;
                for qid in core::mem::take(&mut self.queues).into_keys() {
                    self.host.connection_lost(self.now, qid);
                }
            }
            ControlEvent::Abort { ticket, sqid, cid } => {
                let target = self
                    .queues
                    .get_mut(&sqid)
                    .map_or(AbortTarget::Unknown, |queue| queue.abort(cid));
                let aborted = matches!(target, AbortTarget::Aborted | AbortTarget::Doomed(_));
                control.abort_result(ticket, aborted);
            }
            ControlEvent::Queues { ticket, wanted } => control.queues_allocated(ticket, wanted),
            ControlEvent::CrossReset(named) => {
                let found = self.subsystem.cross_reset(control.cntlid(), named);
                control.cross_reset(named, found);
            }
            ControlEvent::Persist { ticket, .. } => control.persisted(ticket, Ok(())),
            ControlEvent::KeepAliveExpired => self.expired = true,
        }
        true
    }

    /// Goes on for `time`, from deadline to deadline of either end.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.run();
        loop {
            let control = self.control.as_ref().and_then(ControllerCore::deadline);
            match [self.host.deadline(), control].into_iter().flatten().min() {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
            self.run();
        }
        self.now = end;
        self.run();
    }

    pub fn error(&mut self) -> HostError {
        self.run();
        match self.said.pop_back() {
            Some(HostAction::Failed { error, confirmed: true }) => error,
            other => panic!("{other:?}"),
        }
    }
}
