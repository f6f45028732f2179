//! A controller of a subsystem with two namespaces, its admin queue, and the I/O queues that come
//! and go.

use std::sync::Arc;
use std::time::Duration;

use weft_proto::nvme::controller::{
    CONNECT_BYTES, ControlEvent, ControllerCore, ControllerKind, IoQueue, Namespace, Next, Port,
    Subsystem, SubsystemConfig, Support, before_connect,
};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::{Connect, ConnectData};
use weft_proto::nvme::sqe::{HostMemory, Sgl, Sqe};
use weft_proto::nvme::types::{Cid, Cntlid, Id128, Nqn, Nsid, Qid};
use weft_proto::nvme::wire::NqnField;
use weft_proto::reservation::Reservations;
use weft_proto::stream::Tag;

use crate::{Input, Io, sqe};

/// The host of an [`Admin`].
const HOST: Id128 = Id128([5; 16]);

/// Entries of each queue.
const ENTRIES: u16 = 8;

/// A controller and everything that belongs to its association.
pub struct Admin {
    now: Duration,
    subsystem: Subsystem,
    control: ControllerCore,
    /// Commands of the admin queue without an answer.
    held: Vec<Option<Cid>>,
    io: Vec<Io>,
    quiesce: bool,
    ended: bool,
}

impl Admin {
    /// A controller that was just connected.
    pub fn new(kind: ControllerKind) -> Self {
        let now = Duration::from_secs(10);
        let mut subsystem = Subsystem::new(now, SubsystemConfig::new(kind, subsystem_nqn()));
        if kind == ControllerKind::Io {
            for nsid in [1, 2] {
                subsystem.set_namespace(namespace(nsid)).expect("the namespace is in order");
            }
        }
        let (sqe, data) = connect(HOST, Qid(0), Cntlid::DYNAMIC);
        let port = Port {
            id: 1,
            host_memory: HostMemory::Transport,
            listener: None,
            in_capsule_bytes: 8192,
            came_by: None,
        };
        let control =
            subsystem.connect(now, &sqe, &data, port).expect("the Connect is in order").queue;
        let held = vec![None; usize::from(ENTRIES)];
        Self { now, subsystem, control, held, io: Vec::new(), quiesce: false, ended: false }
    }

    /// Lets one thing happen; says whether the association goes on.
    pub fn step(&mut self, input: &mut Input) -> bool {
        match input.below(16) {
            0..6 => self.command(&sqe::admin(input), input.below(usize::from(ENTRIES))),
            6 => self.command(&enable(), 0),
            7 => self.open(input),
            8 => self.connect(input),
            9 => self.change(input),
            10 => self.pass(input),
            11 => self.quiesced(),
            _ => {
                if let Some(at) = self.io.len().checked_sub(1) {
                    self.io[at.min(input.below(4))].step(input);
                }
            }
        }
        self.poll();
        !self.ended
    }

    fn command(&mut self, sqe: &Sqe, slot: usize) {
        if self.held[slot].is_some() {
            return;
        }
        let tag = Tag(slot as u16);
        self.held[slot] = Some(sqe.cid());
        match self.control.start(self.now, tag, sqe) {
            Next::Fetch { bytes } => panic!("{bytes} bytes are asked for behind Connect"),
            Next::Produce { bytes } => {
                assert!(bytes > 0 && bytes <= 1 << 20, "{bytes} bytes must be produced");
                let mut memory = vec![0; bytes as usize];
                match self.control.produce(self.now, tag, &mut memory) {
                    Next::Reply { cqe, .. } => self.answered(tag, cqe),
                    next => panic!("{next:?} behind the data"),
                }
            }
            Next::Reply { cqe, data_bytes } => {
                assert_eq!(data_bytes, 0);
                self.answered(tag, cqe);
            }
            Next::Hold => {}
        }
    }

    /// Each command is answered once, under its own name.
    fn answered(&mut self, tag: Tag, cqe: Cqe) {
        assert_eq!(self.held[tag.index()].take(), Some(cqe.cid));
    }

    fn poll(&mut self) {
        while let Some(event) = self.control.poll(self.now) {
            match event {
                ControlEvent::Reply { tag, cqe } => self.answered(tag, cqe),
                ControlEvent::Quiesce { .. } => self.quiesce = true,
                ControlEvent::CrossReset(named) => {
                    let found = self.subsystem.cross_reset(self.control.cntlid(), named);
                    self.control.cross_reset(named, found);
                }
                ControlEvent::KeepAliveExpired => self.ended = true,
                ControlEvent::Persist { ticket, .. } => self.control.persisted(ticket, Ok(())),
                // While a reset is under way there are none left.
                ControlEvent::Queues { ticket, wanted } => {
                    let left = if self.quiesce { 0 } else { wanted };
                    self.control.queues_allocated(ticket, left);
                }
                ControlEvent::Abort { ticket, sqid, cid } => {
                    let queue = self.io.iter_mut().find(|io| io.queue.qid() == sqid);
                    let aborted = queue.is_some_and(|io| io.abort(cid));
                    self.control.abort_result(ticket, aborted);
                }
            }
        }
    }

    /// A Connect for an I/O queue that is in order as far as it goes.
    fn open(&mut self, input: &mut Input) {
        let qid = Qid(input.below(5) as u16);
        let (sqe, data) = connect(HOST, qid, self.control.cntlid());
        if let Ok(connected) = self.subsystem.connect_io(&sqe, &data) {
            assert!(
                qid.0 > 0 && self.control.operational(),
                "queue {qid} of a controller that is not enabled"
            );
            self.io.push(Io::new(connected.queue));
        }
    }

