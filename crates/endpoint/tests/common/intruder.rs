//! Attempts of a stranger at a controller, the queues and the reservation of another host. Nobody
//! ends, inherits, takes or reads what belongs to another host: on open connections as far as
//! unproven names allow, and without exception where hosts prove their names.

use crate::wire::{self, ON, Peer, Who};
use weft_endpoint::identity::HostIdentity;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::cross_reset::CrossControllerReset;
use weft_proto::nvme::fabrics::{ConnectResponse, Property};
use weft_proto::nvme::host::command;
use weft_proto::nvme::identify::{Cns, IdentifyController};
use weft_proto::nvme::opcode::{AdminOpcode, FabricsType, NvmOpcode};
use weft_proto::nvme::property::PropertyOffset;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cntlid, Id128, Lba, Nqn, Nsid};
use weft_proto::nvme_tcp::pdu::{PduType, TRANSFER_BYTES};
use weft_testing::wait::until;

/// The hosts of these tests.
pub const OWNER: &str = "nqn.2026-01.example.host:owner";
pub const STRANGER: &str = "nqn.2026-01.example.host:stranger";

const MOVED: u32 = 512;

/// A way to a target for hosts.
pub trait Door {
    /// Connections.
    type Peer: Peer;

    /// Whether hosts prove their names.
    const PROVES: bool;

    /// The subsystem, which has namespace 1.
    fn subsystem(&self) -> Nqn;

    /// A connection of the host `really`, which may call itself what it likes from now on.
    fn dial(&self, really: &str) -> Self::Peer;

    /// Answers what the answer to a Connect demands, as `really` can that calls itself `claimed`;
    /// whether it is let in.
    fn prove(&self, peer: &mut Self::Peer, connected: &Cqe, really: &str, claimed: &Who) -> bool;
}

/// Outcome of a Connect.
#[derive(Debug, PartialEq, Eq)]
pub enum Entered {
    In(Cntlid),
    Refused(Status),
    Unproven,
}

/// Everything that hosts do at one door.
pub struct Testbed<'a, D>(pub &'a D);

impl<D: Door> Testbed<'_, D> {
    pub fn who(&self, name: &str, id: u8) -> Who {
        let host = HostIdentity { nqn: Nqn::new(name).unwrap(), id: Id128([id; 16]) };
        Who { host, subsystem: self.0.subsystem(), keep_alive_ms: 0 }
    }

    pub fn enter(
        &self,
        really: &str,
        claimed: &Who,
        qid: u16,
        cntlid: Cntlid,
    ) -> (D::Peer, Entered) {
        let mut peer = self.0.dial(really);
        wire::greet(&mut peer);
        let cqe = wire::connect(&mut peer, claimed, qid, cntlid, 32);
        let entered = match cqe.status {
            Status::SUCCESS if self.0.prove(&mut peer, &cqe, really, claimed) => {
                Entered::In(ConnectResponse::decode(cqe.result as u32).cntlid)
            }
            Status::SUCCESS => Entered::Unproven,
            status => Entered::Refused(status),
        };
        (peer, entered)
    }

    /// A host with a controller and one I/O queue.
    pub fn host(&self, really: &str, id: u8) -> Host<D::Peer> {
        let who = self.who(really, id);
        let (mut admin, entered) = self.enter(really, &who, 0, Cntlid::DYNAMIC);
        let Entered::In(cntlid) = entered else { panic!("{really} is not let in: {entered:?}") };
        assert_eq!(wire::set_cc(&mut admin, ON).status, Status::SUCCESS);
        let (io, entered) = self.enter(really, &who, 1, cntlid);
        assert_eq!(entered, Entered::In(cntlid), "{really}");
        Host { admin, io, cntlid, cid: 0 }
    }
}

/// A controller in use.
pub struct Host<P> {
    admin: P,
    pub io: P,
    cntlid: Cntlid,
    cid: u16,
}

impl<P: Peer> Host<P> {
    fn next(&mut self) -> u16 {
        self.cid += 1;
        self.cid
    }

    pub fn write(&mut self, byte: u8) -> Status {
        let cid = self.next();
        self.io.put(&wire::capsule(
            &command::write(Nsid(1), Lba(0), 1, false),
            cid,
            &[byte; MOVED as usize],
        ));
        wire::response(&mut self.io).status
    }

    /// The first byte of what is read.
    pub fn read(&mut self) -> Result<u8, Status> {
        let cid = self.next();
        self.io.put(&wire::capsule_moving(&command::read(Nsid(1), Lba(0), 1), cid, MOVED));
        let pdu = self.io.pdu().expect("an answer");
        if pdu.kind() != PduType::C2H_DATA {
            return Err(pdu.cqe().status);
        }
        assert_eq!(wire::response(&mut self.io).status, Status::SUCCESS);
        Ok(pdu.0[TRANSFER_BYTES])
    }

    /// A command of reservations, with its keys.
    pub fn reserve(&mut self, opcode: NvmOpcode, dword10: u32, keys: [u64; 2]) -> Status {
        let (mut sqe, cid) = (Sqe::new(opcode.0, Nsid(1)), self.next());
        sqe.set_dword(10, dword10);
        self.io.put(&wire::capsule(&sqe, cid, &keys.map(u64::to_le_bytes).concat()));
        wire::response(&mut self.io).status
    }

    fn ask(&mut self, sqe: &Sqe) -> Cqe {
        let cid = self.next();
        self.admin.put(&wire::capsule(sqe, cid, &[]));
        wire::response(&mut self.admin)
    }

    /// By what another controller of the same host names this one.
    fn instance(&mut self) -> CrossControllerReset {
        let (mut sqe, cid) = (Sqe::new(AdminOpcode::IDENTIFY.0, Nsid(0)), self.next());
        sqe.set_dword(10, u32::from(Cns::CONTROLLER.0));
        self.admin.put(&wire::capsule_moving(&sqe, cid, 4096));
        let mut data = Vec::new();
        loop {
            let pdu = self.admin.pdu().expect("data and a response");
            if pdu.kind() != PduType::C2H_DATA {
                return IdentifyController::decode(&data).unwrap().instance().unwrap();
            }
            data.extend_from_slice(&pdu.0[TRANSFER_BYTES..]);
        }
    }

    /// The host has noticed nothing: its controller is ready, and what it wrote is there.
    fn goes_on(&mut self, after: &str) {
        assert!(wire::status(&mut self.admin).ready(), "{after}");
        let byte = self.cid as u8;
        assert_eq!((self.write(byte), self.read()), (Status::SUCCESS, Ok(byte)), "{after}");
    }
}

/// Everything below, at one door.
pub fn nobody_takes_what_is_anothers<D: Door>(door: &D) {
    let stage = Testbed(door);
    let mut owner = stage.host(OWNER, 1);
    owner.goes_on("at the beginning");
    queues(&stage, &mut owner);
    names(&stage, &mut owner);
    controllers(&stage, &mut owner);
    drop(owner);
    reservations(&stage);
}

/// A stranger under its own name asks for queues of the owner's controller.
fn queues<D: Door>(stage: &Testbed<'_, D>, owner: &mut Host<D::Peer>) {
    for (id, qid) in [(2, 1), (2, 2), (1, 2), (1, 0)] {
        let (peer, entered) = stage.enter(STRANGER, &stage.who(STRANGER, id), qid, owner.cntlid);
        assert!(
            matches!(entered, Entered::Refused(_)),
            "queue {qid}, identifier {id}: {entered:?}"
        );
        owner.goes_on("a Connect to its controller");
        drop(peer);
        owner.goes_on("the end of that connection");
    }
}

/// A stranger calls itself by the owner's name.
fn names<D: Door>(stage: &Testbed<'_, D>, owner: &mut Host<D::Peer>) {
    let forged = stage.who(OWNER, 1);
    let (_, entered) = stage.enter(STRANGER, &forged, 1, owner.cntlid);
    assert!(matches!(entered, Entered::Refused(_)), "a queue that is in use: {entered:?}");
    owner.goes_on("a Connect to its queue");
    if !D::PROVES {
        return;
    }
    for (qid, cntlid) in [(0, Cntlid::DYNAMIC), (2, owner.cntlid)] {
        let (peer, entered) = stage.enter(STRANGER, &forged, qid, cntlid);
        assert!(!matches!(entered, Entered::In(_)), "queue {qid}");
        owner.goes_on("a forged name");
        drop(peer);
        owner.goes_on("the end of that connection");
    }
    // Nothing is executed, or ended, on a queue whose host has proved nothing.
    let read = wire::capsule_moving(&command::read(Nsid(1), Lba(0), 1), 3, MOVED);
    let disconnect = wire::capsule(&Sqe::fabrics(FabricsType::DISCONNECT.0), 4, &[]);
    let reset = wire::capsule(&Property::set(PropertyOffset::CC, 0), 5, &[]);
    for (qid, cntlid) in [(0, Cntlid::DYNAMIC), (2, owner.cntlid)] {
        for early in [&read, &disconnect, &reset] {
            let mut peer = stage.0.dial(STRANGER);
            wire::greet(&mut peer);
            wire::connect(&mut peer, &forged, qid, cntlid, 32);
            peer.put(early);
            // Whichever way it is refused.
            let status = wire::response(&mut peer).status;
            assert!(
                [Status::AUTHENTICATION_REQUIRED, Status::COMMAND_SEQUENCE_ERROR].contains(&status),
                "{status}"
            );
            owner.goes_on("a command without a proof");
        }
    }
    // The place of a queue that was asked for is still there for its host.
    let (_, entered) = stage.enter(OWNER, &forged, 2, owner.cntlid);
    assert_eq!(entered, Entered::In(owner.cntlid));
}