    /// A Connect that is wrong somewhere. What becomes of it is of no interest.
    fn connect(&mut self, input: &mut Input) {
        let (mut sqe, mut data) =
            connect(HOST, Qid(input.below(3) as u16), Cntlid(input.below(3) as u16));
        for _ in 0..input.below(4) {
            sqe.0[input.below(64)] = input.byte();
            data[input.below(CONNECT_BYTES)] = input.byte();
        }
        if !matches!(
            before_connect(&sqe, CONNECT_BYTES as u32, HostMemory::Transport),
            Next::Fetch { .. }
        ) {
            return;
        }
        let port = Port {
            id: 1,
            host_memory: HostMemory::Transport,
            listener: None,
            in_capsule_bytes: 8192,
            came_by: None,
        };
        if Connect::decode(&sqe).qid != Qid(0) {
            if let Ok(connected) = self.subsystem.connect_io(&sqe, &data) {
                self.subsystem.release_io(connected.queue.cntlid(), connected.queue.qid());
            }
        } else if let Ok(connected) = self.subsystem.connect(self.now, &sqe, &data, port) {
            self.subsystem.release(connected.queue.cntlid());
        }
    }

    /// The namespaces change under the host.
    fn change(&mut self, input: &mut Input) {
        let nsid = input.below(3) as u32 + 1;
        let table = match input.flag() {
            true => self.subsystem.remove_namespace(Nsid(nsid)),
            false => {
                self.subsystem.set_namespace(namespace(nsid)).expect("the namespace is in order")
            }
        };
        self.control.namespaces_changed(table);
    }

    fn pass(&mut self, input: &mut Input) {
        self.now += Duration::from_millis(input.u16().into());
    }

    /// The owner has stopped the I/O queues, if it was asked to.
    fn quiesced(&mut self) {
        if std::mem::take(&mut self.quiesce) {
            for io in self.io.drain(..) {
                self.subsystem.release_io(io.queue.cntlid(), io.queue.qid());
            }
            self.control.quiesced(self.now);
        }
    }
}

fn subsystem_nqn() -> Nqn {
    Nqn::new("nqn.2014-08.org.example:disk").expect("the name is in order")
}

/// A namespace of 2048 blocks; the second cannot do much.
fn namespace(nsid: u32) -> Namespace {
    let mut namespace = Namespace::new(Nsid(nsid), 512, 2048, Id128([nsid as u8; 16]));
    namespace.read_only = nsid == 2;
    namespace.compare_write_blocks = 1;
    namespace.reservations = (nsid != 2).then(Reservations::volatile);
    let able = nsid != 2;
    namespace.support = Support {
        discard: able,
        write_zeroes: true,
        compare: true,
        volatile_cache: able,
        discarded_reads_zero: false,
    };
    namespace
}

/// A Connect that is in order.
fn connect(host_id: Id128, qid: Qid, cntlid: Cntlid) -> (Sqe, [u8; CONNECT_BYTES]) {
    let connect = Connect {
        record_format: 0,
        qid,
        sq_size: ENTRIES - 1,
        attributes: 0,
        keep_alive_ms: 5_000,
    };
    let data = ConnectData {
        host_id,
        cntlid,
        subnqn: NqnField::from(&subsystem_nqn()),
        hostnqn: NqnField::from(
            &Nqn::new("nqn.2014-08.org.example:host").expect("the name is in order"),
        ),
    };
    let mut sqe = connect.encode();
    sqe.set_sgl(Sgl::in_capsule(CONNECT_BYTES as u32));
    let mut bytes = [0; CONNECT_BYTES];
    bytes.copy_from_slice(&data.encode());
    (sqe, bytes)
}

/// Property Set of CC with what hosts enable a controller by.
fn enable() -> Sqe {
    use weft_proto::nvme::fabrics::Property;
    use weft_proto::nvme::property::PropertyOffset;
    Property::set(PropertyOffset::CC, 0x0046_0001)
}

/// The I/O queue of a host on a controller that is enabled, in a subsystem of its own. Its
/// namespace 1 has these reservations.
pub fn enabled(
    host: Id128,
    reservations: &Arc<Reservations>,
) -> (Subsystem, ControllerCore, IoQueue) {
    let now = Duration::from_secs(10);
    let mut subsystem =
        Subsystem::new(now, SubsystemConfig::new(ControllerKind::Io, subsystem_nqn()));
    let shared = Namespace { reservations: Some(Arc::clone(reservations)), ..namespace(1) };
    subsystem.set_namespace(shared).expect("the namespace is in order");
    let (sqe, data) = connect(host, Qid(0), Cntlid::DYNAMIC);
    let port = Port {
        id: 1,
        host_memory: HostMemory::Transport,
        listener: None,
        in_capsule_bytes: 8192,
        came_by: None,
    };
    let mut control =
        subsystem.connect(now, &sqe, &data, port).expect("the Connect is in order").queue;
    control.start(now, Tag(0), &enable());
    while control.poll(now).is_some() {}
    let (sqe, data) = connect(host, Qid(1), control.cntlid());
    let queue = subsystem.connect_io(&sqe, &data).expect("the controller is enabled").queue;
    (subsystem, control, queue)
}