/// A stranger with a controller of its own reaches for the owner's.
fn controllers<D: Door>(stage: &Testbed<'_, D>, owner: &mut Host<D::Peer>) {
    let mut stranger = stage.host(STRANGER, 2);
    assert_ne!(stranger.cntlid, owner.cntlid);
    let instance = owner.instance();
    assert_eq!(
        stranger.ask(&instance.encode()).status,
        Status::INVALID_FIELD,
        "another host's controller"
    );
    owner.goes_on("a Cross-Controller Reset by a stranger");
    for cid in 0..owner.cid {
        let mut abort = Sqe::new(AdminOpcode::ABORT.0, Nsid(0));
        abort.set_dword(10, 1 | u32::from(cid) << 16);
        assert_eq!(
            stranger.ask(&abort).result & 1,
            1,
            "there is nothing of this identifier in the stranger's own queue"
        );
    }
    owner.goes_on("Aborts by a stranger");
    assert_eq!(wire::set_cc(&mut stranger.admin, 0).status, Status::SUCCESS);
    owner.goes_on("the reset of another controller");
    drop(stranger);
    owner.goes_on("the end of another controller");
}

/// Reservations are of host identifiers, which every Connect may claim.
fn reservations<D: Door>(stage: &Testbed<'_, D>) {
    const EXCLUSIVE_ACCESS: u32 = 2 << 8;
    let mut owner = stage.host(OWNER, 1);
    assert_eq!(owner.write(77), Status::SUCCESS);
    assert_eq!(owner.reserve(NvmOpcode::RESERVATION_REGISTER, 0, [0, 5]), Status::SUCCESS);
    assert_eq!(
        owner.reserve(NvmOpcode::RESERVATION_ACQUIRE, EXCLUSIVE_ACCESS, [5, 0]),
        Status::SUCCESS
    );
    let kept_out = || {
        let mut stranger = stage.host(STRANGER, 2);
        assert_eq!(
            (stranger.read(), stranger.write(1)),
            (Err(Status::RESERVATION_CONFLICT), Status::RESERVATION_CONFLICT)
        );
        assert_eq!(
            stranger.reserve(NvmOpcode::RESERVATION_RELEASE, EXCLUSIVE_ACCESS, [5, 0]),
            Status::RESERVATION_CONFLICT
        );
    };
    kept_out();
    let forged = || stage.enter(STRANGER, &stage.who(STRANGER, 1), 0, Cntlid::DYNAMIC).1;
    let is_refused =
        |entered: Entered| matches!(entered, Entered::Refused(Status::CONNECT_INVALID_HOST));
    if D::PROVES {
        assert!(is_refused(forged()), "the identifier of a host that is connected");
    }
    assert_eq!(owner.read(), Ok(77));
    drop(owner);
    kept_out();
    if D::PROVES {
        assert!(is_refused(forged()), "the identifier of a host that has registered");
    }
    let mut owner = stage.host(OWNER, 1);
    assert_eq!((owner.read(), owner.write(78)), (Ok(77), Status::SUCCESS));
    assert_eq!(owner.reserve(NvmOpcode::RESERVATION_REGISTER, 1, [5, 0]), Status::SUCCESS);
    drop(owner);
    if D::PROVES {
        // A host that has left nothing behind may come back by another name.
        until("the identifier is free", || matches!(forged(), Entered::In(_)));
    }
}
